"""Rows as bytes for other programs: JSON, CSV, Arrow, Parquet; and single values for people.

Bytes are text where they are UTF-8, else base64 behind `base64:`. Times are ISO 8601. What has to be exact in types
is for Arrow and Parquet.
"""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any
from uuid import UUID

from slipstream.query.errors import QueryError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["csv_pieces", "json_pieces", "plain", "rows_of", "shown", "write_arrow", "write_parquet"]


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"base64:{base64.b64encode(value).decode()}"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {str(plain(key)): plain(one) for key, one in value.items()}
    if isinstance(value, list) and value and all(isinstance(one, tuple) and len(one) == 2 for one in value):
        return {str(plain(key)): plain(one) for key, one in value}  # a map
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, UUID):
        return str(value)
    return value


def shown(value: Any) -> str:
    """A value in a cell."""
    found = plain(value)
    if found is None:
        return ""
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as Python has them; times with nanoseconds, which it has not, as texts.

    Raises:
        QueryError: there are such times inside other values.
    """
    import pyarrow as pa

    for number, field in enumerate(batch.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            import pyarrow.compute as pc

            texts = pc.replace_substring(batch.column(number).cast(pa.string()), " ", "T", max_replacements=1)
            batch = batch.set_column(number, field.name, texts)
    try:
        rows: list[dict[str, Any]] = batch.to_pylist()
    except ValueError as error:
        raise QueryError(f"a value cannot be shown: {error}") from error
    return rows


def json_pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """One array, an object a row."""
    yield b"["
    lead = "\n  "
    for batch in batches:
        lines = [json.dumps({name: plain(one) for name, one in row.items()}) for row in rows_of(batch)]
        if lines:
            yield (lead + ",\n  ".join(lines)).encode()
            lead = ",\n  "
    yield b"\n]\n" if lead.startswith(",") else b"]\n"


def csv_pieces(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """A line of names, then a line a row (RFC 4180)."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(schema.names)
    for batch in batches:
        writer.writerows([shown(one) for one in row.values()] for row in rows_of(batch))
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    yield text.getvalue().encode()


def write_arrow(schema: pa.Schema, batches: Iterator[pa.RecordBatch], sink: IO[bytes]) -> None:
    """The stream format of Arrow IPC."""
    import pyarrow as pa

    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def write_parquet(schema: pa.Schema, batches: Iterator[pa.RecordBatch], sink: IO[bytes]) -> None:
    """One file of Parquet."""
    import pyarrow.parquet as pq

    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
