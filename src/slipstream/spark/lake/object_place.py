"""Files of a table in an object store (S3, GCS, Azure and what speaks their protocols), through obstore.

Credentials, regions and endpoints are those of the environment (`AWS_…`, `GOOGLE_…`, `AZURE_…`), so they are in no
plan, no log and no command line.

A store may do what it was asked and lose its answer; the library then asks again. So nothing here trusts a refusal that
could be the answer to its own first try: a name that is taken is ours if our data is there.
"""

from __future__ import annotations

import io
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

from slipstream.config.lake_secrets import location_problem
from slipstream.spark.lake.errors import LakeError
from slipstream.spark.lake.places import Entry

__all__ = ["ObjectPlace"]

_SPOOLED_BYTES: Final = 64 << 20  # of a file that is being made in memory; then in a temporary file
_TOUCHES: Final = 3  # of a lease that is written by its own job alone


class ObjectPlace:
    """A prefix of a bucket."""

    def __init__(self, location: str) -> None:
        """Connect to nothing yet.

        Raises:
            LakeError: obstore is missing, does not know such stores, or the location has more than a place in it.
        """
        if problem := location_problem(location):
            raise LakeError(problem)
        try:
            import obstore
            from obstore.exceptions import BaseError
            from obstore.store import from_url
        except ImportError as error:
            raise LakeError(f"{error.name} is not installed: pip install 'slipstream-server[objects]'") from error
        self._location = location
        self._obstore = obstore
        try:
            self._store: Any = from_url(location)
        except (BaseError, ValueError) as error:
            raise LakeError(f"{location} cannot be used: {error}") from error

    def prove(self) -> None:
        """Look whether a name can be taken only once here.

        Raises:
            LakeError: it is not so: of two writers both would believe that they made a version.
        """
        name = f"_probe/{uuid.uuid4().hex}"
        self.create(name, b"first")
        try:
            self.create(name, b"second")
        except FileExistsError:
            return
        finally:
            self.remove(name)
        raise LakeError(
            f"{self._location}: this store ignores conditions of writes (If-None-Match), and no table is safe without"
        )

    def list(self, folder: str = "") -> list[Entry]:
        with self._translated(folder):
            found = self._obstore.list_with_delimiter(self._store, folder or None)["objects"]
        # Bytes of an upload that was not finished are no object, so there is nothing to leave out.
        return [
            Entry(one["path"].rpartition("/")[2], int(one["size"]), one["last_modified"].timestamp()) for one in found
        ]

    def read(self, name: str) -> bytes:
        with self._translated(name):
            return bytes(self._obstore.get(self._store, name).bytes())

    def size(self, name: str) -> int:
        with self._translated(name):
            return int(self._obstore.head(self._store, name)["size"])

    def create(self, name: str, data: bytes) -> None:
        try:
            with self._translated(name):
                self._obstore.put(self._store, name, data, mode="create", use_multipart=False)
        except (FileExistsError, LakeError):
            # A try may have come through and its answer not: then our data is there.
            if not self._holds(name, data):
                raise

    def _holds(self, name: str, data: bytes) -> bool:
        try:
            return self.read(name) == data
        except FileNotFoundError:
            return False

    def write(self, name: str, data: bytes, *, keep_time: bool = False) -> None:
        with self._translated(name):
            self._obstore.put(self._store, name, data, use_multipart=False)

    def fill(self, name: str, write: Callable[[BinaryIO], bool]) -> int | None:
        with tempfile.SpooledTemporaryFile(max_size=_SPOOLED_BYTES) as file:
            if not write(file):  # type: ignore[arg-type]  # has all that is needed of a file
                return None
            size = file.tell()
            file.seek(0)
            with self._translated(name):
                self._obstore.put(self._store, name, file)
        return size

    def touch(self, name: str) -> None:
        for attempt in range(_TOUCHES):
            with self._translated(name):
                found = self._obstore.get(self._store, name)
                # S3 and Azure go by the tag, GCS by the version.
                known: Any = {key: found.meta[key] for key in ("e_tag", "version") if found.meta[key] is not None}
                data = bytes(found.bytes())
            try:
                # Only if it is there: whoever breaks a lease has the last word.
                with self._translated(name):
                    self._obstore.put(self._store, name, data, mode=known, use_multipart=False)
                return
            except FileExistsError:
                if attempt == _TOUCHES - 1:
                    raise FileNotFoundError(name) from None

    def remove(self, name: str) -> None:
        try:
            with self._translated(name):
                self._obstore.delete(self._store, name)
        except FileNotFoundError:
            pass

    def source(self, name: str) -> Any:
        size = self.size(name)

        def ranged(start: int, length: int) -> bytes:
            with self._translated(name):
                return bytes(self._obstore.get_range(self._store, name, start=start, length=length))

        return _Ranges(size, ranged)

    @contextmanager
    def _translated(self, name: str) -> Iterator[None]:
        from obstore import exceptions as told

        try:
            yield
        except (told.NotFoundError, FileNotFoundError) as error:
            raise FileNotFoundError(f"{self._location}/{name}") from error
        except (told.AlreadyExistsError, told.PreconditionError) as error:
            raise FileExistsError(f"{self._location}/{name}") from error
        except told.BaseError as error:
            raise LakeError(f"{self._location}/{name}: {str(error).partition(chr(10))[0]}") from error


class _Ranges(io.RawIOBase):
    """An object as a file that is read in pieces."""

    def __init__(self, size: int, ranged: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._size = size
        self._ranged = ranged
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(self._size - self._at, 0)
        length = left if size is None or size < 0 else min(size, left)
        data = self._ranged(self._at, length) if length else b""
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()
