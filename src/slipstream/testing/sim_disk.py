"""A disk in memory that remembers what a real one could forget.

`SimDisk` implements `store.file.disk.Disk`. For every file it keeps what was synced and the writes since; for every
directory the entries that were synced and the changes since. `crash` gives a disk as a power cut could leave it: any
subset of the unsynced writes, each possibly torn at sector borders, and any prefix of the unsynced directory changes.

It can also fail on purpose: a call by its number, running out of space, syncs that do nothing (to prove that a test
notices), and damage to bytes at rest.

What this is not: fast, or a model of any one file system. It allows more than most of them do.
"""

from __future__ import annotations

import errno
import os
import random
import struct
from collections.abc import Callable

__all__ = ["SimDisk"]

_SECTOR = 512


class _Inode:
    """One file: its content now, its content on stable storage, and the changes between."""

    def __init__(self, content: bytes = b"") -> None:
        self.now = bytearray(content)
        self.durable = bytes(content)
        self.changes: list[tuple[int, bytes | None]] = []  # (offset, bytes), or (length, None) for a change of size

    def apply(self, change: tuple[int, bytes | None]) -> None:
        _apply(self.now, change)
        self.changes.append(change)


def _apply(content: bytearray, change: tuple[int, bytes | None]) -> None:
    at, data = change
    if data is None:
        if at < len(content):
            del content[at:]
        content.extend(bytes(at - len(content)))
        return
    if at + len(data) > len(content):
        content.extend(bytes(at + len(data) - len(content)))
    content[at : at + len(data)] = data


