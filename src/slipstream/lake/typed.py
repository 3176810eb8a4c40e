"""Payloads as typed columns of a table, and those that do not fit as dead letters.

Each payload is judged by itself, by the rules of the Spark source's `payloadFormat=json` (strict types). One that does
not fit is published under another subject and is not in the table; without such a subject its row has no values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from slipstream.bulk import BulkClient, ConnectOptions
from slipstream.jetstream import headers
from slipstream.kernels.subjects.subject import matches
from slipstream.spark.lake.base import LakeError
from slipstream.spark.lake.files import SCHEMA

if TYPE_CHECKING:
    from slipstream.lake.registered import RegisteredColumns
    from slipstream.spark.sink.publish import RowPublisher

__all__ = ["TypedPayloads", "read_columns"]

_TYPES: Final = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
}
_COLUMN: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s+([A-Za-z]+)\s*")
_COLUMNS_MAX: Final = 500
_IN_FLIGHT: Final = 1024


def read_columns(text: str) -> pa.Schema:
    """Columns as people write them: `id bigint, name string`.

    Raises:
        LakeError: it is no such list, or a name is taken.
    """
    fields: dict[str, pa.DataType] = {}
    for one in text.split(","):
        found = _COLUMN.fullmatch(one)
        if found is None or found[2].lower() not in _TYPES:
            raise LakeError(f"{one.strip()!r} is no column such as 'id bigint'; types are {', '.join(_TYPES)}")
        if found[1] in fields or found[1].lower() in SCHEMA.names:
            raise LakeError(f"the table has a column {found[1]!r} already")
        fields[found[1]] = _TYPES[found[2].lower()]
    if len(fields) > _COLUMNS_MAX:
        raise LakeError(f"a table has at most {_COLUMNS_MAX} columns of payloads")
    return pa.schema(list(fields.items()))


class TypedPayloads:
    """What becomes of the payloads of one stream."""

    def __init__(
        self,
        columns: pa.Schema,
        reach: ConnectOptions,
        dead_letters: str = "",
        registered: RegisteredColumns | None = None,
    ) -> None:
        """Remember what is wanted.

        Args:
            columns: see `read_columns`.
            reach: the server that takes dead letters.
            dead_letters: subject of those; empty for rows without values.
            registered: the schema that payloads have, if the columns are its own; by default they are JSON.
        """
        self.columns = columns
        self._registered = registered
        self._reach = reach
        self._dead_letters = dead_letters
        self.buried = 0
        """Dead letters so far."""

    def follow(self, client: BulkClient, stream: str) -> bool:
        """Look at the stream's configuration: where letters would go, and which columns there are now.

        Messages that were there before this call have no newer version of the schema than the one it finds.

        Returns:
            Whether the columns are others, so that the table has to be opened anew.

        Raises:
            LakeError: letters would go into the same stream, from which they would come back; or the schema is gone.
        """
        info = client.stream_info(stream)
        subjects = info["config"].get("subjects") or []
        if self._dead_letters and any(matches(one.encode(), self._dead_letters.encode()) for one in subjects):
            raise LakeError(f"{self._dead_letters} is a subject of {stream} itself; dead letters need another stream")
        if self._registered is None or not self._registered.follow(info):
            return False
        is_other = not self.columns.equals(self._registered.columns)
        self.columns = self._registered.columns
        return is_other

    def shaped(self, batches: Iterator[pa.RecordBatch], identity: str) -> Iterator[pa.RecordBatch]:
        """Batches with the columns of payloads. When this ends, all dead letters are stored.

        Raises:
            SparkSideError: no stream takes the dead letters.
        """
        from slipstream.spark.sink.publish import RowPublisher
        from slipstream.spark.source.json_payloads import structs_of

        read = structs_of if self._registered is None else self._registered.structs_of
        wanted = pa.struct(list(self.columns))
        publisher: RowPublisher | None = None
        try:
            for batch in batches:
                values = read(batch.column("payload"), wanted, False)
                if self._dead_letters and values.null_count:
                    publisher = publisher or RowPublisher(self._reach, _IN_FLIGHT)
                    self._bury(publisher, batch.filter(pc.is_null(values)), identity)
                    fits = pc.is_valid(values)
                    batch, values = batch.filter(fits), values.filter(fits)
                if batch.num_rows:
                    # A null row has null members: a field of a struct alone would not say so.
                    typed = [pc.struct_field(values, [number]) for number in range(len(self.columns))]
                    yield pa.RecordBatch.from_arrays(
                        [*batch.columns, *typed], schema=pa.schema([*batch.schema, *self.columns])
                    )
            if publisher is not None:
                publisher.finish()
        finally:
            if publisher is not None:
                publisher.__exit__(None, None, None)

    def _bury(self, publisher: RowPublisher, bad: pa.RecordBatch, identity: str) -> None:
        """Publish rows that do not fit; a turn that is made again has the same ids."""
        for row in bad.select(["stream", "seq", "subject", "payload"]).to_pylist():
            block = b""
            for name, value in (
                ("Nats-Msg-Id", f"lake-{identity}-{row['seq']}"),
                ("Slipstream-Error", "the payload does not fit the columns of the table"),
                ("Slipstream-Subject", row["subject"]),
                ("Slipstream-Stream", row["stream"]),
                ("Slipstream-Sequence", str(row["seq"])),
            ):
                block = headers.append(block, name.encode(), value.encode())
            publisher.publish(self._dead_letters, row["payload"] or b"", block)
            self.buried += 1
