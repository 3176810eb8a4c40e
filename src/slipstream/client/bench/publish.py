"""JetStream publishers: one by one, in windows, in atomic batches, in fast batches. Every ack is read.

A KV put is a publish one by one, with the key as the last token.
"""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, field
from time import monotonic_ns, perf_counter_ns

from slipstream.client.bench.course import Body, ClientPace, Setup, Steps, Subjects, ask, checked_ack, flushed, waited
from slipstream.client.bench.latencies import Latencies
from slipstream.client.bench.peer import BenchPeer
from slipstream.client.load import Tally
from slipstream.client.options import ClientError

__all__ = ["AtomicBatchLoad", "FastBatchLoad", "PublishAsync", "PublishSync", "Put"]


@dataclass(frozen=True, kw_only=True)
class _Publisher:
    subjects: Subjects
    body: Body
    messages: int
    pace: ClientPace
    counts: bool = field(default=False, init=False)

    def setup(self, peer: BenchPeer) -> Setup:
        """Subscribe to the acks."""
        peer.subscribe([peer.inbox, f"{peer.inbox}.>"])
        return flushed(peer)

    def _tally(self, started_ns: int, latencies: Latencies) -> Tally:
        return Tally(
            messages=self.messages,
            payload_bytes=self.messages * len(self.body.payload),
            started_ns=started_ns,
            ended_ns=monotonic_ns(),
            latencies_ns=latencies.all(),
        )

    def _number(self, at: int) -> int:
        """Of a message over all clients, for its id."""
        return self.subjects.offset + at


@dataclass(frozen=True, kw_only=True)
class PublishSync(_Publisher):
    """Publish, wait for the ack, and again; a latency for each message."""

    def run(self, peer: BenchPeer) -> Steps:
        """Publish one by one."""
        yield from self.pace.begin()
        latencies = Latencies()
        started_ns = monotonic_ns()
        for number in range(self.messages):
            subject = self._subject(number)
            frame = self.body.frame(subject, number=self._number(number), reply=peer.inbox)
            sent_ns = perf_counter_ns()
            ack = yield from ask(peer, frame)
            latencies.add(perf_counter_ns() - sent_ns)
            checked_ack(ack, subject)
            peer.done = number + 1
            yield from self.pace.pause(number + 1, started_ns)
        return self._tally(started_ns, latencies)

    def _subject(self, number: int) -> str:
        return self.subjects.of(number)


@dataclass(frozen=True, kw_only=True)
class Put(PublishSync):
    """Put values under keys that are numbers: one after the other, or at random below `randomize`."""

    randomize: int = 0

    def _subject(self, number: int) -> str:
        key = random.randrange(self.randomize) if self.randomize else self._number(number)
        return f"{self.subjects.subject}.{key}"


@dataclass(frozen=True, kw_only=True)
class _Batches(_Publisher, ABC):
    """Publish so many, then wait; a latency for each batch, without the pauses in it."""

    batch: int

    def run(self, peer: BenchPeer) -> Steps:
        """Publish batch after batch."""
        yield from self.pace.begin()
        latencies = Latencies()
        started_ns = monotonic_ns()
        while peer.done < self.messages:
            count = min(self.batch, self.messages - peer.done)
            took_ns = yield from self._publish(peer, peer.done, count, started_ns)
            latencies.add(took_ns)
        return self._tally(started_ns, latencies)

    @abstractmethod
    def _publish(self, peer: BenchPeer, first: int, count: int, started_ns: int) -> Generator[int, None, int]:
        """Publish one batch; return how long it took."""

    def _send(self, peer: BenchPeer, first: int, frames: list[bytes], started_ns: int) -> Generator[int, None, int]:
        """Send a batch; return how long the pauses in it took."""
        if not self.pace.limited:
            peer.send(b"".join(frames))
            peer.done += len(frames)
            return 0
        paused_ns = 0
        for at, frame in enumerate(frames, 1):
            peer.send(frame)
            peer.done = first + at
            before_ns = monotonic_ns()
            yield from self.pace.pause(first + at, started_ns)
            paused_ns += monotonic_ns() - before_ns
        return paused_ns


