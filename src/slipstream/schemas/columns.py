"""Payloads of a schema as typed columns of Arrow: which there are, and what a payload has in them.

Members whose type says too little (none, several, a reference, one that contains itself) are no columns; the payload
itself is always there. The newest version says which columns there are; a payload of an older one has what it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from slipstream.schemas.definitions import read_definition
from slipstream.schemas.errors import SchemaProblem
from slipstream.schemas.registered import RegisteredSchema, SchemaFormat

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["arrow_columns", "payload_decoder"]

Decode = Callable[[bytes], dict[str, Any] | None]
"""The members of a payload; None for one that does not fit."""

_COLUMNS_MAX: Final = 500


def arrow_columns(schema: RegisteredSchema) -> pa.Schema:
    """The columns of a schema's newest version.

    Raises:
        SchemaProblem: payloads have no members, or none with a type.
    """
    import pyarrow as pa

    if schema.format is SchemaFormat.JSON:
        found = _json_type(read_definition(schema.newest))
    elif schema.format is SchemaFormat.AVRO:
        from slipstream.schemas.avro import parsed_avro
        from slipstream.schemas.avro_columns import avro_type

        found = avro_type(parsed_avro(schema.newest))
    else:
        from slipstream.schemas.protobuf import message_class
        from slipstream.schemas.protobuf_columns import message_type

        found = message_type(message_class(schema.newest, schema.message).DESCRIPTOR)
    if found is None or not pa.types.is_struct(found) or not found.num_fields:
        raise SchemaProblem("payloads of this schema have no members that could be columns")
    if found.num_fields > _COLUMNS_MAX:
        raise SchemaProblem(f"a table has at most {_COLUMNS_MAX} columns of payloads")
    return pa.schema(list(found))


def payload_decoder(schema: RegisteredSchema) -> Decode | None:
    """What reads a payload, value by value; None for JSON, which Arrow reads by the columns alone."""
    if schema.format is SchemaFormat.JSON:
        return None
    if schema.format is SchemaFormat.AVRO:
        from slipstream.schemas.avro_columns import avro_decoder

        return avro_decoder(schema.versions)
    from slipstream.schemas.protobuf_columns import protobuf_decoder

    return protobuf_decoder(schema.newest, schema.message)


def _json_type(schema: Any) -> pa.DataType | None:
    import pyarrow as pa

    if not isinstance(schema, dict):
        return None
    kinds = schema.get("type")
    named = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds or ()) if kind != "null"]
    if len(named) != 1:
        return None
    match named[0]:
        case "object":
            fields = [(name, _json_type(one)) for name, one in schema.get("properties", {}).items()]
            typed = [pa.field(name, kind) for name, kind in fields if kind is not None]
            return pa.struct(typed) if typed else None
        case "array":
            items = _json_type(schema.get("items"))
            return None if items is None else pa.list_(items)
        case "string":
            times = {"date-time": pa.timestamp("us", "UTC"), "date": pa.date32()}
            return times.get(schema.get("format", ""), pa.string())
    return {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}.get(named[0])
