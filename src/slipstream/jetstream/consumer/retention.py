"""Which messages of an interest or work-queue stream nobody needs any more.

Removal is a function of the consumers' states, never of the moment: interest retention removes what no consumer needs,
a work queue what its consumer has acknowledged. So it may be evaluated again at any time (`sweep`), and is: after a
restart, when a consumer goes, when its filters change.

A work queue never removes a message because no consumer is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slipstream.jetstream.config.enums import RetentionPolicy
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.consumer.limits import RETENTION_SWEEP_MSGS
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.values import ALL, StoredMessage
from slipstream.jetstream.stream.stream import Stream

__all__ = ["Retention"]


class Retention:
    """Removes messages of one stream when its consumers are done with them."""

    def __init__(
        self,
        stream: Stream,
        ports: Ports,
        consumers: Callable[[], Sequence[Consumer]],
        are_all: Callable[[], bool],
    ) -> None:
        """Judge by the given consumers.

        While they are not all (`are_all`: some cannot run), nothing goes because nobody is interested.
        """
        self._stream = stream
        self._store = stream.store
        self._ports = ports
        self._consumers = consumers
        self._are_all = are_all
        self._sweep_seq = 0  # where the running sweep is; 0: none runs
        self.stopped = False
        stream.holds.released.append(self.sweep)

    def acked(self, consumer: Consumer, seqs: Sequence[int]) -> None:
        """A consumer is done with these messages."""
        policy = self._stream.config.retention
        if policy is RetentionPolicy.LIMITS or (policy is RetentionPolicy.INTEREST and not self._are_all()):
            return
        delete = self._store.delete
        others = [other for other in self._consumers() if other is not consumer]
        removed = False
        floor = self._stream.holds.floor
        for seq in seqs:
            if seq in consumer.state.dead or seq >= floor:
                continue  # what a bulk reader holds is looked at again when it is released
            if policy is RetentionPolicy.WORK_QUEUE or not others or not self._needed(seq, others):
                removed |= delete(seq)
        if removed:
            if others:
                self._stream.committer.removed.others = True
            self._stream.committer.wake()

    def sweep(self) -> None:
        """Look at all messages again, a slice at a time."""
        if self._stream.config.retention is RetentionPolicy.LIMITS:
            return
        running = self._sweep_seq > 0
        self._sweep_seq = 1
        if not running:
            self._ports.call_soon(self._sweep)

    def _sweep(self) -> None:
        policy = self._stream.config.retention
        judged = policy is RetentionPolicy.WORK_QUEUE or (policy is RetentionPolicy.INTEREST and self._are_all())
        if self.stopped or not judged:
            self._sweep_seq = 0
            return
        consumers, store = self._consumers(), self._store
        # Above this nobody has got anything yet.
        end = max((consumer.state.next_seq for consumer in consumers), default=1)
        if self._stream.config.retention is RetentionPolicy.INTEREST:
            end = store.committed_seq + 1
        end = min(end, self._stream.holds.floor)
        removed = False
        for _ in range(RETENTION_SWEEP_MSGS):
            seq = store.next_seq(ALL, self._sweep_seq)
            if not seq or seq >= end:
                self._sweep_seq = 0
                break
            self._sweep_seq = seq + 1
            message = store.get(seq)
            # What cannot be read is kept: it is evidence.
            if isinstance(message, StoredMessage) and self._finished(message, consumers):
                removed |= store.delete(seq)
        if removed:
            self._stream.committer.removed.others = True
            self._stream.committer.wake()
        if self._sweep_seq:
            self._ports.call_soon(self._sweep)

    def _finished(self, message: StoredMessage, consumers: Sequence[Consumer]) -> bool:
        """Whether a message may go."""
        seq, subject = message.seq, message.subject
        if self._stream.config.retention is RetentionPolicy.INTEREST:
            return not any(consumer.needs(seq, subject) for consumer in consumers)
        return any(
            consumer.state.trusted_from <= seq < consumer.state.next_seq
            and consumer.filters.match(subject)
            and not consumer.needs(seq, subject)
            for consumer in consumers
        )

    def _needed(self, seq: int, consumers: Sequence[Consumer]) -> bool:
        """The same for one that was just acknowledged; its subject is read only if somebody has filters."""
        subject = None
        if any(consumer.filters.for_store for consumer in consumers):
            message = self._store.get(seq)
            if not isinstance(message, StoredMessage):
                return True
            subject = message.subject
        return any(consumer.needs(seq, subject) for consumer in consumers)
