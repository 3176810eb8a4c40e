"""A lake table as plain Parquet files beside a manifest of our own, for tools that know nothing but Parquet.

    <table>/part-*.parquet
    <table>/_slipstream/0000000007.json      version 7: facts and files

A version is a file that is written under another name, synced, and linked to its name, which fails if it is taken: so
of two writers one is told. Old versions stay until `vacuum`.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from slipstream.spark.lake.base import Archived, Lake, LakeError, LakeFile

__all__ = ["LOG_DIRECTORY", "PlainLake"]

LOG_DIRECTORY = "_slipstream"


class PlainLake(Lake):
    """Parquet files and a manifest."""

    format = "parquet"

    def __init__(self, location: str) -> None:
        """Open the table.

        Raises:
            LakeError: there is none.
        """
        super().__init__(location)
        self._log = Path(location) / LOG_DIRECTORY
        versions = self._versions()
        if not versions:
            raise LakeError(f"there is no table at {location}")
        self._version = versions[-1]
        self._facts, self._files = self._read(self._version)

    @classmethod
    def create(cls, location: str, facts: Archived) -> PlainLake:
        """Make an empty table for a stream."""
        log = Path(location) / LOG_DIRECTORY
        log.mkdir(parents=True, exist_ok=True)
        _write_once(log / _name(0), _document(facts, [], "create"))
        return cls(location)

    @property
    def facts(self) -> Archived:
        return self._facts

    @property
    def version(self) -> int:
        return self._version

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
            _write_once(self._log / _name(self._version + 1), _document(facts, files, operation))
        except FileExistsError as error:
            raise LakeError(f"somebody else changed {self.location} meanwhile") from error
        self._version += 1
        self._facts, self._files = facts, files
        return self._version

    def vacuum(self) -> int:
        named = {file.path for file in self._files}
        removed = 0
        for path in Path(self.location).glob("*.parquet*"):
            if path.name not in named:
                path.unlink()
                removed += 1
        for version in self._versions()[:-1]:
            (self._log / _name(version)).unlink()
        return removed

    def _versions(self) -> list[int]:
        return sorted(int(path.stem) for path in self._log.glob("[0-9]*.json"))

    def _read(self, version: int) -> tuple[Archived, list[LakeFile]]:
        try:
            document = json.loads((self._log / _name(version)).read_text())
            return Archived(**document["facts"]), [LakeFile(**file) for file in document["files"]]
        except FileNotFoundError as error:
            raise LakeError(f"the table at {self.location} has no version {version}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise LakeError(f"version {version} of the table at {self.location} cannot be read: {error}") from error


def _name(version: int) -> str:
    return f"{version:010}.json"


def _document(facts: Archived, files: Sequence[LakeFile], operation: str) -> str:
    return json.dumps({"operation": operation, "facts": asdict(facts), "files": [file.as_json() for file in files]})


def _write_once(path: Path, text: str) -> None:
    """Write a file that must not be there yet."""
    unfinished = path.with_name(f".{uuid.uuid4().hex}")
    try:
        with open(unfinished, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
