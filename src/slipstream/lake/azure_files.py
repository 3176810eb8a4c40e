"""Files of Iceberg tables that are written to Azure, through obstore.

Arrow waits a minute for each answer that was lost, because it does not see that the connection has ended; obstore asks
again at once. A file is put in its place whole, when it is closed.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

from pyiceberg.io import InputFile, OutputFile, OutputStream

from slipstream.spark.lake.errors import LakeError

__all__ = ["AzureFile", "azure_store"]

# What pyiceberg and obstore call the same thing.
_LOGIN: Final = {
    "adls.account-name": "account_name",
    "adls.account-key": "account_key",
    "adls.sas-token": "sas_key",
    "adls.client-id": "client_id",
    "adls.client-secret": "client_secret",
    "adls.tenant-id": "tenant_id",
}


def azure_store(container: str, properties: Mapping[str, str]) -> Any:
    """A container, with the login of pyiceberg's properties; what these do not say comes from the environment.

    Raises:
        LakeError: obstore is missing.
    """
    try:
        from obstore.store import AzureStore
    except ImportError as error:
        raise LakeError(f"{error.name} is not installed: pip install 'slipstream-server[objects]'") from error
    config: Any = {word: properties[name] for name, word in _LOGIN.items() if name in properties}
    if authority := properties.get("adls.blob-storage-authority"):
        scheme = properties.get("adls.blob-storage-scheme", "https")
        account = properties.get("adls.account-name", "")
        # As Arrow reads it: the end of a host's name, or a host where accounts are paths.
        at_end = authority.startswith(".")
        config["endpoint"] = f"{scheme}://{account}{authority}" if at_end else f"{scheme}://{authority}/{account}"
        return AzureStore(container, config=config, client_options={"allow_http": scheme == "http"})
    return AzureStore(container, config=config)


class AzureFile(OutputFile):
    """A file to be written."""

    def __init__(self, location: str, store: Any, path: str, read: InputFile) -> None:
        """Nothing is written yet.

        Args:
            location: its whole name.
            store: its container.
            path: in the container.
            read: the same file for readers.
        """
        super().__init__(location)
        self._store = store
        self._path = path
        self._read = read

    def __len__(self) -> int:
        """Its bytes, once it is there."""
        return len(self._read)

    def exists(self) -> bool:
        """Whether it is there."""
        return self._read.exists()

    def to_input_file(self) -> InputFile:
        """The same file for readers."""
        return self._read

    def create(self, overwrite: bool = False) -> OutputStream:
        """Begin to write.

        Raises:
            FileExistsError: it is there, and is not to be replaced.
        """
        if not overwrite and self.exists():
            raise FileExistsError(f"Cannot create file, already exists: {self.location}")
        return _Upload(self._store, self._path)


class _Upload(io.BytesIO):
    """Bytes that become a file when they are complete."""

    def __init__(self, store: Any, path: str) -> None:
        super().__init__()
        self._store = store
        self._path = path

    def close(self) -> None:
        if not self.closed:
            import obstore

            try:
                obstore.put(self._store, self._path, self.getvalue())
            finally:
                super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            super().close()  # it was not finished
        else:
            self.close()
