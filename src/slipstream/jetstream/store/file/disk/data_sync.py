"""One file's bytes, beyond the caches of the system and of the device.

Linux leaves out times that nobody reads (`fdatasync`). On macOS `fsync` ends in the cache of the device, which a power
cut empties: only `F_FULLFSYNC` goes further, and not every file system has it.
"""

from __future__ import annotations

import fcntl
import os
import sys

__all__ = ["sync_data"]


def sync_data(fd: int) -> None:
    """Return when what was written to a file is on its device.

    Raises:
        OSError: it is not, as far as anybody knows.
    """
    if sys.platform != "darwin":
        os.fdatasync(fd)
        return
    try:
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    except OSError:
        os.fsync(fd)
