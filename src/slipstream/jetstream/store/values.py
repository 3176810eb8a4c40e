"""Values that go in and out of a store, and the numbers that bound them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slipstream.dataclass import dataclass
from slipstream.errors import StorageFault
from slipstream.jetstream.limits import SEQ_LAST, SEQ_MAX
from slipstream.kernels.log.record import StoredMessage

__all__ = [
    "ALL",
    "SEQ_LAST",
    "SEQ_MAX",
    "Committed",
    "Damaged",
    "Filters",
    "Job",
    "Lost",
    "Read",
    "StoreUnavailable",
    "StoredMessage",
    "SubjectState",
]

Filters = Sequence[bytes]
"""Subjects, with or without wildcards; a message passes when any of them matches. Empty means every message."""

ALL: Filters = ()


class StoreUnavailable(StorageFault):
    """The store cannot take this change now. `full`: there is no space, it resumes by itself when there is."""

    def __init__(self, text: str, *, path: str = "", full: bool = False) -> None:
        """Remember whether the reason is a full disk (API error 10047) or a failing one."""
        super().__init__(text, path=path)
        self.full = full


class Damaged:
    """Stands where a message was stored that can no longer be read."""

    __slots__ = ("reason", "seq")

    def __init__(self, seq: int, reason: str) -> None:
        """Name the sequence and what is wrong with its bytes."""
        self.seq = seq
        self.reason = reason

    def __repr__(self) -> str:
        """Show both facts."""
        return f"Damaged(seq={self.seq}, reason={self.reason!r})"


Read = StoredMessage | Damaged
"""What a read of one sequence gives when that sequence is not a gap."""


@dataclass(frozen=True, slots=True)
class SubjectState:
    """What is stored under one subject, or under all subjects a filter matches. All zero when nothing is."""

    first_seq: int
    last_seq: int
    count: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Damage found so far. `seqs` were stored and cannot be read; `size_bytes` they occupied, if known."""

    seqs: list[int]
    size_bytes: int


@dataclass(slots=True)
class Committed:
    """How a commit ended."""

    last_seq: int
    """Every message up to here is committed: acknowledge and deliver it."""
    fault: StorageFault | None = None
    """Set when the commit failed: every assigned sequence above `last_seq` did not happen and will be reused."""
    commits: int = 1
    """How many commits are done, in the order they began. A replicated one is on this disk before it is done."""


class Job(Protocol):
    """Work on files, prepared on the loop, run anywhere, finished on the loop."""

    @property
    def ended(self) -> bool:
        """Nothing is left to run: what there was to do was done when it began."""
        ...

    def run(self) -> None:
        """Do the work. Never raises for a disk error: the outcome is kept and read by `finish_*`."""
        ...


class CommitWork(Job, Protocol):
    """A commit, which may be under way since it began."""

    def attend(self) -> bool:
        """Whether it has ended; for one that was begun inline that is waited for, a moment at most."""
        ...
