"""What a consumer has not delivered yet: how many messages that are, and whether a certain one is among them.

The count is exact. It is taken once, then follows: what is delivered is taken off, what was committed since is counted
and added. Whatever else changes the stream raises `ConsumerOwner.version`, and it is taken anew.

What this is not: reading. `delivery` reads and says what has passed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstream.jetstream.consumer.consumer import Consumer

__all__ = ["Undelivered"]


class Undelivered:
    """The undelivered messages of one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        """Nothing is counted before somebody asks."""
        self._consumer = consumer
        self._owner = consumer.owner
        self._store = consumer.store
        self._newest: Sequence[int] | None = None  # last per subject: the snapshot, None: not read yet
        self._newest_at = 0
        self._newest_gone: set[int] = set()  # of what is left in it, removed from the stream meanwhile
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
            consumer = self._consumer
            first, next_seq = self._counted_seq + 1, consumer.state.next_seq
            self._count += self._store.count_matching(
                consumer.filters.for_store, first if first > next_seq else next_seq, committed_seq
            )
        self._counted_seq = committed_seq
        return self._count

    def follows(self, seq: int) -> bool:
        """Whether nothing was pending when it was last counted, and nothing but the commit of `seq` has happened since.

        Then this message is all that is pending, if it is wanted.
        """
        return self._count == 0 and self._counted_seq == seq - 1 and self._version == self._owner.version

    def _total(self) -> int:
        state = self._consumer.state
        if state.acks.ahead:
            return len(state.acks.ahead) + self._committed_from(state.next_seq)
        if state.resume_seq:
            left = len(self._snapshot()) - self._newest_at - len(self._newest_gone)
            return left + self._committed_from(state.resume_seq + 1)
        return self._committed_from(state.next_seq)

    def _committed_from(self, from_seq: int) -> int:
        store = self._store
        return store.count_matching(self._consumer.filters.for_store, from_seq, store.committed_seq)

    def is_undelivered(self, seq: int) -> bool:
        """Whether this sequence is still to be delivered for the first time (if its subject is wanted)."""
        state = self._consumer.state
        if not state.resume_seq or seq > state.resume_seq:
            ahead = state.acks.ahead
            return seq >= state.next_seq or (ahead is not None and seq in ahead)
        return self._in_snapshot(seq)

    def passed(self, last_seq: int, delivered: int) -> None:
        """First deliveries up to here are done with, and so many of them were counted as pending."""
        state = self._consumer.state
        if state.resume_seq:
            newest = self._snapshot()
            self._newest_at = bisect_right(newest, last_seq, self._newest_at)
            if self._newest_gone:
                self._newest_gone = {seq for seq in self._newest_gone if seq > last_seq}
        state.next_seq = last_seq + 1
        self._count -= delivered

    def picked(self, delivered: int) -> None:
        """So many that were counted as pending are delivered; the position has moved before."""
        self._count -= delivered

    # --- last per subject: first the newest messages as they were at the start, then whatever comes behind them ---

    def snapshot(self, count: int) -> list[int]:
        """The next so many of the snapshot. Empty: it is used up, and the position is behind it."""
        newest, gone = self._snapshot(), self._newest_gone
        if not gone:
            found = list(newest[self._newest_at : self._newest_at + count])
        else:
            rest = (newest[at] for at in range(self._newest_at, len(newest)))
            found = list(islice((seq for seq in rest if seq not in gone), count))
        if not found:
            state = self._consumer.state
            state.next_seq, state.resume_seq, self._newest = state.resume_seq + 1, 0, None
        return found

    def removed(self, seqs: Iterable[int]) -> None:
        """These messages left the stream: they are no longer in the snapshot."""
        if self._consumer.state.resume_seq:
            self._newest_gone.update(seq for seq in seqs if self._in_snapshot(seq))

    def _in_snapshot(self, seq: int) -> bool:
        newest = self._snapshot()
        at = bisect_left(newest, seq, self._newest_at)
        return at < len(newest) and newest[at] == seq and seq not in self._newest_gone

    def _snapshot(self) -> Sequence[int]:
        """All of it, ascending; what is before `_newest_at` is delivered."""
        state = self._consumer.state
        if self._newest is None:
            self._newest = self._store.last_per_subject(self._consumer.filters.for_store, state.resume_seq)
            self._newest_at = bisect_left(self._newest, state.next_seq)
            self._newest_gone = set()
        return self._newest