class SimDisk:
    """See the module docstring. Not for several threads."""

    def __init__(self, *, capacity: int | None = None, drops_syncs: bool = False) -> None:
        """An empty disk.

        Args:
            capacity: bytes all files together may have.
            drops_syncs: `sync` and `sync_dir` return without doing anything.
        """
        self.capacity = capacity
        self.drops_syncs = drops_syncs
        self.calls = 0
        """Calls that change something, or sync, so far."""
        self.before_call: Callable[[SimDisk], None] | None = None
        """Looks at the disk before each of them."""
        self.faults: dict[int, int] = {}
        """Call number to errno: that call fails, a write after doing half of its work."""
        self.read_faults: set[str] = set()
        self.nothing_cached = False  # whether every read has to wait for the device
        """Paths that cannot be read."""
        self._names: dict[str, _Inode] = {}
        self._durable_names: dict[str, _Inode] = {}
        self._name_changes: dict[str, list[tuple[str, _Inode | None]]] = {}  # by directory: (path, inode or gone)
        self._dirs: set[str] = {""}

    # --- Disk -------------------------------------------------------------------------------------------------------

    def read(self, path: str, offset: int, length: int) -> bytes:
        """See `Disk.read`."""
        if path in self.read_faults:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return bytes(self._inode(path).now[offset : offset + length])

    def read_stretches(self, path: str, stretches: bytes, room: memoryview, *, wait: bool = True) -> int:
        """See `Disk.read_stretches`."""
        if not wait and (path in self.read_faults or self.nothing_cached):
            return 0
        done = 0
        for offset, length in struct.iter_unpack("=QQ", stretches):
            data = self.read(path, offset, length)
            room[done : done + len(data)] = data
            done += len(data)
            if len(data) < length:
                break
        return done

    def size(self, path: str) -> int:
        """See `Disk.size`."""
        return len(self._inode(path).now)

    def create(self, path: str) -> None:
        """See `Disk.create`."""
        self._call(path)
        if path in self._names:
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._rename_entry(path, _Inode())

    def allocate(self, path: str, length: int) -> None:
        """See `Disk.allocate`."""
        self._call(path)
        inode = self._inode(path)
        if length > len(inode.now):
            self._need(length - len(inode.now), path)
            inode.apply((length, None))

    def write(self, path: str, offset: int, data: bytes) -> None:
        """See `Disk.write`."""
        inode = self._inode(path)
        try:
            self._call(path)
            self._need(max(offset + len(data) - len(inode.now), 0), path)
        except OSError as error:
            if error.errno in (errno.EIO, errno.ENOSPC):
                half = data[: max(min(len(data) // 2, len(inode.now) - offset), 0)]
                if half:
                    inode.apply((offset, half))
            raise
        inode.apply((offset, bytes(data)))

    def truncate(self, path: str, length: int) -> None:
        """See `Disk.truncate`."""
        self._call(path)
        self._inode(path).apply((length, None))

    def sync(self, path: str) -> None:
        """See `Disk.sync`. A failed sync loses what was not yet durable, as Linux does."""
        inode = self._inode(path)
        try:
            self._call(path)
        except OSError:
            inode.now = bytearray(inode.durable)
            inode.changes = []
            raise
        if not self.drops_syncs:
            inode.durable = bytes(inode.now)
            inode.changes = []

    def sync_dir(self, path: str) -> None:
        """See `Disk.sync_dir`."""
        self._call(path)
        if self.drops_syncs:
            return
        for name, inode in self._name_changes.pop(path, []):
            _set_name(self._durable_names, name, inode)

    def rename(self, old: str, new: str) -> None:
        """See `Disk.rename`."""
        self._call(old)
        if old in self._dirs:
            self._rename_dir(old, new)
            return
        inode = self._inode(old)
        self._rename_entry(new, inode)
        self._rename_entry(old, None)

    def remove(self, path: str) -> None:
        """See `Disk.remove`."""
        self._call(path)
        self._inode(path)
        self._rename_entry(path, None)

    def make_dir(self, path: str) -> None:
        """See `Disk.make_dir`; directories themselves are durable at once."""
        parts = path.split("/")
        self._dirs.update("/".join(parts[: i + 1]) for i in range(len(parts)))

    def remove_dir(self, path: str) -> None:
        """See `Disk.remove_dir`."""
        if self.list_dir(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._dirs.discard(path)

    def list_dir(self, path: str) -> list[str]:
        """See `Disk.list_dir`."""
        start = path + "/"
        below = [name[len(start) :] for name in (*self._names, *self._dirs) if name.startswith(start)]
        return sorted({name.split("/", 1)[0] for name in below})

    def is_dir(self, path: str) -> bool:
        """See `Disk.is_dir`."""
        return path in self._dirs

    def write_back(self, path: str, offset: int, length: int) -> None:
        """See `Disk.write_back`."""

    def drop_cache(self, path: str) -> None:
        """See `Disk.drop_cache`: what memory holds here is what the disk holds."""

    # --- faults -----------------------------------------------------------------------------------------------------

    def crash(self, rng: random.Random, *, keep: float, torn: bool) -> SimDisk:
        """A disk as a power cut now could leave it.

        Args:
            rng: decides.
            keep: how likely each unsynced write and directory change is to have reached the disk.
            torn: whether a write may have arrived in part.
        """
        after = SimDisk()
        after._dirs = set(self._dirs)
        names = dict(self._durable_names)
        for changes in self._name_changes.values():
            for name, inode in changes:
                if rng.random() > keep:
                    break
                _set_name(names, name, inode)
        images: dict[int, _Inode] = {}
        for name, inode in names.items():
            if id(inode) not in images:
                images[id(inode)] = _Inode(_image(inode, rng, keep, torn))
            after._names[name] = after._durable_names[name] = images[id(inode)]
        return after

    def copy(self) -> SimDisk:
        """The disk as it is, everything synced."""
        return self.crash(random.Random(0), keep=1.0, torn=False)

    def paths(self) -> list[str]:
        """Every file."""
        return sorted(self._names)

    def content(self, path: str) -> bytearray:
        """The bytes of a file, to be damaged in place."""
        return self._inode(path).now

    def used(self) -> int:
        """Bytes of all files."""
        return sum(len(inode.now) for inode in self._names.values())

    # --- inside -----------------------------------------------------------------------------------------------------

    def _call(self, path: str) -> None:
        if self.before_call is not None:
            self.before_call(self)
        self.calls += 1
        code = self.faults.get(self.calls)
        if code is not None:
            raise OSError(code, os.strerror(code), path)

    def _need(self, more: int, path: str) -> None:
        if more and self.capacity is not None and self.used() + more > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def _inode(self, path: str) -> _Inode:
        inode = self._names.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return inode

    def _rename_dir(self, old: str, new: str) -> None:
        """Directories move at once, with everything in them."""
        for table in (self._names, self._durable_names):
            for path in [path for path in table if path.startswith(old + "/")]:
                table[new + path[len(old) :]] = table.pop(path)
        self._dirs = {new + path[len(old) :] if (path + "/").startswith(old + "/") else path for path in self._dirs}

    def _rename_entry(self, path: str, inode: _Inode | None) -> None:
        _set_name(self._names, path, inode)
        self._name_changes.setdefault(path.rsplit("/", 1)[0], []).append((path, inode))


def _set_name(names: dict[str, _Inode], path: str, inode: _Inode | None) -> None:
    if inode is None:
        names.pop(path, None)
    else:
        names[path] = inode


def _image(inode: _Inode, rng: random.Random, keep: float, torn: bool) -> bytes:
    content = bytearray(inode.durable)
    for at, data in inode.changes:
        if rng.random() > keep:
            continue
        if data is None or not torn or rng.random() < 0.5:
            _apply(content, (at, data))
            continue
        start = at
        while start < at + len(data):
            end = min((start // _SECTOR + 1) * _SECTOR, at + len(data))
            if rng.random() < keep:
                _apply(content, (start, data[start - at : end - at]))
            start = end
    return bytes(content)
