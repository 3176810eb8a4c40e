"""Headers of the rows of a write: how large they can be, which cannot be written, and the blocks of plain publishes.

A batch is looked at as columns. Rows are looked at one by one only where something in their batch may be wrong, so rows
without fault cost next to nothing.

Invariant: a row without a fault here is taken by the encoder of staged writes (`kernels.bulk.rowrecords`) as well
as by `header_block`, and both make the same block of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from slipstream.limits import STREAM_HEADER_BYTES_MAX
from slipstream.spark.runtime.errors import SparkSideError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BLOCK_BYTES", "OWN_HEADERS", "bad_headers", "header_block", "header_bytes_bound", "joined_texts"]

OWN_HEADERS = {
    "msg_id": "Nats-Msg-Id",
    "ttl": "Nats-TTL",
    "expected_last_subject_seq": "Nats-Expected-Last-Subject-Sequence",
}
_BEGIN = b"NATS/1.0\r\n"
_END = b"\r\n"
_LINE_BYTES = len(": \r\n")  # of a header line, besides name and value
BLOCK_BYTES = len(_BEGIN) + len(_END)
"""Bytes of a header block, besides its lines."""


def header_bytes_bound(messages: pa.RecordBatch) -> int:
    """No row of a batch has a larger header block than this; exact when there are no headers at all."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names, lines = set(messages.schema.names), 0
    for column, name in OWN_HEADERS.items():
        if column in names and messages.column(column).null_count < messages.num_rows:
            lines += len(name) + _LINE_BYTES + _longest(messages.column(column).cast(pa.string()))
    if "hdr_raw" in names:
        lines += _longest(messages.column("hdr_raw"))
    if "headers" in names:
        column = messages.column("headers")
        offsets, keys, items, values = _parts(column)
        if len(keys):
            most = pc.max(pc.subtract(offsets[1:], offsets[:-1])).as_py()
            each = (pc.max(pc.list_value_length(items)).as_py() or 0) if _has_lists(column) else 1
            lines += most * each * (_longest(keys) + _LINE_BYTES + _longest(values))
    return lines + BLOCK_BYTES if lines else 0


def bad_headers(messages: pa.RecordBatch) -> dict[int, str]:
    """Rows whose headers cannot be written, and why."""
    if not _may_be_bad(messages):
        return {}
    names = [name for name in (*OWN_HEADERS, "headers", "hdr_raw") if name in messages.schema.names]
    lists = "headers" in names and _has_lists(messages.column("headers"))
    found = {number: _fault(row, lists) for number, row in enumerate(messages.select(names).to_pylist())}
    return {number: reason for number, reason in found.items() if reason is not None}


def header_block(row: Mapping[str, Any]) -> bytes:
    """The headers of a row as a block, empty if it has none.

    Raises:
        SparkSideError: a name or value cannot be in a header.
    """
    raw = row.get("hdr_raw")
    text = ""
    for name, value in _lines(row):
        if not _is_name(name) or _has_line_end(value):
            raise SparkSideError(f"{f'{name}: {value}'!r} cannot be a header")
        text += f"{name}: {value}\r\n"
    if raw:
        return bytes(raw[: -len(_END)]) + text.encode() + _END
    return _BEGIN + text.encode() + _END if text else b""


def _fault(row: Mapping[str, Any], lists: bool) -> str | None:
    """What is wrong with the headers of a row."""
    for name, values in _pairs(row.get("headers")):
        if not _is_name(name):
            return f"{name!r} is no name of a header"
        if values is None and lists:
            return f"its header {name!r} has null in the place of a list"
    for name, value in _lines(row):
        if _has_line_end(value):
            return f"its header {name!r} has a value with a line end"
    raw = row.get("hdr_raw")
    if raw and not (len(raw) >= BLOCK_BYTES and raw.startswith(b"NATS/1.0") and raw.endswith(b"\r\n\r\n")):
        return "its hdr_raw does not begin with NATS/1.0 and end with an empty line"
    size = len(header_block(row))
    if size > STREAM_HEADER_BYTES_MAX:
        return f"its headers have {size} bytes, more than {STREAM_HEADER_BYTES_MAX}"
    return None


def _is_name(name: str) -> bool:
    return bool(name) and not any(char in name for char in ":\r\n")


def _has_line_end(value: str) -> bool:
    return "\r" in value or "\n" in value


def _lines(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Name and value of each line; a null is no line."""
    for name, values in _pairs(row.get("headers")):
        for value in values if isinstance(values, list) else [values]:
            if value is not None:
                yield name, value
    for column, name in OWN_HEADERS.items():
        if row.get(column) is not None:
            yield name, str(row[column])


def _pairs(headers: Any) -> list[tuple[str, Any]]:
    """A map as Arrow gives it: pairs, or nothing."""
    return [] if headers is None else list(headers)


def _may_be_bad(messages: pa.RecordBatch) -> bool:
    """False when no header can be wrong, judged by whole columns."""
    import pyarrow.compute as pc

    names = messages.schema.names
    if header_bytes_bound(messages) > STREAM_HEADER_BYTES_MAX:
        return True
    if any(holds_any(messages.column(name), b"\r\n") for name in ("msg_id", "ttl") if name in names):
        return True
    if "hdr_raw" in names:
        raw = messages.column("hdr_raw")
        whole = pc.and_(pc.starts_with(raw, "NATS/1.0\r\n"), pc.ends_with(raw, "\r\n\r\n"))
        if pc.any(pc.invert(whole)).as_py():
            return True
    if "headers" not in names:
        return False
    column = messages.column("headers")
    _, keys, items, values = _parts(column)
    if items.null_count and _has_lists(column):
        return True
    return "" in keys.unique().to_pylist() or holds_any(keys, b":\r\n") or holds_any(values, b"\r\n")


def _has_lists(column: pa.MapArray) -> bool:
    import pyarrow as pa

    kind = column.type.item_type
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _parts(column: pa.MapArray) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    """Of the rows of a map: their offsets, names, what each name has, and all values."""
    offsets = column.offsets
    first = offsets[0].as_py()
    count = offsets[-1].as_py() - first
    keys, items = column.keys.slice(first, count), column.items.slice(first, count)
    return offsets, keys, items, items.flatten() if _has_lists(column) else items


def _longest(column: pa.Array) -> int:
    import pyarrow.compute as pc

    return pc.max(pc.binary_length(column)).as_py() or 0


def holds_any(column: pa.Array, characters: bytes) -> bool:
    """Whether a text of a column has one of some characters."""
    text = joined_texts(column)
    return any(character in text for character in characters)


def joined_texts(column: pa.Array) -> bytes:
    """All texts of a column one after the other, which is how Arrow has them; nothing for numbers."""
    import pyarrow as pa

    if pa.types.is_large_string(column.type):
        column = column.cast(pa.string())
    if not pa.types.is_string(column.type) or not len(column):
        return b""
    _, offsets, data = column.buffers()
    if data is None:
        return b""
    ends = memoryview(offsets).cast("i")
    return bytes(memoryview(data)[ends[column.offset] : ends[column.offset + len(column)]])
