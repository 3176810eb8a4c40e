"""A lake table under a Delta log, through the `deltalake` library: read by Spark, Trino, DuckDB and polars as it is."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from slipstream.spark.lake.base import Archived, Lake, LakeConflict, LakeError, LakeFile, NoLake
from slipstream.spark.lake.files import SCHEMA

__all__ = ["DeltaLake", "delta_schema"]

_T = TypeVar("_T")

# The kernel of Delta refuses properties it does not know, so the stream is named where people look.
_DESCRIPTION: Final = "Messages of the stream {stream} ({identity})"
_DESCRIBED: Final = re.compile(r"Messages of the stream (\S+) \((\S+)\)")
_ARCHIVED: Final = "slipstream-archived"
_ERASED: Final = "slipstream-erased"
_ERASURES: Final = "slipstream-erasures"
_NEEDED: Final = ("num_records", "min.seq", "max.seq", "min.ts_ns", "max.ts_ns")
_RELOADS: Final = 10  # versions that may be made, and vacuumed, while we look
_UNFINISHED: Final = re.compile(r"[0-9]+\.json#[0-9]+")
_UNFINISHED_SECONDS: Final = 600.0  # whoever is not done by then is dead
_LOG: Final = "_delta_log"
_ANY_SUBJECT: Final = ("", "\U0010ffff")  # of a file whose subjects the log does not say


class DeltaLake(Lake):
    """A Delta table. What was archived is in the log's application transactions, so it changes with the files."""

    format = "delta"

    def __init__(self, location: str) -> None:
        """Open the table.

        Raises:
            LakeError: there is none, or it is not one of a stream.
        """
        super().__init__(location)
        self.reload()

    @classmethod
    def create(cls, location: str, facts: Archived) -> DeltaLake:
        """Make an empty table for a stream."""
        if "://" not in location:
            Path(location).mkdir(parents=True, exist_ok=True)
        about = _DESCRIPTION.format(stream=facts.stream, identity=facts.identity)
        try:
            DeltaTable.create(location, SCHEMA, mode="error", name=facts.stream, description=about)
        except DeltaError as error:
            if not DeltaTable.is_deltatable(location):
                raise
            raise LakeConflict(f"somebody else made a table at {location} just now; run this again") from error
        return cls(location)

    def reload(self) -> None:
        # The library reads checkpoints when it needs them, and somebody's vacuum may have replaced them by then: so
        # everything is read at once, and again if that happens.
        for attempt in range(_RELOADS):
            try:
                self._load(DeltaTable(self.location))
                return
            except TableNotFoundError as error:
                raise NoLake(f"there is no table at {self.location}") from error
            except DeltaError as error:
                if attempt == _RELOADS - 1:
                    raise LakeError(f"the table at {self.location} cannot be read: {error}") from error

    def _load(self, table: DeltaTable) -> None:
        described = _DESCRIBED.fullmatch(table.metadata().description or "")
        if described is None:
            raise LakeError(f"the table at {self.location} was not made by an archive of a stream")
        names = [field.name for field in table.schema().fields]
        if names[: len(SCHEMA)] != SCHEMA.names:
            columns = ", ".join(names)
            raise LakeError(
                f"the table at {self.location} was an archive and was replaced: it has the columns {columns}"
            )
        numbers = (table.transaction_version(name) or 0 for name in (_ARCHIVED, _ERASED, _ERASURES))
        self._facts = Archived(described[1], described[2], *numbers)
        self._files = _files(table)
        self._table = table

    @property
    def facts(self) -> Archived:
        return self._facts

    @property
    def typed(self) -> pa.Schema:
        """Columns of payloads, which it has behind those of messages."""
        return pa.schema(list(pa.schema(self._table.schema().to_arrow()))[len(SCHEMA) :])

    def add_columns(self, columns: pa.Schema) -> None:
        """Have columns of payloads; those that are there stay as they are.

        Raises:
            LakeError: one is there with another type, or cannot be one of a Delta table.
        """
        for _ in range(_RELOADS):
            known = {field.name: field for field in self.typed}
            wanted = delta_schema(columns)
            for one in wanted:
                if one.name in known and known[one.name].type != one.type:
                    raise LakeError(
                        f"column {one.name} of {self.location} is {known[one.name].type}, and types of a Delta table "
                        f"stay: {one.type} needs another name, or another table"
                    )
            missing = [one for one in DeltaSchema.from_arrow(wanted).fields if one.name not in known]
            if not missing:
                return
            try:
                self._table.alter.add_columns(missing)
            except DeltaError:  # somebody else made a version, or has added them
                before = self.version
                self.reload()
                if self.version == before:
                    raise
            else:
                self.reload()
        raise LakeError(f"{self.location} is changed all the time by somebody else; try again later")

    @property
    def version(self) -> int:
        return int(self._table.version())

    def files(self, version: int | None = None) -> list[LakeFile]:
        if version is None or version == self.version:
            return list(self._files)
        try:
            return _files(DeltaTable(self.location, version=version))
        except DeltaError as error:
            raise LakeError(f"the table at {self.location} has no version {version}") from error

    def commit(
        self,
        facts: Archived,
        *,
        add: Sequence[LakeFile] = (),
        remove: Sequence[LakeFile] = (),
        operation: str,
        changes_data: bool = True,
    ) -> int:
        now_ms = int(time.time() * 1000)
        before, mark = self.version, uuid.uuid4().hex
        actions: list[AddAction | RemoveAction] = [_add_action(file, now_ms, changes_data) for file in add]
        actions += [_remove_action(file, now_ms, changes_data) for file in remove]
        properties = CommitProperties(
            custom_metadata={"slipstreamOperation": operation, "slipstreamCommit": mark},
            app_transactions=[
                Transaction(_ARCHIVED, facts.archived_upto),
                Transaction(_ERASED, facts.erased),
                Transaction(_ERASURES, facts.erasures),
            ],
            max_commit_retries=0,  # a version in between has to be looked at, not passed over
        )
        try:
            self._table.create_write_transaction(actions, "append", self._table.schema(), commit_properties=properties)
        except DeltaError as error:
            # The store may have done it and lost its answer: what is there says whose it is.
            found = self._commit_text(before + 1)
            if found is None:
                raise LakeError(f"the table at {self.location} cannot be changed: {error}") from error
            if mark not in found:
                raise LakeConflict(f"somebody else changed {self.location} meanwhile: {error}") from error
        self.reload()
        # Somebody may have made another version since; the one after ours before says whether it is ours.
        if mark not in (self._commit_text(before + 1) or ""):
            raise LakeConflict(
                f"somebody else changed {self.location} meanwhile: version {self.version} after {before}"
            )
        return before + 1

    def gone(self) -> set[str]:
        def removed() -> set[str]:
            # A dry run of the library's own vacuum names the files that the log says were removed, and nothing else.
            return {*self._table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)}

        return self._again(removed) - {file.path for file in self.files()}

    def forget(self) -> None:
        """Redact statistics in the log, and drop checkpoints that have them.

        Commits stay where they are: a writer that builds on an old version has to find the next one taken.
        """
        self._again(lambda: self._table.create_checkpoint())
        self.drop_unfinished()
        named = {file.path for file in self.files()}
        for name in sorted(entry.name for entry in self.place.list(_LOG) if entry.name[0].isdigit()):
            version = int(name.partition(".")[0])
            if version < self.version and ".checkpoint." in name:
                self.place.remove(f"{_LOG}/{name}")
            elif version <= self.version and name.endswith(".json"):
                with suppress(FileNotFoundError):
                    self._redact(f"{_LOG}/{name}", named)

    def drop_unfinished(self) -> int:
        """Remove what writers left that died while they made a version; how many files.

        The library writes a version beside its name first, with subjects in it, and tries one name more for each such
        file that is there.
        """
        oldest = time.time() - _UNFINISHED_SECONDS
        left = [one for one in self.place.list(_LOG) if _UNFINISHED.fullmatch(one.name) and one.modified < oldest]
        for entry in left:
            self.place.remove(f"{_LOG}/{entry.name}")
        return len(left)

    def _redact(self, name: str, named: set[str]) -> None:
        redacted = _redacted(self.place.read(name).decode(), named)
        if redacted is not None:
            # Delta takes the times of versions from the files.
            self.place.write(name, redacted.encode(), keep_time=True)

    def _again(self, call: Callable[[], _T]) -> _T:
        """Call something that reads the log, on the newest version if that of ours cannot be read any more."""
        try:
            return call()
        except DeltaError:
            self.reload()
            return call()

    def _commit_text(self, version: int) -> str | None:
        """What the log says of a version; None if there is no such version."""
        try:
            return self.place.read(f"{_LOG}/{version:020}.json").decode()
        except FileNotFoundError:
            return None


