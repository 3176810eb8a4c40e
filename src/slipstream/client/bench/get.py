"""Reading a stream without a consumer: by sequence, by key, in batches. Streams with direct access answer directly."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from time import monotonic_ns, perf_counter_ns

from slipstream.client.bench.course import ClientPace, Setup, Steps, answer_of, ask, flushed, status_of, waited
from slipstream.client.bench.latencies import Latencies
from slipstream.client.bench.peer import BenchPeer
from slipstream.client.load import Tally
from slipstream.client.options import ClientError
from slipstream.client.wire import Message, message_frame

__all__ = ["GetBatches", "GetKeys", "GetSync"]

_SEQUENCE = re.compile(rb"Nats-Sequence: *(\d{1,20})\r\n", re.IGNORECASE)
_END_OF_BATCH = 204


@dataclass(frozen=True, kw_only=True)
class _Getting:
    api: str  # prefix of the JetStream API
    stream: str
    messages: int
    pace: ClientPace
    counts: bool = field(default=False, init=False)

    def setup(self, peer: BenchPeer) -> Setup:
        """Subscribe to the answers."""
        peer.subscribe([peer.inbox])
        return flushed(peer)


@dataclass(frozen=True, kw_only=True)
class GetSync(_Getting):
    """Get message after message by its sequence."""

    first_seq: int
    direct: bool  # what the stream allows

    def run(self, peer: BenchPeer) -> Steps:
        """Ask one after the other."""
        latencies = Latencies()
        payload_bytes = 0
        started_ns = monotonic_ns()
        for number in range(self.messages):
            frame, failed = self._question(peer, number)
            sent_ns = perf_counter_ns()
            answer = yield from ask(peer, frame)
            latencies.add(perf_counter_ns() - sent_ns)
            payload_bytes += self._size(answer, failed)
            peer.done = number + 1
            yield from self.pace.pause(number + 1, started_ns)
        return Tally(
            messages=self.messages,
            payload_bytes=payload_bytes,
            started_ns=started_ns,
            ended_ns=monotonic_ns(),
            latencies_ns=latencies.all(),
        )

    def _question(self, peer: BenchPeer, number: int) -> tuple[bytes, str]:
        """What to send, and what failed if it is refused."""
        seq = self.first_seq + number
        target = f"{self.api}.DIRECT.GET" if self.direct else f"{self.api}.STREAM.MSG.GET"
        frame = message_frame(f"{target}.{self.stream}", json.dumps({"seq": seq}).encode(), reply=peer.inbox)
        return frame, f"getting message {seq:,} of stream {self.stream!r}"

    def _size(self, answer: Message, failed: str) -> int:
        if not self.direct:
            message = answer_of(answer, failed)["message"]
            return len(base64.b64decode(message.get("data", ""))) if isinstance(message, dict) else 0
        code = status_of(answer)
        if code:
            reason = answer.header[13:].partition(b"\r\n")[0].decode(errors="replace").strip()
            words = "JetStream does not answer" if code == 503 else reason.lower() or str(code)
            raise ClientError(f"{failed}: {words}")
        return len(answer.payload)


@dataclass(frozen=True, kw_only=True)
class GetKeys(GetSync):
    """Get the last value under keys that are numbers: one after the other, or at random below `randomize`."""

    subject: str  # what stands before the key
    randomize: int = 0

    def _question(self, peer: BenchPeer, number: int) -> tuple[bytes, str]:
        key = random.randrange(self.randomize) if self.randomize else self.first_seq + number
        subject, failed = f"{self.subject}.{key}", f"getting key '{key}'"
        if self.direct:
            return message_frame(f"{self.api}.DIRECT.GET.{self.stream}.{subject}", reply=peer.inbox), failed
        body = json.dumps({"last_by_subj": subject}).encode()
        return message_frame(f"{self.api}.STREAM.MSG.GET.{self.stream}", body, reply=peer.inbox), failed


@dataclass(frozen=True, kw_only=True)
class GetBatches(_Getting):
    """Get batch after batch of what a filter selects; a latency for each."""

    batch: int
    filter: str

    def run(self, peer: BenchPeer) -> Steps:
        """Ask for a batch, take all of it, and go on behind its last message."""
        latencies = Latencies()
        payload_bytes, next_seq = 0, 1
        started_ns = monotonic_ns()
        while peer.done < self.messages:
            batch = min(self.batch, self.messages - peer.done)
            body = json.dumps({"seq": next_seq, "batch": batch, "next_by_subj": self.filter}).encode()
            sent_ns = perf_counter_ns()
            peer.send(message_frame(f"{self.api}.DIRECT.GET.{self.stream}", body, reply=peer.inbox))
            messages = yield from self._answers(peer)
            latencies.add(perf_counter_ns() - sent_ns)
            if not messages:
                raise ClientError(
                    f"stream {self.stream!r} has {peer.done:,} messages that match {self.filter!r}, "
                    f"not {self.messages:,}; say how many with --msgs"
                )
            found = _SEQUENCE.search(messages[-1].header)
            next_seq = int(found[1]) + 1 if found else next_seq + len(messages)
            payload_bytes += sum(len(message.payload) for message in messages)
            peer.done += len(messages)
            yield from self.pace.pause(peer.done, started_ns)
        return Tally(
            messages=peer.done,
            payload_bytes=payload_bytes,
            started_ns=started_ns,
            ended_ns=monotonic_ns(),
            latencies_ns=latencies.all(),
        )

    def _answers(self, peer: BenchPeer) -> Generator[int, None, list[Message]]:
        messages: list[Message] = []
        while True:
            for message in (yield from waited(peer)):
                code = status_of(message)
                if code in (_END_OF_BATCH, 404):
                    return messages
                if code:
                    reason = message.header[13:].partition(b"\r\n")[0].decode(errors="replace").strip()
                    words = "JetStream does not answer, or the stream allows no direct access"
                    raise ClientError(f"getting from {self.stream!r}: {words if code == 503 else reason}")
                messages.append(message)
