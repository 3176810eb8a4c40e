"""What is known of a replica beside its files: that it was made once, and that it is damaged.

    <directory>.made/        it was made: if its votes are not there, they were lost
    <directory>/REPAIR       why its log cannot be used, until segments of another replica have taken its place
    <directory>/log.damaged  what they took the place of, the last time

A replica without votes that was never made is begun anew. One that was made must not be: it has voted and acknowledged.
"""

from __future__ import annotations

from typing import Final

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.replica.segment_import import is_complete
from slipstream.jetstream.store.file.segments.compaction import write_whole_file

__all__ = ["ReplicaDamaged", "ReplicaMarks"]

_REPAIR: Final = "REPAIR"
_REASON_BYTES: Final = 1000


class ReplicaDamaged(StorageFault):
    """A replica has lost something that it had. It must not take part before it got it again."""


class ReplicaMarks:
    """Of one replica. Every call blocks, and may raise an OSError."""

    def __init__(self, disk: Disk, directory: str, log: str, made: str = "") -> None:
        """Of the replica in `directory`, whose store is in `log`; `made`: the mark that it was made, if elsewhere."""
        self._disk = disk
        self._directory = directory
        self._made = made or f"{directory}.made"
        self._log = log
        self._aside = f"{log}.damaged"

    @property
    def was_made(self) -> bool:
        """Whether there were votes once."""
        return self._disk.is_dir(self._made)

    def note_made(self) -> None:
        """There are votes, and nothing depends on them yet."""
        if not self.was_made:
            self._disk.make_dir(self._made)
            self._disk.sync_dir(self._made.rsplit("/", 1)[0])

    def note_damaged(self, reason: str) -> None:
        """It is to be repaired, at the next start too."""
        self._disk.make_dir(self._directory)  # perhaps all of it was lost
        write_whole_file(self._disk, f"{self._directory}/{_REPAIR}", reason.encode()[:_REASON_BYTES])
        self._disk.sync_dir(self._directory)

    def check(self) -> None:
        """Before the log is looked at.

        Raises:
            ReplicaDamaged: it is to be repaired.
        """
        if _REPAIR not in self._disk.list_dir(self._directory):
            return
        if not is_complete(self._disk, self._log):
            reason = self._disk.read(f"{self._directory}/{_REPAIR}", 0, _REASON_BYTES)
            raise ReplicaDamaged(reason.decode("utf-8", "replace") or "it was damaged", path="")
        self._put_aside()

    def repaired(self) -> None:
        """The log is another one."""
        if _REPAIR in self._disk.list_dir(self._directory):
            self._disk.remove(f"{self._directory}/{_REPAIR}")
            self._disk.sync_dir(self._directory)

    def forget(self) -> None:
        """It ends here: what comes under the same name is new."""
        if self.was_made:
            self._disk.remove_dir(self._made)
            self._disk.sync_dir(self._made.rsplit("/", 1)[0])
        self._remove_aside()
        if _REPAIR in self._disk.list_dir(self._directory):
            self._disk.remove(f"{self._directory}/{_REPAIR}")

    def _put_aside(self) -> None:
        """A whole copy is there: what was damaged is kept beside it, in the place of what was there before."""
        if self._disk.is_dir(self._log):
            self._remove_aside()
            self._disk.rename(self._log, self._aside)
            self._disk.sync_dir(self._directory)

    def _remove_aside(self) -> None:
        if self._disk.is_dir(self._aside):
            self._disk.remove_many([f"{self._aside}/{name}" for name in self._disk.list_dir(self._aside)])
            self._disk.remove_dir(self._aside)
