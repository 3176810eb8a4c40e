"""A disk in memory that remembers what a real one could forget.

`SimDisk` implements `store.file.disk.Disk`. For every file it keeps what was synced and the writes since; for every
directory the entries that were synced and the changes since. `crash` gives a disk as a power cut could leave it: any
subset of the unsynced writes, each possibly torn at sector borders, and any prefix of the unsynced changes of each
directory. Directories are entries of the one above like files: what is below one whose entry was not synced is gone
with it, however often it was synced itself. `kill` gives the disk as the next process finds it after only the process
died: everything is there, and nothing more of it is safe than before. One after the other they make double faults.

It can also fail on purpose: a call by its number, running out of space, syncs that do nothing (to prove that a test
notices), and damage to bytes at rest.

What this is not: fast, or a model of any one file system. It allows more than most of them do.
"""

from __future__ import annotations

import copy
import errno
import os
import random
import struct
from collections.abc import Callable, Collection, Iterator, Sequence

from slipstream.jetstream.store.file.disk.disk import PLAIN

__all__ = ["SimDisk", "write_each"]

_SECTOR = 512


class _Inode:
    """One file: its content now, its content on stable storage, and the changes between."""

    def __init__(self, content: bytes = b"") -> None:
        self.now = bytearray(content)
        self.durable = bytes(content)
        self.changes: list[tuple[int, bytes | None]] = []  # (offset, bytes), or (length, None) for a change of size
        self.failed: OSError | None = None  # writing it back failed, and its own `sync` has not said so yet

    def apply(self, change: tuple[int, bytes | None]) -> None:
        _apply(self.now, change)
        self.changes.append(change)


class _Directory:
    """One directory: its entries now, those on stable storage, and the changes between."""

    def __init__(self) -> None:
        self.now: dict[str, _Inode | _Directory] = {}
        self.durable: dict[str, _Inode | _Directory] = {}
        self.changes: list[_Change] = []

    def change(self, name: str, node: _Inode | _Directory | None, moved: _Change | None = None) -> _Change:
        made = _Change(name, node, moved)
        self.changes.append(made)
        made.apply(self.now)
        return made


class _Change:
    """An entry that was made or went; one that was moved elsewhere goes when it is there, and not before."""

    def __init__(self, name: str, node: _Inode | _Directory | None, moved: _Change | None) -> None:
        self.name = name
        self.node = node
        self.moved = moved
        self.kept = False  # on stable storage, or taken to be by the crash being made

    def apply(self, entries: dict[str, _Inode | _Directory]) -> None:
        if self.node is None:
            entries.pop(self.name, None)
        else:
            entries[self.name] = self.node


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


class SimSyncedWrite:
    """A write with its sync; the first wait runs out without anything done for every other one, as on a busy device."""

    def __init__(self, disk: SimDisk, path: str, offset: int, data: bytes) -> None:
        """Nothing has happened yet."""
        self._disk = disk
        self._write = path, offset, data
        disk.synced_writes += 1
        self._slow = disk.synced_writes % 2 == 0

    def wait(self, seconds: float) -> bool:
        """See `SyncedWrite.wait`."""
        if self._slow and seconds >= 0:
            return False
        self._disk.write(*self._write)
        self._disk.sync(self._write[0])
        return True


