"""The operating system's files: with `open_files`, `group_sync` and `inline_sync` all that calls it for the store."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Sequence
from functools import cache

from slipstream.jetstream.store.file.disk.disk import PLAIN
from slipstream.jetstream.store.file.disk.group_sync import GroupSync
from slipstream.jetstream.store.file.disk.inline_sync import InlineSync
from slipstream.jetstream.store.file.disk.open_files import OpenFiles
from slipstream.jetstream.store.file.disk.sync_times import SyncTimes
from slipstream.jetstream.store.limits import STORE_WRITE_PIECE_BYTES
from slipstream.kernels.log.groupwrite import write_all
from slipstream.kernels.log.stretches import read_stretches

__all__ = ["RealDisk"]

_SYNC_FILE_RANGE_WRITE = 2


class RealDisk:
    """The operating system's files."""

    seal = PLAIN

    def __init__(self) -> None:
        """Start with no file open."""
        self._files = OpenFiles()
        self.sync_times = SyncTimes()
        syncs, inline = GroupSync(self._files, self.sync_times), InlineSync(self._files, self.sync_times)
        # The calls of every commit, without one more in between.
        self.sync = syncs.sync
        self.sync_many = syncs.sync_many
        self.begin_synced_write = inline.begin

    def read(self, path: str, offset: int, length: int) -> bytes:
        """See `Disk.read`."""
        file = self._files.acquire(path)
        try:
            data = os.pread(file.fd, length, offset)
            while 0 < len(data) < length:
                more = os.pread(file.fd, length - len(data), offset + len(data))
                if not more:
                    break
                data += more
            return data
        finally:
            self._files.release(file)

    def read_stretches(self, path: str, stretches: bytes, room: memoryview, *, wait: bool = True) -> int:
        """See `Disk.read_stretches`."""
        try:
            file = self._files.acquire(path)
        except OSError:
            if wait:
                raise
            return 0
        try:
            return read_stretches(file.fd, stretches, room, wait)
        finally:
            self._files.release(file)

    def size(self, path: str) -> int:
        """See `Disk.size`."""
        return os.stat(path).st_size

    def link_count(self, path: str) -> int:
        """See `Disk.link_count`."""
        return os.stat(path).st_nlink

    def create(self, path: str) -> None:
        """See `Disk.create`."""
        os.close(self._files.descriptor(path, os.O_CREAT | os.O_EXCL | os.O_RDWR))

    def allocate(self, path: str, length: int) -> None:
        """See `Disk.allocate`."""
        with self._files.using(path) as fd:
            size = os.fstat(fd).st_size
            if length <= size:
                return
            if not hasattr(os, "posix_fallocate"):  # macOS
                os.ftruncate(fd, length)
                return
            try:
                os.posix_fallocate(fd, size, length - size)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                    raise
                os.ftruncate(fd, length)

    def write(self, path: str, offset: int, data: bytes) -> None:
        """See `Disk.write`."""
        file = self._files.acquire(path)
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
            self._files.release(file)

    def write_many(self, writes: Sequence[tuple[str, int, bytes]]) -> list[OSError | None]:
        """See `Disk.write_many`."""
        out: list[OSError | None] = []
        step = max(self._files.most // 4, 1)  # several threads may do this
        for at in range(0, len(writes), step):
            out += self._write_some(writes[at : at + step])
        return out

    def _write_some(self, writes: Sequence[tuple[str, int, bytes]]) -> list[OSError | None]:
        out: list[OSError | None] = [None] * len(writes)
        files = self._files.acquire_open(path for path, _, _ in writes)
        places = list(range(len(files)))
        try:
            for at in range(len(files), len(writes)):
                try:
                    files.append(self._files.acquire(writes[at][0]))
                    places.append(at)
                except OSError as error:
                    out[at] = error
            offsets, datas = [writes[at][1] for at in places], [writes[at][2] for at in places]
            for at, code in zip(places, write_all([file.fd for file in files], offsets, datas), strict=True):
                if code:
                    out[at] = OSError(code, os.strerror(code), writes[at][0])
        finally:
            self._files.release_all(files)
        return out

    def overwrite(self, path: str, patches: Sequence[tuple[int, bytes]]) -> None:
        """See `Disk.overwrite`."""
        for offset, data in patches:
            self.write(path, offset, data)

    def truncate(self, path: str, length: int) -> None:
        """See `Disk.truncate`."""
        with self._files.using(path) as fd:
            os.ftruncate(fd, length)

    def sync_dir(self, path: str) -> None:
        """See `Disk.sync_dir`."""
        fd = self._files.descriptor(path or "/", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, old: str, new: str) -> None:
        """See `Disk.rename`."""
        self._files.forget(old, new, *self._files.below(old))
        os.rename(old, new)

    def remove(self, path: str) -> None:
        """See `Disk.remove`."""
        self._files.forget(path)
        os.unlink(path)

    def remove_many(self, paths: Collection[str]) -> None:
        """See `Disk.remove_many`."""
        for path in paths:
            self.remove(path)

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
        begin_writing = _sync_file_range()
        if begin_writing is not None:
            with self._files.using(path) as fd:
                begin_writing(fd, offset, length, _SYNC_FILE_RANGE_WRITE)

    def drop_cache(self, path: str) -> None:
        """See `Disk.drop_cache`."""
        if not hasattr(os, "posix_fadvise"):  # macOS
            return
        with self._files.using(path) as fd:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Close every file that no thread is using."""
        self._files.close()


def _write_in_pieces(fd: int, data: bytes, offset: int) -> None:
    """Let the device begin with the first piece while the next is copied: a sync that follows has less to wait for."""
    view, done = memoryview(data), 0
    begin_writing = _sync_file_range()
    while done < len(data):
        written = os.pwrite(fd, view[done : done + STORE_WRITE_PIECE_BYTES], offset + done)
        if begin_writing is not None:
            begin_writing(fd, offset + done, written, _SYNC_FILE_RANGE_WRITE)
        done += written


@cache
def _sync_file_range() -> Callable[[int, int, int, int], object] | None:
    """The system call: Linux only, and not in the `os` module. Only large writes need it."""
    import ctypes

    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is None:
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    call: Callable[[int, int, int, int], object] = found
    return call
