"""Avro records as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from slipstream.schemas.avro import AvroVersions
from slipstream.schemas.errors import SchemaProblem

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["avro_decoder", "avro_type"]


def avro_type(schema: Any) -> pa.DataType | None:
    """The type of a datum; None if columns have none like it."""
    return _type(schema, {})


def _type(schema: Any, named: dict[str, Any]) -> pa.DataType | None:
    import pyarrow as pa

    if isinstance(schema, list):
        branches = [one for one in schema if one != "null"]
        return _type(branches[0], named) if len(branches) == 1 else None
    if isinstance(schema, str):
        return _primitive(schema) if schema not in named else named[schema]
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return _type(kind, named)
    found: pa.DataType | None
    match kind:
        case "record":
            fields = [(field["name"], _type(field["type"], named)) for field in schema["fields"]]
            typed = [pa.field(name, one) for name, one in fields if one is not None]
            found = pa.struct(typed) if typed else None
        case "enum":
            found = pa.string()
        case "array":
            items = _type(schema["items"], named)
            found = None if items is None else pa.list_(items)
        case "map":
            values = _type(schema["values"], named)
            found = None if values is None else pa.map_(pa.string(), values)
        case _:
            found = _logical(schema) or (pa.binary() if kind == "fixed" else _primitive(kind))
    if "name" in schema:
        named[schema["name"]] = found
    return found


def _primitive(kind: str) -> pa.DataType | None:
    import pyarrow as pa

    return {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "bytes": pa.binary(),
        "string": pa.string(),
    }.get(kind)


def _logical(schema: dict[str, Any]) -> pa.DataType | None:
    """Types that fastavro makes values of Python of."""
    import pyarrow as pa

    match schema.get("logicalType"):
        case "date":
            return pa.date32()
        case "timestamp-millis" | "timestamp-micros":
            return pa.timestamp("us", "UTC")
        case "time-millis" | "time-micros":
            return pa.time64("us")
        case "decimal":
            return pa.decimal128(schema["precision"], schema.get("scale", 0)) if schema["precision"] <= 38 else None
        case "uuid":
            return pa.string()
    return None


def avro_decoder(definitions: Sequence[str]) -> Callable[[bytes], dict[str, Any] | None]:
    """What reads a payload as the newest version has it.

    Raises:
        SchemaProblem: a definition cannot be used.
    """
    import uuid

    versions = AvroVersions(definitions)

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items()}
        if isinstance(value, list):
            return [plain(one) for one in value]
        return str(value) if isinstance(value, uuid.UUID) else value

    def decode(payload: bytes) -> dict[str, Any] | None:
        try:
            found = plain(versions.decode_stored(payload))
        except SchemaProblem:
            return None
        return found if isinstance(found, dict) else None

    return decode
