"""The only file of the store that calls the operating system.

`Disk` is what the store needs of a file system, small enough to simulate: tests replace it by one that records every
call, forgets unsynced writes, tears them, runs out of space or fails. Files are named by path; `RealDisk` keeps a
bounded number of them open.

What this is not: policy. No retry, no fallback, no interpretation; an `OSError` goes to the caller as it is.

Contract of durability: `write`, `truncate` and `allocate` are volatile until `sync` of that path returns; `create`,
`rename`, `remove`, `make_dir` and `remove_dir` until `sync_dir` of the directory returns that has the entry. What is in
a directory whose own entry is volatile can vanish with it: `make_dirs` is how directories are made to stay. `write` is
all or an error, but a crash may leave any part of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import resource
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, Protocol

from slipstream.jetstream.store.limits import STORE_OPEN_FILES_MAX, STORE_WRITE_PIECE_BYTES
from slipstream.kernels.log.groupwrite import sync_whole, write_all
from slipstream.kernels.log.stretches import read_stretches
from slipstream.kernels.log.syncthread import SyncThread

__all__ = ["Disk", "RealDisk", "SyncedWrite", "make_dirs", "open_files_max"]

SYNC_WHOLE_FILES_MIN: Final = 8
"""Files from which on one sync of their file system takes less time than one each; measured in ADR 16."""
SYNC_FILE_S: Final = 0.0005
"""What a sync of one file is taken to cost, in seconds, until it was measured."""
SYNC_WHOLE_PAUSE_S: Final = 1.0
"""A file system that somebody else writes much to takes long: then so long passes before that is tried again."""
SLOW_SYNC_PAUSE: Final = 8
"""Short commits that are not begun beside the caller after one that he could not wait for: what waits in vain costs."""
_ERRORS_TOLD_SINCE: Final = (5, 8)  # the version of Linux from which on `syncfs` says that something was not written
_OTHER_DESCRIPTORS: Final = 256  # of the process: logs, pipes, libraries, and what is open for a moment
_GIVEN_UP_AT_ONCE: Final = 64  # files, when there is no descriptor left
_SYNC_FILE_RANGE_WRITE = 2
# Linux only, and not in the `os` module.
_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)
if _sync_file_range is not None:
    _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


class SyncedWrite(Protocol):
    """A write and its sync, under way in a thread."""

    def wait(self, seconds: float) -> bool:
        """Whether it is done, after so long at most; negative: wait until it is. Once True, never asked again.

        Raises:
            OSError: the write or the sync has failed.
        """
        ...


class Disk(Protocol):
    """What the store asks of a file system. Safe to call from several threads."""

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer at the end of the file."""
        ...

    def read_stretches(self, path: str, stretches: bytes, room: memoryview, *, wait: bool = True) -> int:
        """Fill `room` with stretches of a file, packed pairs of offset and length; how many bytes that are.

        The first that is not there whole ends it; without `wait`, so does one that is not in memory, and any error.
        """
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

    def write_many(self, writes: Sequence[tuple[str, int, bytes]]) -> list[OSError | None]:
        """As `write` of each path, offset and bytes; for each its error. One that fails does not keep the others."""
        ...

    def truncate(self, path: str, length: int) -> None:
        """Cut the file to this length."""
        ...

    def sync(self, path: str) -> None:
        """Return when the content of the file is on stable storage."""
        ...

    def begin_synced_write(self, path: str, offset: int, data: bytes) -> SyncedWrite | None:
        """Begin a `write` with its `sync`, for a caller who may wait a moment; None: not now, nothing was done."""
        ...

    def sync_many(self, paths: Collection[str]) -> None:
        """As `sync` of each, in one go where that is faster.

        After an error nothing is known about any of them; `sync` of each tells which are concerned.
        """
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

    def write_back(self, path: str, offset: int, length: int) -> None:
        """Begin to bring these bytes to stable storage, so that a `sync` to come has less to wait for. A hint."""
        ...

    def drop_cache(self, path: str) -> None:
        """Ask that the next read comes from the device, not from memory. A hint."""
        ...


def make_dirs(disk: Disk, path: str, *, below: str) -> None:
    """Make a directory and those between it and `below`, which is there to stay; all of them are when this returns.

    One that is there already is synced as well: whoever made it may have died before he did.
    """
    at = below
    for name in path[len(below) + 1 :].split("/"):
        disk.make_dir(f"{at}/{name}")
        disk.sync_dir(at)
        at = f"{at}/{name}"


def _write_in_pieces(fd: int, data: bytes, offset: int) -> None:
    """Let the device begin with the first piece while the next is copied: a sync that follows has less to wait for."""
    view, done = memoryview(data), 0
    while done < len(data):
        written = os.pwrite(fd, view[done : done + STORE_WRITE_PIECE_BYTES], offset + done)
        if _sync_file_range is not None:
            _sync_file_range(fd, offset + done, written, _SYNC_FILE_RANGE_WRITE)
        done += written


