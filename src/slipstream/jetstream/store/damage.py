"""Which messages of a store were lost: named wherever somebody would otherwise pass them in silence.

There are two ways to lose one: recovery finds no record where one should be, or a read finds a record that does not
match its checksum. Neither is forgotten before the sequence is removed.
"""

from __future__ import annotations

from slipstream.jetstream.store.limits import STORE_LOST_LISTED_MAX
from slipstream.jetstream.store.ranges import Range, cover, each
from slipstream.jetstream.store.values import Damaged, Lost, Read
from slipstream.kernels.index.subjectindex import MessageIndex

__all__ = ["Damage"]


class Damage:
    """The damage of one store found so far."""

    __slots__ = ("_unreadable", "ranges")

    def __init__(self) -> None:
        """Nothing is lost."""
        self.ranges: list[Range] = []
        """Sequences whose records were not found, ascending."""
        self._unreadable: dict[int, int] = {}  # sequence -> stated bytes of records that could not be read

    @property
    def first_seq(self) -> int:
        """Lowest sequence that was not found, 0 for none: a later start must not take it for removed."""
        return self.ranges[0][0] if self.ranges else 0

    def forget_below(self, first_seq: int) -> None:
        """Everything below was removed on purpose."""
        if self.ranges:
            self.ranges = [(max(lo, first_seq), hi) for lo, hi in self.ranges if hi >= first_seq]

    def mark_unreadable(self, seq: int, size_bytes: int = 0) -> Damaged:
        """A record was found that does not match its checksum."""
        self._unreadable.setdefault(seq, size_bytes)
        return Damaged(seq, "record does not match its checksum")

    def at(self, seq: int) -> Damaged | None:
        """What stands at a sequence without a record: damage, or nothing."""
        if any(lo <= seq <= hi for lo, hi in self.ranges):
            return Damaged(seq, "record was not found")
        return None

    def insert(self, out: list[Read], from_seq: int, up_to_seq: int, max_msgs: int) -> None:
        """Mark lost sequences among the messages of a batch: a reader must not pass them without knowing."""
        if len(out) >= max_msgs:
            up_to_seq = out[-1].seq
        for lo, hi in self.ranges:
            start = max(lo, from_seq)
            stop = min(hi, up_to_seq, start + max_msgs) + 1
            out.extend(Damaged(seq, "record was not found") for seq in range(start, stop))
        out.sort(key=lambda read: read.seq)
        del out[max_msgs:]

    def report(self, index: MessageIndex) -> Lost:
        """All of it, but for what was removed since."""
        found = {seq: size for seq, size in self._unreadable.items() if index.locate(seq) is not None}
        ranges = cover(self.ranges + [(seq, seq) for seq in found])
        return Lost(list(each(ranges, STORE_LOST_LISTED_MAX)), sum(found.values()))
