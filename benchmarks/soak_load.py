"""The load of a soak: paced, numbered messages of several sizes, received four ways, with clients coming and going.

    publisher   one connection a stream, `soak.data.<size>`, sequence and time in every payload, a marker at the end
    receivers   each stream by its own subscription; all by a wildcard; all by a queue group of three; a responder
    churn       connect, subscribe, publish, request, unsubscribe, disconnect, again and again

Invariants: a receiver ends only when it has seen the marker of every stream it listens to, and a marker follows all
messages of its stream; so what is missing then was lost by the server. It answers requests until the churn has said
that it made its last one.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic_ns, sleep

from slipstream.client.limits import LOAD_TIMEOUT_NS
from slipstream.client.line import Line
from slipstream.client.load import Lines, Runner, Tally
from slipstream.client.options import ClientTimeout
from slipstream.client.wire import WireClient
from slipstream.kernels.client.pubframes import encode_pubs, stamp_pubs
from slipstream.kernels.client.serverscan import Scanner
from slipstream.units import MILLISECOND_NS, SECOND_NS

__all__ = ["SIZES", "Churning", "SoakPublishing", "SoakReceiving", "SoakTally"]

SIZES = (64, 128, 1024, 8192)  # payload bytes of the streams
QUEUE_MEMBERS = 3
SERVICE = "soak.service"
_TICK_NS = 5 * MILLISECOND_NS
_BURST_TICKS = 10  # after a pause, catch up with so many ticks at most
_MARKER = b"NATS/1.0\r\n\r\n"


@dataclass(frozen=True, kw_only=True)
class SoakTally(Tally):
    """A tally that also knows what went wrong."""

    lost: int = 0
    repeated: int = 0
    group_messages: int = 0  # of `messages`, those that the queue group shared
    p50_ns: int = 0
    p99_ns: int = 0


@dataclass(frozen=True, kw_only=True)
class SoakPublishing:
    """Publish all streams for a time, `rate` messages a second together."""

    url: str
    rate: int
    duration_ns: int

    def prepare(self) -> Runner:
        """Connect."""
        return _Publisher(self)


@dataclass(frozen=True, kw_only=True)
class SoakReceiving:
    """Receive until every stream has ended, and the churn with them."""

    url: str

    def prepare(self) -> Runner:
        """Connect and subscribe."""
        return _Receiver(self)


@dataclass(frozen=True, kw_only=True)
class Churning:
    """Come and go for a time, with a pause after every round."""

    url: str
    duration_ns: int
    pause_ns: int = 4 * MILLISECOND_NS

    def prepare(self) -> Runner:
        """Nothing is open between the rounds."""
        return _Churner(self)


def _subject(size: int) -> str:
    return f"soak.data.{size}"


class _Stream:
    """Frames of one stream, numbered when they are sent."""

    def __init__(self, source: int, size: int) -> None:
        self.size = size
        self.next_seq = 1
        self._source = source
        self._frame = encode_pubs(_subject(size).encode(), b"x" * size, 1)

    def frames(self, count: int) -> bytearray:
        frames = bytearray(self._frame * count)
        payload_at = len(self._frame) - self.size - 2
        self.next_seq = stamp_pubs(frames, len(self._frame), payload_at, self.next_seq, monotonic_ns(), self._source)
        return frames

    def marker(self) -> bytes:
        head = f"HPUB {_subject(self.size)} {len(_MARKER)} {len(_MARKER)}\r\n"
        return head.encode() + _MARKER + b"\r\n"


class _Publisher:
    def __init__(self, job: SoakPublishing) -> None:
        self._job = job
        self._lines = Lines(job.url, [Scanner() for _ in SIZES], LOAD_TIMEOUT_NS)
        self._streams = [_Stream(source, size) for source, size in enumerate(SIZES)]

    def run(self) -> Tally:
        lines, buffer = self._lines.lines, self._lines.buffer
        per_tick = max(self._job.rate * _TICK_NS // SECOND_NS // len(lines), 1)
        self._lines.start()
        now = began = monotonic_ns()
        ticks = 0
        while now - began < self._job.duration_ns:
            due = (now - began) // _TICK_NS + 1
            ticks = max(ticks, due - _BURST_TICKS)
            for line, stream in zip(lines, self._streams, strict=True):
                if due > ticks:
                    line.send(stream.frames(per_tick * (due - ticks)))
                line.receive_ready(buffer)
            ticks = due
            sleep(max(began + ticks * _TICK_NS - monotonic_ns(), 0) / SECOND_NS)
            now = monotonic_ns()
        for line, stream in zip(lines, self._streams, strict=True):
            line.send(stream.marker())
            line.flush(buffer)
        counts = [stream.next_seq - 1 for stream in self._streams]
        return self._lines.tally(sum(counts), sum(count * size for count, size in zip(counts, SIZES, strict=True)))

    def close(self) -> None:
        self._lines.close()


class _Receiver:
    """Lines in this order: one for each stream, the wildcard, the queue group, the responder."""

    def __init__(self, job: SoakReceiving) -> None:
        checked = [Scanner(stamped=True) for _ in range(len(SIZES) + 1)]
        shared = [Scanner() for _ in range(QUEUE_MEMBERS)]
        self._lines = Lines(job.url, [*checked, *shared, Scanner(reply_payload=b"done")], LOAD_TIMEOUT_NS)
        lines, buffer = self._lines.lines, self._lines.buffer
        self._checked, self._group, self._service = lines[: len(checked)], lines[len(checked) : -1], lines[-1]
        try:
            for line, subject in zip(self._checked, [*map(_subject, SIZES), "soak.data.*"], strict=True):
                line.subscribe([subject], "", buffer)
            for line in self._group:
                line.subscribe(["soak.data.>"], "soak", buffer)
            self._service.subscribe([SERVICE], "", buffer)
        except BaseException:
            self._lines.close()
            raise

    def run(self) -> Tally:
        self._lines.start()
        self._receive_to_markers()
        for line in self._group:
            line.flush(self._lines.buffer)  # what the group was given before the last marker comes before this PONG
        checked = [line.scanner for line in self._checked]
        group = [line.scanner for line in self._group]
        tally = self._lines.tally(_messages([*checked, *group]), sum(s.payload_bytes for s in [*checked, *group]))
        return SoakTally(
            messages=tally.messages,
            payload_bytes=tally.payload_bytes,
            started_ns=tally.started_ns,
            ended_ns=tally.ended_ns,
            lost=sum(scanner.lost for scanner in checked),
            repeated=sum(scanner.repeated for scanner in checked),
            group_messages=_messages(group),
            p50_ns=checked[-1].latency_ns(0.5),
            p99_ns=checked[-1].latency_ns(0.99),
        )

    def close(self) -> None:
        self._lines.close()

    def _ended(self) -> bool:
        *streams, wildcard = self._checked
        return (
            all(line.scanner.header_messages for line in streams)
            and wildcard.scanner.header_messages >= len(SIZES)
            and sum(line.scanner.header_messages for line in self._group) >= len(SIZES)
            and self._service.scanner.header_messages > 0
        )

    def _receive_to_markers(self) -> None:
        lines = {line.fileno(): line for line in self._lines.lines}
        with select.epoll() as epoll:
            for line in lines.values():
                epoll.register(line, select.EPOLLIN)
            while not self._ended():
                ready = epoll.poll(LOAD_TIMEOUT_NS / SECOND_NS)
                if not ready:
                    raise ClientTimeout("the streams stopped without their markers: messages were lost")
                for number, _ in ready:
                    self._take(lines[number])

    def _take(self, line: Line) -> None:
        line.receive_ready(self._lines.buffer, monotonic_ns())
        if line is self._service and (replies := line.scanner.take_replies()):
            line.send(replies)


def _messages(scanners: Sequence[Scanner]) -> int:
    """Without the markers."""
    return sum(scanner.messages - scanner.header_messages for scanner in scanners)


class _Churner:
    def __init__(self, job: Churning) -> None:
        self._job = job

    def run(self) -> Tally:
        started_ns = monotonic_ns()
        rounds = 0
        while monotonic_ns() - started_ns < self._job.duration_ns:
            self._round(rounds)
            rounds += 1
            sleep(self._job.pause_ns / SECOND_NS)
        with WireClient(self._job.url) as client:
            client.publish(SERVICE, header=_MARKER)
            client.flush()
        return Tally(messages=rounds, payload_bytes=0, started_ns=started_ns, ended_ns=monotonic_ns())

    def close(self) -> None:
        """Nothing is open."""

    def _round(self, number: int) -> None:
        with WireClient(self._job.url) as client:
            sids = client.subscribe_many(f"soak.churn.{number}.{index}.*" for index in range(20))
            client.subscribe(f"soak.churn.{number}.>", queue="churn")
            client.publish(f"soak.churn.{number}.7.x", b"hello")
            client.next_message()
            client.request(SERVICE, b"ping")
            for sid in sids[::2]:
                client.unsubscribe(sid)
            client.flush()
