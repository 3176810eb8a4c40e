"""What every kind of load has in common: jobs, their connections, and the tally of a run.

A job is a small picklable value that says what to do; `prepare` connects and subscribes, `run` does the work. Jobs know
nothing of processes: `workers` runs several side by side. The kinds are in `throughput` and `roundtrip`. What the
numbers mean is decided where jobs are combined.

Invariants: a run ends with everything accounted for or with an error, never with less than it was asked for; every
wait has a deadline; times are `time.monotonic_ns`, comparable between the processes of one machine.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import ceil
from time import monotonic_ns
from typing import Protocol, runtime_checkable

from slipstream.client.limits import LOAD_CONNECTIONS_MAX
from slipstream.client.line import Line
from slipstream.client.options import ClientError, ClientTimeout
from slipstream.kernels.client.serverscan import Scanner
from slipstream.units import KIB, MILLISECOND_NS, SECOND_NS

__all__ = ["Counting", "Lines", "LoadJob", "Runner", "Tally", "percentile"]

_RECEIVE_BYTES = 256 * KIB


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What one job did."""

    messages: int
    payload_bytes: int
    started_ns: int  # when the first message was sent, or for those who wait for messages, when it came
    ended_ns: int  # when the last message was confirmed, received or answered
    latencies_ns: tuple[int, ...] = field(default=(), repr=False)  # of requests, in order

    @property
    def seconds(self) -> float:
        """How long the run took."""
        return max(self.ended_ns - self.started_ns, 1) / 1e9

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


def percentile(sorted_values: Sequence[int], fraction: float) -> int:
    """Return the smallest value that `fraction` of the values do not exceed.

    Raises:
        ValueError: there are no values, or the fraction is outside 0 to 1.
    """
    if not sorted_values or not 0.0 <= fraction <= 1.0:
        raise ValueError(f"no percentile {fraction} of {len(sorted_values)} values")
    return sorted_values[max(ceil(fraction * len(sorted_values)), 1) - 1]


class Runner(Protocol):
    """A job whose connections are open."""

    def run(self) -> Tally:
        """Do the work."""

    def close(self) -> None:
        """Close the connections."""


@runtime_checkable
class Counting(Protocol):
    """A runner that can be asked from another thread how far it is."""

    @property
    def done(self) -> int:
        """Messages sent, received or answered so far, over all its connections."""


class LoadJob(Protocol):
    """Something to do, as a value that can be sent to another process."""

    def prepare(self) -> Runner:
        """Connect and subscribe, and wait until the server knows."""


class Lines:
    """The connections of a job, one for each scanner, and the job's clock."""

    def __init__(self, url: str, scanners: Sequence[Scanner], timeout_ns: int) -> None:
        """Connect all.

        Raises:
            ClientError: one of them could not; the others are closed again.
        """
        if not 1 <= len(scanners) <= LOAD_CONNECTIONS_MAX:
            raise ClientError(f"a job has 1 to {LOAD_CONNECTIONS_MAX} connections, not {len(scanners)}")
        self.lines: list[Line] = []
        self.buffer = bytearray(_RECEIVE_BYTES)
        self._timeout_ns = timeout_ns
        self._started_ns = 0
        with ExitStack() as opened:
            for scanner in scanners:
                line = Line(url, scanner, timeout_ns)
                opened.callback(line.close)
                self.lines.append(line)
            self._opened = opened.pop_all()

    @property
    def received(self) -> int:
        """Messages that came so far, on all connections."""
        return sum(line.scanner.messages for line in self.lines)

    def start(self) -> None:
        """Remember the time: the first message is sent or has come."""
        self._started_ns = monotonic_ns()

    def start_with_first_message(self) -> None:
        """Wait for the first message on any connection, and remember when it came.

        Raises:
            ClientTimeout: the server sent nothing for too long.
        """
        self.start()
        poller = select.poll()
        for line in self.lines:
            poller.register(line, select.POLLIN)
        while not any(line.scanner.messages for line in self.lines):
            if not poller.poll(self._timeout_ns / MILLISECOND_NS):
                raise ClientTimeout(f"nothing came for {self._timeout_ns / SECOND_NS:g} s")
            self.start()
            for line in self.lines:
                line.receive_ready(self.buffer)

    def subscribe(self, subjects: Sequence[Sequence[str]], queue: str = "") -> None:
        """Subscribe each connection to its subjects, and wait until the server knows.

        Raises:
            ClientError: it does not work; all connections are closed.
        """
        try:
            for line, wanted in zip(self.lines, subjects, strict=True):
                line.subscribe(wanted, queue, self.buffer)
        except BaseException:
            self.close()
            raise

    def receive(self, messages: int, *, each: bool, react: Callable[[Line], None] = lambda _: None) -> None:
        """Receive until so many messages came, on all connections together or on `each`; then `react` to every read.

        Raises:
            ClientTimeout: the server sent nothing for too long.
        """
        if len(self.lines) == 1:
            self._receive_blocking(self.lines[0], messages, react)
        else:
            self._receive_multiplexed(messages, each, react)

    def _receive_blocking(self, line: Line, messages: int, react: Callable[[Line], None]) -> None:
        scanner, buffer = line.scanner, self.buffer
        try:
            while scanner.messages < messages:
                line.receive(buffer)
                react(line)
        except ClientTimeout as error:
            raise ClientTimeout(f"{error}; {scanner.messages} of {messages} messages came") from error

    def _receive_multiplexed(self, messages: int, each: bool, react: Callable[[Line], None]) -> None:
        lines = {line.fileno(): line for line in self.lines}
        total = self.received
        short = {number for number, line in lines.items() if line.scanner.messages < messages}
        with select.epoll() as epoll:
            for line in lines.values():
                epoll.register(line, select.EPOLLIN)
            while short if each else total < messages:
                ready = epoll.poll(self._timeout_ns / SECOND_NS)
                if not ready:
                    raise ClientTimeout(
                        f"nothing came for {self._timeout_ns / SECOND_NS:g} s; {total} messages came before"
                    )
                for number, _ in ready:
                    line = lines[number]
                    total += line.receive_ready(self.buffer)
                    react(line)
                    if line.scanner.messages >= messages:
                        short.discard(number)

    def tally_received(self) -> Tally:
        """Sum up what came on all connections: the work ends now."""
        return self.tally(self.received, sum(line.scanner.payload_bytes for line in self.lines))

    def tally(self, messages: int, payload_bytes: int, latencies_ns: Sequence[int] = ()) -> Tally:
        """Sum up: the work ends now."""
        return Tally(
            messages=messages,
            payload_bytes=payload_bytes,
            started_ns=self._started_ns,
            ended_ns=monotonic_ns(),
            latencies_ns=tuple(latencies_ns),
        )

    def close(self) -> None:
        """Close all connections."""
        self._opened.close()
