"""Columns of messages: their Arrow types, and record batches over the buffers the kernel fills.

pyarrow is imported by this module and by nothing that `import slipstream` needs; it comes with the extra `spark`.

What this is not: reading. Bytes come from a server, rows from `slipstream.kernels.bulk.arrowrows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from slipstream.bulk.errors import BulkError
from slipstream.kernels.bulk.arrowrows import RowDecoder

__all__ = ["ALL_COLUMNS", "DEFAULT_COLUMNS", "HEADERS_TYPE", "message_schema", "record_batch", "wanted_columns"]

HEADERS_TYPE: Final = pa.map_(pa.string(), pa.list_(pa.string()))
_TYPES: Final[dict[str, pa.DataType]] = {
    "stream": pa.string(),
    "seq": pa.int64(),
    "ts": pa.timestamp("us", "UTC"),
    "ts_ns": pa.int64(),
    "subject": pa.string(),
    "headers": HEADERS_TYPE,
    "payload": pa.binary(),
    "reply": pa.string(),
    "size": pa.int32(),
    "hdr_raw": pa.binary(),
}
ALL_COLUMNS: Final = tuple(_TYPES)
DEFAULT_COLUMNS: Final = ("stream", "seq", "ts", "subject", "headers", "payload")


def wanted_columns(columns: Iterable[str], headers: str = "map") -> tuple[str, ...]:
    """The columns to build: `headers` says whether that column is a map, raw bytes (`hdr_raw`) or left out.

    Raises:
        BulkError: a name is unknown, or none is left.
    """
    if headers not in ("map", "raw", "none"):
        raise BulkError(f"headers must be map, raw or none, not {headers!r}")
    instead = {"map": "headers", "raw": "hdr_raw", "none": ""}[headers]
    named = dict.fromkeys(instead if name == "headers" else name for name in columns)
    named.pop("", None)
    unknown = [name for name in named if name not in _TYPES]
    if unknown:
        raise BulkError(f"unknown columns {', '.join(unknown)}; there are {', '.join(ALL_COLUMNS)}")
    return tuple(named)


def message_schema(columns: Sequence[str]) -> pa.Schema:
    """The schema of batches with these columns, in this order."""
    return pa.schema([pa.field(name, _TYPES[name]) for name in columns])


def record_batch(decoder: RowDecoder, schema: pa.Schema) -> pa.RecordBatch:
    """Take the batch a decoder has under way; no bytes are copied."""
    rows, buffers = decoder.take()
    if not schema.names:
        # A batch without columns has no length of its own.
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays([_array(name, rows, buffers[name]) for name in schema.names], schema=schema)


def _array(name: str, rows: int, parts: list[Any]) -> pa.Array:
    if name == "headers":
        return _header_maps(rows, parts)
    buffers = [None if part is None else pa.py_buffer(part) for part in parts]
    return pa.Array.from_buffers(_TYPES[name], rows, buffers)


def _header_maps(rows: int, parts: list[Any]) -> pa.Array:
    valid, map_offsets, key_offsets, keys, list_offsets, value_offsets, values = map(pa.py_buffer, parts[:7])
    key_count, value_count = parts[7:]
    names = pa.Array.from_buffers(pa.string(), key_count, [None, key_offsets, keys])
    texts = pa.Array.from_buffers(pa.string(), value_count, [None, value_offsets, values])
    lists = pa.Array.from_buffers(HEADERS_TYPE.item_type, key_count, [None, list_offsets], children=[texts])
    entry = pa.struct([HEADERS_TYPE.key_field, HEADERS_TYPE.item_field])
    entries = pa.Array.from_buffers(entry, key_count, [None], children=[names, lists])
    return pa.Array.from_buffers(HEADERS_TYPE, rows, [valid, map_offsets], children=[entries])
