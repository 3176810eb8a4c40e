"""From the rows of a DataFrame to messages: which columns there have to be, and which rows cannot be messages.

| target | columns | optional |
|---|---|---|
| stream | `subject` (or the option), `payload` | `headers`, `msg_id`, `ttl`, `expected_last_subject_seq` |
| bucket | `key`, `value` | `op` (PUT, DEL, PURGE), `revision` (the one expected), `ttl` |
| object store | `name`, `data` | `description` |

Other columns are ignored, so what was read can be written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slipstream.kernels.subject import is_valid_publish, matches
from slipstream.spark.errors import SchemaError
from slipstream.spark.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["BadRow", "RowRules", "row_rules"]

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
_KEY = re.compile(r"[-/_=A-Za-z0-9]+(\.[-/_=A-Za-z0-9]+)*")
_OPERATION_HEADERS: Final = {
    "DEL": b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n",
    "PURGE": b"NATS/1.0\r\nKV-Operation: PURGE\r\n\r\n",
}
_HEADER_ROOM = 256  # bytes of headers that the sink itself may add


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be a message."""

    row: int  # in its batch
    reason: str


@dataclass(frozen=True)
class RowRules:
    """How rows become messages. Picklable."""

    kind: str
    name: str  # of the stream, bucket or store
    names: tuple[str, ...]  # columns that are used
    subject: str | None
    id_column: str | None
    source_ids: bool  # message ids are made of the columns `stream` and `seq`

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

    def bad_rows(self, messages: pa.RecordBatch, max_bytes: int, accepts: Sequence[str] = ()) -> list[BadRow]:
        """Rows that the server would not take.

        Args:
            messages: from `messages`.
            max_bytes: of a message with its headers.
            accepts: the subjects of the stream; then every subject is looked at. Without it only what is cheap is
                checked, and the encoder and the server do the rest.
        """
        bad = {one.row: one for one in _oversized(messages, max_bytes)}
        if accepts:
            prefix = f"$KV.{self.name}." if self.kind == "bucket" else ""
            bad |= {one.row: one for one in _bad_subjects(messages, prefix, accepts)}
        bad |= {one.row: one for one in _nulls(messages)}
        return [bad[row] for row in sorted(bad)]

    def purged(self, batch: pa.RecordBatch) -> list[str]:
        """Subjects whose older messages go when the batch is there: keys with the operation PURGE."""
        import pyarrow.compute as pc

        if "op" not in self.names:
            return []
        keys = pc.filter(batch.column("key"), pc.equal(pc.utf8_upper(batch.column("op")), "PURGE"))
        return [f"$KV.{self.name}.{key}" for key in keys.to_pylist() if key]

    def _entries(self, batch: pa.RecordBatch) -> dict[str, Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        subjects = pc.binary_join_element_wise(pa.scalar(f"$KV.{self.name}."), batch.column("key"), "")
        columns = {"subject": subjects, "payload": batch.column("value")}
        if "op" in self.names:
            words = pc.utf8_upper(pc.fill_null(batch.column("op"), "PUT"))
            known = pc.is_in(words, pa.array(["PUT", *_OPERATION_HEADERS]))
            if not pc.all(known).as_py():
                wrong = pc.filter(words, pc.invert(known))[0].as_py()
                raise SchemaError(f"column 'op' is PUT, DEL or PURGE, not {wrong!r}")
            headers = pa.scalar(None, pa.binary())
            for word, block in _OPERATION_HEADERS.items():
                headers = pc.if_else(pc.equal(words, word), pa.scalar(block), headers)
            columns["hdr_raw"] = headers
            empty = pa.scalar(b"", columns["payload"].type)
            columns["payload"] = pc.if_else(pc.equal(words, "PUT"), columns["payload"], empty)
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
    return RowRules(kind, options.target.names[0], tuple(used), options.subject, id_column, source_ids)


def _expected(kind: str, options: SinkOptions) -> str:
    names = [name + ("" if needed else " (optional)") for name, (_, needed) in _CONTRACT[kind].items()]
    return f"a write to {kind} {options.target.names[0]!r} takes {', '.join(names)}"


def _listed(found: dict[str, str]) -> str:
    return ", ".join(found) or "none"


def _nulls(messages: pa.RecordBatch) -> list[BadRow]:
    subjects = messages.column("subject")
    if not subjects.null_count:
        return []
    return [BadRow(row, "it has no subject") for row in range(len(subjects)) if not subjects[row].is_valid]


def _oversized(messages: pa.RecordBatch, max_bytes: int) -> list[BadRow]:
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.binary_length(messages.column("payload")), 0)
    largest = pc.max(lengths).as_py() or 0
    if largest <= max_bytes - _HEADER_ROOM:
        return []
    text = f"the server takes messages of {max_bytes} bytes"
    over = ((row, size.as_py()) for row, size in enumerate(lengths) if size.as_py() > max_bytes - _HEADER_ROOM)
    return [BadRow(row, f"its payload has {size} bytes, {text}") for row, size in over]


def _bad_subjects(messages: pa.RecordBatch, prefix: str, accepts: Sequence[str]) -> list[BadRow]:
    subjects = messages.column("subject").dictionary_encode()
    filters = [one.encode() for one in accepts]
    wrong = {}
    for number, subject in enumerate(subjects.dictionary.to_pylist()):
        text = subject.encode()
        if prefix and not _KEY.fullmatch(subject.removeprefix(prefix)):
            wrong[number] = f"{subject.removeprefix(prefix)!r} is no key"
        elif not is_valid_publish(text):
            wrong[number] = f"{subject!r} is no subject to publish to"
        elif not any(matches(one, text) for one in filters):
            wrong[number] = f"{subject!r} is not among the subjects of the stream"
    if not wrong:
        return []
    return [BadRow(row, wrong[at]) for row, at in enumerate(subjects.indices.to_pylist()) if at in wrong]
