"""A plain log of Raft entries on a simulated disk: just enough to lose what was not synced, and nothing else."""

from __future__ import annotations

import struct
import zlib

from slipstream.testing.sim_disk import SimDisk

_HEAD = struct.Struct("<IIQQB")  # checksum of what follows, length of the data, index, term, kind


class PlainLog:
    """Entries one behind the other; one whose index is not new replaces the old one and everything behind it."""

    def __init__(self, disk: SimDisk, directory: str, *, cuts_tail: bool = True) -> None:
        """Read what is there, and forget what was torn. `cuts_tail` off is a mutant: the old entry stays."""
        self._disk = disk
        self._path = f"{directory}/log"
        self._cuts_tail = cuts_tail
        self.entries: list[tuple[int, int, int, bytes]] = []
        if "log" not in disk.list_dir(directory):
            disk.create(self._path)
            disk.sync(self._path)
            disk.sync_dir(directory)
        data, at = disk.read(self._path, 0, disk.size(self._path)), 0
        while (entry := _decode(data, at)) is not None:
            self._put(entry)
            at += _HEAD.size + len(entry[3])
        self._end = at
        disk.truncate(self._path, at)
        disk.sync(self._path)

    @property
    def last_index(self) -> int:
        return len(self.entries)

    def append(self, entries: list[tuple[int, int, int, bytes]]) -> None:
        """Write without a sync."""
        for entry in entries:
            index, term, kind, data = entry
            body = _HEAD.pack(0, len(data), index, term, kind)[4:] + data
            self._disk.write(self._path, self._end, struct.pack("<I", zlib.crc32(body)) + body)
            self._end += 4 + len(body)
            self._put(entry, live=True)

    def sync(self) -> None:
        self._disk.sync(self._path)

    def terms(self) -> list[tuple[int, int]]:
        """Where each term begins."""
        runs = [(0, 0)]
        for index, term, _, _ in self.entries:
            if runs[-1][1] != term:
                runs.append((index, term))
        return runs

    def _put(self, entry: tuple[int, int, int, bytes], *, live: bool = False) -> None:
        if entry[0] <= len(self.entries) and (live or self._cuts_tail):
            del self.entries[entry[0] - 1 :]
        if entry[0] == len(self.entries) + 1:
            self.entries.append(entry)


def _decode(data: bytes, at: int) -> tuple[int, int, int, bytes] | None:
    if at + _HEAD.size > len(data):
        return None
    checksum, length, index, term, kind = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + length
    if end > len(data) or zlib.crc32(data[at + 4 : end]) != checksum:
        return None
    return index, term, kind, data[at + _HEAD.size : end]
