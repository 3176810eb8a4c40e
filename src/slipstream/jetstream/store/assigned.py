"""A stream as its writers see it: everything that was decided, committed or not.

Limits, conditions and counters are judged by this view, so that two publishes in one batch see each other. Readers get
the committed state instead (`indexed`), in which a removed message stays until the commit of its removal: what replaces
something and what it replaces change in the same instant.
"""

from __future__ import annotations

from slipstream.jetstream.store.values import Filters, SubjectState
from slipstream.kernels.index.pendingremovals import PendingRemovals
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.subjects.subject import is_literal

__all__ = ["Assigned"]


class Assigned:
    """The index of a store without what was removed since the last commit."""

    __slots__ = ("_index", "removals")

    def __init__(self, index: MessageIndex) -> None:
        """Nothing is removed yet."""
        self._index = index
        self.removals = PendingRemovals(index)
        """What was removed and waits for its commit: the store fills it."""

    @property
    def first_seq(self) -> int:
        """Sequence of the oldest message; `last_seq + 1` when there is none."""
        return self.removals.first_seq

    @property
    def last_seq(self) -> int:
        """Highest sequence given to a message or gap."""
        return self._index.last_seq

    @property
    def messages(self) -> int:
        """Messages stored."""
        return self._index.messages - self.removals.messages

    @property
    def size_bytes(self) -> int:
        """Their size by nats-server's formula."""
        return self._index.size_bytes - self.removals.size_bytes

    def has(self, seq: int) -> bool:
        """Whether there is a message at this sequence."""
        return seq > 0 and self._index.locate(seq) is not None and not self.removals.is_removed(seq)

    def subject_state(self, subject: bytes) -> SubjectState:
        """First, last and count under one literal subject."""
        return SubjectState(*self.removals.subject_state(subject))

    def last_seq_of(self, subject: bytes) -> int:
        """The newest sequence under a subject or wildcard, 0 if there is none."""
        if is_literal(subject):
            return self.removals.subject_state(subject)[1]
        return self.removals.last_matching((subject,))

    def count(self, filters: Filters) -> int:
        """Exact number of messages that pass."""
        return self.removals.count_matching(filters)
