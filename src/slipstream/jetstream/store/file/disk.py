"""The only file of the store that calls the operating system.

`Disk` is what the store needs of a file system, small enough to simulate: tests replace it by one that records every
call, forgets unsynced writes, tears them, runs out of space or fails. Files are named by path; `RealDisk` keeps a
bounded number of them open.

What this is not: policy. No retry, no fallback, no interpretation; an `OSError` goes to the caller as it is.

Contract of durability: `write`, `truncate` and `allocate` are volatile until `sync` of that path returns; `create`,
`rename` and `remove` until `sync_dir` of the directory returns. `write` is all or an error, but a crash may leave any
part of it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol

from slipstream.limits import STORE_OPEN_FILES_MAX

__all__ = ["Disk", "RealDisk"]


class Disk(Protocol):
    """What the store asks of a file system. Safe to call from several threads."""

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer at the end of the file."""
        ...

    def read_into(self, path: str, offset: int, room: memoryview) -> int:
        """Fill `room` as far as the file goes; how many bytes that are."""
        ...

    def size(self, path: str) -> int:
        """Length of a file in bytes."""
        ...

    def create(self, path: str) -> None:
        """Make an empty file; fails when it exists."""
        ...

    def allocate(self, path: str, length: int) -> None:
        """Reserve space so that the file is at least this long; new bytes read as zeros."""
        ...

    def write(self, path: str, offset: int, data: bytes) -> None:
        """Write all of `data` at `offset`."""
        ...

    def truncate(self, path: str, length: int) -> None:
        """Cut the file to this length."""
        ...

    def sync(self, path: str) -> None:
        """Return when the content of the file is on stable storage."""
        ...

    def sync_dir(self, path: str) -> None:
        """Return when the entries of a directory are on stable storage."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, replacing what has it; or a directory a new one."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file."""
        ...

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents; none of them need be new."""
        ...

    def remove_dir(self, path: str) -> None:
        """Delete an empty directory."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty when there is no such directory."""
        ...

    def is_dir(self, path: str) -> bool:
        """Whether the path is a directory."""
        ...

    def drop_cache(self, path: str) -> None:
        """Ask that the next read comes from the device, not from memory. A hint."""
        ...


