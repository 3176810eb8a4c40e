"""How a range is cut into pieces of about equal size, a slice of the loop's time at a time.

One pass over the index counts messages and bytes between marks; when there are too many marks, neighbours are merged
and new ones keep the distance of merged ones. Pieces are then put together from whole marks, so a piece is off by one
mark at most. How many marks there may be depends on how many pieces there can be: each mark is an object, so the pass
itself is cheap and marks are what a plan costs.

Numbers are exact at the time of the pass: of messages that pass the filter, and of bytes of their records, which is
what a read transfers.
"""

from __future__ import annotations

from collections.abc import Callable

from slipstream.dataclass import dataclass
from slipstream.jetstream.bulk.limits import BULK_MARKS_A_SPLIT, BULK_MARKS_MAX, BULK_SPLITS_MAX
from slipstream.jetstream.bulk.requests import Range
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.bulk import Mark, measure_step
from slipstream.jetstream.store.contract import Store

__all__ = ["PlannedSplit", "SplitPlanner", "SplitTarget", "cut"]

_NO_LIMIT = 2**63 - 1
_MERGED = 4  # marks that become one


@dataclass(frozen=True, slots=True)
class PlannedSplit:
    """One piece: sequences `first` to `last`."""

    first: int
    last: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SplitTarget:
    """What is wished for: a number of pieces, or a size that also has a least number of messages."""

    partitions: int | None
    bytes: int
    min_rows: int

    def pieces(self, rows: int, size: int) -> int:
        """How many there are to be of so many messages and bytes."""
        if self.partitions is not None:
            return min(max(self.partitions, 1), max(rows, 1), BULK_SPLITS_MAX)
        by_size = -(-size // max(self.bytes, 1))
        return min(max(by_size, 1), max(rows // max(self.min_rows, 1), 1), BULK_SPLITS_MAX)


class SplitPlanner:
    """One plan in the making; calls `done` with the last sequence and the marks."""

    def __init__(
        self,
        store: Store,
        ports: Ports,
        wanted: Range,
        target: SplitTarget,
        *,
        max_msgs: int | None,
        max_bytes: int | None,
        done: Callable[[int, list[Mark]], None],
    ) -> None:
        """Measure `wanted`, but stop before limits are exceeded; at least one message is taken."""
        self._store = store
        self._ports = ports
        self._wanted = wanted
        self._left_msgs = _NO_LIMIT if max_msgs is None else max_msgs
        self._left_bytes = _NO_LIMIT if max_bytes is None else max_bytes
        self._done = done
        self._next = wanted.first
        self._every = 1
        self._marks: list[Mark] = []
        pieces = target.pieces(store.messages, store.size_bytes)  # a range has no more than the stream
        self._marks_max = min(pieces * BULK_MARKS_A_SPLIT, BULK_MARKS_MAX)

    def step(self) -> None:
        """Measure on; comes back at the end of the turn until there is no more."""
        marks, wanted = self._marks, self._wanted
        known = len(marks)
        self._next, limited = measure_step(
            self._store.bulk,
            wanted.filters,
            self._next,
            wanted.last,
            every=self._every,
            max_msgs=self._left_msgs,
            max_bytes=self._left_bytes,
            marks=marks,
            marks_max=self._marks_max,
        )
        for _last, messages, size in marks[known:]:
            self._left_msgs -= messages
            self._left_bytes -= size
        if len(marks) >= self._marks_max:
            self._marks = marks = _merged(marks)
            self._every = max(2 * self._every, sum(mark[2] for mark in marks) // len(marks))
        limited = limited or (bool(marks) and (self._left_msgs <= 0 or self._left_bytes <= 0))
        if limited:
            self._done(marks[-1][0], marks)
        elif self._next > wanted.last:
            self._done(wanted.last, marks)
        else:
            self._ports.call_soon(self.step)


def cut(first: int, last: int, marks: list[Mark], target: SplitTarget) -> list[PlannedSplit]:
    """Put pieces together from marks; the pieces cover `first` to `last` without a gap. No messages, no pieces."""
    total_bytes, total_rows = sum(mark[2] for mark in marks), sum(mark[1] for mark in marks)
    if not total_rows:
        return []
    pieces = target.pieces(total_rows, total_bytes)
    splits: list[PlannedSplit] = []
    begin, rows, size, passed = first, 0, 0, 0
    for end, messages, length in marks:
        rows += messages
        size += length
        passed += length
        if passed * pieces >= total_bytes * (len(splits) + 1):
            splits.append(PlannedSplit(begin, end, rows, size))
            begin, rows, size = end + 1, 0, 0
    assert rows == 0
    tail = splits[-1]
    splits[-1] = PlannedSplit(tail.first, last, tail.messages, tail.bytes)
    return splits


def _merged(marks: list[Mark]) -> list[Mark]:
    out = []
    for at in range(0, len(marks), _MERGED):
        ends, messages, sizes = zip(*marks[at : at + _MERGED], strict=True)
        out.append((ends[-1], sum(messages), sum(sizes)))
    return out
