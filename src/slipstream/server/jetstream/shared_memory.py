"""Memory and files of this process that a client on this machine may read, as long as the process keeps them open.

They are found below /proc by whoever the kernel lets look at this process: the same user in the same container, or
root. Nobody else can open them, however he learns their names, so handing out a name gives nothing away.

Who can open memory could also cut it, and to touch what was cut ends the process that does: so its size is sealed. What
is for readers is sealed against writing as well, except through the mapping that is here already.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Final

__all__ = ["OpenFile", "SharedRoom", "lend_file", "share_memory"]


_SEAL_FUTURE_WRITE: Final = 0x10  # F_SEAL_FUTURE_WRITE, which `fcntl` has no name for


class SharedRoom:
    """A piece of shared memory; see `jetstream.ports.SharedMemory`."""

    def __init__(self, name: str, size: int, *, to_write: bool) -> None:
        """Make it, all zeros; `to_write`: who opens it may write.

        Raises:
            OSError: the system has no memory, no descriptor or no seals left.
        """
        self._fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self._fd, size)
            self.view = memoryview(mmap.mmap(self._fd, size))
            if not to_write:
                fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, _SEAL_FUTURE_WRITE)
            fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        except BaseException:
            os.close(self._fd)
            raise
        self.path = f"/proc/{os.getpid()}/fd/{self._fd}"

    def close(self) -> None:
        """Take it off the list; idempotent. Whoever has it mapped, or writes to it now, keeps it until he is done."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self.view = memoryview(b"")


def share_memory(name: str, size: int, *, to_write: bool = False) -> SharedRoom | None:
    """A piece of memory that others on this machine can open under `path`, to read or `to_write`.

    None where that cannot be had.
    """
    if not hasattr(os, "memfd_create"):
        return None
    try:
        return SharedRoom(name, size, to_write=to_write)
    except OSError:
        return None


class OpenFile:
    """A file to be read by others; see `jetstream.ports.LentFile`."""

    def __init__(self, path: str) -> None:
        """Open it.

        Raises:
            OSError: it is gone, or there is no descriptor left.
        """
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(self._fd)
        self.path = f"/proc/{os.getpid()}/fd/{self._fd}"
        self.device, self.inode = status.st_dev, status.st_ino

    def close(self) -> None:
        """Take it off the list; idempotent. Whoever has it open keeps it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def lend_file(path: str) -> OpenFile | None:
    """A file that others on this machine can open under another `path`; None if it cannot be had."""
    try:
        return OpenFile(path)
    except OSError:
        return None
