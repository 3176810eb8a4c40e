"""What of one log is still to be written: in the order in which it must reach the disk."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Final

from slipstream.jetstream.store.file.jobs import SegmentWrite
from slipstream.jetstream.store.file.segments.open_segment import Segment

__all__ = ["QueuedWrites"]

_NO_SEGMENTS: Final[Set[int]] = frozenset()  # one for all logs


class QueuedWrites:
    """Writes that no commit has taken, and the segments of those that one has."""

    __slots__ = ("_in_flight", "_waiting", "creating")

    def __init__(self) -> None:
        self._waiting: list[SegmentWrite] = []
        self._in_flight: Set[int] = _NO_SEGMENTS  # segments that a commit is writing
        self.creating: Set[int] = _NO_SEGMENTS
        """Segments whose files are made by one of these writes."""

    @property
    def size(self) -> int:
        """Bytes that no commit has taken."""
        return sum(len(write.data) for write in self._waiting)

    def add(self, write: SegmentWrite) -> None:
        """Behind all others."""
        self._waiting.append(write)
        if write.creates:
            self.creating = self.creating | {write.segment.id}

    def take(self) -> list[SegmentWrite]:
        """All of them, for a commit; `finished` follows."""
        taken, self._waiting = self._waiting, []
        self._in_flight = {write.segment.id for write in taken}
        return taken

    def finished(self) -> None:
        """What was taken is in the files."""
        if self.creating:
            self.creating = self.creating - self._in_flight
        self._in_flight = _NO_SEGMENTS

    def segments(self) -> set[int]:
        """Ids of the segments that are not wholly in their files."""
        return {write.segment.id for write in self._waiting} | self._in_flight

    def objects(self) -> set[int]:
        """Ids of the objects whose bytes no commit has taken."""
        return {id(write.data) for write in self._waiting}

    def cut(self, segment: Segment, start: int, gone: Collection[int]) -> None:
        """Forget what is behind this place of a segment, and all of those that are gone."""
        kept = []
        for write in self._waiting:
            if write.segment is segment:
                write.data = write.data[: max(start - write.offset, 0)]
            if write.segment.id not in gone and (write.data or write.closes):
                kept.append(write)
        self._waiting = kept

    def clear(self) -> None:
        """Another log is in the place of this one."""
        self._waiting = []
        self._in_flight = self.creating = _NO_SEGMENTS
