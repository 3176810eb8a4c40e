"""Syncs of many files at once: one by one, or the whole file system where that takes less time (ADR 16)."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Collection
from typing import Final

from slipstream.jetstream.store.file.disk.data_sync import sync_data
from slipstream.jetstream.store.file.disk.open_files import OpenFiles
from slipstream.jetstream.store.file.disk.sync_times import SyncTimes
from slipstream.kernels.log.groupwrite import sync_whole

__all__ = ["GroupSync"]

SYNC_WHOLE_FILES_MIN: Final = 8
"""Files from which on one sync of their file system takes less time than one each; measured in ADR 16."""
SYNC_FILE_S: Final = 0.0005
"""What a sync of one file is taken to cost, in seconds, until it was measured."""
SYNC_WHOLE_PAUSE_S: Final = 1.0
"""A file system that somebody else writes much to takes long: then so long passes before that is tried again."""
_ERRORS_TOLD_SINCE: Final = (5, 8)  # the version of Linux from which on `syncfs` says that something was not written


class GroupSync:
    """Syncs files of one disk, and learns what that costs."""

    def __init__(self, files: OpenFiles, times: SyncTimes) -> None:
        """Nothing was measured; `times` are told."""
        self._files = files
        self._times = times
        self._whole_lock = threading.Lock()  # one sync of a whole file system at a time, and what it says is for all
        self._whole_trusted = _kernel_tells_errors()
        self._whole_from_s = 0.0  # when one that takes long may be tried again
        self._whole_s = 0.0  # what it takes
        self._file_s = SYNC_FILE_S  # what a file alone takes

    def sync(self, path: str) -> None:
        """See `Disk.sync`."""
        file = self._files.acquire(path)
        began_s = time.monotonic()
        try:
            sync_data(file.fd)
        finally:
            self._files.release(file)
        self._times.add(time.monotonic() - began_s)

    def sync_many(self, paths: Collection[str]) -> None:
        """See `Disk.sync_many`."""
        left = sorted(paths)
        if self._may_sync_whole(len(left)):
            on: dict[int, list[str]] = {}
            for path, device in zip(left, self._files.devices(left), strict=True):
                on.setdefault(device, []).append(path)
            left = []
            for device, its in on.items():
                if not self._sync_whole(device, len(its)):
                    left += its
                else:
                    left.append(its[-1])  # a file system that had nothing to log empties the device's cache here
        began_s = time.monotonic()
        for path in left:
            self.sync(path)
        if len(left) > 1:
            self._file_s = (self._file_s + (time.monotonic() - began_s) / len(left)) / 2

    def _may_sync_whole(self, files: int) -> bool:
        """Whether it should take less time to sync a whole file system than so many files of it."""
        if files < SYNC_WHOLE_FILES_MIN or not self._whole_trusted:
            return False
        return files * self._file_s >= self._whole_s or time.monotonic() >= self._whole_from_s

    def _sync_whole(self, device: int, files: int) -> bool:
        """Sync a file system; False: that was not done."""
        with self._whole_lock:
            root = self._files.root(device)
            if root is None or not self._may_sync_whole(files):
                return False
            began_s = time.monotonic()
            try:
                sync_whole(root)
            except OSError:
                # The next one would not be told again, and another thread may be just that: never more.
                self._whole_trusted = False
                return False
            ended_s = time.monotonic()
            self._whole_s = (self._whole_s + ended_s - began_s) / 2
            self._times.add(ended_s - began_s)
            self._whole_from_s = ended_s + SYNC_WHOLE_PAUSE_S
            return True


def _kernel_tells_errors() -> bool:
    """Whether a sync of a whole file system fails if one of its files could not be written."""
    system = os.uname()
    version = re.match(r"(\d+)\.(\d+)", system.release)
    return (
        system.sysname == "Linux" and version is not None and (int(version[1]), int(version[2])) >= _ERRORS_TOLD_SINCE
    )
