"""Where streams are written before they count: a directory of its own in the target, with a note of what is done.

    <store>/jetstream/.lock                         held, so that no server starts meanwhile
    <store>/jetstream/.migrating/progress.json      what is complete and compared
    <store>/jetstream/.migrating/<id>/              a stream, later <store>/jetstream/<account>/streams/<id>/

Nothing is put in place before everything is complete. A run that was killed is repeated: what the note vouches for and
the source has not changed since stays, the rest is removed and done again. The server does not start as long as the
directory is there.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Final

from slipstream.jetstream.account.directory import account_directory
from slipstream.migrate.errors import MigrationError
from slipstream.server.jetstream.foreign_store import MIGRATING

__all__ = ["Done", "MigrationStage"]

_PROGRESS: Final = "progress.json"


@dataclass(slots=True)
class Done:
    """A stream that is complete and compared."""

    account: str
    stream: str
    directory: str
    fingerprint: str
    messages: int
    size_bytes: int
    first_seq: int
    last_seq: int
    digest: str
    consumers: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)


class MigrationStage:
    """The work of one migration into a store directory. A context: leaving it releases the lock."""

    def __init__(self, store_directory: str, source: str) -> None:
        """Take the directory.

        Raises:
            MigrationError: a server uses it, or a migration of something else is not finished there.
        """
        self.root = os.path.join(os.path.abspath(store_directory), "jetstream")
        self.directory = os.path.join(self.root, MIGRATING)
        self._source = source
        os.makedirs(self.root, mode=0o700, exist_ok=True)
        self._lock = os.open(os.path.join(self.root, ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise MigrationError(f"{store_directory} is in use by a server or another migration") from None
        try:
            self.done = self._load()
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> MigrationStage:
        """Nothing more to do."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Let others have the directory."""
        os.close(self._lock)

    def refuse_existing(self, accounts: list[str]) -> None:
        """Nothing that is there already may be replaced or mixed with what comes.

        Raises:
            MigrationError: an account has streams in the target.
        """
        ours = {done.directory for done in self.done.values()}
        for account in accounts:
            there = set(_names(os.path.join(self.root, account_directory(account), "streams"))) - ours
            if there:
                raise MigrationError(
                    f"{os.path.dirname(self.root)} holds {len(there)} streams of account {account} already: "
                    f"migrate into an empty directory, or into the running server with --to URL"
                )

    def begin(self) -> None:
        """Make the directory, and remove what an earlier run did not complete."""
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        kept = {done.directory for done in self.done.values()}
        for name in _names(self.directory):
            if name not in kept and name != _PROGRESS:
                self.discard(name)
        self._save()

    def path(self, directory: str) -> str:
        """Where a stream is written."""
        return os.path.join(self.directory, directory)

    def discard(self, directory: str) -> None:
        """Remove a stream that is not complete."""
        path = self.path(directory)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.remove(path)

    def complete(self, done: Done) -> None:
        """Note that a stream is complete, durably."""
        self.done[done.account, done.stream] = done
        _sync(self.directory)
        self._save()

    def forget(self, account: str, stream: str) -> None:
        """A stream has to be done again."""
        done = self.done.pop((account, stream))
        self.discard(done.directory)
        self._save()

    def publish(self, chosen: Iterable[Done]) -> None:
        """Put these in place, and remove all others. May be cut short and repeated."""
        for done in chosen:
            streams = os.path.join(self.root, account_directory(done.account), "streams")
            os.makedirs(streams, mode=0o700, exist_ok=True)
            _sync(self.root)
            _sync(os.path.dirname(streams))
            if os.path.isdir(self.path(done.directory)):
                os.rename(self.path(done.directory), os.path.join(streams, done.directory))
            _sync(streams)
        _sync(self.directory)
        shutil.rmtree(self.directory)
        _sync(self.root)

    def abandon(self) -> None:
        """Leave nothing behind."""
        if os.path.isdir(self.directory):
            shutil.rmtree(self.directory)
            _sync(self.root)

    def _load(self) -> dict[tuple[str, str], Done]:
        try:
            with open(os.path.join(self.directory, _PROGRESS), "rb") as file:
                noted: dict[str, Any] = json.load(file)
            if noted["source"] != self._source:
                raise MigrationError(
                    f"a migration from {noted['source']} is not finished here: run it again, or remove {self.directory}"
                )
            streams = [Done(**fields) for fields in noted["streams"]]
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError) as error:
            raise MigrationError(f"{os.path.join(self.directory, _PROGRESS)}: {error}; remove the directory") from None
        return {(done.account, done.stream): done for done in streams if self._is_there(done)}

    def _is_there(self, done: Done) -> bool:
        placed = os.path.join(self.root, account_directory(done.account), "streams", done.directory)
        return os.path.isdir(self.path(done.directory)) or os.path.isdir(placed)

    def _save(self) -> None:
        noted = {"source": self._source, "streams": [asdict(done) for done in self.done.values()]}
        path = os.path.join(self.directory, _PROGRESS)
        with open(path + ".new", "wb") as file:
            file.write(json.dumps(noted, indent=1).encode())
            file.flush()
            os.fsync(file.fileno())
        os.rename(path + ".new", path)
        _sync(self.directory)


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def _sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
