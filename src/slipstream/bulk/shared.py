"""Memory that a server on this machine shares with a reader or a writer, found and checked before it is used.

A server elsewhere may say anything, and this machine may have a process of the same number: what is opened must be
memory of the name the server gave, which nobody guesses. And nobody may be able to cut it under our hands, which would
end the process: its size must be sealed.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Mapping
from contextlib import suppress

__all__ = ["attach"]


def attach(offer: object, *, to_write: bool = False) -> memoryview | None:
    """The memory that an answer offers, to look at only unless it is for writing; None if it cannot be had here."""
    if not isinstance(offer, Mapping):
        return None
    path, name, size = offer.get("path"), offer.get("name"), offer.get("bytes")
    if not (isinstance(path, str) and isinstance(name, str) and isinstance(size, int)):
        return None
    if not path.startswith("/proc/") or len(name) < _NAME_LEAST or size < 1:
        return None
    with suppress(OSError, ValueError):
        # Nothing is opened before this, for to open a pipe or a device can block or do something.
        if os.readlink(path).split(" ")[0] != f"/memfd:{name}":
            return None
        fd = os.open(path, (os.O_RDWR if to_write else os.O_RDONLY) | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if os.fstat(fd).st_size == size and fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
                return memoryview(mmap.mmap(fd, size, access=mmap.ACCESS_WRITE if to_write else mmap.ACCESS_READ))
        finally:
            os.close(fd)
    return None


_NAME_LEAST = 22  # characters; less could be guessed
