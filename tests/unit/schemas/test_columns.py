"""Schemas as columns of Arrow, and payloads in them."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import uuid
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP

from slipstream.schemas.columns import arrow_columns
from slipstream.schemas.errors import SchemaProblem
from slipstream.schemas.protobuf import message_class
from slipstream.schemas.registered import RegisteredSchema, SchemaFormat
from slipstream.spark.source.json_payloads import PayloadError
from slipstream.spark.source.registered_payloads import RegisteredPayloads

from .test_payloads import datum

MOMENT = datetime.datetime(2026, 11, 18, 1, 2, 3, 4000, datetime.UTC)


def registered(kind: SchemaFormat, definition: Any, message: str = "") -> RegisteredSchema:
    text = definition if isinstance(definition, str) else json.dumps(definition)
    return RegisteredSchema(("s.>",), kind, (text,), message=message)


def read(schema: RegisteredSchema, *payloads: bytes | None) -> list[Any]:
    found = RegisteredPayloads(schema)
    rows: list[Any] = found.structs_of(
        pa.array(payloads, pa.binary()), pa.struct(list(found.columns)), False
    ).to_pylist()
    return rows


def test_json() -> None:
    schema = registered(
        SchemaFormat.JSON,
        {
            "type": "object",
            "properties": {
                "id": {"type": "integer"},
                "price": {"type": ["null", "number"]},
                "at": {"type": "string", "format": "date-time"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "buyer": {"type": "object", "properties": {"name": {"type": "string"}, "any": {}}},
                "either": {"type": ["string", "integer"]},
                "anything": True,
            },
        },
    )
    assert arrow_columns(schema) == pa.schema(
        {
            "id": pa.int64(),
            "price": pa.float64(),
            "at": pa.timestamp("us", "UTC"),
            "tags": pa.list_(pa.string()),
            "buyer": pa.struct({"name": pa.string()}),
        }
    )
    good = b'{"id": 7, "at": "2026-11-18T01:02:03.004Z", "tags": ["a"], "buyer": {"name": "x"}, "either": 1}'
    (row, bad, none) = read(schema, good, b'{"id": "x"}', None)
    assert row == {"id": 7, "price": None, "at": MOMENT, "tags": ["a"], "buyer": {"name": "x"}}
    assert bad is None and none is None


def test_avro() -> None:
    fields = {
        "id": "long",
        "note": ["null", "string"],
        "at": {"type": "long", "logicalType": "timestamp-micros"},
        "day": {"type": "int", "logicalType": "date"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "number": {"type": "string", "logicalType": "uuid"},
        "state": {"type": "enum", "name": "State", "symbols": ["NEW", "OLD"]},
        "last": "State",
        "tags": {"type": "map", "values": "int"},
        "lines": {"type": "array", "items": {"type": "record", "name": "L", "fields": [{"name": "n", "type": "int"}]}},
        "either": ["int", "string"],
    }
    record = {"type": "record", "name": "R", "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}
    schema = registered(SchemaFormat.AVRO, record)
    columns = arrow_columns(schema)
    assert columns.names == [name for name in fields if name != "either"]
    assert columns.field("price").type == pa.decimal128(9, 2) and columns.field("last").type == pa.string()
    value = {
        "id": 7,
        "note": None,
        "at": MOMENT,
        "day": MOMENT.date(),
        "price": decimal.Decimal("1.50"),
        "number": uuid.UUID(int=7),
        "state": "NEW",
        "last": "OLD",
        "tags": {"a": 1},
        "lines": [{"n": 1}, {"n": 2}],
        "either": "x",
    }
    (row, bad) = read(schema, datum(record, value), b"\x01")
    assert row == {
        **{key: one for key, one in value.items() if key != "either"},
        "number": str(uuid.UUID(int=7)),
        "tags": [("a", 1)],
    }
    assert bad is None


def test_protobuf() -> None:
    file = FileDescriptorProto(
        name="a.proto", package="p", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    kinds = file.enum_type.add(name="Kind")
    kinds.value.add(name="UNKNOWN", number=0)
    kinds.value.add(name="BIG", number=1)
    message = file.message_type.add(name="M")

    def field(number: int, name: str, kind: int, label: int = 1, type_name: str = "") -> None:
        message.field.append(Field(name=name, number=number, type=kind, label=label, type_name=type_name or None))

    field(1, "id", Field.TYPE_INT64)
    field(2, "large", Field.TYPE_UINT64)
    field(3, "kind", Field.TYPE_ENUM, type_name=".p.Kind")
    field(4, "tags", Field.TYPE_STRING, 3)
    field(5, "at", Field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    field(6, "inner", Field.TYPE_MESSAGE, type_name=".p.M")  # contains itself: no column
    field(7, "counts", Field.TYPE_MESSAGE, 3, ".p.M.CountsEntry")
    entry = DescriptorProto(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.append(Field(name="key", number=1, type=Field.TYPE_STRING, label=1))
    entry.field.append(Field(name="value", number=2, type=Field.TYPE_INT32, label=1))
    message.nested_type.append(entry)
    timestamp = FileDescriptorProto()
    TIMESTAMP.CopyToProto(timestamp)
    text = base64.b64encode(FileDescriptorSet(file=[timestamp, file]).SerializeToString()).decode()
    schema = registered(SchemaFormat.PROTOBUF, text, "p.M")
    assert arrow_columns(schema).names == ["id", "large", "kind", "tags", "at", "counts"]
    sent = message_class(text, "p.M")(id=7, large=2**64 - 1, kind=1, tags=["a", "b"], counts={"x": 1})
    sent.at.FromDatetime(MOMENT)
    empty = {"id": 0, "large": decimal.Decimal(0), "kind": "UNKNOWN", "tags": [], "at": None, "counts": []}
    (row, default, bad) = read(schema, sent.SerializeToString(), b"", b"\x08")
    assert row == {
        "id": 7,
        "large": decimal.Decimal(2**64 - 1),
        "kind": "BIG",
        "tags": ["a", "b"],
        "at": MOMENT,
        "counts": [("x", 1)],
    }
    assert default == empty and bad is None


def test_what_cannot_be_columns() -> None:
    for kind, definition in (
        (SchemaFormat.JSON, "true"),
        (SchemaFormat.JSON, {"type": "array"}),
        (SchemaFormat.JSON, {"type": "object"}),
        (SchemaFormat.AVRO, '"string"'),
    ):
        with pytest.raises(SchemaProblem, match="no members"):
            arrow_columns(registered(kind, definition))
    record = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    found = RegisteredPayloads(registered(SchemaFormat.AVRO, record))
    with pytest.raises(PayloadError):
        found.structs_of(pa.array([b""]), pa.struct(list(found.columns)), True)


def test_a_value_out_of_range_is_one_row() -> None:
    record = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "p", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 0}}],
    }
    wide = {**record, "fields": [{"name": "p", "type": {**record["fields"][0]["type"], "precision": 9}}]}  # type: ignore[index]
    rows = read(
        registered(SchemaFormat.AVRO, record),
        datum(record, {"p": decimal.Decimal(12)}),
        datum(wide, {"p": decimal.Decimal(123456789)}),
    )
    assert rows[0] == {"p": decimal.Decimal(12)} and rows[1] is None
