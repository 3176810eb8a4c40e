"""Core NATS: clients that publish, receive, ask and serve."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic_ns, perf_counter_ns

from slipstream.client.bench.course import (
    CAME,
    SENT,
    Body,
    ClientPace,
    Setup,
    Steps,
    Subjects,
    ask,
    flushed,
    status_of,
    waited,
)
from slipstream.client.bench.latencies import Latencies
from slipstream.client.bench.peer import BenchPeer
from slipstream.client.load import Tally
from slipstream.client.options import ClientError, NoResponders
from slipstream.client.wire import Message, message_frame
from slipstream.units import KIB

__all__ = ["Publish", "Receive", "RequestLoad", "Serve"]

_SEND_BYTES = 128 * KIB  # large enough that system calls do not count, small enough to stay in the cache
_GROUP_MAX = 1_024  # messages made at once when each is different
_SERVICE = "nats-bench-service"
_SERVICE_VERSION = "1.0.0"
_SERVICE_QUEUE = "q"  # the queue group of services that name none


@dataclass(frozen=True, kw_only=True)
class Publish:
    """Publish messages; the end is when the server has processed all."""

    subjects: Subjects
    body: Body
    messages: int
    pace: ClientPace
    counts: bool = field(default=True, init=False)

    def setup(self, peer: BenchPeer) -> Setup:
        """Nothing comes before it."""
        return flushed(peer)

    def run(self, peer: BenchPeer) -> Steps:
        """Publish in chunks, or one by one with pauses."""
        yield from self.pace.begin()
        started_ns = monotonic_ns()
        group = self._group()
        equal = b"" if self.subjects.multi else self._frames(0, group)
        while peer.done < self.messages:
            count = min(group, self.messages - peer.done)
            peer.send(equal if equal and count == group else self._frames(peer.done, count))
            peer.done += count
            yield SENT
            yield from self.pace.pause(peer.done, started_ns)
        yield from flushed(peer)
        return Tally(
            messages=self.messages,
            payload_bytes=self.messages * len(self.body.payload),
            started_ns=started_ns,
            ended_ns=monotonic_ns(),
        )

    def _group(self) -> int:
        if self.pace.limited:
            return self.pace.group
        size = max(_SEND_BYTES // len(self.body.frame(self.subjects.of(0))), 1)
        return min(size, self.messages if not self.subjects.multi else _GROUP_MAX)

    def _frames(self, first: int, count: int) -> bytes:
        if not self.subjects.multi:
            return self.body.frame(self.subjects.subject) * count
        return b"".join(self.body.frame(self.subjects.of(number)) for number in range(first, first + count))


@dataclass(frozen=True, kw_only=True)
class Receive:
    """Receive messages; the clock starts with the first."""

    subject: str
    messages: int
    counts: bool = field(default=True, init=False)

    def setup(self, peer: BenchPeer) -> Setup:
        """Subscribe."""
        peer.subscribe([self.subject])
        return flushed(peer)

    def run(self, peer: BenchPeer) -> Steps:
        """Count."""
        scanner = peer.scanner
        assert scanner is not None
        while not scanner.messages:
            yield CAME
        started_ns = monotonic_ns()
        while scanner.messages < self.messages:
            yield CAME
        return Tally(
            messages=scanner.messages,
            payload_bytes=scanner.payload_bytes,
            started_ns=started_ns,
            ended_ns=monotonic_ns(),
        )


@dataclass(frozen=True, kw_only=True)
class RequestLoad:
    """Send a request, wait for its reply, and again."""

    subject: str
    body: Body
    messages: int
    pace: ClientPace
    counts: bool = field(default=False, init=False)

    def setup(self, peer: BenchPeer) -> Setup:
        """Subscribe to the replies."""
        peer.subscribe([peer.inbox])
        return flushed(peer)

    def run(self, peer: BenchPeer) -> Steps:
        """Ask one after the other."""
        yield from self.pace.begin()
        frame = self.body.frame(self.subject, reply=peer.inbox)
        latencies = Latencies()
        started_ns = monotonic_ns()
        for number in range(1, self.messages + 1):
            sent_ns = perf_counter_ns()
            reply = yield from ask(peer, frame)
            latencies.add(perf_counter_ns() - sent_ns)
            self._check(reply)
            peer.done = number
            yield from self.pace.pause(number, started_ns)
        return Tally(
            messages=self.messages,
            payload_bytes=self.messages * len(self.body.payload),
            started_ns=started_ns,
            ended_ns=monotonic_ns(),
            latencies_ns=latencies.all(),
        )

    def _check(self, reply: Message) -> None:
        if status_of(reply) == 503:
            raise NoResponders(f"no responders on {self.subject!r}")
        if reply.payload.startswith(b"-") or b"error" in reply.payload:
            raise ClientError(f"a request on {self.subject!r} was answered with {reply.payload[:200]!r}")


@dataclass(frozen=True, kw_only=True)
class Serve:
    """Answer requests as an instance of a micro service, until stopped."""

    subject: str
    sleep_ns: int = 0
    counts: bool = field(default=False, init=False)

    def setup(self, peer: BenchPeer) -> Setup:
        """Subscribe to the endpoint, and to what everybody may ask a service."""
        peer.subscribe([self.subject], _SERVICE_QUEUE)
        identity = self._identity(peer)
        for verb in ("PING", "INFO", "STATS"):
            names = ("", f".{_SERVICE}", f".{_SERVICE}.{identity}")
            peer.subscribe(f"$SRV.{verb}{name}" for name in names)
        return flushed(peer)

    def run(self, peer: BenchPeer) -> Steps:
        """Answer."""
        started = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        while True:
            for message in (yield from waited(peer)):
                if not message.reply:
                    continue
                if message.subject.startswith("$SRV."):
                    about = self._about(message.subject.split(".")[1], peer, started)
                    peer.send(message_frame(message.reply, json.dumps(about).encode()))
                    continue
                if self.sleep_ns:
                    yield monotonic_ns() + self.sleep_ns
                peer.send(message_frame(message.reply, b"ok"))
                peer.done += 1

    def _identity(self, peer: BenchPeer) -> str:
        """As unique as the inbox."""
        return peer.inbox.rpartition(".")[2].upper()

    def _about(self, verb: str, peer: BenchPeer, started: str) -> dict[str, object]:
        about: dict[str, object] = {
            "type": f"io.nats.micro.v1.{verb.lower()}_response",
            "name": _SERVICE,
            "id": self._identity(peer),
            "version": _SERVICE_VERSION,
            "metadata": {},
        }
        endpoint: dict[str, object] = {"name": "default", "subject": self.subject, "queue_group": _SERVICE_QUEUE}
        if verb == "INFO":
            about |= {"description": "", "endpoints": [{**endpoint, "metadata": {}}]}
        if verb == "STATS":
            numbers = {"num_requests": peer.done, "num_errors": 0, "last_error": ""}
            times = {"processing_time": 0, "average_processing_time": 0}
            about |= {"started": started, "endpoints": [{**endpoint, **numbers, **times}]}
        return about