@dataclass(frozen=True, kw_only=True)
class PublishAsync(_Batches):
    """Every message has an ack; the batch ends with the last."""

    def _publish(self, peer: BenchPeer, first: int, count: int, started_ns: int) -> Generator[int, None, int]:
        begun_ns = perf_counter_ns()
        frames = [
            self.body.frame(self.subjects.of(number), number=self._number(number), reply=peer.inbox)
            for number in range(first, first + count)
        ]
        paused_ns = yield from self._send(peer, first, frames, started_ns)
        acked = 0
        while acked < count:
            for ack in (yield from waited(peer)):
                checked_ack(ack, self.subjects.subject)
                acked += 1
        return perf_counter_ns() - begun_ns - paused_ns


@dataclass(frozen=True, kw_only=True)
class AtomicBatchLoad(_Batches):
    """The batch is stored as a whole or not at all; its last message has the ack."""

    batch_id: str

    def _publish(self, peer: BenchPeer, first: int, count: int, started_ns: int) -> Generator[int, None, int]:
        begun_ns = perf_counter_ns()
        frames = []
        for at, number in enumerate(range(first, first + count), 1):
            extra = f"Nats-Batch-Id: {self.batch_id}\r\nNats-Batch-Sequence: {at}\r\n"
            last = at == count
            frames.append(
                self.body.frame(
                    self.subjects.of(number),
                    number=self._number(number),
                    reply=peer.inbox if last else "",
                    extra=f"{extra}Nats-Batch-Commit: 1\r\n" if last else extra,
                )
            )
        paused_ns = yield from self._send(peer, first, frames, started_ns)
        for ack in (yield from waited(peer)):
            if f'"count":{count}'.encode() not in checked_ack(ack, self.subjects.subject).replace(b" ", b""):
                raise ClientError(f"an atomic batch of {count} messages was stored in part: {ack.payload!r}")
        return perf_counter_ns() - begun_ns - paused_ns


@dataclass(frozen=True, kw_only=True)
class FastBatchLoad(_Publisher):
    """One fast batch: the server says how often it acks; so many acks may be outstanding. A latency for each ack."""

    flow: int
    outstanding: int
    batch_id: str

    def run(self, peer: BenchPeer) -> Steps:
        """Publish, and slow down to what the server allows."""
        yield from self.pace.begin()
        latencies = Latencies()
        acked, window, committed = 0, 1, False
        started_ns = monotonic_ns()
        begun_ns = perf_counter_ns()
        while not committed:
            if peer.done < self.messages and peer.done - acked < window:
                count = min(window - (peer.done - acked), self.messages - peer.done)
                group = range(peer.done, peer.done + min(count, self.pace.group if self.pace.limited else count))
                peer.send(b"".join(self._frame(peer, number) for number in group))
                peer.done += len(group)
                yield from self.pace.pause(peer.done, started_ns)
                continue
            for answer in (yield from waited(peer)):
                told = json.loads(checked_ack(answer, self.subjects.subject))
                committed = "stream" in told
                if committed and told.get("count") != self.messages:
                    raise ClientError(f"of {self.messages:,} messages the fast batch stored {told.get('count', 0):,}")
                if told.get("type") == "gap":
                    raise ClientError("the server misses messages of the fast batch")
                window = max(told.get("msgs", 0), 1) * self.outstanding if "msgs" in told else window
                if committed or told.get("seq", 0) > acked:
                    acked = self.messages if committed else told["seq"]
                    latencies.add(perf_counter_ns() - begun_ns)
                    begun_ns = perf_counter_ns()
        return self._tally(started_ns, latencies)

    def _frame(self, peer: BenchPeer, number: int) -> bytes:
        step = 2 if number + 1 == self.messages else 0 if number == 0 else 1
        reply = f"{peer.inbox}.{self.batch_id}.{self.flow}.fail.{number + 1}.{step}.$FI"
        return self.body.frame(self.subjects.of(number), number=self._number(number), reply=reply)
