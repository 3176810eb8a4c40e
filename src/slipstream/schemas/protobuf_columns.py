"""Protobuf messages as columns. Enumerations are their names; a field that has presence and is not set is null."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from slipstream.schemas.protobuf import message_class

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["message_type", "protobuf_decoder"]

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_ENUM: Final = 14  # FieldDescriptor.TYPE_ENUM


def message_type(descriptor: Any) -> pa.DataType | None:
    """The type of a message; None if it has no fields that could be columns."""
    return _message(descriptor, ())


def _message(descriptor: Any, inside: tuple[str, ...]) -> pa.DataType | None:
    import pyarrow as pa

    if descriptor.full_name == _TIMESTAMP:
        return pa.timestamp("us", "UTC")
    if descriptor.full_name in inside:
        return None
    fields = [(field.name, _field(field, (*inside, descriptor.full_name))) for field in descriptor.fields]
    typed = [pa.field(name, kind) for name, kind in fields if kind is not None]
    return pa.struct(typed) if typed else None


def _field(field: Any, inside: tuple[str, ...]) -> pa.DataType | None:
    import pyarrow as pa

    if _is_map(field):
        key, value = (_single(field.message_type.fields_by_name[name], inside) for name in ("key", "value"))
        return None if key is None or value is None else pa.map_(key, value)
    kind = _single(field, inside)
    return pa.list_(kind) if field.is_repeated and kind is not None else kind


def _single(field: Any, inside: tuple[str, ...]) -> pa.DataType | None:
    import pyarrow as pa

    if field.message_type is not None:
        return _message(field.message_type, inside)
    if field.type == _ENUM:
        return pa.string()
    return {
        "int32": pa.int32(),
        "int64": pa.int64(),
        "uint32": pa.int64(),
        "uint64": pa.decimal128(20, 0),  # tables have no unsigned numbers
        "float": pa.float32(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "string": pa.string(),
        "bytes": pa.binary(),
    }[_KINDS[field.type]]


# FieldDescriptor.TYPE_* → what Python has for it
_KINDS: Final = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "uint64",
    7: "uint32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    15: "int32",
    16: "int64",
    17: "int32",
    18: "int64",
}


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def protobuf_decoder(definition: str, message: str) -> Callable[[bytes], dict[str, Any] | None]:
    """What reads a payload.

    Raises:
        SchemaProblem: the definition cannot be used.
    """
    kind = message_class(definition, message)
    from google.protobuf.message import DecodeError

    def decode(payload: bytes) -> dict[str, Any] | None:
        found = kind()
        try:
            found.MergeFromString(payload)
        except (DecodeError, ValueError):
            return None
        return _members(found, ()) if found.IsInitialized() else None

    return decode


def _members(message: Any, inside: tuple[str, ...]) -> Any:
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == _TIMESTAMP:
        return message.seconds * 1_000_000 + message.nanos // 1000
    if descriptor.full_name in inside:
        return None
    inside = (*inside, descriptor.full_name)
    found: dict[str, Any] = {}
    for field in descriptor.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            inner = field.message_type.fields_by_name["value"]
            found[field.name] = [(key, _value(inner, one, inside)) for key, one in value.items()]
        elif field.is_repeated:
            found[field.name] = [_value(field, one, inside) for one in value]
        elif field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = _value(field, value, inside)
    return found


def _value(field: Any, value: Any, inside: tuple[str, ...]) -> Any:
    if field.message_type is not None:
        return _members(value, inside)
    if field.type == _ENUM:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)  # a later version's
    return value
