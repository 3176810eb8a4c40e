"""A lake table under a Delta log, through the `deltalake` library: read by Spark, Trino, DuckDB and polars as it is."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from slipstream.spark.lake.base import Archived, Lake, LakeError, LakeFile
from slipstream.spark.lake.files import SCHEMA

__all__ = ["DeltaLake"]

# The kernel of Delta refuses properties it does not know, so the stream is named where people look.
_DESCRIPTION: Final = "Messages of the stream {stream} ({identity})"
_DESCRIBED: Final = re.compile(r"Messages of the stream (\S+) \((\S+)\)")
_ARCHIVED: Final = "slipstream-archived"
_ERASED: Final = "slipstream-erased"


class DeltaLake(Lake):
    """A Delta table. What was archived is in the log's application transactions, so it changes with the files."""

    format = "delta"

    def __init__(self, location: str) -> None:
        """Open the table.

        Raises:
            LakeError: there is none, or it is not one of a stream.
        """
        super().__init__(location)
        try:
            self._table = DeltaTable(location)
        except TableNotFoundError as error:
            raise LakeError(f"there is no table at {location}") from error
        described = _DESCRIBED.fullmatch(self._table.metadata().description or "")
        if described is None:
            raise LakeError(f"the table at {location} was not made by an archive of a stream")
        self._stream, self._identity = described[1], described[2]

    @classmethod
    def create(cls, location: str, facts: Archived) -> DeltaLake:
        """Make an empty table for a stream."""
        if "://" not in location:
            Path(location).mkdir(parents=True, exist_ok=True)
        DeltaTable.create(
            location,
            SCHEMA,
            mode="error",
            name=facts.stream,
            description=_DESCRIPTION.format(stream=facts.stream, identity=facts.identity),
        )
        return cls(location)

    @property
    def facts(self) -> Archived:
        return Archived(
            self._stream,
            self._identity,
            self._table.transaction_version(_ARCHIVED) or 0,
            self._table.transaction_version(_ERASED) or 0,
        )

    @property
    def version(self) -> int:
        return int(self._table.version())

    def files(self, version: int | None = None) -> list[LakeFile]:
        table = self._table
        if version is not None and version != self.version:
            try:
                table = DeltaTable(self.location, version=version)
            except DeltaError as error:
                raise LakeError(f"the table at {self.location} has no version {version}") from error
        rows = _rows(table)
        return sorted((_file(row) for row in rows), key=lambda file: file.first_seq)

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
        before = self.version
        actions: list[AddAction | RemoveAction] = [_add_action(file, now_ms, changes_data) for file in add]
        actions += [_remove_action(file, now_ms, changes_data) for file in remove]
        properties = CommitProperties(
            custom_metadata={"slipstreamOperation": operation},
            app_transactions=[Transaction(_ARCHIVED, facts.archived_upto), Transaction(_ERASED, facts.erased)],
            max_commit_retries=0,  # a version in between has to be looked at, not passed over
        )
        try:
            self._table.create_write_transaction(actions, "append", self._table.schema(), commit_properties=properties)
        except CommitFailedError as error:
            raise LakeError(f"somebody else changed {self.location} meanwhile: {error}") from error
        self._table.update_incremental()
        if self.version != before + 1:
            raise LakeError(f"somebody else changed {self.location} meanwhile: version {self.version} after {before}")
        return self.version

    def vacuum(self) -> int:
        removed = self._table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        # Orphans of a job that died before its commit are not in any log.
        orphans = 0
        if "://" not in self.location:
            named = {file.path for file in self.files()}
            for path in Path(self.location).glob("*.parquet*"):
                if path.name not in named:
                    os.unlink(path)
                    orphans += 1
        return len(removed) + orphans


def _rows(table: DeltaTable) -> list[dict[str, Any]]:
    import pyarrow as pa

    actions = pa.table(table.get_add_actions(flatten=True))
    rows: list[dict[str, Any]] = actions.to_pylist()
    return rows


def _file(row: dict[str, Any]) -> LakeFile:
    return LakeFile(
        path=row["path"],
        first_seq=row["min.seq"],
        last_seq=row["max.seq"],
        rows=row["num_records"],
        size=row["size_bytes"],
        first_ns=row["min.ts_ns"],
        last_ns=row["max.ts_ns"],
        first_subject=row["min.subject"],
        last_subject=row["max.subject"],
    )


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
