"""What a consumer has not delivered yet: how many messages that are, and whether a certain one is among them.

The count is exact. It is taken once, then follows: what is delivered is taken off, what was committed since is counted
and added. Whatever else changes the stream raises `ConsumerOwner.version`, and it is taken anew.

What this is not: reading. `delivery` reads and says what has passed.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstream.jetstream.consumer.consumer import Consumer

__all__ = ["Ahead"]


class Ahead:
    """The undelivered messages of one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        """Nothing is counted before somebody asks."""
        self._consumer = consumer
        self._owner = consumer.owner
        self._store = consumer.store
        self._newest: list[int] | None = None  # last per subject: what is left of the snapshot, None: not read yet
        self._version = -1  # of the stream when it was counted; -1: not
        self._count = 0
        self._counted_seq = 0  # committed and counted up to here

    def restart(self) -> None:
        """The position or the filters have changed from outside."""
        self._newest = None
        self._version = -1

    def recount(self) -> None:
        """The count does not follow what happened."""
        self._version = -1

    def pending(self) -> int:
        """Exactly how many messages wait for their first delivery."""
        committed_seq = self._store.committed_seq
        if self._version != self._owner.version:
            self._version = self._owner.version
            self._count = self._total()
        elif committed_seq > self._counted_seq:
            first = max(self._counted_seq + 1, self._consumer.state.next_seq)
            self._count += self._committed_from(first)
        self._counted_seq = committed_seq
        return self._count

    def _total(self) -> int:
        state = self._consumer.state
        if state.resume_seq:
            return len(self.snapshot()) + self._committed_from(state.resume_seq + 1)
        return self._committed_from(state.next_seq)

    def _committed_from(self, from_seq: int) -> int:
        store, filters = self._store, self._consumer.filters.for_store
        committed_seq = store.committed_seq
        if from_seq > committed_seq:
            return 0
        count = store.count_matching(filters, from_seq)
        if committed_seq < store.last_seq:
            count -= store.count_matching(filters, committed_seq + 1)
        return count

    def is_ahead(self, seq: int) -> bool:
        """Whether this sequence is still to be delivered for the first time (if its subject is wanted)."""
        state = self._consumer.state
        if not state.resume_seq or seq > state.resume_seq:
            return seq >= state.next_seq
        snapshot = self.snapshot()
        at = bisect_left(snapshot, seq)
        return at < len(snapshot) and snapshot[at] == seq

    def snapshot(self) -> list[int]:
        """Last per subject: what is still to be delivered of the newest messages at the start, ascending."""
        state = self._consumer.state
        if self._newest is None:
            newest = self._store.last_per_subject(self._consumer.filters.for_store, state.resume_seq)
            self._newest = newest[bisect_left(newest, state.next_seq) :]
        return self._newest

    def end_snapshot(self) -> None:
        """It is used up: go on behind it, with every message."""
        state = self._consumer.state
        state.next_seq, state.resume_seq, self._newest = state.resume_seq + 1, 0, None

    def passed(self, last_seq: int, delivered: int) -> None:
        """First deliveries up to here are done with, and so many of them were counted as pending."""
        state = self._consumer.state
        if state.resume_seq:
            newest = self.snapshot()
            del newest[: bisect_left(newest, last_seq + 1)]
        state.next_seq = last_seq + 1
        self._count -= delivered
