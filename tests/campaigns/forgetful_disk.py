"""A disk for a whole server process that forgets, when the process dies, whatever was not synced.

Everything is held in memory. What `sync` and `sync_dir` promise is put into files under one directory, from which the
next process starts: `names` says which files there are, `<number>` holds the bytes of one. So `kill -9` is a power cut.
Now and then bytes that nobody synced reach their file as well, whole or in part, as with a real disk.

What this is not: durable itself. It has to survive the death of a process, not of the machine.
"""

from __future__ import annotations

import errno
import json
import os
import random
import struct
import threading
from collections.abc import Collection, Sequence
from pathlib import Path

from slipstream.jetstream.store.file.disk.disk import PLAIN
from slipstream.jetstream.store.file.disk.sync_times import SyncTimes
from slipstream.testing.sim_disk import write_each

_SECTOR = 512
_EARLY = 0.2  # how likely an unsynced write, or a part of it, reaches the disk anyway


class _Inode:
    """One file: its bytes now, and what was done to them since the last sync."""

    def __init__(self, number: int, data: bytes = b"") -> None:
        self.number = number
        self.data = bytearray(data)
        self.changes: list[tuple[int, bytes | None]] = []  # (offset, bytes), or (length, None) for a new length


class ForgetfulDisk:
    """Implements `slipstream.jetstream.store.file.disk.disk.Disk`."""

    seal = PLAIN

    def __init__(self, directory: Path, *, drops_syncs: bool = False, capacity: int = 0, seed: int = 1) -> None:
        """Begin with what earlier processes had synced into `directory`.

        Args:
            directory: a directory of this disk's own.
            drops_syncs: the control: syncs return without doing anything.
            capacity: bytes all files together may have; 0 for no limit.
            seed: decides which unsynced writes reach the disk anyway.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self.sync_times = SyncTimes()  # nothing is waited for here, so it stays empty
        self._directory = directory
        self._drops_syncs = drops_syncs
        self._capacity = capacity
        self._rng = random.Random(seed)
        self._lock = threading.RLock()
        self._dirs: set[str] = set()
        self._durable_dirs: set[str] = set()
        self._names: dict[str, _Inode] = {}
        self._durable: dict[str, int] = {}  # name -> number, as in `names`
        self._name_changes: dict[str, list[tuple[str, _Inode | None]]] = {}  # by directory, in order
        self._next = 1
        self._load()

    def _load(self) -> None:
        try:
            stored = json.loads((self._directory / "names").read_text())
        except FileNotFoundError:
            return
        self._dirs, self._durable_dirs = set(stored["dirs"]), set(stored["dirs"])
        # What is in a directory that nobody synced into the one above it is gone with it.
        self._durable = {name: number for name, number in stored["files"].items() if self._stays(name)}
        inodes: dict[int, _Inode] = {}  # a rename that was cut in half has left a file with two names
        for name, number in self._durable.items():
            path = self._directory / str(number)
            if number not in inodes:
                inodes[number] = _Inode(number, path.read_bytes() if path.exists() else b"")
            self._names[name] = inodes[number]
        self._next = 1 + max((int(path.name) for path in self._directory.iterdir() if path.name.isdecimal()), default=0)
        wanted = set(map(str, self._durable.values()))
        for path in self._directory.iterdir():
            if path.name.isdecimal() and path.name not in wanted:
                path.unlink()

    # --- Disk -------------------------------------------------------------------------------------------------------

    def read(self, path: str, offset: int, length: int) -> bytes:
        """See `Disk.read`."""
        with self._lock:
            return bytes(self._inode(path).data[offset : offset + length])

    def read_stretches(self, path: str, stretches: bytes, room: memoryview, *, wait: bool = True) -> int:
        """See `Disk.read_stretches`."""
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
        with self._lock:
            return len(self._inode(path).data)

    def link_count(self, path: str) -> int:
        """See `Disk.link_count`."""
        with self._lock:
            inode = self._inode(path)
            return sum(other is inode for other in self._names.values())

    def create(self, path: str) -> None:
        """See `Disk.create`."""
        with self._lock:
            if path in self._names:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            self._name(path, _Inode(self._next))
            self._next += 1

    def allocate(self, path: str, length: int) -> None:
        """See `Disk.allocate`."""
        with self._lock:
            if length > len(self._inode(path).data):
                self._change(path, length, None)

    def truncate(self, path: str, length: int) -> None:
        """See `Disk.truncate`."""
        with self._lock:
            self._change(path, length, None)

    def write(self, path: str, offset: int, data: bytes) -> None:
        """See `Disk.write`."""
        with self._lock:
            self._change(path, offset, bytes(data))

    def overwrite(self, path: str, patches: Sequence[tuple[int, bytes]]) -> None:
        """See `Disk.overwrite`."""
        for offset, data in patches:
            self.write(path, offset, data)

    def write_many(self, writes: Sequence[tuple[str, int, bytes]]) -> list[OSError | None]:
        return write_each(self.write, writes)

    def begin_synced_write(self, path: str, offset: int, data: bytes) -> None:
        return None

    def sync_many(self, paths: Collection[str]) -> None:
        for path in sorted(paths):
            self.sync(path)

    def sync(self, path: str) -> None:
        """See `Disk.sync`."""
        with self._lock:
            inode = self._inode(path)
            changes, inode.changes = inode.changes, []
            if not self._drops_syncs:
                self._store(inode, changes)

    def sync_dir(self, path: str) -> None:
        """See `Disk.sync_dir`."""
        with self._lock:
            changes = self._name_changes.pop(path, [])
            if self._drops_syncs:
                return
            self._durable_dirs -= {one for one in self._durable_dirs if _above(one) == path}
            self._durable_dirs |= {one for one in self._dirs if _above(one) == path}
            for name, inode in changes:
                if inode is None:
                    self._durable.pop(name, None)
                else:
                    self._durable[name] = inode.number
            self._store_names()

    def rename(self, old: str, new: str) -> None:
        """See `Disk.rename`. That a directory has another name is known at once, as what nobody synced may be."""
        with self._lock:
            if old in self._dirs:
                self._rename_dir(old, new)
                return
            inode = self._inode(old)
            self._name(new, inode)
            self._name(old, None)

    def remove_many(self, paths: Collection[str]) -> None:
        """See `Disk.remove_many`."""
        for path in paths:
            self.remove(path)

    def remove(self, path: str) -> None:
        """See `Disk.remove`."""
        with self._lock:
            self._inode(path)
            self._name(path, None)

    def make_dir(self, path: str) -> None:
        """See `Disk.make_dir`; what is missing above it is not of this disk, and there to stay."""
        with self._lock:
            parts = path.split("/")
            above = {"/".join(parts[: i + 1]) for i in range(1, len(parts) - 1)} - self._dirs
            self._durable_dirs |= above
            self._dirs |= {*above, path}

    def remove_dir(self, path: str) -> None:
        """See `Disk.remove_dir`."""
        with self._lock:
            if self.list_dir(path):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
            self._dirs.discard(path)

    def list_dir(self, path: str) -> list[str]:
        """See `Disk.list_dir`."""
        with self._lock:
            start = path + "/"
            below = [name[len(start) :] for name in (*self._names, *self._dirs) if name.startswith(start)]
            return sorted({name.split("/", 1)[0] for name in below})

    def is_dir(self, path: str) -> bool:
        """See `Disk.is_dir`."""
        with self._lock:
            return path in self._dirs

    def write_back(self, path: str, offset: int, length: int) -> None:
        """See `Disk.write_back`."""

    def drop_cache(self, path: str) -> None:
        """See `Disk.drop_cache`."""

    # --- inside -----------------------------------------------------------------------------------------------------

    def _inode(self, path: str) -> _Inode:
        inode = self._names.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return inode

    def _stays(self, path: str) -> bool:
        while path := _above(path):
            if path not in self._dirs:
                return False
        return True

    def _need(self, more: int, path: str) -> None:
        """Refuse what does not fit. A file that was removed costs nothing, as its space is given back soon."""
        if more > 0 and self._capacity and self.used() + more > self._capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def used(self) -> int:
        """Bytes of all files."""
        return sum(len(inode.data) for inode in self._names.values())

    def _name(self, path: str, inode: _Inode | None) -> None:
        if inode is None:
            del self._names[path]
        else:
            self._names[path] = inode
        self._name_changes.setdefault(path.rsplit("/", 1)[0], []).append((path, inode))

    def _rename_dir(self, old: str, new: str) -> None:
        def moved(path: str) -> str:
            return new + path[len(old) :] if path == old or path.startswith(f"{old}/") else path

        self._dirs = set(map(moved, self._dirs))
        self._durable_dirs = set(map(moved, self._durable_dirs))
        self._names = {moved(path): inode for path, inode in self._names.items()}
        self._durable = {moved(path): number for path, number in self._durable.items()}
        self._name_changes = {
            moved(path): [(moved(name), inode) for name, inode in changes]
            for path, changes in self._name_changes.items()
        }
        self._store_names()

    def _change(self, path: str, at: int, data: bytes | None) -> None:
        inode = self._inode(path)
        content = inode.data
        self._need((at if data is None else at + len(data)) - len(content), path)
        if data is None:
            del content[at:]
            content.extend(bytes(at - len(content)))
        else:
            content.extend(bytes(max(at + len(data) - len(content), 0)))
            content[at : at + len(data)] = data
        inode.changes.append((at, data))
        if data is not None and not self._drops_syncs and self._rng.random() < _EARLY:
            first = self._rng.randrange(len(data) // _SECTOR + 1) * _SECTOR if self._rng.random() < 0.5 else 0
            self._store(inode, [(at + first, data[first:])])

    def _store(self, inode: _Inode, changes: list[tuple[int, bytes | None]]) -> None:
        descriptor = os.open(self._directory / str(inode.number), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            for at, data in changes:
                if data is None:
                    os.ftruncate(descriptor, at)
                else:
                    os.pwrite(descriptor, data, at)
        finally:
            os.close(descriptor)

    def _store_names(self) -> None:
        if self._drops_syncs:
            return
        fresh = self._directory / "names.new"
        fresh.write_text(json.dumps({"dirs": sorted(self._durable_dirs), "files": self._durable}))
        os.replace(fresh, self._directory / "names")


def _above(path: str) -> str:
    return path.rpartition("/")[0]
