"""JetStream consumers: fetches one after the other, and pulls that overlap, from a durable or an ordered consumer.

A client asks for exactly as many messages as it wants, so that clients of one consumer do not take each other's. The
clock starts with the first message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from time import monotonic_ns, perf_counter_ns

from slipstream.client.bench.course import Setup, Steps, answer_of, ask, flushed, status_of, waited
from slipstream.client.bench.latencies import Latencies
from slipstream.client.bench.peer import BenchPeer
from slipstream.client.load import Tally
from slipstream.client.options import ClientError
from slipstream.client.wire import Message, message_frame
from slipstream.units import SECOND_NS

__all__ = ["Consume", "Fetch", "Ordered"]

_EXPIRES_NS = 30 * SECOND_NS
_INACTIVE_NS = 10 * SECOND_NS  # an ordered consumer goes when its client is gone
_REST = re.compile(rb"Nats-Pending-Messages: *(\d{1,18})\r\n", re.IGNORECASE)
_NO_MESSAGES, _TIMED_OUT = 404, 408
_TOKENS = 9  # of an ack subject that names no domain


@dataclass(frozen=True, kw_only=True)
class _Pulling:
    api: str  # prefix of the JetStream API
    stream: str
    consumer: str
    messages: int
    batch: int
    acks: bool = False
    double: bool = False  # wait for the server to confirm each ack
    sleep_ns: int = 0  # what handling a message takes
    counts: bool = field(default=False, init=False)

    def setup(self, peer: BenchPeer) -> Setup:
        """Subscribe to what is pulled."""
        peer.subscribe([peer.inbox, f"{peer.inbox}.*"])
        return flushed(peer)

    def _ask(self, peer: BenchPeer, batch: int) -> None:
        body = json.dumps({"batch": batch, "expires": _EXPIRES_NS}).encode()
        target = f"{self.api}.CONSUMER.MSG.NEXT.{self.stream}.{self.consumer}"
        peer.send(message_frame(target, body, reply=f"{peer.inbox}.1"))

    def _unanswered(self, status: Message) -> int:
        """How many messages of a pull will not come.

        Raises:
            ClientError: the consumer cannot be pulled from.
        """
        code = status_of(status)
        if code == 100:
            return 0
        if code not in (_NO_MESSAGES, _TIMED_OUT):
            reason = status.header[13:].partition(b"\r\n")[0].decode(errors="replace").strip()
            words = "there is no such consumer, or no JetStream" if code == 503 else reason or str(code)
            raise ClientError(f"pulling from {self.stream} > {self.consumer}: {words}")
        rest = _REST.search(status.header)
        return int(rest[1]) if rest else self.batch

    def _handle(self, peer: BenchPeer, messages: list[Message]) -> Generator[int, None, None]:
        """Work on messages and ack them."""
        if not self.sleep_ns and not self.double:
            if self.acks:
                peer.send(b"".join(b"PUB %b 4\r\n+ACK\r\n" % message.reply.encode() for message in messages))
            peer.done += len(messages)
            return
        for message in messages:
            if self.sleep_ns:
                yield monotonic_ns() + self.sleep_ns
            if self.acks:
                peer.send(message_frame(message.reply, b"+ACK", reply=f"{peer.inbox}.ack" if self.double else ""))
            if self.acks and self.double:
                yield from self._confirmed(peer)
            peer.done += 1

    def _confirmed(self, peer: BenchPeer) -> Generator[int, None, None]:
        """Wait for the answer to an ack; messages that come meanwhile stay where they are."""
        kept: list[Message] = []
        confirmed = False
        while not confirmed:
            for message in (yield from waited(peer)):
                if message.subject.endswith(".ack"):
                    confirmed = True
                else:
                    kept.append(message)
        peer.put_back(kept)


@dataclass(frozen=True, kw_only=True)
class Consume(_Pulling):
    """Pull again before the last pull is used up, as clients with a callback do."""

    def run(self, peer: BenchPeer) -> Steps:
        """Pull, handle, ack."""
        started_ns = payload_bytes = came = asked = 0
        while came < self.messages:
            if asked < self.messages and asked - came <= self.batch // 2:
                batch = min(self.batch - (asked - came), self.messages - asked)
                self._ask(peer, batch)
                asked += batch
            messages: list[Message] = []
            for message in (yield from waited(peer)):
                if status_of(message):
                    asked = max(asked - self._unanswered(message), came + len(messages))
                else:
                    messages.append(message)
                    payload_bytes += len(message.payload)
            if messages and not started_ns:
                started_ns = monotonic_ns()
            self._check(messages, came)
            came += len(messages)
            yield from self._handle(peer, messages)
        if self.acks:
            yield from flushed(peer)  # the acks are part of the work
        return Tally(messages=came, payload_bytes=payload_bytes, started_ns=started_ns, ended_ns=monotonic_ns())

    def _check(self, messages: list[Message], before: int) -> None:
        """A durable consumer may be shared, so there is nothing to expect."""


@dataclass(frozen=True, kw_only=True)
class Ordered(Consume):
    """A consumer of the client's own, without acks; that nothing is missing shows in the numbers it gives."""

    filters: tuple[str, ...] = ()

    def setup(self, peer: BenchPeer) -> Setup:
        """Create the consumer."""
        yield from _Pulling.setup(self, peer)
        config: dict[str, object] = {
            "name": self.consumer,
            "deliver_policy": "all",
            "ack_policy": "none",
            "replay_policy": "instant",
            "max_deliver": 1,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _INACTIVE_NS,
        }
        if self.filters:
            config["filter_subjects"] = list(self.filters)
        body = json.dumps({"stream_name": self.stream, "config": config, "action": "create"}).encode()
        target = f"{self.api}.CONSUMER.CREATE.{self.stream}.{self.consumer}"
        answer = yield from ask(peer, message_frame(target, body, reply=peer.inbox))
        answer_of(answer, f"creating an ordered consumer on stream {self.stream!r}")

    def _check(self, messages: list[Message], before: int) -> None:
        for expected, message in enumerate(messages, before + 1):
            words = message.reply.split(".")
            number = words[6] if len(words) == _TOKENS else words[8]
            if number != str(expected):
                raise ClientError(f"message {expected:,} of an ordered consumer did not come; {number} did")


@dataclass(frozen=True, kw_only=True)
class Fetch(_Pulling):
    """Fetch a batch, handle it, and fetch the next; a latency for each fetch, without the handling."""

    def run(self, peer: BenchPeer) -> Steps:
        """Fetch after fetch."""
        started_ns = payload_bytes = came = 0
        latencies = Latencies()
        while came < self.messages:
            batch = left = min(self.batch, self.messages - came)
            self._ask(peer, batch)
            sent_ns = perf_counter_ns()
            handled_ns = 0
            before = came
            while left > 0:
                messages: list[Message] = []
                for message in (yield from waited(peer)):
                    if status_of(message):
                        left -= self._unanswered(message)
                    else:
                        messages.append(message)
                        payload_bytes += len(message.payload)
                if messages:
                    started_ns = started_ns or monotonic_ns()
                    came += len(messages)
                    left -= len(messages)
                    begun_ns = perf_counter_ns()
                    yield from self._handle(peer, messages)
                    handled_ns += perf_counter_ns() - begun_ns
            if came > before:  # otherwise nothing came for as long as a fetch waits
                latencies.add(perf_counter_ns() - sent_ns - handled_ns)
        if self.acks:
            yield from flushed(peer)
        return Tally(
            messages=came,
            payload_bytes=payload_bytes,
            started_ns=started_ns,
            ended_ns=monotonic_ns(),
            latencies_ns=latencies.all(),
        )
