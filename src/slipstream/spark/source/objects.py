"""Object stores as tables: a row an object, with its content.

An object is a message with its description on `$O.<store>.M.<name>` and chunks on `$O.<store>.C.<id>`, stored before it
(ADR-20). Tasks are ranges of descriptions; a task fetches the chunks of the objects it has.

What this is not: for objects larger than memory. A row holds its object whole; `maxObjectBytes` says how large is too
large, and leaving out the column `data` reads any size.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from slipstream.spark.runtime.connection import Connection, get_connection, retrying
from slipstream.spark.runtime.errors import DataLoss, SparkSideError
from slipstream.spark.source.options import SourceOptions
from slipstream.spark.source.ranges import RangePartition, Window, plan_range, read_range
from slipstream.spark.source.rows import Shaper
from slipstream.spark.source.schema import SourceColumns, source_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["ObjectReader", "read_objects"]

_BATCH_BYTES = 32 << 20  # of objects in one Arrow batch, unless one is larger


class ObjectReader(DataSourceReader):
    """Reads the objects that are in a store now."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        """Check the columns."""
        self.options = options
        self.columns = source_columns(schema, options)

    def partitions(self) -> list[InputPartition]:
        """Ranges of descriptions."""
        return retrying(self.options.reach, self.options.read_timeout_ns, self._plan)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The objects of a task; deleted ones are left out."""
        if not isinstance(partition, RangePartition):
            return iter(())
        return read_objects(self.options, self.columns, partition, deleted=False)

    def _plan(self, connection: Connection) -> list[InputPartition]:
        stream = self.options.target.one
        state = connection.state(stream)
        if state is None:
            raise DataLoss(f"there is no object store {self.options.target.names[0]!r} on this server")
        window = Window(subjects=(f"$O.{self.options.target.names[0]}.M.>",))
        return list(plan_range(connection, self.options, stream, state.identity, state.first, state.last, window))


@dataclass(frozen=True)
class _Object:
    """A description as clients write it."""

    name: str
    nuid: str
    chunks: int
    size: int
    digest: str
    description: str | None
    deleted: bool
    revision: int
    ts_ns: int


def read_objects(
    options: SourceOptions, columns: SourceColumns, partition: RangePartition, *, deleted: bool
) -> Iterator[pa.RecordBatch]:
    """The objects whose descriptions are in the range.

    Args:
        options: of the read.
        columns: wanted.
        partition: range of descriptions.
        deleted: whether removed objects are rows, too.

    Raises:
        DataLoss: chunks are missing, or an object is not what its digest says.
        SparkSideError: an object is too large.
    """
    import pyarrow as pa

    with_data = "data" in columns.names
    rows: list[dict[str, Any]] = []
    size = 0
    for one in _descriptions(options, partition):
        if one.deleted and not deleted:
            continue
        if with_data and one.size > options.max_object_bytes:
            raise SparkSideError(
                f"object {one.name!r} has {one.size} bytes, more than maxObjectBytes ({options.max_object_bytes}); "
                "raise the limit, or leave out the column 'data'"
            )
        data = None if one.deleted or not with_data else _content(options, partition, one)
        if with_data and data is None and not one.deleted:
            continue  # replaced meanwhile: its newer description has a row of its own
        rows.append(_row(one, data))
        size += one.size if with_data else 0
        if size >= _BATCH_BYTES or len(rows) >= options.batch_rows:
            yield _batch(pa, rows, columns)
            rows, size = [], 0
    if rows:
        yield _batch(pa, rows, columns)


def _descriptions(options: SourceOptions, partition: RangePartition) -> Iterator[_Object]:
    from slipstream.bulk.arrow import message_schema

    names = ("seq", "ts_ns", "subject", "payload")
    shaper = Shaper(SourceColumns(names, message_schema(names), "payload"), False, "raw", False)
    for batch in read_range(options, shaper, partition):
        for row in batch.to_pylist():
            yield _parsed(row)


def _parsed(row: dict[str, Any]) -> _Object:
    try:
        info = json.loads(row["payload"])
        return _Object(
            name=str(info["name"]),
            nuid=str(info.get("nuid", "")),
            chunks=int(info.get("chunks", 0)),
            size=int(info.get("size", 0)),
            digest=str(info.get("digest", "")),
            description=info.get("description"),
            deleted=bool(info.get("deleted", False)),
            revision=row["seq"],
            ts_ns=row["ts_ns"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise SparkSideError(f"message {row['seq']} on {row['subject']!r} describes no object: {error}") from error


def _content(options: SourceOptions, partition: RangePartition, one: _Object) -> bytes | None:
    """The chunks put together; None if the object was replaced or removed since it was described."""
    if not one.chunks:
        return b""
    store = options.target.names[0]
    window = Window(subjects=(f"$O.{store}.C.{one.nuid}",))
    whole = RangePartition(partition.stream, partition.identity, 1, one.revision, None, window)
    from slipstream.bulk.arrow import message_schema

    shaper = Shaper(SourceColumns(("payload",), message_schema(("payload",)), "payload"), False, "raw", False)
    parts: list[bytes] = []
    for batch in read_range(options, shaper, whole):
        parts += batch.column("payload").to_pylist()
    data = b"".join(parts)
    kind, _, expected = one.digest.partition("=")
    found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
    if (
        len(parts) == one.chunks
        and len(data) == one.size
        and (kind != "SHA-256" or expected.rstrip("=") == found.rstrip("="))
    ):
        return data
    if _current(options, partition.stream, store, one):
        raise DataLoss(
            f"object {one.name!r} is damaged: {len(parts)} of {one.chunks} chunks, {len(data)} of {one.size} bytes"
        )
    return None


def _current(options: SourceOptions, stream: str, store: str, one: _Object) -> bool:
    encoded = base64.urlsafe_b64encode(one.name.encode()).decode()
    subject = f"$O.{store}.M.{encoded}"
    found = get_connection(options.reach).request(f"STREAM.MSG.GET.{stream}", {"last_by_subj": subject})
    return int(found["message"]["seq"]) == one.revision


def _row(one: _Object, data: bytes | None) -> dict[str, Any]:
    return {
        "name": one.name,
        "data": data,
        "size": one.size,
        "digest": one.digest,
        "ts": one.ts_ns // 1_000,
        "ts_ns": one.ts_ns,
        "revision": one.revision,
        "deleted": one.deleted,
        "description": one.description,
    }


def _batch(pa: Any, rows: list[dict[str, Any]], columns: SourceColumns) -> pa.RecordBatch:
    arrays = [pa.array([row[field.name] for row in rows], field.type) for field in columns.arrow]
    return pa.RecordBatch.from_arrays(arrays, schema=columns.arrow)
