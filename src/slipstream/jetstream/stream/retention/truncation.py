"""The newest messages of a stream go: where a truncation begins, and its work (ADR 94).

Sequences are not used again: the stream goes on behind what was its last one. Up to `TRUNCATE_COMMIT_MSGS` messages go
in one commit. More go in several, the newest first: whatever is left in between is what a shorter truncation leaves.
"""

from __future__ import annotations

from collections.abc import Callable

from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.limits import TRUNCATE_COMMIT_MSGS

__all__ = ["TruncateSlices", "first_of_newest"]

_EVERYTHING = b">"


def first_of_newest(store: Store, count: int, from_seq: int, up_to_seq: int) -> int:
    """The lowest sequence from which on at most `count` messages follow, within these bounds."""
    low, high = from_seq, up_to_seq + 1
    while low < high:
        middle = (low + high) // 2
        if store.count_matching((), middle, up_to_seq) <= count:
            high = middle
        else:
            low = middle + 1
    return low


class TruncateSlices:
    """A truncation: everything from one sequence to another, a commit at a time."""

    def __init__(self, store: Store, from_seq: int, up_to_seq: int, on_slice: Callable[[], None]) -> None:
        """Remove nothing yet; `on_slice` is called after each slice."""
        self._store = store
        self._from_seq = from_seq
        self._up_to_seq = up_to_seq
        self._on_slice = on_slice
        self.removed = 0

    def __call__(self) -> bool:
        """Do one slice."""
        store = self._store
        first = first_of_newest(store, TRUNCATE_COMMIT_MSGS, self._from_seq, self._up_to_seq)
        at = first
        while at:
            count, at = store.purge_some(
                _EVERYTHING, from_seq=at, up_to_seq=self._up_to_seq, limit=TRUNCATE_COMMIT_MSGS
            )
            self.removed += count
        self._up_to_seq = first - 1
        self._on_slice()
        return self._up_to_seq < self._from_seq
