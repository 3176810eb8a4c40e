"""When the file of what is applied is written anew (`applied_file`)."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.jetstream.store.file.applied_file import write_applied
from slipstream.jetstream.store.file.disk import Disk
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.replica_log import ReplicaLog
from slipstream.jetstream.store.file.replica_states import LoggedStates
from slipstream.jetstream.store.file.upkeep_jobs import AppliedJob

__all__ = ["AppliedKeeper"]


class AppliedKeeper:
    """The file of one replica."""

    __slots__ = ("_directory", "_disk", "_log", "_random64", "_replica", "_states", "saved")

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

    def adopt(self, saved: int) -> None:
        """The file was read back."""
        self.saved = saved

    def begin(self) -> AppliedJob | None:
        """The next write, if it is worth it."""
        applied = self._replica.applied(self.saved) if self._is_due() else None
        if applied is None:
            return None
        return AppliedJob(self._disk, self._directory, applied=applied, uid=self._log.uid, salt=self._random64())

    def finish(self, done: AppliedJob) -> None:
        """It is on disk."""
        assert done.applied is not None
        self.saved = done.applied.frame

    def write_last(self) -> None:
        """Write what is new before the store is closed. Blocks.

        Raises:
            OSError: the disk refused.
        """
        applied = self._replica.applied(self.saved)
        if applied is not None:
            write_applied(self._disk, self._directory, applied, self._log.uid, self._random64())

    def _is_due(self) -> bool:
        """Whether closed segments are not covered, and writing them took no less than this would."""
        segments, size = self._log.segments, 0
        for at in range(len(segments) - 2, -1, -1):
            if segments[at + 1].header.frame_no <= self.saved:
                break
            size += segments[at].end
        return 0 < size >= self._states.live_bytes
