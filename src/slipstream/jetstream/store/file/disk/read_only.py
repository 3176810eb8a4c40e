"""A disk that is looked at and not changed: for those who check the files of a server that is stopped."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Sequence
from typing import NoReturn

from slipstream.jetstream.store.file.disk.disk import Disk, SyncedWrite

__all__ = ["ReadOnlyDisk"]


class ReadOnlyDisk:
    """Implements `Disk` over another one: whatever would change something is refused."""

    def __init__(self, disk: Disk) -> None:
        """Look at `disk`."""
        self.seal = disk.seal
        self.read = disk.read
        self.read_stretches = disk.read_stretches
        self.size = disk.size
        self.link_count = disk.link_count
        self.list_dir = disk.list_dir
        self.is_dir = disk.is_dir

    def create(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def allocate(self, path: str, length: int) -> None:
        """Refused."""
        _refuse(path)

    def write(self, path: str, offset: int, data: bytes) -> None:
        """Refused."""
        _refuse(path)

    def write_many(self, writes: Sequence[tuple[str, int, bytes]]) -> list[OSError | None]:
        """Refused."""
        _refuse(writes[0][0] if writes else "")

    def overwrite(self, path: str, patches: Sequence[tuple[int, bytes]]) -> None:
        """Refused."""
        _refuse(path)

    def truncate(self, path: str, length: int) -> None:
        """Refused."""
        _refuse(path)

    def sync(self, path: str) -> None:
        """Refused: there is nothing that one could wait for."""
        _refuse(path)

    def begin_synced_write(self, path: str, offset: int, data: bytes) -> SyncedWrite | None:
        """Refused."""
        _refuse(path)

    def sync_many(self, paths: Collection[str]) -> None:
        """Refused."""
        _refuse(next(iter(paths), ""))

    def sync_dir(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def rename(self, old: str, new: str) -> None:
        """Refused."""
        _refuse(old)

    def remove(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def remove_many(self, paths: Collection[str]) -> None:
        """Refused."""
        _refuse(next(iter(paths), ""))

    def make_dir(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def remove_dir(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def write_back(self, path: str, offset: int, length: int) -> None:
        """A hint that has nothing to say here."""

    def drop_cache(self, path: str) -> None:
        """A hint that has nothing to say here."""


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
