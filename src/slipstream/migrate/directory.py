"""A store directory of nats-server: which streams are in it. Opens files for reading only.

<directory>/jetstream/<account>/streams/<stream>/
<directory>/jetstream/$SYS/_js_/                    logs of a cluster's groups; there is one on every node
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cached_property

from slipstream.migrate.errors import MigrationError
from slipstream.migrate.keys import Keys
from slipstream.migrate.natsstream import NatsStream

__all__ = ["StoreDirectory", "StreamFiles"]


class StreamFiles:
    """Implements `Files` over a directory."""

    def __init__(self, directory: str) -> None:
        """Nothing is opened yet."""
        self.directory = directory

    def read(self, path: str) -> bytes | None:
        """See `Files.read`."""
        try:
            with open(os.path.join(self.directory, path), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def names(self, path: str) -> list[str]:
        """See `Files.names`."""
        try:
            return sorted(os.listdir(os.path.join(self.directory, path)))
        except FileNotFoundError:
            return []

    def fingerprint(self) -> str:
        """See `Files.fingerprint`."""
        digest = hashlib.sha256()
        for parent, directories, files in os.walk(self.directory):
            directories.sort()
            for name in sorted(files):
                path = os.path.join(parent, name)
                found = os.stat(path)
                digest.update(f"{os.path.relpath(path, self.directory)} {found.st_size} {found.st_mtime_ns}\n".encode())
        return digest.hexdigest()

    @cached_property
    def size_bytes(self) -> int:
        """See `Files.size_bytes`."""
        blocks = os.path.join(self.directory, "msgs")
        return sum(os.path.getsize(os.path.join(blocks, name)) for name in self.names("msgs") if name.endswith(".blk"))


class StoreDirectory:
    """A store directory, given as the server's `store_dir` or as the `jetstream` in it."""

    def __init__(self, directory: str, *, secrets: Sequence[str], now_ns: int) -> None:
        """Look for it.

        Raises:
            MigrationError: it is not one of nats-server.
        """
        inner = os.path.join(directory, "jetstream")
        self.root = os.path.realpath(inner if os.path.isdir(inner) else directory)
        self._secrets = secrets
        self._now_ns = now_ns
        if not self.accounts():
            raise MigrationError(f"{directory} holds no streams of nats-server")

    def accounts(self) -> dict[str, list[str]]:
        """The streams of each account that has any."""
        found = {}
        for account in sorted(_directories(self.root)):
            streams = [
                # One that begins with a dot is being deleted.
                name
                for name in sorted(_directories(os.path.join(self.root, account, "streams")))
                if not name.startswith(".") and self._is_stream(account, name)
            ]
            if streams:
                found[account] = streams
        return found

    def streams(self, accounts: Sequence[str] = ()) -> list[NatsStream]:
        """The streams of these accounts, or of all.

        Raises:
            MigrationError: an account is not there.
        """
        found = self.accounts()
        for account in accounts:
            if account not in found:
                raise MigrationError(f"there are no streams of account {account}; there are of {', '.join(found)}")
        return [
            NatsStream(
                StreamFiles(self._path(account, name)), account, name, Keys(self._secrets, account), self._now_ns
            )
            for account, names in found.items()
            if not accounts or account in accounts
            for name in names
        ]

    @property
    def is_of_a_cluster(self) -> bool:
        """Whether other servers may have more of the streams than this one."""
        groups = _directories(os.path.join(self.root, "$SYS", "_js_"))
        return any(True for _ in groups)

    def _path(self, account: str, name: str) -> str:
        return os.path.join(self.root, account, "streams", name)

    def _is_stream(self, account: str, name: str) -> bool:
        path = self._path(account, name)
        return os.path.lexists(os.path.join(path, "meta.inf")) or os.path.isdir(os.path.join(path, "msgs"))


def _directories(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
