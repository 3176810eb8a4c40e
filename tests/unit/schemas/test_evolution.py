"""Which version may follow which."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from hypothesis import given
from hypothesis import strategies as st

from slipstream.schemas.errors import SchemaProblem
from slipstream.schemas.evolution import check_follows
from slipstream.schemas.json_evolution import not_accepted
from slipstream.schemas.registered import Evolution, RegisteredSchema, SchemaFormat

from .test_payloads import proto

AN_ID = {"id": {"type": "integer"}}
OPEN = {"type": "object", "properties": AN_ID}
NOTED = {"type": "object", "properties": {**AN_ID, "note": {"type": "string"}}}
STRICT = {**OPEN, "required": ["id"]}
CLOSED = {**OPEN, "additionalProperties": False}


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


LONG = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": "string"}
NOTE_OR_NOT = {**NOTE, "default": ""}
ID = ("id", 1, Field.TYPE_INT64)

# format, old, new, backward compatible, forward compatible
CHANGES = [
    ("json", OPEN, NOTED, True, True),  # an optional member
    ("json", OPEN, STRICT, False, True),  # a member is required now
    ("json", CLOSED, {**NOTED, "additionalProperties": False}, True, False),
    ("json", OPEN, CLOSED, True, True),  # what was not named was not there
    ("json", {"type": "integer"}, {"type": "number"}, True, False),
    ("json", {"type": "integer"}, {"type": ["integer", "null"]}, True, False),
    ("json", {"enum": ["a"]}, {"enum": ["a", "b"]}, True, False),
    ("json", {"enum": ["a"]}, {"type": "string"}, True, False),
    ("json", {"enum": [1]}, {"enum": [True]}, False, False),
    ("json", {"minimum": 5}, {"minimum": 4}, True, False),
    ("json", {"maxLength": 5}, {}, True, False),
    ("json", {"items": {"type": "integer"}}, {"items": {"type": "number"}}, True, False),
    ("json", {"pattern": "a"}, {"pattern": "b"}, False, False),
    ("json", {"pattern": "a"}, {"pattern": "a", "title": "x"}, True, True),
    ("json", True, False, False, True),
    ("avro", record(LONG), record(LONG, NOTE_OR_NOT), True, True),
    ("avro", record(LONG), record(LONG, NOTE), False, True),
    ("avro", record({**LONG, "type": "int"}), record(LONG), True, False),
    ("avro", record(LONG), record({**LONG, "type": ["null", "long"]}), True, False),
    ("avro", record(LONG), record({**LONG, "type": "string"}), False, False),
    ("avro", record(LONG), {**record(LONG), "name": "Q"}, False, False),
    ("avro", record(LONG), {**record(LONG), "name": "Q", "aliases": ["R"]}, True, False),
    (
        "avro",
        {"type": "enum", "name": "E", "symbols": ["A"]},
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        True,
        False,
    ),
    ("avro", {"type": "array", "items": "int"}, {"type": "array", "items": "long"}, True, False),
    ("avro", {"type": "map", "values": "int"}, {"type": "map", "values": "string"}, False, False),
    (
        "avro",
        {"type": "fixed", "name": "F", "size": 4},
        {"type": "fixed", "name": "F", "size": 5},
        False,
        False,
    ),
    ("protobuf", proto(ID), proto(ID, ("note", 2, Field.TYPE_STRING)), True, True),
    ("protobuf", proto(ID), proto(("number", 1, Field.TYPE_INT32)), True, True),
    ("protobuf", proto(ID), proto(("id", 1, Field.TYPE_STRING)), False, False),
    ("protobuf", proto(ID), proto(ID, label=Field.LABEL_REPEATED), False, False),
    ("protobuf", proto(ID), proto(ID, label=Field.LABEL_REQUIRED), False, True),
]


def follows(kind: str, old: Any, new: Any, evolution: Evolution) -> bool:
    texts = tuple(one if isinstance(one, str) else json.dumps(one) for one in (old, new))
    message = "shop.Order" if kind == "protobuf" else ""
    before = RegisteredSchema(("x",), SchemaFormat(kind), texts[:1], evolution, message)
    after = RegisteredSchema(("x",), SchemaFormat(kind), texts, evolution, message)
    try:
        check_follows("S", before, after)
    except SchemaProblem as error:
        assert "compatible" in str(error)
        return False
    return True


@pytest.mark.parametrize(("kind", "old", "new", "backward", "forward"), CHANGES)
def test_changes(kind: str, old: Any, new: Any, backward: bool, forward: bool) -> None:
    assert follows(kind, old, new, Evolution.BACKWARD) is backward
    assert follows(kind, old, new, Evolution.FORWARD) is forward
    assert follows(kind, old, new, Evolution.FULL) is (backward and forward)
    assert follows(kind, old, new, Evolution.NONE)


def test_versions_are_added() -> None:
    one = RegisteredSchema(("x",), SchemaFormat.JSON, ("{}",))
    two = RegisteredSchema(("x",), SchemaFormat.JSON, ("{}", '{"title": "x"}'))
    check_follows("S", one, two)
    with pytest.raises(SchemaProblem, match="versions are added"):
        check_follows("S", two, one)
    with pytest.raises(SchemaProblem, match="another format"):
        check_follows("S", one, RegisteredSchema(("x",), SchemaFormat.AVRO, ("{}",)))
    with pytest.raises(SchemaProblem, match=r"message is shop\.B"):
        check_follows(
            "S",
            RegisteredSchema(("x",), SchemaFormat.PROTOBUF, (proto(),), message="shop.Order"),
            RegisteredSchema(("x",), SchemaFormat.PROTOBUF, (proto(), proto(ID)), message="shop.B"),
        )


# --- what is called compatible is ---------------------------------------------------------------------------------

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "bb"]) | st.just(0.5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
KINDS = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def schemas(depth: int = 2) -> st.SearchStrategy[Any]:
    inner = schemas(depth - 1) if depth else st.just({})
    return st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.lists(KINDS, min_size=1, max_size=3, unique=True),
            "enum": st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr),
            "minimum": st.integers(-3, 3),
            "maxLength": st.integers(0, 2),
            "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
            # Closed on both sides: what is said of members that are not named is an assumption.
            "properties": st.fixed_dictionaries({"a": inner, "b": inner}),
            "additionalProperties": st.just(False),
            "items": inner,
        },
    )


@given(schemas(), schemas(), VALUES)
def test_who_accepts_all_accepts_each(reader: Any, writer: Any, value: Any) -> None:
    for one in (reader, writer):
        if "properties" in one or "additionalProperties" in one:
            one.setdefault("properties", {"a": {}, "b": {}})
            one["additionalProperties"] = False
    if ("properties" in reader) != ("properties" in writer):
        return
    if not_accepted(json.dumps(reader), json.dumps(writer)) is None and jsonschema_rs.is_valid(writer, value):
        assert jsonschema_rs.is_valid(reader, value)