class SimDisk:
    """See the module docstring. Not for several threads."""

    seal = PLAIN

    def __init__(self, *, capacity: int | None = None, drops_syncs: bool = False) -> None:
        """An empty disk.

        Args:
            capacity: bytes all files together may have.
            drops_syncs: `sync` and `sync_dir` return without doing anything.
        """
        self.synced_writes = 0  # begun so far
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
        self._root = _Directory()

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

    def link_count(self, path: str) -> int:
        """See `Disk.link_count`. Both names of a rename are in one directory."""
        inode = self._inode(path)
        return sum(node is inode for node in self._above(path)[0].now.values())

    def create(self, path: str) -> None:
        """See `Disk.create`."""
        self._call(path)
        directory, name = self._above(path)
        if name in directory.now:
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        directory.change(name, _Inode())

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

    def write_many(self, writes: Sequence[tuple[str, int, bytes]]) -> list[OSError | None]:
        """See `Disk.write_many`."""
        return write_each(self.write, writes)

    def overwrite(self, path: str, patches: Sequence[tuple[int, bytes]]) -> None:
        """See `Disk.overwrite`."""
        for offset, data in patches:
            self.write(path, offset, data)

    def truncate(self, path: str, length: int) -> None:
        """See `Disk.truncate`."""
        self._call(path)
        self._inode(path).apply((length, None))

    def sync(self, path: str) -> None:
        """See `Disk.sync`. A failed sync loses what was not yet durable, as Linux does."""
        inode = self._inode(path)
        failed, inode.failed = inode.failed, None
        if failed is not None:
            raise failed
        try:
            self._call(path)
        except OSError:
            inode.now = bytearray(inode.durable)
            inode.changes = []
            raise
        if not self.drops_syncs:
            inode.durable = bytes(inode.now)
            inode.changes = []

    def begin_synced_write(self, path: str, offset: int, data: bytes) -> SimSyncedWrite:
        """See `Disk.begin_synced_write`."""
        return SimSyncedWrite(self, path, offset, data)

    def sync_many(self, paths: Collection[str]) -> None:
        """See `Disk.sync_many`. Every file is tried; one that fails is told once more by its own `sync`."""
        failed: OSError | None = None
        for path in sorted(paths):
            try:
                self.sync(path)
            except OSError as error:
                failed = self._inode(path).failed = error
        if failed is not None:
            raise failed

    def sync_dir(self, path: str) -> None:
        """See `Disk.sync_dir`."""
        self._call(path)
        directory = self._directory(path)
        if self.drops_syncs:
            return
        pending = []
        for change in directory.changes:
            if change.moved is not None and not change.moved.kept:
                pending.append(change)  # it is not safe where it went
                continue
            change.apply(directory.durable)
            change.kept = True
        directory.changes = pending

    def rename(self, old: str, new: str) -> None:
        """See `Disk.rename`."""
        self._call(old)
        source, name = self._above(old)
        target, new_name = self._above(new)
        if name not in source.now:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        made = target.change(new_name, source.now[name])
        source.change(name, None, moved=made if source is not target else None)

    def remove(self, path: str) -> None:
        """See `Disk.remove`."""
        self._call(path)
        self._inode(path)
        directory, name = self._above(path)
        directory.change(name, None)

    def remove_many(self, paths: Collection[str]) -> None:
        """See `Disk.remove_many`."""
        for path in paths:
            self.remove(path)

    def make_dir(self, path: str) -> None:
        """See `Disk.make_dir`."""
        self._call(path)
        at = self._root
        for name in _parts(path):
            node = at.now.get(name)
            if isinstance(node, _Inode):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            if node is None:
                node = _Directory()
                at.change(name, node)
            at = node

    def remove_dir(self, path: str) -> None:
        """See `Disk.remove_dir`."""
        self._call(path)
        if self._directory(path).now:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        directory, name = self._above(path)
        directory.change(name, None)

    def list_dir(self, path: str) -> list[str]:
        """See `Disk.list_dir`."""
        node = self._node(path)
        return sorted(node.now) if isinstance(node, _Directory) else []

    def is_dir(self, path: str) -> bool:
        """See `Disk.is_dir`."""
        return isinstance(self._node(path), _Directory)

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
        moved = []
        for directory in _directories(self._root):
            going_on = True
            for change in directory.changes:
                going_on = going_on and rng.random() <= keep
                change.kept = going_on
                if change.moved is not None:
                    moved.append(change)
        for change in moved:  # a move is one step: it is in one place or in the other
            change.kept = change.moved is not None and change.moved.kept
        images: dict[int, _Inode] = {}

        def copied(directory: _Directory) -> _Directory:
            entries = dict(directory.durable)
            for change in directory.changes:
                if change.kept:
                    change.apply(entries)
            image = _Directory()
            for name, node in entries.items():
                if isinstance(node, _Directory):
                    image.now[name] = copied(node)
                else:
                    if id(node) not in images:
                        images[id(node)] = _Inode(_image(node, rng, keep, torn))
                    image.now[name] = images[id(node)]
            image.durable = dict(image.now)
            return image

        after._root = copied(self._root)
        for directory in _directories(self._root):
            for change in directory.changes:
                change.kept = False
        return after

    def kill(self) -> SimDisk:
        """The disk as the next process finds it when this one dies now: the same, and no more of it is safe."""
        after = SimDisk(drops_syncs=self.drops_syncs)
        after._root = copy.deepcopy(self._root)
        return after

    def copy(self) -> SimDisk:
        """The disk as it is, everything synced."""
        return self.crash(random.Random(0), keep=1.0, torn=False)

    def paths(self) -> list[str]:
        """Every file."""
        return sorted(path for path, _ in _files(self._root, ""))

    def content(self, path: str) -> bytearray:
        """The bytes of a file, to be damaged in place."""
        return self._inode(path).now

    def used(self) -> int:
        """Bytes of all files."""
        return sum(len(inode.now) for _, inode in _files(self._root, ""))

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

    def _node(self, path: str) -> _Inode | _Directory | None:
        node: _Inode | _Directory | None = self._root
        for name in _parts(path):
            node = node.now.get(name) if isinstance(node, _Directory) else None
        return node

    def _inode(self, path: str) -> _Inode:
        node = self._node(path)
        if not isinstance(node, _Inode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._node(path)
        if not isinstance(node, _Directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node

    def _above(self, path: str) -> tuple[_Directory, str]:
        """The directory a path lies in, and its name there."""
        *above, name = _parts(path)
        return self._directory("/".join(above)), name


def write_each(
    write: Callable[[str, int, bytes], None], writes: Sequence[tuple[str, int, bytes]]
) -> list[OSError | None]:
    """What `Disk.write_many` promises, one write at a time."""
    out: list[OSError | None] = []
    for path, offset, data in writes:
        try:
            write(path, offset, data)
            out.append(None)
        except OSError as error:
            out.append(error)
    return out


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _files(directory: _Directory, path: str) -> Iterator[tuple[str, _Inode]]:
    for name, node in directory.now.items():
        if isinstance(node, _Directory):
            yield from _files(node, f"{path}/{name}")
        else:
            yield f"{path}/{name}", node


def _directories(root: _Directory) -> list[_Directory]:
    """Every directory that is or may come back."""
    found, waiting = {}, [root]
    while waiting:
        directory = waiting.pop()
        if id(directory) in found:
            continue
        found[id(directory)] = directory
        nodes = [*directory.now.values(), *directory.durable.values(), *(change.node for change in directory.changes)]
        waiting += [node for node in nodes if isinstance(node, _Directory)]
    return list(found.values())


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
