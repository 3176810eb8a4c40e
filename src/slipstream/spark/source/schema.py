"""Columns of streams, buckets and object stores as Spark sees them.

A read has the default columns, those of the option `columns`, or those of `.schema(...)`. Spark does not tell a source
which columns a query uses, so choosing few of them is how a user makes a read cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slipstream.schemas.columns import arrow_columns
from slipstream.schemas.registered import RegisteredSchema
from slipstream.spark.runtime.errors import OptionError, SchemaError
from slipstream.spark.runtime.target import Kind
from slipstream.spark.source.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

__all__ = ["SourceColumns", "source_columns", "source_ddl"]

_HEADERS = "map<string,array<string>>"
# Every column there is, with its type; those before the bar are the default.
_STREAM: dict[str, str] = {
    "stream": "string",
    "seq": "bigint",
    "ts": "timestamp",
    "subject": "string",
    "headers": _HEADERS,
    "payload": "binary",
    "|": "",
    "ts_ns": "bigint",
    "reply": "string",
    "size": "int",
    "hdr_raw": "binary",
}
_BUCKET: dict[str, str] = {
    "key": "string",
    "value": "binary",
    "op": "string",
    "revision": "bigint",
    "ts": "timestamp",
    "|": "",
    "bucket": "string",
    "ts_ns": "bigint",
    "size": "int",
    "headers": _HEADERS,
    "hdr_raw": "binary",
}
_OBJECT: dict[str, str] = {
    "name": "string",
    "data": "binary",
    "size": "bigint",
    "digest": "string",
    "ts": "timestamp",
    "revision": "bigint",
    "deleted": "boolean",
    "|": "",
    "description": "string",
    "ts_ns": "bigint",
}
_ALL: dict[Kind, dict[str, str]] = {"stream": _STREAM, "bucket": _BUCKET, "object": _OBJECT}
_CONTENT: dict[Kind, str] = {"stream": "payload", "bucket": "value", "object": "data"}


@dataclass(frozen=True)
class SourceColumns:
    """The columns a reader delivers; picklable."""

    names: tuple[str, ...]
    arrow: Any  # pyarrow.Schema, exactly as Spark expects the batches
    content: str  # the column that holds what was published: payload, value or data


def source_ddl(options: SourceOptions) -> str:
    """The schema of a read as DDL, from the options alone.

    Raises:
        OptionError: `columns` names something else than columns.
    """
    types = _types(options)
    names = options.columns or _default_names(options)
    unknown = [name for name in names if name not in types]
    if unknown:
        raise OptionError("columns", f"{unknown[0]!r} is none; there are {', '.join(types)}")
    return ", ".join(f"`{name}` {types[name]}" for name in names)


def source_columns(schema: StructType, options: SourceOptions) -> SourceColumns:
    """Check the schema Spark wants, which is ours or one the user gave.

    Raises:
        SchemaError: a column is unknown, or has another type.
    """
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType as Struct

    types = _types(options)
    content = _CONTENT[options.target.kind]
    for field in schema.fields:
        expected = types.get(field.name)
        if expected is None:
            raise SchemaError(f"there is no column {field.name!r}; there are {', '.join(types)}")
        if field.name == content and options.payload_format == "json":
            if not isinstance(field.dataType, Struct):
                raise SchemaError(f"with payloadFormat=json the column {content!r} is a struct")
            _check_json_type(field.dataType, content)
            continue
        if field.name == content and options.registered is not None:
            continue  # Spark has it from us; a schema of the user's is refused by Arrow if it is another
        found = field.dataType.simpleString()
        if found != expected:
            raise SchemaError(f"column {field.name!r} is {expected}, not {found}" + _hint(field.name, content, found))
    if not schema.fields:
        raise SchemaError("a read needs at least one column")
    return SourceColumns(tuple(schema.fieldNames()), to_arrow_schema(schema, timezone="UTC"), content)


def _check_json_type(kind: DataType, path: str) -> None:
    """Refuse what JSON is not read as, before a task does."""
    from pyspark.sql import types as spark

    if isinstance(kind, spark.StructType):
        for field in kind.fields:
            _check_json_type(field.dataType, f"{path}.{field.name}")
    elif isinstance(kind, spark.ArrayType):
        _check_json_type(kind.elementType, f"{path}[]")
    elif isinstance(kind, spark.MapType) and isinstance(kind.keyType, spark.StringType):
        _check_json_type(kind.valueType, f"{path}.*")
    elif not isinstance(
        kind,
        spark.BooleanType
        | spark.NumericType
        | spark.StringType
        | spark.BinaryType
        | spark.DateType
        | spark.TimestampType
        | spark.TimestampNTZType,
    ):
        raise SchemaError(
            f"{path} is {kind.simpleString()}: JSON is read as numbers, texts, booleans, binary, dates, timestamps, "
            "arrays, structs and maps from strings; use payloadFormat=string and Spark's own functions for others"
        )


def _types(options: SourceOptions) -> dict[str, str]:
    types = {name: kind for name, kind in _ALL[options.target.kind].items() if name != "|"}
    content = _CONTENT[options.target.kind]
    if options.payload_format == "string":
        types[content] = "string"
    elif options.payload_format == "json":
        types[content] = f"struct<{options.payload_schema}>"
    elif options.registered is not None:
        types[content] = _registered_ddl(options.registered)
    return types


def _registered_ddl(schema: RegisteredSchema) -> str:
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(pa.struct(list(arrow_columns(schema)))).simpleString()


def _default_names(options: SourceOptions) -> Sequence[str]:
    names = list(_ALL[options.target.kind])
    names = names[: names.index("|")]
    if "headers" in names and options.headers != "map":
        at = names.index("headers")
        names[at : at + 1] = ["hdr_raw"] if options.headers == "raw" else []
    return names


def _hint(name: str, content: str, found: str) -> str:
    if name == content and found == "string":
        return "; use option payloadFormat=string, or cast"
    if name == content and found.startswith("struct"):
        return "; use options payloadFormat=json and payloadSchema"
    return ""
