"""Parquet files of a lake table: written whole or not at all, read back as record batches.

Columns are those of the source, plus what makes a copy exact: nanoseconds, and headers byte by byte. Sequences and
times grow, so they take next to no space; subjects are kept once each. Behind them may be columns of payloads, which a
table gets when it is written with them: files from before lack those.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slipstream.bulk.arrow import HEADERS_TYPE
from slipstream.spark.lake.base import LakeFile, Wish
from slipstream.spark.lake.places import is_object_store, place_at, split_path

__all__ = ["COLUMNS", "SCHEMA", "filtered", "read_file", "read_rows", "schema_of", "write_file"]

SCHEMA: Final = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("seq", pa.int64()),
        pa.field("ts", pa.timestamp("us", "UTC")),
        pa.field("ts_ns", pa.int64()),
        pa.field("subject", pa.string()),
        pa.field("headers", HEADERS_TYPE),
        pa.field("hdr_raw", pa.binary()),
        pa.field("payload", pa.binary()),
    ]
)
COLUMNS: Final = tuple(SCHEMA.names)
_ROW_GROUP_ROWS: Final = 128 * 1024
# Nobody looks for a message by the first and last of all payloads, and finding those takes time.
_STATISTICS: Final = ["seq", "ts", "ts_ns", "subject"]
_WRITE_BATCH_ROWS: Final = 16 * 1024  # values of a column that are encoded in one go
_ENCODINGS: Final = {"seq": "DELTA_BINARY_PACKED", "ts": "DELTA_BINARY_PACKED", "ts_ns": "DELTA_BINARY_PACKED"}


def write_file(
    directory: str, batches: Iterable[pa.RecordBatch], *, job: str, codec: str = "zstd", schema: pa.Schema = SCHEMA
) -> LakeFile | None:
    """Write messages into one file of a table; it has its name when it is complete and synced.

    Args:
        directory: of the table.
        batches: with the columns of `schema`, in the order of sequences.
        job: who writes it; see `work`.
        codec: `zstd`, `snappy` or `none`.
        schema: `SCHEMA`, and columns of payloads behind it.

    Returns:
        What a commit needs to know; None if there were no messages, and no file.
    """
    name = f"part-{job}-{uuid.uuid4().hex}.parquet"
    seen = _Statistics()
    typed = list(schema)[len(SCHEMA) :]

    def write(sink: BinaryIO) -> bool:
        writer = pq.ParquetWriter(
            sink,
            schema,
            compression=codec,
            compression_level=1 if codec == "zstd" else None,
            use_dictionary=["subject", "stream", *(one.name for one in typed if pa.types.is_string(one.type))],
            column_encoding=_ENCODINGS,
            write_statistics=[*_STATISTICS, *(one.name for one in typed if not pa.types.is_nested(one.type))],
            write_batch_size=_WRITE_BATCH_ROWS,
            write_page_index=True,
        )
        with writer:
            for batch in _grouped(batches, schema):
                writer.write_table(batch, row_group_size=_ROW_GROUP_ROWS)
                seen.add(batch)
        return seen.rows > 0

    size = place_at(directory).fill(name, write)
    return None if size is None else seen.file(name, size)


def read_file(path: str, columns: Iterable[str], wish: Wish | None = None) -> Iterator[pa.RecordBatch]:
    """The wanted messages of a file, in order.

    Raises:
        FileNotFoundError: there is no such file; nothing was delivered.
    """
    columns = list(columns)
    needed = list(dict.fromkeys([*columns, *(_looked_at(wish) if wish is not None else ())]))
    location, name = split_path(path)
    # Columns of a row group in few requests, where each takes its time.
    with pq.ParquetFile(place_at(location).source(name), pre_buffer=is_object_store(location)) as file:
        groups = _row_groups(file.metadata, wish or Wish())
        for batch in file.iter_batches(batch_size=65_536, row_groups=groups, columns=needed) if groups else ():
            if wish is not None:
                batch = filtered(batch, wish)
            if batch.num_rows:
                yield batch.select(columns)


def schema_of(paths: Iterable[str]) -> pa.Schema:
    """The columns that files have together: those of messages, then those of payloads."""
    found = {field.name: field for field in SCHEMA}
    for path in paths:
        location, name = split_path(path)
        with pq.ParquetFile(place_at(location).source(name)) as file:
            for field in file.schema_arrow:
                found.setdefault(field.name, pa.field(field.name, field.type))
    return pa.schema(list(found.values()))


def read_rows(path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """All messages of a file with the columns of `schema_of`; those that the file lacks are null.

    Raises:
        FileNotFoundError: there is no such file; nothing was delivered.
    """
    location, name = split_path(path)
    with pq.ParquetFile(place_at(location).source(name), pre_buffer=is_object_store(location)) as file:
        for batch in file.iter_batches(batch_size=65_536):
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            arrays = [
                columns[one.name] if one.name in columns else pa.nulls(batch.num_rows, one.type) for one in schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def filtered(batch: pa.RecordBatch, wish: Wish) -> pa.RecordBatch:
    """The rows of a batch that are wanted."""
    mask: pa.Array | None = None
    for column, low, high in (
        ("seq", wish.first_seq, None if wish.last_seq is None else wish.last_seq + 1),
        ("ts_ns", wish.start_ns, wish.end_ns),
    ):
        if low is not None:
            mask = _both(mask, pc.greater_equal(batch.column(column), low))
        if high is not None:
            mask = _both(mask, pc.less(batch.column(column), high))
    if wish.subjects:
        mask = _both(mask, matching(batch.column("subject"), wish.subjects))
    return batch if mask is None else batch.filter(mask)


def matching(subjects: pa.Array, patterns: Iterable[str]) -> pa.Array:
    """Which subjects one of the patterns selects; each distinct subject is looked at once."""
    from slipstream.kernels.subjects.subject import matches

    encoded = subjects.dictionary_encode()
    wanted = [pattern.encode() for pattern in patterns]
    known = [
        any(matches(pattern, subject.encode()) for pattern in wanted) for subject in encoded.dictionary.to_pylist()
    ]
    return pa.array(known, pa.bool_()).take(encoded.indices)


def _looked_at(wish: Wish) -> list[str]:
    """Columns that decide whether a message is wanted."""
    needed = {
        "seq": wish.first_seq is not None or wish.last_seq is not None,
        "ts_ns": wish.start_ns is not None or wish.end_ns is not None,
        "subject": bool(wish.subjects),
    }
    return [name for name, is_needed in needed.items() if is_needed]


def _row_groups(metadata: pq.FileMetaData, wish: Wish) -> list[int]:
    """Those that may have wanted sequences: a query that reads a file piece by piece does not begin at its front."""
    first, last = wish.first_seq or 0, 2**63 if wish.last_seq is None else wish.last_seq
    wanted = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = (group.column(column) for column in range(group.num_columns))
        statistics = next((chunk.statistics for chunk in chunks if chunk.path_in_schema == "seq"), None)
        if statistics is None or not statistics.has_min_max or (statistics.max >= first and statistics.min <= last):
            wanted.append(number)
    return wanted


class _Statistics:
    """What is in the file so far."""

    def __init__(self) -> None:
        self.rows = 0
        self._first_seq = self._last_seq = 0
        self._first_ns, self._last_ns = 2**63 - 1, -(2**63)
        self._first_subject, self._last_subject = "", ""

    def add(self, table: pa.Table) -> None:
        sequences = table.column("seq")
        times = pc.min_max(table.column("ts_ns")).as_py()
        subjects = pc.min_max(table.column("subject")).as_py()
        if not self.rows:
            self._first_seq = sequences[0].as_py()
            self._first_subject = subjects["min"]
        self._last_seq = sequences[-1].as_py()
        self._first_ns, self._last_ns = min(self._first_ns, times["min"]), max(self._last_ns, times["max"])
        self._first_subject = min(self._first_subject, subjects["min"])
        self._last_subject = max(self._last_subject, subjects["max"])
        self.rows += table.num_rows

    def file(self, name: str, size: int) -> LakeFile:
        return LakeFile(
            path=name,
            first_seq=self._first_seq,
            last_seq=self._last_seq,
            rows=self.rows,
            size=size,
            first_ns=self._first_ns,
            last_ns=self._last_ns,
            first_subject=self._first_subject,
            last_subject=self._last_subject,
        )


def _grouped(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Batches put together until they fill a row group."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch.select(schema.names))
            rows += batch.num_rows
        if rows >= _ROW_GROUP_ROWS:
            yield pa.Table.from_batches(waiting, schema)
            waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting, schema)


def _both(mask: pa.Array | None, more: pa.Array) -> pa.Array:
    return more if mask is None else pc.and_(mask, more)
