"""Short writes that are synced in a native thread, one at a time, while the caller waits a moment (ADR 33)."""

from __future__ import annotations

import os
from typing import Final

from slipstream.jetstream.store.file.disk.disk import SyncedWrite
from slipstream.jetstream.store.file.disk.open_files import DiskFile, OpenFiles
from slipstream.jetstream.store.file.disk.sync_times import SyncTimes
from slipstream.kernels.log.syncthread import SyncThread

__all__ = ["SLOW_SYNC_PAUSE", "InlineSync"]

SLOW_SYNC_PAUSE: Final = 8
"""Short commits that are not begun beside the caller after one that he could not wait for: what waits in vain costs."""


class InlineSync:
    """The synced write of one disk that is under way."""

    def __init__(self, files: OpenFiles, times: SyncTimes) -> None:
        """None is; `times` are told."""
        self._files = files
        self._times = times
        self._thread = SyncThread()
        self.pause = 0
        """So many short commits more are left to threads that wait for the device as long as it takes."""

    def begin(self, path: str, offset: int, data: bytes) -> SyncedWrite | None:
        """See `Disk.begin_synced_write`. There is none while another is under way, or after one that took long."""
        if self._thread.busy:
            return None
        if self.pause:
            self.pause -= 1
            return None
        file = self._files.acquire(path)
        if self._thread.begin(file.fd, offset, data):
            return _Begun(self, file, path)
        self._files.release(file)
        return None

    def wait(self, file: DiskFile, path: str, seconds: float) -> bool:
        """See `SyncedWrite.wait`. The descriptor stays open until its end is told."""
        error = self._thread.wait(seconds)
        if error < 0:
            self.pause = SLOW_SYNC_PAUSE
            return False
        self._files.release(file)
        self._times.add(self._thread.took_s)
        if error:
            raise OSError(error, os.strerror(error), path)
        return True


class _Begun:
    """The write that the native thread is busy with."""

    __slots__ = ("_file", "_path", "_syncs")

    def __init__(self, syncs: InlineSync, file: DiskFile, path: str) -> None:
        self._syncs = syncs
        self._file = file
        self._path = path

    def wait(self, seconds: float) -> bool:
        """See `SyncedWrite.wait`."""
        return self._syncs.wait(self._file, self._path, seconds)