def delta_schema(columns: pa.Schema) -> pa.Schema:
    """Columns with the types that a Delta table gives them.

    Raises:
        LakeError: there is no such type.
    """
    fields = []
    for one in columns:
        try:
            fields += list(pa.schema(DeltaSchema.from_arrow(pa.schema([one])).to_arrow()))
        except Exception as error:  # what the library says of a type it does not know is its own
            raise LakeError(f"column {one.name}: a Delta table has no type for {one.type}") from error
    return pa.schema(fields)


def _files(table: DeltaTable) -> list[LakeFile]:
    rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return sorted((_file(row) for row in rows), key=lambda file: file.first_seq)


def _file(row: dict[str, Any]) -> LakeFile:
    if any(row.get(name) is None for name in _NEEDED):
        raise LakeError(f"{row['path']} has no statistics of sequences and times in the log: it is not ours")
    return LakeFile(
        path=row["path"],
        first_seq=row["min.seq"],
        last_seq=row["max.seq"],
        rows=row["num_records"],
        size=row["size_bytes"],
        first_ns=row["min.ts_ns"],
        last_ns=row["max.ts_ns"],
        first_subject=row.get("min.subject") or _ANY_SUBJECT[0],
        last_subject=row.get("max.subject") or _ANY_SUBJECT[1],
    )


