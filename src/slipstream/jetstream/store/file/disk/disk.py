"""What the store asks of a file system: small enough to simulate.

Tests replace the real one (`real_disk`) by one that records every call, forgets unsynced writes, tears them, runs out
of space or fails. Files are named by path.

What this is not: policy. No retry, no fallback, no interpretation; an `OSError` goes to the caller as it is.

Contract of durability: `write`, `truncate` and `allocate` are volatile until `sync` of that path returns; `create`,
`rename`, `remove`, `make_dir` and `remove_dir` until `sync_dir` of the directory returns that has the entry. What is in
a directory whose own entry is volatile can vanish with it: `make_dirs` is how directories are made to stay. `write` is
all or an error, but a crash may leave any part of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from slipstream.dataclass import dataclass

__all__ = ["PLAIN", "Disk", "Seal", "SyncedWrite", "make_dirs"]


@dataclass(frozen=True, slots=True)
class Seal:
    """How a disk seals what a store writes to it: not at all, unless it says so."""

    cipher: int = 0
    """Of new files, 0 for none."""
    key_id: int = 0
    frame_room: int = 0
    """Bytes that every frame in a file of frames must leave free at its end."""
    frame_bytes: int = 262144
    """A frame is to be closed when it grows beyond."""
    direct: bool = True
    """Whether files hold what the store wrote, for readers that open them themselves."""
    packs: bool = False
    """Whether a closed segment may be written again in packed form."""
    converting: bool = False
    """Whether small files are to be written anew: encryption is being turned on or off."""


PLAIN = Seal()


class SyncedWrite(Protocol):
    """A write and its sync, under way in a thread."""

    def wait(self, seconds: float) -> bool:
        """Whether it is done, after so long at most; negative: wait until it is. Once True, never asked again.

        Raises:
            OSError: the write or the sync has failed.
        """
        ...


class Disk(Protocol):
    """What the store asks of a file system. Safe to call from several threads."""

    @property
    def seal(self) -> Seal:
        """What it does to the bytes of new files."""
        ...

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer at the end of the file."""
        ...

    def read_stretches(self, path: str, stretches: bytes, room: memoryview, *, wait: bool = True) -> int:
        """Fill `room` with stretches of a file, packed pairs of offset and length; how many bytes that are.

        The first that is not there whole ends it; without `wait`, so does one that is not in memory, and any error.
        """
        ...

    def size(self, path: str) -> int:
        """Length of a file in bytes."""
        ...

    def link_count(self, path: str) -> int:
        """How many names a file has: a power cut within a rename may leave both."""
        ...

    def create(self, path: str) -> None:
        """Make an empty file; fails when it exists."""
        ...

    def allocate(self, path: str, length: int) -> None:
        """Reserve space so that the file is at least this long; new bytes read as zeros."""
        ...

    def write(self, path: str, offset: int, data: bytes) -> None:
        """Write all of `data` at `offset`."""
        ...

    def write_many(self, writes: Sequence[tuple[str, int, bytes]]) -> list[OSError | None]:
        """As `write` of each path, offset and bytes; for each its error. One that fails does not keep the others."""
        ...

    def overwrite(self, path: str, patches: Sequence[tuple[int, bytes]]) -> None:
        """Change bytes that were written before, at these offsets; a crash leaves whatever else is in the file."""
        ...

    def truncate(self, path: str, length: int) -> None:
        """Cut the file to this length."""
        ...

    def sync(self, path: str) -> None:
        """Return when the content of the file is on stable storage."""
        ...

    def begin_synced_write(self, path: str, offset: int, data: bytes) -> SyncedWrite | None:
        """Begin a `write` with its `sync`, for a caller who may wait a moment; None: not now, nothing was done."""
        ...

    def sync_many(self, paths: Collection[str]) -> None:
        """As `sync` of each, in one go where that is faster.

        After an error nothing is known about any of them; `sync` of each tells which are concerned.
        """
        ...

    def sync_dir(self, path: str) -> None:
        """Return when the entries of a directory are on stable storage."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, replacing what has it; or a directory a new one."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file."""
        ...

    def remove_many(self, paths: Collection[str]) -> None:
        """As `remove` of each, in one go where that is faster; after an error some of them are gone."""
        ...

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents; none of them need be new."""
        ...

    def remove_dir(self, path: str) -> None:
        """Delete an empty directory."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty when there is no such directory."""
        ...

    def is_dir(self, path: str) -> bool:
        """Whether the path is a directory."""
        ...

    def write_back(self, path: str, offset: int, length: int) -> None:
        """Begin to bring these bytes to stable storage, so that a `sync` to come has less to wait for. A hint."""
        ...

    def drop_cache(self, path: str) -> None:
        """Ask that the next read comes from the device, not from memory. A hint."""
        ...


def make_dirs(disk: Disk, path: str, *, below: str) -> None:
    """Make a directory and those between it and `below`, which is there to stay; all of them are when this returns.

    One that is there already is synced as well: whoever made it may have died before he did.
    """
    at = below
    for name in path[len(below) + 1 :].split("/"):
        disk.make_dir(f"{at}/{name}")
        disk.sync_dir(at)
        at = f"{at}/{name}"
