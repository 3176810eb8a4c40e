"""Descriptors of the store's files: a bounded number stays open, and each is closed by who used it last."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from slipstream.jetstream.store.limits import STORE_OPEN_FILES_MAX

__all__ = ["DiskFile", "OpenFiles", "open_files_max"]

_OTHER_DESCRIPTORS: Final = 256  # of the process: logs, pipes, libraries, and what is open for a moment
_GIVEN_UP_AT_ONCE: Final = 64  # files, when there is no descriptor left


def open_files_max(descriptors: int) -> int:
    """How many files to keep open in a process that may have so many descriptors: most of them are for sockets."""
    return max(min((descriptors - _OTHER_DESCRIPTORS) * 3 // 8, STORE_OPEN_FILES_MAX), 1)


class DiskFile:
    """A descriptor, and who needs it."""

    __slots__ = ("device", "fd", "forgotten", "users")

    def __init__(self, fd: int, device: int) -> None:
        """Nobody uses it yet."""
        self.fd = fd
        self.device = device
        """The file system it is on."""
        self.users = 0
        """Threads inside a call on it."""
        self.forgotten = False
        """Its path is gone: the last user closes it."""


class OpenFiles:
    """The open files of one disk. Safe to call from several threads."""

    def __init__(self) -> None:
        """Start with no file open."""
        self.most = open_files_max(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        """So many stay open."""
        self._lock = threading.Lock()  # guards the table and what is in it, never held during I/O
        self._open: OrderedDict[str, DiskFile] = OrderedDict()  # by path, least recently used first
        # A directory of each file system, opened before anything was written there: an error is told to it for sure.
        self._roots: dict[int, int] = {}
        # A disk that nobody closes holds no descriptors for that: tests and tools make many of them in one process.
        weakref.finalize(self, _close_left, self._open, self._roots).atexit = False

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def acquire(self, path: str) -> DiskFile:
        """The file of this path, opened if it is not; `release` it.

        Raises:
            OSError: it cannot be opened.
        """
        with self._lock:
            file = self._open.get(path)
            if file is not None:
                self._open.move_to_end(path)
                file.users += 1
                return file
        fresh = self.descriptor(path, os.O_RDWR)
        device = os.fstat(fresh).st_dev
        if device not in self._roots:
            self._open_root(device, path)
        with self._lock:
            file = self._open.get(path)
            found = file is not None
            if file is None:
                file = self._open[path] = DiskFile(fresh, device)
            file.users += 1
            too_many = len(self._open) - self.most
        if found:
            os.close(fresh)
        if too_many > 0:
            self._close_idle(1)
        return file

    def acquire_open(self, paths: Iterable[str]) -> list[DiskFile]:
        """The files of these paths, up to the first that is not open; `release` them."""
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

    def release(self, file: DiskFile) -> None:
        """It is no longer needed by who acquired it."""
        with self._lock:
            file.users -= 1
            unused = file.forgotten and not file.users
        if unused:
            os.close(file.fd)

    def release_all(self, files: Iterable[DiskFile]) -> None:
        """The same for several."""
        unused = []
        with self._lock:
            for file in files:
                file.users -= 1
                if file.forgotten and not file.users:
                    unused.append(file.fd)
        for fd in unused:
            os.close(fd)

    @contextlib.contextmanager
    def using(self, path: str) -> Iterator[int]:
        """The descriptor of a file, for `with`."""
        file = self.acquire(path)
        try:
            yield file.fd
        finally:
            self.release(file)

    def forget(self, *paths: str) -> None:
        """Close the files behind paths that are about to mean something else."""
        for path in paths:
            with self._lock:
                file = self._open.pop(path, None)
                if file is None:
                    continue
                file.forgotten = True
                if file.users:
                    continue
            os.close(file.fd)

    def below(self, directory: str) -> list[str]:
        """Paths of the open files in a directory."""
        with self._lock:
            return [path for path in self._open if path.startswith(directory + "/")]

    def descriptor(self, path: str, flags: int) -> int:
        """Open a file for the caller alone.

        Raises:
            OSError: it cannot be opened.
        """
        try:
            return os.open(path, flags | os.O_CLOEXEC, 0o600)
        except OSError as error:
            # Sockets took more than we thought: give up files that nobody uses now.
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._close_idle(_GIVEN_UP_AT_ONCE):
                raise
        return os.open(path, flags | os.O_CLOEXEC, 0o600)

    def devices(self, paths: Sequence[str]) -> list[int]:
        """The file systems that these files are on."""
        with self._lock:
            known = [self._open.get(path) for path in paths]
        return [self._device(path) if file is None else file.device for path, file in zip(paths, known, strict=True)]

    def root(self, device: int) -> int | None:
        """Descriptor of a directory of a file system; None when there is none."""
        return self._roots.get(device)

    def close(self) -> None:
        """Close every file that no thread is using."""
        self._close_idle(len(self._open))
        with self._lock:
            roots = list(self._roots.values())
            self._roots.clear()
        for root in roots:
            os.close(root)

    def _device(self, path: str) -> int:
        file = self.acquire(path)
        self.release(file)
        return file.device

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

    def _close_idle(self, most: int) -> int:
        """Close files that nobody is using, those first that were not used for longest; how many that were."""
        with self._lock:
            idle = list(islice((path for path, file in self._open.items() if not file.users), most))
            files = [self._open.pop(path) for path in idle]
        for file in files:
            os.close(file.fd)
        return len(files)


def _close_left(files: OrderedDict[str, DiskFile], roots: dict[int, int]) -> None:
    """Close what is still open of a disk that nobody has any more."""
    for fd in [*(file.fd for file in files.values()), *roots.values()]:
        with contextlib.suppress(OSError):
            os.close(fd)
