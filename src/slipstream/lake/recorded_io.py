"""Files of Iceberg tables through Arrow, as pyiceberg has them, with a list of what was written.

pyiceberg leaves the files of a commit that is refused where they are. They are in no snapshot, so nothing would remove
what is in them: not an expiry, not an erasure. Who writes knows them by this list and removes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import GCS_DEFAULT_LOCATION, GCS_SERVICE_HOST, GCS_TOKEN, GCS_TOKEN_EXPIRES_AT_MS
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

__all__ = ["RECORDED_IO", "RecordedFileIO", "discarding"]

RECORDED_IO: Final = "slipstream.lake.recorded_io.RecordedFileIO"
"""How catalogues find it (`py-io-impl`)."""
GCS_RETRY_SECONDS: Final = 60
"""How long a call to Google Cloud is tried again; a turn that fails is followed by another one."""
_AZURE: Final = ("abfs", "abfss", "wasb", "wasbs")


class RecordedFileIO(PyArrowFileIO):
    """Remembers the files that were written."""

    def __init__(self, properties: dict[str, str] | None = None) -> None:
        """As pyiceberg makes it."""
        super().__init__(properties or {})
        self.written: list[str] = []
        self._stores: dict[str, Any] = {}  # of Azure, by container

    def _initialize_gcs_fs(self) -> Any:
        """As pyiceberg does it, and with an end: Arrow asks Google Cloud again for fifteen minutes, in every call."""
        from pyarrow.fs import GcsFileSystem

        wanted: dict[str, Any] = {"retry_time_limit": timedelta(seconds=GCS_RETRY_SECONDS)}
        if token := self.properties.get(GCS_TOKEN):
            wanted["access_token"] = token
        if expires_ms := self.properties.get(GCS_TOKEN_EXPIRES_AT_MS):
            wanted["credential_token_expiration"] = datetime.fromtimestamp(int(expires_ms) / 1000, UTC)
        if location := self.properties.get(GCS_DEFAULT_LOCATION):
            wanted["default_bucket_location"] = location
        if endpoint := self.properties.get(GCS_SERVICE_HOST):
            scheme, _, host = endpoint.rpartition("://")
            wanted |= {"scheme": scheme or "https", "endpoint_override": host}
        return GcsFileSystem(**wanted)

    @staticmethod
    def parse_location(location: str, properties: Properties = EMPTY_DICT) -> tuple[str, str, str]:
        """Scheme, host and path for Arrow.

        Everybody names a place in Azure `abfss://container@account…/path`; Arrow knows the account already, and takes
        all that is before the first slash for the container.
        """
        scheme, host, path = PyArrowFileIO.parse_location(location, properties)
        if scheme in _AZURE:
            container, _, rest = path.partition("/")
            path = f"{container.partition('@')[0]}/{rest}"
        return scheme, host, path

    def delete(self, location: Any) -> None:
        """Remove a file; one that is gone already is what was wanted.

        Arrow says that it failed when the store has lost its answer, or does not take the marker of an empty directory
        that Arrow leaves behind.
        """
        try:
            super().delete(location)
        except OSError:
            path = location if isinstance(location, str) else location.location
            if self.new_input(path).exists():
                raise

    def new_output(self, location: str) -> Any:
        """A file to write."""
        self.written.append(location)
        scheme, _, path = self.parse_location(location, self.properties)
        if scheme not in _AZURE:
            return super().new_output(location)
        from slipstream.lake.azure_files import AzureFile, azure_store

        container, _, name = path.partition("/")
        if container not in self._stores:
            self._stores[container] = azure_store(container, self.properties)
        return AzureFile(location, self._stores[container], name, self.new_input(location))


@contextmanager
def discarding(table: Any) -> Iterator[None]:
    """Change a table; if the change is refused, remove what was written for it."""
    io = table.io
    if not isinstance(io, RecordedFileIO):  # somebody has chosen another library for this table
        yield
        return
    io.written.clear()
    try:
        yield
    except CommitFailedException:
        for path in io.written:
            with suppress(OSError):
                io.delete(path)
        raise
