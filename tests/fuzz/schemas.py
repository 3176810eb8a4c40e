"""Schemas and payloads of others: a definition is refused or used, and a payload fits or does not; nothing else."""

from __future__ import annotations

import base64
import contextlib
import json

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from fuzz.target import Target
from slipstream.schemas.errors import SchemaProblem
from slipstream.schemas.evolution import check_follows
from slipstream.schemas.payloads import compiled
from slipstream.schemas.registered import RegisteredSchema, SchemaFormat, schemas_in

SPLIT = b"\0\0"
OBJECT = {"type": "object", "properties": {"id": {"type": "integer"}, "tags": {"items": {"pattern": "^a"}}}}
RECORD = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
    ],
}


def definition(data: bytes) -> None:
    """Two versions and a payload, in each language."""
    old, _, rest = data.partition(SPLIT)
    new, _, payload = rest.partition(SPLIT)
    for kind in SchemaFormat:
        is_binary = kind is SchemaFormat.PROTOBUF
        texts = [base64.b64encode(one).decode() if is_binary else one.decode("utf-8", "replace") for one in (old, new)]
        message = "p.M" if is_binary else ""
        first = RegisteredSchema(("x",), kind, (texts[0],), message=message)
        both = RegisteredSchema(("x",), kind, tuple(texts), message=message)
        try:
            found = compiled(both)(payload)
            assert found is None or isinstance(found, str)
            check_follows("S", first, both)
        except SchemaProblem:
            continue


def metadata(data: bytes) -> None:
    """Any text as what is registered."""
    with contextlib.suppress(SchemaProblem):
        schemas_in({"slipstream.schema.x": data.decode("utf-8", "replace")})


def _descriptors() -> bytes:
    file = FileDescriptorProto(name="a.proto", package="p", syntax="proto3")
    message = file.message_type.add(name="M")
    message.field.append(FieldDescriptorProto(name="id", number=1, type=3, label=1))
    message.field.append(FieldDescriptorProto(name="inner", number=2, type=11, label=3, type_name=".p.M"))
    return FileDescriptorSet(file=[file]).SerializeToString()


def definition_seeds() -> list[bytes]:
    records = json.dumps(RECORD).encode()
    objects = json.dumps(OBJECT).encode()
    proto = _descriptors()
    return [
        SPLIT.join((objects, objects, b'{"id": 7, "tags": ["ab"]}')),
        SPLIT.join((records, records, b"\x0e\x04\x02\x02a\x00\x00")),
        SPLIT.join((proto, proto, b"\x08\x07\x12\x02\x08\x01")),
    ]


def metadata_seeds() -> list[bytes]:
    return [RegisteredSchema(("a.>",), SchemaFormat.JSON, ("{}",)).text().encode()]


TARGETS = (
    Target(
        "schema-definition",
        definition,
        definition_seeds,
        (SPLIT, b'"type"', b'"record"', b'"null"', b"[", b"{", b'"$ref"', b'"R"', b"1e999", b"\xff\xff\xff\xff\x0f"),
        cost=3,
    ),
    Target("schema-metadata", metadata, metadata_seeds, (b'"subjects"', b'"versions"', b"[", b"]")),
)
