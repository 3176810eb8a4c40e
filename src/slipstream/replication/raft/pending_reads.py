"""Reads that wait: for a leader to be confirmed, and then for what was committed at that time to be applied.

    begin, ask ──the core says with which index──► confirmed ──that is applied here──► told True
    the member leads no more, or ends ──► told False

What this is not: the question itself. The Raft core asks the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

__all__ = ["PendingReads", "tell"]


class PendingReads:
    """Of one member."""

    def __init__(self) -> None:
        """Nobody waits."""
        self.number = 0
        """How many questions a leader has begun."""
        self._asked: dict[bytes, Sequence[Callable[[bool], None]]] = {}
        self._confirmed: list[tuple[int, Sequence[Callable[[bool], None]]]] = []  # each behind an index

    def __bool__(self) -> bool:
        """Whether somebody waits."""
        return bool(self._asked or self._confirmed)

    def begin(self, reads: Sequence[Callable[[bool], None]]) -> bytes:
        """These wait, on a leader; the context of their question."""
        self.number += 1
        context = self.number.to_bytes(8, "big")
        self._asked[context] = reads
        return context

    def ask(self, context: bytes, read: Callable[[bool], None]) -> None:
        """This one waits, on any member, under a context of its own."""
        self._asked[context] = (read,)

    def forget(self, context: bytes) -> None:
        """Whoever asked under this context waits no more."""
        self._asked.pop(context, None)

    def confirm(self, states: Iterable[tuple[int, bytes]]) -> None:
        """The core's answers: who asked under a context may read when an index is applied."""
        self._confirmed += [(index, self._asked.pop(context, ())) for index, context in states]

    def let_read(self, applied: int) -> None:
        """All up to this index is applied."""
        while self._confirmed and self._confirmed[0][0] <= applied:
            tell(self._confirmed.pop(0)[1], leads=True)

    def drop(self) -> None:
        """Nobody can be told any more."""
        waiting = [*(reads for _, reads in self._confirmed), *self._asked.values()]
        self._asked.clear()
        self._confirmed.clear()
        for reads in waiting:
            tell(reads, leads=False)


def tell(reads: Sequence[Callable[[bool], None]], *, leads: bool) -> None:
    """Tell those who waited."""
    for read in reads:
        read(leads)
