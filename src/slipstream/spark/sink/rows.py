"""From the rows of a DataFrame to messages: which columns there have to be, and which rows cannot be messages.

| target | columns | optional |
|---|---|---|
| stream | `subject` (or the option), `payload` | `headers`, `msg_id`, `ttl`, `expected_last_subject_seq` |
| bucket | `key`, `value` | `op` (PUT, DEL, PURGE), `revision` (the one expected), `ttl` |
| object store | `name`, `data` | `description` |

Other columns are ignored, so what was read can be written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slipstream.spark.runtime.errors import SchemaError
from slipstream.spark.sink.checks import BadRow, Room, bad_keys, bad_messages
from slipstream.spark.sink.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["RowRules", "row_rules"]

_TEXT = ("string", "binary")
_NUMBERS = ("tinyint", "smallint", "int", "bigint")
_HEADERS = ("map<string,array<string>>", "map<string,string>")
_CONTRACT: Final[dict[str, dict[str, tuple[tuple[str, ...], bool]]]] = {
    # column: the types it may have, and whether it has to be there
    "stream": {
        "subject": (("string",), True),
        "payload": (_TEXT, True),
        "headers": (_HEADERS, False),
        "hdr_raw": (("binary",), False),
        "msg_id": (("string", *_NUMBERS), False),
        "ttl": (("string", *_NUMBERS), False),
        "expected_last_subject_seq": (_NUMBERS, False),
    },
    "bucket": {
        "key": (("string",), True),
        "value": (_TEXT, True),
        "op": (("string",), False),
        "revision": (_NUMBERS, False),
        "ttl": (("string", *_NUMBERS), False),
    },
    "object": {"name": (("string",), True), "data": (_TEXT, True), "description": (("string",), False)},
}
_OPERATION_HEADERS: Final = {
    "DEL": b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n",
    "PURGE": b"NATS/1.0\r\nKV-Operation: PURGE\r\n\r\n",
}


@dataclass(frozen=True)
class RowRules:
    """How rows become messages. Picklable."""

    kind: str
    name: str  # of the stream, bucket or store
    names: tuple[str, ...]  # columns that are used
    subject: str | None
    id_column: str | None
    source_ids: bool  # message ids are made of the columns `stream` and `seq`
    needs_ids: bool  # a row without one cannot be written

    def messages(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns the bulk client stages: `subject`, `payload` and what else there is."""
        import pyarrow as pa
        import pyarrow.compute as pc

        columns: dict[str, Any]
        if self.kind == "bucket":
            columns = self._entries(batch)
        else:
            columns = {name: batch.column(name) for name in self.names}
            if self.subject is not None:
                columns["subject"] = pa.repeat(pa.scalar(self.subject), batch.num_rows)
        if self.id_column is not None:
            columns["msg_id"] = batch.column(self.id_column).cast(pa.string())
        elif self.source_ids:
            numbers = batch.column("seq").cast(pa.string())
            columns["msg_id"] = pc.binary_join_element_wise(batch.column("stream"), numbers, ":")
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def bad_rows(self, batch: pa.RecordBatch, messages: pa.RecordBatch, room: Room) -> list[BadRow]:
        """Rows that cannot be messages; in `messages` they are something, but not what was meant.

        Args:
            batch: rows as they came.
            messages: what `messages` has made of them.
            room: what the target takes.
        """
        bad = bad_messages(messages, room)
        if self.needs_ids:
            bad |= self._without_id(messages)
        if self.kind == "bucket":
            bad |= self._bad_operations(batch)
            bad |= bad_keys(batch.column("key"))
        return [BadRow(row, bad[row]) for row in sorted(bad)]

    def purged(self, batch: pa.RecordBatch) -> list[str]:
        """Subjects whose older messages go when the batch is there: keys with the operation PURGE.

        Args:
            batch: rows as they came, without bad ones.
        """
        import pyarrow.compute as pc

        if "op" not in self.names:
            return []
        keys = pc.filter(batch.column("key"), pc.equal(pc.utf8_upper(batch.column("op")), "PURGE"))
        return [f"$KV.{self.name}.{key}" for key in keys.to_pylist()]

    def _without_id(self, messages: pa.RecordBatch) -> dict[int, str]:
        import pyarrow.compute as pc

        missing = pc.equal(pc.fill_null(messages.column("msg_id"), ""), "")
        if not pc.any(missing).as_py():
            return {}
        what = f"its {self.id_column!r}" if self.id_column else "its 'stream' or 'seq'"
        text = f"{what} is empty, and mode=msgid would store it again on every run; give every row an id"
        return {row: text for row, one in enumerate(missing.to_pylist()) if one}

    def _bad_operations(self, batch: pa.RecordBatch) -> dict[int, str]:
        import pyarrow as pa
        import pyarrow.compute as pc

        if "op" not in self.names:
            return {}
        words = pc.utf8_upper(pc.fill_null(batch.column("op"), "PUT"))
        known = pc.is_in(words, pa.array(["PUT", *_OPERATION_HEADERS]))
        if pc.all(known).as_py():
            return {}
        given = batch.column("op")
        return {
            row: f"its op is {given[row].as_py()!r}, not PUT, DEL or PURGE"
            for row, one in enumerate(known.to_pylist())
            if not one
        }

    def _entries(self, batch: pa.RecordBatch) -> dict[str, Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        subjects = pc.binary_join_element_wise(pa.scalar(f"$KV.{self.name}."), batch.column("key"), "")
        columns = {"subject": subjects, "payload": batch.column("value")}
        if "op" in self.names:
            words = pc.utf8_upper(pc.fill_null(batch.column("op"), "PUT"))
            headers = pa.scalar(None, pa.binary())
            for word, block in _OPERATION_HEADERS.items():
                headers = pc.if_else(pc.equal(words, word), pa.scalar(block), headers)
            columns["hdr_raw"] = headers
            empty = pa.scalar(b"", columns["payload"].type)
            removed = pc.is_in(words, pa.array(list(_OPERATION_HEADERS)))
            columns["payload"] = pc.if_else(removed, empty, columns["payload"])
        if "revision" in self.names:
            columns["expected_last_subject_seq"] = batch.column("revision")
        if "ttl" in self.names:
            columns["ttl"] = batch.column("ttl")
        return columns


def row_rules(schema: StructType, options: SinkOptions) -> RowRules:
    """Check the columns of a DataFrame against the target.

    Raises:
        SchemaError: a column is missing or has another type; the text lists what is expected.
    """
    kind = options.target.kind
    contract = _CONTRACT[kind]
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    used = []
    for name, (types, needed) in contract.items():
        if name == "subject" and options.subject is not None:
            continue
        if name not in found:
            if needed:
                raise SchemaError(f"column {name!r} is missing; {_expected(kind, options)}; there are {_listed(found)}")
            continue
        if found[name] not in types:
            raise SchemaError(f"column {name!r} is {found[name]}, not {' or '.join(types)}; {_expected(kind, options)}")
        used.append(name)
    if "headers" in used and "hdr_raw" in used:
        used.remove("hdr_raw")
    id_column = options.id_column or ("msg_id" if "msg_id" in used else None)
    if id_column is not None and id_column not in found:
        raise SchemaError(f"idColumn {id_column!r} is no column; there are {_listed(found)}")
    source_ids = options.mode == "msgid" and id_column is None and {"stream", "seq"} <= set(found)
    used = [name for name in used if name != "msg_id"]
    needs_ids = options.mode == "msgid" and (id_column is not None or source_ids)
    return RowRules(kind, options.target.names[0], tuple(used), options.subject, id_column, source_ids, needs_ids)


def _expected(kind: str, options: SinkOptions) -> str:
    names = [name + ("" if needed else " (optional)") for name, (_, needed) in _CONTRACT[kind].items()]
    return f"a write to {kind} {options.target.names[0]!r} takes {', '.join(names)}"


def _listed(found: dict[str, str]) -> str:
    return ", ".join(found) or "none"
