"""When the file of what is applied is written anew (`applied_file`), and which segments it covers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.replica.applied_file import Applied, write_applied
from slipstream.jetstream.store.file.replica.log import ReplicaLog
from slipstream.jetstream.store.file.replica.states import LoggedStates
from slipstream.jetstream.store.file.segments.open_segment import Segment
from slipstream.jetstream.store.file.upkeep_jobs import AppliedJob

__all__ = ["AppliedKeeper"]


class AppliedKeeper:
    """The file of one replica."""

    __slots__ = ("_directory", "_disk", "_log", "_random64", "_replica", "_states", "saved", "saved_first")

    def __init__(
        self,
        replica: ReplicaLog,
        log: SegmentedLog,
        states: LoggedStates,
        disk: Disk,
        directory: str,
        random64: Callable[[], int],
    ) -> None:
        """Keep it for this log."""
        self._replica = replica
        self._log = log
        self._states = states
        self._disk = disk
        self._directory = directory
        self._random64 = random64
        self.saved = 0
        """The frame that the file names, 0 if there is none."""
        self.saved_first = 1
        """Everything below is gone, by what the file says."""

    def adopt(self, applied: Applied | None) -> None:
        """The file was read back."""
        if applied is not None:
            self.saved, self.saved_first = applied.frame, applied.first_seq

    def segments_changed(self) -> None:
        """Some were removed or rewritten."""
        self._replica.forget()

    def covered(self) -> list[Segment]:
        """Closed segments whose frames a start does not need one by one, and nobody asked to keep."""
        last = 0 if self._replica.is_pinned else min(self.saved, self._replica.held - 1)
        closed = {segment.id for segment in self._log.closed_segments()}
        return [
            segment
            for segment, following in pairwise(self._log.segments)
            if segment.id in closed and following.header.frame_no <= last
        ]

    def decided(self) -> list[Segment]:
        """Closed segments of which all is committed: what is a unit in them is known."""
        applied = self._replica.applied_index
        closed = {segment.id for segment in self._log.closed_segments()}
        return [
            segment
            for segment, following in pairwise(self._log.segments)
            if segment.id in closed and following.header.frame_no <= applied
        ]

    def begin(self) -> AppliedJob | None:
        """The next write, if it is worth it."""
        applied = self._replica.applied(self.saved) if self._is_due() else None
        if applied is None:
            return None
        return AppliedJob(self._disk, self._directory, applied=applied, salt=self._random64())

    def finish(self, done: AppliedJob) -> None:
        """It is on disk."""
        assert done.applied is not None
        self.adopt(done.applied)

    def write_last(self) -> None:
        """Write what is new before the store is closed. Blocks.

        Raises:
            OSError: the disk refused.
        """
        applied = self._replica.applied(self.saved)
        if applied is not None:
            write_applied(self._disk, self._directory, applied, self._random64())

    def _is_due(self) -> bool:
        """Whether segments are not covered, or cannot go because it does not say so, and are no smaller than it.

        Keys of encrypted segments are to go with what was removed, whatever that costs.
        """
        first_seq, size = self._log.first_kept, 0
        for segment, following in pairwise(self._log.segments):
            if following.header.frame_no > self.saved or self.saved_first <= segment.last_seq < first_seq:
                size += segment.end
        sheds = bool(self._disk.seal.cipher) and first_seq >= self._log.active.header.first_seq
        return size > 0 and (sheds or size >= self._states.live_bytes)