class RealDisk:
    """The operating system's files."""

    def __init__(self) -> None:
        """Start with no file open."""
        # Sockets need descriptors as well, so files take a quarter of what the process may have.
        self._open_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4
        self._lock = threading.Lock()  # guards the two tables below, never held during I/O
        self._open: OrderedDict[str, int] = OrderedDict()  # path -> descriptor, least recently used first
        self._users: dict[int, int] = {}  # descriptor -> threads inside a call on it
        self._orphans: set[int] = set()  # descriptors whose path is gone, to close when the last user leaves

    def read(self, path: str, offset: int, length: int) -> bytes:
        """See `Disk.read`."""
        fd = self._acquire(path)
        try:
            data = os.pread(fd, length, offset)
            while 0 < len(data) < length:
                more = os.pread(fd, length - len(data), offset + len(data))
                if not more:
                    break
                data += more
            return data
        finally:
            self._release(fd)

    def read_into(self, path: str, offset: int, room: memoryview) -> int:
        """See `Disk.read_into`."""
        fd = self._acquire(path)
        try:
            done = os.preadv(fd, [room], offset)
            while 0 < done < len(room):
                more = os.preadv(fd, [room[done:]], offset + done)
                if not more:
                    break
                done += more
            return done
        finally:
            self._release(fd)

    def size(self, path: str) -> int:
        """See `Disk.size`."""
        return os.stat(path).st_size

    def create(self, path: str) -> None:
        """See `Disk.create`."""
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))

    def allocate(self, path: str, length: int) -> None:
        """See `Disk.allocate`."""
        with self._file(path) as fd:
            size = os.fstat(fd).st_size
            if length <= size:
                return
            try:
                os.posix_fallocate(fd, size, length - size)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                    raise
                os.ftruncate(fd, length)

    def write(self, path: str, offset: int, data: bytes) -> None:
        """See `Disk.write`. Written out: it is the way of every small commit, and calls cost more than the work."""
        files, users, lock = self._open, self._users, self._lock
        with lock:
            found = files.get(path)
            if found is not None:
                files.move_to_end(path)
                users[found] = users.get(found, 0) + 1
        fd = self._acquire(path) if found is None else found
        try:
            done = os.pwrite(fd, data, offset)
            if done < len(data):
                view = memoryview(data)
                while done < len(data):
                    done += os.pwrite(fd, view[done:], offset + done)
        finally:
            self._release(fd)

    def truncate(self, path: str, length: int) -> None:
        """See `Disk.truncate`."""
        with self._file(path) as fd:
            os.ftruncate(fd, length)

    def sync(self, path: str) -> None:
        """See `Disk.sync`."""
        fd = self._acquire(path)
        try:
            os.fdatasync(fd)
        finally:
            self._release(fd)

    def sync_dir(self, path: str) -> None:
        """See `Disk.sync_dir`."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, old: str, new: str) -> None:
        """See `Disk.rename`."""
        with self._lock:
            below = [path for path in self._open if path.startswith(old + "/")]
        for path in (old, new, *below):
            self._forget(path)
        os.rename(old, new)

    def remove(self, path: str) -> None:
        """See `Disk.remove`."""
        self._forget(path)
        os.unlink(path)

    def make_dir(self, path: str) -> None:
        """See `Disk.make_dir`."""
        os.makedirs(path, mode=0o700, exist_ok=True)

    def remove_dir(self, path: str) -> None:
        """See `Disk.remove_dir`."""
        os.rmdir(path)

    def list_dir(self, path: str) -> list[str]:
        """See `Disk.list_dir`."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def is_dir(self, path: str) -> bool:
        """See `Disk.is_dir`."""
        return os.path.isdir(path)

    def drop_cache(self, path: str) -> None:
        """See `Disk.drop_cache`."""
        with self._file(path) as fd:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Close every file that no thread is using."""
        with self._lock:
            idle = [path for path, fd in self._open.items() if not self._users.get(fd)]
            descriptors = [self._open.pop(path) for path in idle]
        for fd in descriptors:
            os.close(fd)

    @contextlib.contextmanager
    def _file(self, path: str) -> Iterator[int]:
        fd = self._acquire(path)
        try:
            yield fd
        finally:
            self._release(fd)

    def _acquire(self, path: str) -> int:
        with self._lock:
            fd = self._open.get(path)
            if fd is not None:
                self._open.move_to_end(path)
                self._users[fd] = self._users.get(fd, 0) + 1
                return fd
        fresh = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        victims: list[int] = []
        with self._lock:
            fd = self._open.get(path)
            if fd is None:
                fd = self._open[path] = fresh
            else:
                victims.append(fresh)
            self._users[fd] = self._users.get(fd, 0) + 1
            if len(self._open) > min(STORE_OPEN_FILES_MAX, self._open_max):
                idle = next((old for old, its in self._open.items() if not self._users.get(its)), None)
                if idle is not None:
                    victims.append(self._open.pop(idle))
        for victim in victims:
            os.close(victim)
        return fd

    def _release(self, fd: int) -> None:
        users = self._users
        with self._lock:
            left = users[fd] - 1
            if left:
                users[fd] = left
                return
            del users[fd]
            if fd not in self._orphans:
                return
            self._orphans.discard(fd)
        os.close(fd)

    def _forget(self, path: str) -> None:
        """Close the file behind a path that is about to mean something else."""
        with self._lock:
            fd = self._open.pop(path, None)
            if fd is None:
                return
            if self._users.get(fd):
                self._orphans.add(fd)
                return
        os.close(fd)
