"""A stream as a Delta table: an archive of `slipstream.spark.lake`, written by one process instead of by Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from slipstream.spark.lake import (
    Archived,
    Lake,
    LakeConflict,
    LakeError,
    NoLake,
    Wish,
    create_lake,
    is_erased,
    open_lake,
    working,
)
from slipstream.spark.lake.compaction import neighbours, put_in_place, rewritten
from slipstream.spark.lake.files import COLUMNS, SCHEMA, read_file, write_file
from slipstream.spark.lake.places import joined
from slipstream.spark.lake.vacuum import make_version
from slipstream.spark.lake.work import job_of, settle_leases

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DeltaStreamTable", "open_delta"]

_ATTEMPTS: Final = 20  # each is a version that somebody else made
_CODEC: Final = "zstd"


def open_delta(location: str, stream: str, identity: str | None, columns: pa.Schema | None = None) -> DeltaStreamTable:
    """The table of a stream below a directory, made if it is not there and `identity` says for whom.

    It gets the columns of payloads that it lacks.

    Raises:
        LakeError: it is of another stream, the place is taken by something else, or the columns do not fit.
    """
    place = joined(location, stream)
    if columns is not None:
        from slipstream.spark.lake.delta import delta_schema

        delta_schema(columns)  # before anything is made
    try:
        lake = open_lake(place)
    except NoLake:
        if identity is None:
            raise
        lake = create_lake(place, Archived(stream, identity))
    if identity is not None and lake.facts.identity != identity:
        raise LakeError(
            f"the table at {place} is of an earlier stream {stream}, which was deleted and made anew; move it away, or "
            "name another place"
        )
    if identity is not None and columns is not None:
        _add_columns(lake, columns)
    return DeltaStreamTable(place, columns)


def _add_columns(lake: Lake, columns: pa.Schema) -> None:
    from slipstream.spark.lake.delta import DeltaLake

    if not isinstance(lake, DeltaLake):
        raise LakeError(f"{lake.location} is a table of plain Parquet files, which has no columns of payloads")
    lake.add_columns(columns)


class DeltaStreamTable:
    """See `LakeTable`."""

    def __init__(self, place: str, columns: pa.Schema | None = None) -> None:
        """Open it; `columns` are those of payloads that rows come with."""
        self.place = place
        self._columns = columns
        self._lake = open_lake(place)
        self._known = self._lake.facts

    @property
    def identity(self) -> str:
        return self._lake.facts.identity

    @property
    def table_id(self) -> str:
        from deltalake import DeltaTable

        return str(DeltaTable(self.place).metadata().id) if self._lake.format == "delta" else self.place

    def position(self) -> int:
        self._lake.reload()
        self._known = self._lake.facts
        return self._known.archived_upto

    def append(self, batches: Iterator[pa.RecordBatch], after: int, upto: int) -> int | None:
        lake, known = self._lake, self._known
        with working(lake, "lake run") as work:
            file = write_file(self.place, self._fitting(batches), job=work.job, codec=_CODEC, schema=self._schema())
            for _ in range(_ATTEMPTS):
                now = lake.facts
                if now.archived_upto != after or now.erasures != known.erasures:
                    return None  # another writer, or an erasure of what was just read
                try:
                    work.commit(now.upto(upto), add=[file] if file else [], operation="append")
                    return file.rows if file else 0
                except LakeConflict:
                    lake.reload()
        raise LakeError(f"{self.place} is changed all the time by somebody else; try again later")

    def _schema(self) -> pa.Schema:
        """Of rows as they are written: types of payloads are those that the table has for them."""
        import pyarrow as pa

        from slipstream.spark.lake.delta import DeltaLake

        if self._columns is None or not isinstance(self._lake, DeltaLake):
            return SCHEMA
        typed = self._lake.typed
        return pa.schema([*SCHEMA, *(typed.field(name) for name in self._columns.names)])

    def _fitting(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        if self._columns is None:
            yield from batches
            return
        schema = self._schema()
        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch.column(one.name).cast(one.type) for one in schema], schema=schema)

    def compact(self, file_bytes: int, files: int) -> int:
        lake = self._lake
        lake.reload()
        replaced = 0
        for one in neighbours(lake.files(), file_bytes):
            if len(one) < files:
                continue
            with working(lake, "compact") as work:
                paths = [lake.path_of(file) for file in one]
                made = rewritten(self.place, paths, sum(file.rows for file in one), codec=_CODEC, job=work.job)
                if made is None:
                    return replaced
                with suppress(LakeConflict):  # somebody else has rewritten them
                    put_in_place(work, [made], one)
                    replaced += len(one)
        return replaced

    def expire(self, keep_seconds: float) -> int:
        from deltalake import DeltaTable

        table = DeltaTable(self.place)
        hours = int(keep_seconds // 3600)
        removed = table.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False)
        return len(removed) + self._sweep(keep_seconds)

    def read(self, wish: Wish, version: int | None) -> Iterator[pa.RecordBatch]:
        lake = self._lake
        reached = 0
        for file in sorted(lake.select(wish, version), key=lambda file: file.first_seq):
            if file.first_seq <= reached:
                raise LakeError(f"{lake.path_of(file)} repeats sequences of another file: the table is damaged")
            reached = file.last_seq
            try:
                yield from read_file(lake.path_of(file), COLUMNS, wish)
            except FileNotFoundError:
                raise LakeError(f"{lake.path_of(file)} is gone: that version has expired") from None

    def is_explained(self, first: int, last: int) -> bool:
        return is_erased(self.place, first, last)

    def _sweep(self, keep_seconds: float) -> int:
        """Remove files of writers that died before they committed, in the order that `spark.lake.vacuum` explains.

        What older versions name stays for `keep_seconds`, as do files that somebody may just have written.
        """
        from slipstream.spark.lake.delta import DeltaLake

        entries = [one for one in self._lake.place.list() if job_of(one.name) is not None]
        live, broken = settle_leases(self.place)
        self._lake.reload()
        if broken:
            make_version(self._lake)  # a writer that lost its lease cannot build on the one before
        needed = {file.path for file in self._lake.files()} | self._lake.gone()
        oldest = time.time() - max(keep_seconds, 3600.0)
        removed = 0
        for entry in entries:
            if job_of(entry.name) not in live and entry.name not in needed and entry.modified < oldest:
                self._lake.place.remove(entry.name)
                removed += 1
        return removed + (self._lake.drop_unfinished() if isinstance(self._lake, DeltaLake) else 0)
