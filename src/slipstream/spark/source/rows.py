"""From the batches of the bulk reader to the batches Spark expects: content decoded, bucket columns derived.

Everything is done a column at a time in Arrow. JSON is the matter of `json_payloads`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from slipstream.schemas.registered import RegisteredSchema
from slipstream.spark.source.json_payloads import PayloadError, structs_of
from slipstream.spark.source.options import SourceOptions
from slipstream.spark.source.registered_payloads import RegisteredPayloads
from slipstream.spark.source.schema import SourceColumns

__all__ = ["PayloadError", "Shaper", "shaper"]

# Columns of a bucket and the columns of the stream behind it that they come from.
_BUCKET_FROM: Final = {"key": "subject", "value": "payload", "op": "hdr_raw", "revision": "seq", "bucket": "stream"}


@dataclass(frozen=True)
class Shaper:
    """How the batches of one read are shaped. Picklable."""

    columns: SourceColumns
    is_bucket: bool
    payload_format: str
    errors_fail: bool
    registered: RegisteredSchema | None = None

    @property
    def stream_columns(self) -> tuple[str, ...]:
        """What the bulk reader has to deliver."""
        if not self.is_bucket:
            return self.columns.names
        wanted = [_BUCKET_FROM.get(name, name) for name in self.columns.names]
        if "value" in self.columns.names:
            wanted.append("hdr_raw")  # a deleted key has no value
        return tuple(dict.fromkeys(wanted))

    def shape(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One batch as Spark expects it.

        Raises:
            PayloadError: a payload is not as announced, and such rows are not to become null.
        """
        if not self.is_bucket and self.payload_format == "raw":
            return batch
        arrays = [self._column(batch, name) for name in self.columns.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns.arrow)

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        content = name == self.columns.content
        if not self.is_bucket:
            return self._content(batch, batch.column(name)) if content else batch.column(name)
        if name == "key":
            return _after_second_dot(batch.column("subject"))
        if name == "bucket":
            return pc.utf8_slice_codeunits(batch.column("stream"), start=len("KV_"))
        if name == "op":
            return _operations(batch.column("hdr_raw"))
        array = batch.column(_BUCKET_FROM.get(name, name))
        if content:
            kept = pc.equal(_operations(batch.column("hdr_raw")), "PUT")
            return self._content(batch, pc.if_else(kept, array, pa.scalar(None, array.type)))
        return array

    def _content(self, batch: pa.RecordBatch, array: pa.Array) -> pa.Array:
        if self.payload_format == "raw":
            return array
        if self.payload_format == "string":
            return _as_text(array, self.errors_fail)
        wanted = self.columns.arrow.field(self.columns.content).type
        if self.registered is not None:
            return _reader_of(self.registered).structs_of(array, wanted, self.errors_fail)
        return structs_of(array, wanted, self.errors_fail)


def shaper(columns: SourceColumns, options: SourceOptions) -> Shaper:
    """The shaper of a read of streams or buckets."""
    return Shaper(
        columns,
        options.target.kind == "bucket",
        options.payload_format,
        options.payload_errors_fail,
        options.registered,
    )


@lru_cache(maxsize=16)
def _reader_of(schema: RegisteredSchema) -> RegisteredPayloads:
    """Made once a worker."""
    return RegisteredPayloads(schema)


def _after_second_dot(subjects: pa.Array) -> pa.Array:
    """The key in `$KV.<bucket>.<key>`; keys may hold dots."""
    parts = pc.split_pattern(subjects, ".", max_splits=2)
    return pc.list_element(parts, 2)


def _operations(headers: pa.Array) -> pa.Array:
    """PUT, DEL or PURGE by the headers clients and servers set on bucket entries."""
    if headers.null_count == len(headers):
        return pa.repeat(pa.scalar("PUT"), len(headers))
    blocks = pc.fill_null(headers, b"")

    def says(text: bytes) -> Any:
        return pc.match_substring(blocks, text, ignore_case=True)

    purged = pc.or_(says(b"\nKV-Operation: PURGE\r"), says(b"\nNats-Marker-Reason: "))
    deleted = pc.or_(says(b"\nKV-Operation: DEL\r"), says(b"\nNats-Marker-Reason: Remove\r"))
    return pc.if_else(deleted, "DEL", pc.if_else(purged, "PURGE", "PUT"))


def _as_text(array: pa.Array, errors_fail: bool) -> pa.Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid as error:
        if errors_fail:
            raise PayloadError(f"a payload is not UTF-8 text ({error}); read it with payloadFormat=raw") from error
    return pa.array([_text_or_none(value) for value in array.to_pylist()], pa.string())


def _text_or_none(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
