"""The segments of one log: in order, by their number in the index, and those whose files do not exist yet.

What this is not: what is in them, or when one ends and the next begins.

Invariant: `order` and the numbers name the same segments; only the last ones of the order may lack a file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from slipstream.jetstream.store.file.segments.open_segment import Segment
from slipstream.jetstream.store.file.segments.segment import SegmentHeader

__all__ = ["SegmentTable"]


class SegmentTable:
    """Which segments there are."""

    __slots__ = ("_by_id", "_highest_no", "_uncreated", "next_id", "order")

    def __init__(self) -> None:
        """None."""
        self.order: list[Segment] = []
        """The one being written last."""
        self.next_id = 1
        """Number in the index of the next segment."""
        self._highest_no = 0  # of the segments' own numbers, those that are gone included
        self._by_id: dict[int, Segment] = {}
        self._uncreated: list[int] = []

    def adopt(self, segments: list[Segment], highest_no: int) -> None:
        """These were found in the directory, and nothing else is."""
        self.order = segments
        self._by_id = {segment.id: segment for segment in segments}
        self.next_id = max([self.next_id, *(segment.id + 1 for segment in segments)])
        self._highest_no = highest_no
        self._uncreated = []

    def get(self, id_: int) -> Segment:
        """The segment with this number in the index."""
        return self._by_id[id_]

    def find(self, no: int, generation: int) -> Segment | None:
        """The segment with this place and generation."""
        for segment in self.order:
            if segment.header.no == no and segment.header.generation == generation:
                return segment
        return None

    @property
    def last_rewritten(self) -> int:
        """Number of the last frame that is not in its segment as it was written."""
        frame_no = self.order[-1].header.frame_no
        for segment in reversed(self.order):
            if segment.header.generation:
                break
            frame_no = segment.header.frame_no
        return frame_no

    @property
    def written(self) -> list[Segment]:
        """Those whose files exist."""
        return [segment for segment in self.order if segment.id not in self._uncreated]

    def next_no(self) -> int:
        """The number of a segment that is to follow the last one."""
        last = self.order[-1].header.last_no if self.order else 0
        self._highest_no = max(self._highest_no, last) + 1
        return self._highest_no

    def add(self, path: str, header: SegmentHeader) -> Segment:
        """One more at the end, without a file."""
        segment = Segment(self.next_id, path, header)
        self.next_id += 1
        self.order.append(segment)
        self._by_id[segment.id] = segment
        self._uncreated.append(segment.id)
        return segment

    def is_uncreated(self, segment: Segment) -> bool:
        """Whether it has no file yet."""
        return segment.id in self._uncreated

    def created(self, segment: Segment) -> None:
        """The write that makes its file is queued."""
        self._uncreated = [id_ for id_ in self._uncreated if id_ != segment.id]

    def drop_last(self) -> None:
        """The last one was never written."""
        self._forget([self.order.pop().id])

    def cut_behind(self, segment: Segment) -> list[Segment]:
        """The log ends in this one; those that were behind it."""
        at = self.order.index(segment) + 1
        dropped, self.order = self.order[at:], self.order[:at]
        self._forget([one.id for one in dropped])
        return dropped

    def drop(self, gone: Collection[int]) -> None:
        """The files with these numbers are gone."""
        self.order = [segment for segment in self.order if segment.id not in gone]
        self._forget(gone)

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Put one in the place of those that it was made from."""
        at = self.order.index(old[0])
        self.order[at : at + len(old)] = [new]
        self._forget([segment.id for segment in old])
        self._by_id[new.id] = new

    def _forget(self, ids: Iterable[int]) -> None:
        for gone in ids:
            del self._by_id[gone]
        self._uncreated = [id_ for id_ in self._uncreated if id_ in self._by_id]
