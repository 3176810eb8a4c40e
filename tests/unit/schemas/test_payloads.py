"""Payloads held to JSON Schema, Avro and Protobuf, and definitions that are refused."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from slipstream.schemas.errors import SchemaProblem
from slipstream.schemas.limits import CHECKED_PAYLOAD_BYTES_MAX
from slipstream.schemas.payloads import SchemaChecks, compiled
from slipstream.schemas.protobuf import message_class
from slipstream.schemas.registered import RegisteredSchema, SchemaFormat, schema_for, schemas_in

ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
RECORD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
RECORD_2 = {**RECORD, "fields": [*RECORD["fields"], {"name": "note", "type": "string", "default": ""}]}


def registered(kind: SchemaFormat, *versions: Any, message: str = "") -> RegisteredSchema:
    texts = tuple(one if isinstance(one, str) else json.dumps(one) for one in versions)
    return RegisteredSchema(subjects=("o.>",), format=kind, versions=texts, message=message)


def proto(*fields: tuple[str, int, int], label: int = 1, syntax: str = "proto2") -> str:
    """A definition of the message `shop.Order` with fields (name, number, type)."""
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax=syntax)
    message = file.message_type.add(name="Order")
    for name, number, kind in fields:
        message.field.append(FieldDescriptorProto(name=name, number=number, type=kind, label=label))
    return base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode()


def datum(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b'{"id": 7}', None),
        (b'{"id": "7"}', 'id: "7" is not of type "integer"'),
        (b"{}", 'the payload: "id" is a required property'),
        (b"[", "no JSON: "),
        (b"\xff", "no JSON: "),
        (b"[" * 100_000, "no JSON: "),
        (b"", "no JSON: "),
    ],
)
def test_json(payload: bytes, reason: str | None) -> None:
    found = compiled(registered(SchemaFormat.JSON, ORDER))(payload)
    assert found == reason if reason is None else found is not None and found.startswith(reason)


def test_avro_alone_and_behind_a_fingerprint() -> None:
    check = compiled(registered(SchemaFormat.AVRO, RECORD, RECORD_2))
    old, new = datum(RECORD, {"id": 7}), datum(RECORD_2, {"id": 7, "note": "x"})
    assert check(new) is None
    assert check(old) is not None  # alone it is of the newest version, which has more

    def marked(schema: Any, body: bytes) -> bytes:
        canonical = fastavro.schema.to_parsing_canonical_form(schema)
        return b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")) + body

    assert check(marked(RECORD, old)) is None
    assert check(marked(RECORD_2, new)) is None
    assert "no registered version" in str(check(marked({**RECORD, "name": "Other"}, old)))
    assert check(new + b"x") == "1 bytes behind the datum"
    for wrong in (b"", new[:-1], b"\xc3\x01", b"\xff" * 20):
        assert check(wrong) is not None


def test_protobuf() -> None:
    text = proto(("id", 1, FieldDescriptorProto.TYPE_INT64), label=FieldDescriptorProto.LABEL_REQUIRED)
    check = compiled(registered(SchemaFormat.PROTOBUF, text, message="shop.Order"))
    assert check(message_class(text, "shop.Order")(id=7).SerializeToString()) is None
    assert check(b"") == "no shop.Order: required fields are missing"
    assert str(check(b"\x08")).startswith("no shop.Order")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (registered(SchemaFormat.JSON, "{"), "no JSON"),
        (registered(SchemaFormat.JSON, "7"), "an object, true or false"),
        (registered(SchemaFormat.JSON, {"type": "strange"}), "not a JSON Schema"),
        (registered(SchemaFormat.JSON, {"$ref": "http://127.0.0.1:1/x.json"}), "another document"),
        (registered(SchemaFormat.JSON, {"$ref": "file:///etc/hostname"}), "another document"),
        (registered(SchemaFormat.JSON, {"pattern": "(?=a)b"}), "regex"),
        (registered(SchemaFormat.JSON, '{"not":' * 70 + "{}" + "}" * 70), "inside each other"),
        (registered(SchemaFormat.AVRO, {"type": "strange"}), "not an Avro schema"),
        (registered(SchemaFormat.AVRO, {"type": "record", "fields": []}), "not an Avro schema"),
        (registered(SchemaFormat.AVRO, {"type": "array", "items": "null"}), "any number of elements"),
        (
            registered(SchemaFormat.AVRO, {"type": "array", "items": {"type": "record", "name": "E", "fields": []}}),
            "any number of elements",
        ),
        (
            registered(
                SchemaFormat.AVRO,
                {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]},
            ),
            "contains itself",
        ),
        (registered(SchemaFormat.PROTOBUF, "!", message="X"), "FileDescriptorSet"),
        (registered(SchemaFormat.PROTOBUF, "AAAA", message="X"), "FileDescriptorSet"),
        (registered(SchemaFormat.PROTOBUF, proto(), message="shop.Other"), "no message shop.Other"),
    ],
)
def test_definitions_that_are_refused(schema: RegisteredSchema, reason: str) -> None:
    with pytest.raises(SchemaProblem, match=reason):
        compiled(schema)


def test_the_first_schema_that_covers_a_subject_counts() -> None:
    metadata = {
        "slipstream.schema.a": registered(SchemaFormat.JSON, ORDER).text(),
        "slipstream.schema.b": RegisteredSchema((">",), SchemaFormat.JSON, ("false",)).text(),
        "other": "x",
    }
    schemas = schemas_in(metadata)
    assert list(schemas) == ["a", "b"]
    assert (schema_for(schemas, b"o.1"), schema_for(schemas, b"p")) == ("a", "b")
    checks = SchemaChecks(schemas)
    assert checks.problem(b"o.1", b'{"id": 1}') is None
    assert checks.problem(b"p", b"{}") is not None
    large = b'{"id": 1, "x": "' + b"x" * CHECKED_PAYLOAD_BYTES_MAX + b'"}'
    assert checks.problem(b"o.1", large) == ("a", f"more than {CHECKED_PAYLOAD_BYTES_MAX} bytes are not checked")


def test_a_schema_whose_library_is_gone_lets_nothing_in() -> None:
    checks = SchemaChecks({"a": registered(SchemaFormat.JSON, "{")})
    assert checks.problem(b"o.1", b"{}") is not None
    assert checks.problem(b"x", b"{}") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"subjects": [], "format": "json", "versions": ["{}"]}',
        '{"subjects": ["a b"], "format": "json", "versions": ["{}"]}',
        '{"subjects": ["a"], "format": "xml", "versions": ["{}"]}',
        '{"subjects": ["a"], "format": "json", "versions": []}',
        '{"subjects": ["a"], "format": "json", "versions": ["{}"], "more": 1}',
        '{"subjects": ["a"], "format": "json", "versions": ["{}"], "message": "X"}',
        '{"subjects": ["a"], "format": "protobuf", "versions": [""]}',
    ],
)
def test_metadata_that_is_no_schema(text: str) -> None:
    with pytest.raises(SchemaProblem):
        schemas_in({"slipstream.schema.x": text})
    with pytest.raises(SchemaProblem, match="no name"):
        schemas_in({"slipstream.schema.a.b": text})
