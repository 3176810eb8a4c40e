"""Record batches as the records that are staged: columns are brought into the form the kernel takes, then encoded.

Columns: `subject` (unless one subject is for all rows), `payload` as bytes or text, and optionally `headers` (a map to
texts or to lists of texts), `hdr_raw` (whole header blocks, instead of `headers`), `msg_id`, `ttl` (seconds, or a text
such as `1h` or `never`) and `expected_last_subject_seq`. Other columns are ignored: what was read can be written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from slipstream.bulk.errors import BulkError
from slipstream.kernels.bulk.rowrecords import RowEncoder

__all__ = ["begin_batch", "encode_batch", "refused"]

_OWN_HEADERS = ("msg_id", "ttl", "expected_last_subject_seq")


def encode_batch(encoder: RowEncoder, batch: pa.RecordBatch, subject: str | None = None) -> Iterator[bytes]:
    """The records of a batch, in pieces of whole records.

    Raises:
        BulkError: see `begin_batch`; or a row cannot be a message.
    """
    begin_batch(encoder, batch, subject)
    try:
        while (piece := encoder.next_piece()) is not None:
            yield piece
    except ValueError as error:
        raise refused(error) from error


def refused(error: Exception) -> BulkError:
    """Why rows cannot be written."""
    return BulkError(f"rows cannot be written: {error}")


def begin_batch(encoder: RowEncoder, batch: pa.RecordBatch, subject: str | None = None) -> None:
    """Give a batch to an encoder.

    Args:
        encoder: of the part; of no use after an error.
        batch: rows to write.
        subject: of every row; else the column `subject` says.

    Raises:
        BulkError: a column is missing or of another type.
    """
    names = set(batch.schema.names)
    if subject is None and "subject" not in names:
        raise BulkError("a column subject is needed, or one subject for all rows")
    try:
        own = {name: _text(batch.column(name), pa.string()) for name in _OWN_HEADERS if name in names}
        headers = batch.column("headers") if "headers" in names else None
        encoder.begin(
            batch.num_rows,
            _text(batch.column("subject"), pa.string()) if subject is None else None,
            _text(batch.column("payload"), pa.binary()) if "payload" in names else None,
            headers=_map(headers) if headers is not None and not pa.types.is_null(headers.type) else None,
            fixed_subject=None if subject is None else subject.encode(),
            raw_headers=_text(batch.column("hdr_raw"), pa.binary()) if headers is None and "hdr_raw" in names else None,
            **own,
        )
    except (ValueError, TypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise refused(error) from error


def _text(column: pa.Array, kind: pa.DataType) -> tuple[Any, ...]:
    """A column as the kernel takes texts, whatever form of text or number it has."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type != kind:
        if pa.types.is_string(column.type) and pa.types.is_binary(kind):
            column = column.view(kind)
        else:
            column = column.cast(kind)
    valid, offsets, data = column.buffers()
    return (valid if column.null_count else None, offsets, data, column.offset, len(column))


def _map(column: pa.Array) -> tuple[Any, ...]:
    """A map to texts or to lists of texts, as its parts."""
    if not pa.types.is_map(column.type):
        raise BulkError(f"headers must be a map, not {column.type}")
    valid = column.buffers()[0] if column.null_count else None
    map_offsets, keys, items = column.offsets, column.keys, column.items
    list_offsets: tuple[Any, int] = (None, 0)
    values = items
    if pa.types.is_large_list(items.type):
        items = items.cast(pa.list_(items.type.value_type))
    if pa.types.is_list(items.type):
        if items.null_count:
            raise BulkError("headers hold a list that is null")
        found = items.offsets
        list_offsets = (found.buffers()[1], found.offset)
        values = items.values
    return (
        valid,
        column.offset,
        map_offsets.buffers()[1],
        map_offsets.offset,
        _text(keys, pa.string()),
        *list_offsets,
        _text(values, pa.string()),
    )
