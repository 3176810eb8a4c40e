"""Who this server is among the others, and which cluster it belongs to: twice, each with a checksum.

    <directory>/PROMISE, PROMISE.2

The first thing that a server writes is its incarnation. If it finds none, its store is new or was wiped: it takes a new
one, and so never speaks as the member that has forgotten what it voted and acknowledged. If both copies are damaged,
nobody knows which member it was: all that is in the directory is put aside, and it begins as a new one, too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk.disk import Disk, make_dirs
from slipstream.jetstream.store.file.replica.votes import VOTE_NAME
from slipstream.jetstream.store.file.segments.compaction import write_whole_file
from slipstream.kernels.log.record import crc32c
from slipstream.replication.meta.founding import Promise, decode_promise, encode_promise

__all__ = ["INCARNATION_BYTES", "PromiseFile"]

INCARNATION_BYTES: Final = 8
_NAMES: Final = ("PROMISE", "PROMISE.2")  # damage to one of them costs nothing
_CHECKSUM: Final = struct.Struct("<I")  # stands before a promise
_BYTES_MAX: Final = 1 << 20
_MADE_LATER: Final = {VOTE_NAME, "log", "replicas"}


class PromiseFile:
    """Both copies. Every call blocks."""

    def __init__(self, disk: Disk, directory: str, log: Callable[[str, str], None]) -> None:
        """Nothing is read yet; `log` is told of damage, with a level."""
        self._disk = disk
        self._directory = directory
        self._log = log

    def open(self, new_incarnation: Callable[[], bytes]) -> Promise:
        """What was kept, or a new incarnation, which is kept when this returns.

        Raises:
            OSError: the disk refused.
        """
        above = self._directory.rsplit("/", 1)[0]
        make_dirs(self._disk, self._directory, below=above)
        try:
            found, is_whole = self._load()
        except StorageFault as fault:
            self._put_aside(fault)
            make_dirs(self._disk, self._directory, below=above)
            found, is_whole = None, False
        if found is None:
            found = Promise(incarnation=new_incarnation())
        if not is_whole:
            self.save(found)
        return found

    def save(self, promise: Promise) -> None:
        """Keep this in the place of the one before.

        Raises:
            OSError: it may not be kept.
        """
        body = encode_promise(promise)
        data = _CHECKSUM.pack(crc32c(body)) + body
        for name in _NAMES:
            write_whole_file(self._disk, f"{self._directory}/{name}", data)
            self._disk.sync_dir(self._directory)

    def _load(self) -> tuple[Promise | None, bool]:
        """What was promised, if anything, and whether both copies say so."""
        present = self._disk.list_dir(self._directory)
        there = [name for name in _NAMES if name in present]
        found: list[Promise] = []
        for name in there:
            data = self._disk.read(f"{self._directory}/{name}", 0, _BYTES_MAX)
            if data[: _CHECKSUM.size] == _CHECKSUM.pack(crc32c(data[_CHECKSUM.size :])):
                found.append(_decoded(data[_CHECKSUM.size :], self._directory))
            else:
                self._log("WRN", f"{self._directory}/{name} is damaged")
        if not found and (there or _MADE_LATER.intersection(present)):
            raise StorageFault("which member of the cluster this server was cannot be read", path=self._directory)
        # Of two that differ the first was written last; a copy that says more than the other is never the older one.
        best = max(
            found, key=lambda promise: (promise.removed, promise.holds, promise.charter is not None), default=None
        )
        return best, len(found) == len(_NAMES) and found[0] == found[1]

    def _put_aside(self, fault: StorageFault) -> None:
        disk, aside, number = self._disk, f"{self._directory}.damaged", 1
        while disk.is_dir(f"{aside}.{number}"):
            number += 1
        disk.rename(self._directory, f"{aside}.{number}")
        disk.sync_dir(self._directory.rsplit("/", 1)[0])
        self._log(
            "ERR", f"JetStream cluster: {fault}. It joins as a new server; what was there is kept in {aside}.{number}"
        )


def _decoded(body: bytes, directory: str) -> Promise:
    try:
        return decode_promise(body)
    except ValueError as error:
        raise StorageFault(str(error), path=directory) from error
