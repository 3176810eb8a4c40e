"""Files of a server on this machine that a reader looks at itself, at the places it is told.

The server keeps them open for us, so that they are there whatever becomes of their names; that it is them is checked
before they are opened. Pages are brought in by a call that can fail: to touch one that the device cannot read would end
the process.
"""

from __future__ import annotations

import errno
import mmap
import os

import msgspec

from slipstream.kernels.bulk.bulkscan import are_messages

__all__ = ["LentFiles", "LentPlace", "Places"]

_OPEN_MAX = 4
_NEVER = (errno.EINVAL, errno.EACCES, errno.EPERM)
_POPULATE_READ = 22  # MADV_POPULATE_READ, which `mmap` has no name for


class LentPlace(msgspec.Struct, array_like=True):
    """`rows` messages, whole and back to back, from sequence `first` on; their checksums are keyed by `salt`."""

    path: str
    device: int
    inode: int
    offset: int
    length: int
    salt: int
    rows: int
    first: int


class Places(msgspec.Struct):
    """Where a chunk lies: `rows` messages whose sequences go up to `last`."""

    last: int
    rows: int
    places: list[LentPlace]


class LentFiles:
    """The files of one read."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self.usable = True
        """False when it is clear that no file can ever be read: they are not for us, or the kernel is too old."""
        self._open: dict[tuple[int, int], mmap.mmap] = {}  # by device and inode

    def look(self, place: LentPlace, last: int) -> memoryview | None:
        """The records at a place; None if they are not there as promised, with sequences up to `last`."""
        try:
            records = self._records(place)
        except (OSError, ValueError, OverflowError) as error:  # the latter are for numbers that make no sense
            self.usable = getattr(error, "errno", None) not in _NEVER
            return None
        if records is None or not are_messages(records, place.rows, place.first, last):
            return None
        return records

    def close(self) -> None:
        """Let go of them. What somebody still looks at stays until he is done."""
        self._open.clear()

    def _records(self, place: LentPlace) -> memoryview | None:
        file = self._file(place)
        stop = place.offset + place.length
        if file is None or not 0 <= place.offset < stop <= len(file):
            return None
        page = place.offset // mmap.PAGESIZE * mmap.PAGESIZE
        file.madvise(_POPULATE_READ, page, stop - page)
        return memoryview(file)[place.offset : stop]

    def _file(self, place: LentPlace) -> mmap.mmap | None:
        key = (place.device, place.inode)
        if key in self._open:
            return self._open[key]
        # Nothing but the file is opened: a pipe or a device can block, or do something.
        status = os.stat(place.path)
        if not place.path.startswith("/proc/") or (status.st_dev, status.st_ino) != key:
            return None
        fd = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(fd)
            if (status.st_dev, status.st_ino) != key:
                return None
            mapped = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(fd)
        if len(self._open) >= _OPEN_MAX:
            del self._open[next(iter(self._open))]
        self._open[key] = mapped
        return mapped
