"""The specification of `kernels.log.syncthread`: the same without a thread."""

from __future__ import annotations

import os


class ModelSyncThread:
    """Does everything in `begin`, and tells in `wait`."""

    def __init__(self) -> None:
        """Nothing is under way."""
        self.busy = False
        self._error = 0

    def begin(self, fd: int, offset: int, data: bytes) -> bool:
        """Write and sync, unless the end of the one before was not told yet."""
        if self.busy:
            return False
        try:
            while data:
                written = os.pwrite(fd, data, offset)
                data, offset = data[written:], offset + written
            os.fdatasync(fd)
            self._error = 0
        except OSError as error:
            assert error.errno is not None
            self._error = error.errno
        self.busy = True
        return True

    def wait(self) -> int:
        """The error number, once; -1 when nothing is under way."""
        if not self.busy:
            return -1
        self.busy = False
        return self._error
