"""How far the log of a replica was on disk, in a file beside it.

    REACHED    term and index of an entry, and a checksum: written over in its place, and not synced

The end of a log that is damaged, or cut off, looks like one that was never written: a crash leaves the same. A replica
that acknowledged it would vote as if it had not, and what a majority had could be lost. So it is said a second time,
elsewhere, by a write after each sync of the log. What a crash leaves of that is true, perhaps not the latest.

What this is not: needed. Without it, or if it cannot be read, the end of the log is what is found.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Final

from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.replica.log import ReplicaLog
from slipstream.kernels.log.record import crc32c

__all__ = ["REACHED_NAME", "ReachedFile"]

REACHED_NAME: Final = "REACHED"
_ENTRY = struct.Struct("<QQ")
_CHECKSUM = struct.Struct("<I")


class ReachedFile:
    """The file in a replica's directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Not read yet."""
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{REACHED_NAME}"
        self._noted = (0, 0)

    def misses(self, log: ReplicaLog) -> str:
        """What a log that was just opened lacks by what was noted; empty: nothing, and what it has is noted. Blocks.

        Raises:
            OSError: the disk failed.
        """
        if REACHED_NAME not in self._disk.list_dir(self._directory):
            self._disk.create(self._path)
        term, index = decode_reached(self._disk.read(self._path, 0, _ENTRY.size + _CHECKSUM.size))
        runs = log.terms()
        # Entries that replace others are of a later term.
        if (runs[-1][1] if runs else term, log.last_index) < (term, index):
            return f"entry {index} of term {term} was on disk, and the log ends with {log.last_index}"
        self._noted = (0, 0)
        self.note(log)
        return ""

    def note(self, log: ReplicaLog) -> None:
        """The log was synced. Nothing is waited for."""
        if log.synced_end > self._noted:
            self._noted = log.synced_end
            with suppress(OSError):
                self._disk.write(self._path, 0, encode_reached(*self._noted))

    def forget(self) -> None:
        """Another log takes the place of this one, or none. Blocks.

        Raises:
            OSError: the disk refused.
        """
        self._noted = (0, 0)
        if REACHED_NAME in self._disk.list_dir(self._directory):
            self._disk.remove(self._path)


def encode_reached(term: int, index: int) -> bytes:
    """What the file says of an entry."""
    entry = _ENTRY.pack(term, index)
    return entry + _CHECKSUM.pack(crc32c(entry))


def decode_reached(data: bytes) -> tuple[int, int]:
    """Term and index; zeros if the file says nothing."""
    entry, checksum = data[: _ENTRY.size], data[_ENTRY.size : _ENTRY.size + _CHECKSUM.size]
    if len(checksum) < _CHECKSUM.size or _CHECKSUM.pack(crc32c(entry)) != checksum:
        return 0, 0
    term, index = _ENTRY.unpack(entry)
    return term, index
