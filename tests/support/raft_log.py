"""A plain log of Raft entries on a simulated disk: just enough to lose what was not synced, and nothing else."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from slipstream.testing.sim_disk import SimDisk

_HEAD = struct.Struct("<IIQQB")  # checksum of what follows, length of the data, index, term, kind


class PlainLog:
    """Entries one behind the other; one whose index is not new replaces the old one and everything behind it."""

    def __init__(self, disk: SimDisk, directory: str, *, cuts_tail: bool = True) -> None:
        """Read what is there, and forget what was torn. `cuts_tail` off is a mutant: the old entry stays."""
        self._disk = disk
        self._path = f"{directory}/log"
        self._cuts_tail = cuts_tail
        self._entries: list[tuple[int, int, int, bytes]] = []
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
        self.synced_index = self.last_index

    @property
    def first_index(self) -> int:
        return 1

    @property
    def last_index(self) -> int:
        return len(self._entries)

    def entries(self, low: int, high: int, max_bytes: int) -> Sequence[tuple[int, int, int, bytes]]:
        return self._entries[low - 1 : high - 1]

    def heads(self, low: int, high: int, max_bytes: int) -> Sequence[tuple[int, int, int, bytes]]:
        return self.entries(low, high, max_bytes)

    def term(self, index: int) -> int:
        return self._entries[index - 1][1] if index else 0

    def write(self, entries: Sequence[tuple[int, int, int, bytes]]) -> None:
        """Write without a sync."""
        for entry in entries:
            self.synced_index = min(self.synced_index, entry[0] - 1)
            index, term, kind, data = entry
            body = _HEAD.pack(0, len(data), index, term, kind)[4:] + data
            self._disk.write(self._path, self._end, struct.pack("<I", zlib.crc32(body)) + body)
            self._end += 4 + len(body)
            self._put(entry, live=True)

    def sync(self) -> None:
        self._disk.sync(self._path)
        self.synced_index = self.last_index

    def terms(self) -> list[tuple[int, int]]:
        """Where each term begins."""
        runs = [(0, 0)]
        for index, term, _, _ in self._entries:
            if runs[-1][1] != term:
                runs.append((index, term))
        return runs

    def _put(self, entry: tuple[int, int, int, bytes], *, live: bool = False) -> None:
        if entry[0] <= len(self._entries) and (live or self._cuts_tail):
            del self._entries[entry[0] - 1 :]
        if entry[0] == len(self._entries) + 1:
            self._entries.append(entry)


def _decode(data: bytes, at: int) -> tuple[int, int, int, bytes] | None:
    if at + _HEAD.size > len(data):
        return None
    checksum, length, index, term, kind = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + length
    if end > len(data) or zlib.crc32(data[at + 4 : end]) != checksum:
        return None
    return index, term, kind, data[at + _HEAD.size : end]