class _OpenFile:
    """A descriptor, and who needs it."""

    __slots__ = ("device", "fd", "forgotten", "users")

    def __init__(self, fd: int, device: int) -> None:
        self.fd = fd
        self.device = device  # the file system it is on
        self.users = 0  # threads inside a call on it
        self.forgotten = False  # its path is gone: the last user closes it


def open_files_max(descriptors: int) -> int:
    """How many files to keep open in a process that may have so many descriptors: most of them are for sockets."""
    return max(min((descriptors - _OTHER_DESCRIPTORS) * 3 // 8, STORE_OPEN_FILES_MAX), 1)


class _SyncedWrite:
    """The write that the native thread is busy with; the descriptor stays open until its end is told."""

    __slots__ = ("_disk", "_file", "_path")

    def __init__(self, disk: RealDisk, file: _OpenFile, path: str) -> None:
        self._disk = disk
        self._file = file
        self._path = path

    def wait(self, seconds: float) -> bool:
        """See `SyncedWrite.wait`."""
        disk = self._disk
        error = disk.sync_thread.wait(seconds)
        if error < 0:
            disk.slow_syncs = SLOW_SYNC_PAUSE
            return False
        disk.release(self._file)
        if error:
            raise OSError(error, os.strerror(error), self._path)
        return True


class RealDisk:
    """The operating system's files."""

    def __init__(self) -> None:
        """Start with no file open."""
        self._open_max = open_files_max(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._lock = threading.Lock()  # guards the table and what is in it, never held during I/O
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()  # by path, least recently used first
        # A directory of each file system, opened before anything was written there: an error is told to it for sure.
        self._roots: dict[int, int] = {}
        self.sync_thread = SyncThread()
        self.slow_syncs = (
            0  # so many short commits more are left to threads that wait for the device as long as it takes
        )
        self._whole_lock = threading.Lock()  # one sync of a whole file system at a time, and what it says is for all
        self._whole_trusted = _kernel_tells_errors()
        self._whole_from_s = 0.0  # when one that takes long may be tried again
        self._whole_s = 0.0  # what it takes
        self._file_s = SYNC_FILE_S  # what a file alone takes

    def read(self, path: str, offset: int, length: int) -> bytes:
        """See `Disk.read`."""
        file = self._acquire(path)
        try:
            data = os.pread(file.fd, length, offset)
            while 0 < len(data) < length:
                more = os.pread(file.fd, length - len(data), offset + len(data))
                if not more:
                    break
                data += more
            return data
        finally:
            self.release(file)

    def read_stretches(self, path: str, stretches: bytes, room: memoryview, *, wait: bool = True) -> int:
        """See `Disk.read_stretches`."""
        try:
            file = self._acquire(path)
        except OSError:
            if wait:
                raise
            return 0
        try:
            return read_stretches(file.fd, stretches, room, wait)
        finally:
            self.release(file)

    def size(self, path: str) -> int:
        """See `Disk.size`."""
        return os.stat(path).st_size

    def create(self, path: str) -> None:
        """See `Disk.create`."""
        os.close(self._descriptor(path, os.O_CREAT | os.O_EXCL | os.O_RDWR))

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
        """See `Disk.write`."""
        file = self._acquire(path)
        try:
            if len(data) >= 2 * STORE_WRITE_PIECE_BYTES:
                _write_in_pieces(file.fd, data, offset)
                return
            done = os.pwrite(file.fd, data, offset)
            if done < len(data):
                view = memoryview(data)
                while done < len(data):
                    done += os.pwrite(file.fd, view[done:], offset + done)
        finally:
            self.release(file)

    def write_many(self, writes: Sequence[tuple[str, int, bytes]]) -> list[OSError | None]:
        """See `Disk.write_many`."""
        out: list[OSError | None] = []
        step = max(self._open_max // 4, 1)  # several threads may do this
        for at in range(0, len(writes), step):
            out += self._write_some(writes[at : at + step])
        return out

    def _write_some(self, writes: Sequence[tuple[str, int, bytes]]) -> list[OSError | None]:
        out: list[OSError | None] = [None] * len(writes)
        files = self._acquire_open(path for path, _, _ in writes)
        places = list(range(len(files)))
        try:
            for at in range(len(files), len(writes)):
                try:
                    files.append(self._acquire(writes[at][0]))
                    places.append(at)
                except OSError as error:
                    out[at] = error
            offsets, datas = [writes[at][1] for at in places], [writes[at][2] for at in places]
            for at, code in zip(places, write_all([file.fd for file in files], offsets, datas), strict=True):
                if code:
                    out[at] = OSError(code, os.strerror(code), writes[at][0])
        finally:
            self.release(*files)
        return out

    def truncate(self, path: str, length: int) -> None:
        """See `Disk.truncate`."""
        with self._file(path) as fd:
            os.ftruncate(fd, length)

    def sync(self, path: str) -> None:
        """See `Disk.sync`."""
        file = self._acquire(path)
        try:
            os.fdatasync(file.fd)
        finally:
            self.release(file)

    def begin_synced_write(self, path: str, offset: int, data: bytes) -> SyncedWrite | None:
        """See `Disk.begin_synced_write`. There is none while another is under way, or after one that took long."""
        if self.sync_thread.busy:
            return None
        if self.slow_syncs:
            self.slow_syncs -= 1
            return None
        file = self._acquire(path)
        if self.sync_thread.begin(file.fd, offset, data):
            return _SyncedWrite(self, file, path)
        self.release(file)
        return None

    def sync_many(self, paths: Collection[str]) -> None:
        """See `Disk.sync_many`."""
        left = sorted(paths)
        if self._may_sync_whole(len(left)):
            on: dict[int, list[str]] = {}
            for path, device in zip(left, self._devices(left), strict=True):
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
            root = self._roots.get(device)
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
            self._whole_from_s = ended_s + SYNC_WHOLE_PAUSE_S
            return True

    def _open_root(self, device: int, path: str) -> None:
        """The first file of a file system is opened."""
        try:
            root = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # its files are synced one by one
        with self._lock:
            if self._roots.setdefault(device, root) == root:
                return
        os.close(root)

    def _devices(self, paths: Sequence[str]) -> list[int]:
        """The file systems that these files are on."""
        with self._lock:
            known = [self._open.get(path) for path in paths]
        return [self._device(path) if file is None else file.device for path, file in zip(paths, known, strict=True)]

    def _device(self, path: str) -> int:
        file = self._acquire(path)
        self.release(file)
        return file.device

    def sync_dir(self, path: str) -> None:
        """See `Disk.sync_dir`."""
        fd = self._descriptor(path or "/", os.O_RDONLY | os.O_DIRECTORY)
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

    def write_back(self, path: str, offset: int, length: int) -> None:
        """See `Disk.write_back`."""
        if _sync_file_range is not None:
            with self._file(path) as fd:
                _sync_file_range(fd, offset, length, _SYNC_FILE_RANGE_WRITE)

    def drop_cache(self, path: str) -> None:
        """See `Disk.drop_cache`."""
        with self._file(path) as fd:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Close every file that no thread is using."""
        self._close_idle(len(self._open))
        with self._lock:
            roots, self._roots = self._roots, {}
        for root in roots.values():
            os.close(root)

    @contextlib.contextmanager
    def _file(self, path: str) -> Iterator[int]:
        file = self._acquire(path)
        try:
            yield file.fd
        finally:
            self.release(file)

    def _acquire_open(self, paths: Iterable[str]) -> list[_OpenFile]:
        """The files of these paths, up to the first that is not open."""
        files = []
        with self._lock:
            for path in paths:
                file = self._open.get(path)
                if file is None:
                    break
                self._open.move_to_end(path)
                file.users += 1
                files.append(file)
        return files

    def _acquire(self, path: str) -> _OpenFile:
        with self._lock:
            file = self._open.get(path)
            if file is not None:
                self._open.move_to_end(path)
                file.users += 1
                return file
        fresh = self._descriptor(path, os.O_RDWR)
        device = os.fstat(fresh).st_dev
        if device not in self._roots:
            self._open_root(device, path)
        with self._lock:
            file = self._open.get(path)
            found = file is not None
            if file is None:
                file = self._open[path] = _OpenFile(fresh, device)
            file.users += 1
            too_many = len(self._open) - self._open_max
        if found:
            os.close(fresh)
        if too_many > 0:
            self._close_idle(1)
        return file

    def _descriptor(self, path: str, flags: int) -> int:
        try:
            return os.open(path, flags | os.O_CLOEXEC, 0o600)
        except OSError as error:
            # Sockets took more than we thought: give up files that nobody uses now.
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._close_idle(_GIVEN_UP_AT_ONCE):
                raise
        return os.open(path, flags | os.O_CLOEXEC, 0o600)

    def _close_idle(self, most: int) -> int:
        """Close files that nobody is using, those first that were not used for longest; how many that were."""
        with self._lock:
            idle = list(islice((path for path, file in self._open.items() if not file.users), most))
            files = [self._open.pop(path) for path in idle]
        for file in files:
            os.close(file.fd)
        return len(files)

    def release(self, *files: _OpenFile) -> None:
        """These are no longer needed by who acquired them."""
        unused = []
        with self._lock:
            for file in files:
                file.users -= 1
                if file.forgotten and not file.users:
                    unused.append(file.fd)
        for fd in unused:
            os.close(fd)

    def _forget(self, path: str) -> None:
        """Close the file behind a path that is about to mean something else."""
        with self._lock:
            file = self._open.pop(path, None)
            if file is None:
                return
            file.forgotten = True
            if file.users:
                return
        os.close(file.fd)


def _kernel_tells_errors() -> bool:
    """Whether a sync of a whole file system fails if one of its files could not be written."""
    system = os.uname()
    version = re.match(r"(\d+)\.(\d+)", system.release)
    return (
        system.sysname == "Linux" and version is not None and (int(version[1]), int(version[2])) >= _ERRORS_TOLD_SINCE
    )
