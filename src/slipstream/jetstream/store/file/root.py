"""The directory of all streams: where each lies, and where what cannot be used is put aside.

    <root>/accounts/<account>/<stream>/     one directory a stream, named by the stream's identity
    <root>/quarantine/<account>+<stream>+<n>/   directories nothing could be done with; an operator decides
    <root>/reserve                          space given up when the disk is full

What this is not: a list of streams to believe in. A stream is what its directory says; a directory that says nothing
is moved aside, never deleted.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk import Disk
from slipstream.jetstream.store.file.reserve import Reserve

__all__ = ["StoreRoot"]


class StoreRoot:
    """Names of directories under one root. Blocks; used at start and when streams come and go."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Make the root if it is not there.

        Raises:
            StorageFault: the directory cannot be made.
        """
        self._disk = disk
        self._directory = directory.rstrip("/")
        self._accounts = f"{self._directory}/accounts"
        self._quarantine = f"{self._directory}/quarantine"
        try:
            disk.make_dir(self._accounts)
        except OSError as error:
            raise StorageFault(str(error), path=directory) from error
        self.reserve = Reserve(disk, self._directory)

    def stream_directory(self, account: str, uid: bytes) -> str:
        """Where a stream lies; its parent is there afterwards."""
        parent = f"{self._accounts}/{_name_of(account)}"
        try:
            self._disk.make_dir(parent)
        except OSError as error:
            raise StorageFault(str(error), path=parent) from error
        return f"{parent}/{uid.hex()}"

    def streams(self) -> list[tuple[str, str]]:
        """`(account, directory)` of everything that may be a stream, sorted."""
        found = []
        for name in self._disk.list_dir(self._accounts):
            parent = f"{self._accounts}/{name}"
            for stream in self._disk.list_dir(parent):
                path = f"{parent}/{stream}"
                if self._disk.is_dir(path):
                    found.append((unquote(name[1:]), path))
        return found

    def put_aside(self, directory: str) -> str:
        """Move a directory that cannot be opened into the quarantine; where it is now."""
        account, stream = directory.rsplit("/", 2)[1:]
        taken = set(self._disk.list_dir(self._quarantine))
        number = 1
        while f"{account}+{stream}+{number}" in taken:
            number += 1
        target = f"{self._quarantine}/{account}+{stream}+{number}"
        try:
            self._disk.make_dir(self._quarantine)
            self._disk.rename(directory, target)
            self._disk.sync_dir(self._quarantine)
            self._disk.sync_dir(directory.rsplit("/", 1)[0])
        except OSError as error:
            raise StorageFault(str(error), path=directory) from error
        return target

    def quarantined(self) -> list[str]:
        """Directories that were put aside and wait for an operator."""
        return [f"{self._quarantine}/{name}" for name in self._disk.list_dir(self._quarantine)]


def _name_of(account: str) -> str:
    """A file name for an account: never `.`, never with a slash."""
    return "@" + quote(account, safe="")
