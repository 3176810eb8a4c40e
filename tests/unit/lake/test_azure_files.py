"""Files of Iceberg tables in Azure: whole when they are closed, and not there when they were not finished."""

from __future__ import annotations

import obstore
import pytest
from obstore.store import AzureStore, MemoryStore
from pyiceberg.io import InputFile

from slipstream.lake.azure_files import AzureFile, azure_store
from slipstream.lake.recorded_io import RecordedFileIO

KEY = "c2VjcmV0"


class Read(InputFile):
    """What readers see of a store in memory."""

    def __init__(self, location: str, store: MemoryStore) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        return int(obstore.head(self._store, "file")["size"])

    def exists(self) -> bool:
        return bool(obstore.list(self._store).collect())

    def open(self, seekable: bool = True) -> None:  # type: ignore[override]
        raise NotImplementedError


def test_a_file_is_there_when_it_is_whole() -> None:
    store = MemoryStore()
    file = AzureFile("abfss://c@a/file", store, "file", Read("abfss://c@a/file", store))
    with pytest.raises(ZeroDivisionError), file.create() as output:
        output.write(b"half")
        _ = 1 // 0
    assert not file.exists()
    with file.create() as output:
        output.write(b"one ")
        output.write(b"and all")
        assert not file.exists()
    output.close()  # once more, as libraries do
    assert len(file) == 11 and file.to_input_file().exists()
    with pytest.raises(FileExistsError):
        file.create()
    with file.create(overwrite=True) as output:
        output.write(b"new")
    assert bytes(obstore.get(store, "file").bytes()) == b"new"


@pytest.mark.parametrize(
    ("authority", "endpoint"),
    [(".blob.example.org", "https://account.blob.example.org"), ("127.0.0.1:10000", "https://127.0.0.1:10000/account")],
)
def test_the_login_is_that_of_the_catalogue(authority: str, endpoint: str) -> None:
    login = {"adls.account-name": "account", "adls.account-key": KEY}
    assert azure_store("c", login).config["account_key"] == KEY
    elsewhere = azure_store("c", {**login, "adls.blob-storage-authority": authority})
    assert elsewhere.config["endpoint"] == endpoint
    assert isinstance(elsewhere, AzureStore)


def test_writes_to_azure_take_this_way() -> None:
    files = RecordedFileIO({"adls.account-name": "account", "adls.account-key": KEY})
    assert isinstance(files.new_output("abfss://c@account.dfs.core.windows.net/t/file"), AzureFile)
    assert not isinstance(files.new_output("file:///t/file"), AzureFile)
    assert files.written == ["abfss://c@account.dfs.core.windows.net/t/file", "file:///t/file"]
