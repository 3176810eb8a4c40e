"""A lake table as plain Parquet files beside a manifest of our own, for tools that know nothing but Parquet.

    <table>/part-*.parquet
    <table>/_slipstream/0000000007.json      version 7: facts and files

A version is a file under a name that only one of two writers can take (`places`): the other is told. Old versions stay
until `vacuum`, which empties them: a name that was free again could be taken by a writer that still builds on the
version before, and nobody would ever see what it wrote.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Final

from slipstream.spark.lake.base import Archived, Lake, LakeConflict, LakeError, LakeFile, NoLake
from slipstream.spark.lake.places import Entry, place_at

__all__ = ["LOG_DIRECTORY", "PlainLake"]

LOG_DIRECTORY: Final = "_slipstream"
_EMPTIED: Final = b'{"emptied": true}'
_VERSION: Final = re.compile(r"([0-9]+)\.json")
_EMPTIED_SECONDS: Final = 30 * 86_400.0  # no writer builds on a version that was replaced so long ago
_RELOADS: Final = 100  # versions that may be made while we look for the newest


class PlainLake(Lake):
    """Parquet files and a manifest."""

    format = "parquet"

    def __init__(self, location: str) -> None:
        """Open the table.

        Raises:
            LakeError: there is none.
        """
        super().__init__(location)
        self.reload()

    @classmethod
    def create(cls, location: str, facts: Archived) -> PlainLake:
        """Make an empty table for a stream."""
        try:
            place_at(location).create(_name(0), _document(facts, [], "create"))
        except FileExistsError as error:
            raise LakeConflict(f"somebody else made a table at {location} just now; run this again") from error
        return cls(location)

    @property
    def facts(self) -> Archived:
        return self._facts

    @property
    def version(self) -> int:
        return self._version

    def reload(self) -> None:
        for _ in range(_RELOADS):
            versions = self._versions()
            if not versions:
                raise NoLake(f"there is no table at {self.location}")
            try:
                self._facts, self._files = self._read(versions[-1])
            except _Emptied:
                continue  # somebody made a newer one, and emptied this
            self._version = versions[-1]
            return
        raise LakeError(f"the table at {self.location} changes too fast to be read")

    def files(self, version: int | None = None) -> list[LakeFile]:
        if version is None or version == self._version:
            return list(self._files)
        return self._read(version)[1]

    def commit(
        self,
        facts: Archived,
        *,
        add: Sequence[LakeFile] = (),
        remove: Sequence[LakeFile] = (),
        operation: str,
        changes_data: bool = True,
    ) -> int:
        gone = {file.path for file in remove}
        files = sorted(
            [*(file for file in self._files if file.path not in gone), *add], key=lambda file: file.first_seq
        )
        try:
            self.place.create(_name(self._version + 1), _document(facts, files, operation))
        except FileExistsError as error:
            raise LakeConflict(f"somebody else changed {self.location} meanwhile") from error
        self._version += 1
        self._facts, self._files = facts, files
        return self._version

    def gone(self) -> set[str]:
        named = {file.path for file in self._files}
        older: set[str] = set()
        for version in self._versions():
            if version < self._version:
                with suppress(_Emptied):
                    older |= {file.path for file in self._read(version)[1]}
        return older - named

    def forget(self) -> None:
        for version, entry in sorted(self._entries().items()):
            if version >= self._version:
                break
            if entry.size > len(_EMPTIED):
                self.place.write(_name(version), _EMPTIED)
            elif time.time() - entry.modified > _EMPTIED_SECONDS:
                self.place.remove(_name(version))

    def _entries(self) -> dict[int, Entry]:
        entries = self.place.list(LOG_DIRECTORY)
        return {int(found[1]): entry for entry in entries if (found := _VERSION.fullmatch(entry.name))}

    def _versions(self) -> list[int]:
        return sorted(self._entries())

    def _read(self, version: int) -> tuple[Archived, list[LakeFile]]:
        try:
            document = json.loads(self.place.read(_name(version)))
            if document.get("emptied"):
                raise _Emptied(f"version {version} of the table at {self.location} was vacuumed")
            return Archived(**document["facts"]), [LakeFile(**file) for file in document["files"]]
        except FileNotFoundError as error:
            raise LakeError(f"the table at {self.location} has no version {version}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise LakeError(f"version {version} of the table at {self.location} cannot be read: {error}") from error


class _Emptied(LakeError):
    """A version that cannot be read any more."""


def _name(version: int) -> str:
    return f"{LOG_DIRECTORY}/{version:010}.json"


def _document(facts: Archived, files: Sequence[LakeFile], operation: str) -> bytes:
    """A manifest; the mark is no other's, so that who wrote it knows it again."""
    named = [file.as_json() for file in files]
    about = {"operation": operation, "mark": uuid.uuid4().hex, "facts": asdict(facts), "files": named}
    return json.dumps(about).encode()
