"""A stream, and its archive if it has one, as a dataset that DuckDB scans.

    filter ──► what the index answers ──► archived files below the stream's first message, then the stream
                                     └──► the rest of the filter, row by row, in pyarrow

DuckDB asks a `pyarrow.dataset.Dataset` for a scanner with columns and a filter, and leaves the filter to it. The table
ends with the message that was the last one when it was made, however often a query scans it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from slipstream.bulk import BulkClient, ConnectOptions, connect
from slipstream.bulk.arrow import DEFAULT_COLUMNS, message_schema
from slipstream.query.conditions import WantedRows, read_filter
from slipstream.query.errors import QueryError
from slipstream.query.streams import QueriedStream, ScanReport, stream_now

if TYPE_CHECKING:
    from slipstream.query.archives import ArchivedMessages

__all__ = ["StreamDataset"]

_BATCH_BYTES: Final = 4 << 20
_CONSTANT_ROWS: Final = 1 << 17  # of a batch that has no content
# The stream's name is the same in all rows. As a dictionary it costs DuckDB, which counts rows by their first column, a
# twentieth of what texts cost.
_NAME: Final = pa.field("stream", pa.dictionary(pa.int8(), pa.string()))
_SCHEMA: Final = message_schema(DEFAULT_COLUMNS).set(0, _NAME)


class StreamDataset(ds.Dataset):  # type: ignore[misc]
    """One stream. Each scan has a connection of its own, for DuckDB scans in several threads."""

    def __init__(
        self,
        reach: ConnectOptions,
        stream: QueriedStream,
        archive: ArchivedMessages | None = None,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Name the stream.

        Args:
            reach: the server.
            stream: as it is now; the table ends with its last message.
            archive: what the stream has no more.
            failed: is told what stopped a scan, which DuckDB would tell in other words.
        """
        self._reach = reach
        self._stream = stream
        self._archive = archive
        self._failed = failed
        self.scans: list[ScanReport] = []

    @property
    def schema(self) -> pa.Schema:
        """The columns of messages."""
        return _SCHEMA

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> StreamScan:
        """What DuckDB calls for each scan."""
        names = tuple(DEFAULT_COLUMNS if columns is None else columns)
        scan = StreamScan(self._reach, self._stream, self._archive, names, filter, self._failed)
        self.scans.append(scan.report)
        return scan


class StreamScan:
    """One scan."""

    def __init__(
        self,
        reach: ConnectOptions,
        stream: QueriedStream,
        archive: ArchivedMessages | None,
        columns: tuple[str, ...],
        expression: Any,
        failed: Callable[[Exception], None] | None,
    ) -> None:
        self._reach = reach
        self._stream = stream
        self._archive = archive
        self._expression = expression
        self._failed = failed
        self._columns = columns
        self._zeros = b""
        wanted = self._wanted = read_filter(expression, message_schema(DEFAULT_COLUMNS))
        pushed = wanted.pushed
        oldest = min(stream.first, archive.first) if archive is not None else stream.first
        self.report = ScanReport(
            stream.name,
            max(pushed.first or 0, oldest, 1),
            stream.last if pushed.last is None else min(pushed.last, stream.last),
            pushed.subjects or (),
            columns,
            not wanted.whole,
        )

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns that were asked for."""
        return pa.schema([_SCHEMA.field(name) for name in self._columns])

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._told())

    def _rows(self) -> Iterator[pa.RecordBatch]:
        """Rows that pass the filter, with the columns that were asked for and perhaps others."""
        if self._wanted.whole:
            yield from self._batches(_needed(self._columns, WantedRows()))
            return
        read = _needed(self._columns, self._wanted)
        rows = pa.RecordBatchReader.from_batches(message_schema(read), self._batches(read))
        yield from ds.Scanner.from_batches(rows, filter=self._expression).to_reader()

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = self._columns
        columns = [self._name(batch.num_rows) if name == "stream" else batch.column(name) for name in names]
        return pa.RecordBatch.from_arrays(columns, schema=self.projected_schema)

    def _name(self, rows: int) -> pa.DictionaryArray:
        if len(self._zeros) < rows:
            self._zeros = bytes(max(rows, _CONSTANT_ROWS))
        numbers = pa.Array.from_buffers(pa.int8(), rows, [None, pa.py_buffer(self._zeros)])
        return pa.DictionaryArray.from_arrays(numbers, pa.array([self._stream.name], pa.string()))

    def _told(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._rows():
                yield self._shown(batch)
        except Exception as error:
            if self._failed is not None:
                self._failed(error)
            raise

    def _batches(self, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        report, pushed, stream = self.report, self._wanted.pushed, self._stream
        if pushed.empty or report.first > report.last:
            return
        if self._archive is not None and report.first < stream.first:
            last = min(report.last, stream.first - 1)
            for batch in self._archive.read(report.first, last, pushed, columns):
                report.archived += batch.num_rows
                yield batch
        if report.last >= stream.first:
            with connect(self._reach) as client:
                yield from self._live(client, max(report.first, stream.first), columns)

    def _live(self, client: BulkClient, first: int, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        report, pushed, stream = self.report, self._wanted.pushed, self._stream
        plan = client.plan(
            stream.name,
            first,
            report.last,
            subjects=report.subjects,
            start_time_ns=pushed.start_time_ns,
            end_time_ns=pushed.end_time_ns,
            partitions=1,
            identity=stream.identity,
        )
        if plan.exact and self._wanted.whole and set(self._columns) <= {"stream"}:
            report.counted, report.live = True, plan.messages
            yield from _nothing(plan.messages, columns)
        elif plan.messages or not plan.exact:
            reader = client.read(
                stream.name,
                plan.first,
                plan.last,
                subjects=report.subjects,
                start_time_ns=pushed.start_time_ns,
                end_time_ns=pushed.end_time_ns,
                columns=columns,
                batch_bytes=_BATCH_BYTES,
                identity=stream.identity,
            )
            with reader:
                for batch in reader:
                    report.live += batch.num_rows
                    yield batch
        now = stream_now(client, stream.name) if self._archive is not None else None
        if now is not None and now.first > first:
            raise QueryError(f"messages of {stream.name} were archived and dropped while the query ran; run it again")


def _needed(columns: tuple[str, ...], wanted: WantedRows) -> tuple[str, ...]:
    """Columns to read: those that were asked for, and those that the filter looks at; the stream's name is known."""
    looked_at = DEFAULT_COLUMNS if wanted.columns is None else wanted.columns
    needed = [name for name in DEFAULT_COLUMNS if (name in columns and name != "stream") or name in looked_at]
    return tuple(needed) or ("seq",)


def _nothing(rows: int, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """So many rows whose content nobody looks at."""
    schema = message_schema(columns)
    batch = pa.RecordBatch.from_arrays([pa.nulls(min(rows, _CONSTANT_ROWS), one.type) for one in schema], schema=schema)
    while rows > 0:
        some = batch.slice(0, rows)
        yield some
        rows -= some.num_rows
