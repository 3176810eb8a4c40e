"""Where a table's files are: a local directory, or a prefix of an object store.

What a table needs of either: whole files that appear under their name at once, a name that only one of two writers can
take, and a list that shows what is there. A directory gives that by links, renames and syncs; an object store by
conditional writes. Names are relative to the place, with `/` between folder and file.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

from slipstream.spark.lake.syncing import sync_directory

__all__ = ["Entry", "LocalPlace", "Place", "is_object_store", "joined", "place_at", "split_path"]

_PLACES: Final = 64  # object stores that connections are kept to


@dataclass(frozen=True)
class Entry:
    """One file of a place."""

    name: str  # without its folder
    size: int
    modified: float  # seconds since 1970, by the clock of whoever keeps it


class Place(Protocol):
    """Files under names."""

    def list(self, folder: str = "") -> list[Entry]:
        """The files directly in a folder; none if it is not there."""
        ...

    def read(self, name: str) -> bytes:
        """A file.

        Raises:
            FileNotFoundError: it is not there.
        """
        ...

    def size(self, name: str) -> int:
        """Bytes of a file.

        Raises:
            FileNotFoundError: it is not there.
        """
        ...

    def create(self, name: str, data: bytes) -> None:
        """Write a file that must not be there. The data is the caller's alone, so that it knows its own again.

        Raises:
            FileExistsError: somebody has taken the name.
        """
        ...

    def write(self, name: str, data: bytes, *, keep_time: bool = False) -> None:
        """Write a file, or replace it; `keep_time`: with the time of the one before, where times can be set."""
        ...

    def fill(self, name: str, write: Callable[[BinaryIO], bool]) -> int | None:
        """Write a large file; it has its name when it is complete.

        Args:
            name: one that nobody else uses.
            write: gets the file; whether it is wanted after all.

        Returns:
            Its size; None if it was not wanted.
        """
        ...

    def touch(self, name: str) -> None:
        """Give a file the time of now; one that is gone stays gone.

        Raises:
            FileNotFoundError: it is not there.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...

    def source(self, name: str) -> Any:
        """What Arrow reads a file from.

        Raises:
            FileNotFoundError: it is not there.
        """
        ...


def is_object_store(location: str) -> bool:
    """Whether a place is a URL of an object store."""
    return "://" in location


def joined(location: str, name: str) -> str:
    """A place inside a place."""
    return f"{location.rstrip('/')}/{name}" if is_object_store(location) else str(Path(location) / name)


def split_path(path: str) -> tuple[str, str]:
    """The place and the name of a file."""
    location, _, name = path.rpartition("/")
    return location or ("/" if path.startswith("/") else "."), name


def place_at(location: str) -> Place:
    """The place of that name.

    Raises:
        LakeError: it is no object store that can be used.
    """
    return _object_place(location.rstrip("/")) if is_object_store(location) else LocalPlace(location)


@lru_cache(maxsize=_PLACES)
def _object_place(location: str) -> Place:
    from slipstream.spark.lake.object_place import ObjectPlace

    return ObjectPlace(location)


class LocalPlace:
    """A directory; what is written outlives a power cut."""

    def __init__(self, location: str) -> None:
        """Name it; it is made when something is written there."""
        self._root = Path(location)

    def list(self, folder: str = "") -> list[Entry]:
        found = []
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._root / folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if entry.is_file():
                        facts = entry.stat()
                        found.append(Entry(entry.name, facts.st_size, facts.st_mtime))
        return found

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def size(self, name: str) -> int:
        return os.path.getsize(self._root / name)

    def create(self, name: str, data: bytes) -> None:
        path = self._root / name
        unfinished = self._written(path.parent, data)
        try:
            os.link(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
        sync_directory(path.parent)

    def write(self, name: str, data: bytes, *, keep_time: bool = False) -> None:
        path = self._root / name
        times = path.stat() if keep_time else None
        unfinished = self._written(path.parent, data)
        if times is not None:
            os.utime(unfinished, ns=(times.st_atime_ns, times.st_mtime_ns))
        os.replace(unfinished, path)
        sync_directory(path.parent)

    def fill(self, name: str, write: Callable[[BinaryIO], bool]) -> int | None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.unfinished")
        try:
            with open(unfinished, "wb") as file:
                if not write(file):
                    return None
                file.flush()
                os.fsync(file.fileno())
            os.rename(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
        sync_directory(path.parent)
        return os.path.getsize(path)

    def touch(self, name: str) -> None:
        os.utime(self._root / name)

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def source(self, name: str) -> str:
        path = str(self._root / name)
        if not os.path.exists(path):
            raise FileNotFoundError(path)
        return path

    def _written(self, directory: Path, data: bytes) -> Path:
        """A file under a name of its own, synced."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f".{uuid.uuid4().hex}"
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return path