def _redacted(text: str, named: set[str]) -> str | None:
    """A commit without the subjects of files that are gone; None if it says nothing of them."""
    lines, is_changed = [], False
    for line in text.splitlines():
        action = json.loads(line)
        added = action.get("add")
        if added and added["path"] not in named and added.get("stats"):
            statistics = json.loads(added["stats"])
            found = [statistics.get(side, {}).pop("subject", None) for side in ("minValues", "maxValues")]
            if any(one is not None for one in found):
                added["stats"] = json.dumps(statistics)
                line, is_changed = json.dumps(action), True
        lines.append(line)
    return "\n".join(lines) if is_changed else None


def _statistics(file: LakeFile) -> str:
    low = {"seq": file.first_seq, "ts_ns": file.first_ns, "subject": file.first_subject}
    high = {"seq": file.last_seq, "ts_ns": file.last_ns, "subject": file.last_subject}
    return json.dumps({"numRecords": file.rows, "minValues": low, "maxValues": high, "nullCount": {}})


def _add_action(file: LakeFile, now_ms: int, changes_data: bool) -> AddAction:
    return AddAction(file.path, file.size, {}, now_ms, changes_data, _statistics(file))


def _remove_action(file: LakeFile, now_ms: int, changes_data: bool) -> RemoveAction:
    return RemoveAction(
        path=file.path, data_change=changes_data, deletion_timestamp=now_ms, size=file.size, partition_values={}
    )
