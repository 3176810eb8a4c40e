"""`payloadFormat=schema`: payloads by the schema that is registered for their stream when a read is planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slipstream.schemas.errors import SchemaProblem
from slipstream.schemas.registered import RegisteredSchema, schemas_in
from slipstream.spark.runtime.connection import get_connection
from slipstream.spark.runtime.errors import OptionError
from slipstream.spark.source.options import SourceOptions

__all__ = ["find_schema", "with_registered"]


def with_registered(options: SourceOptions) -> SourceOptions:
    """The same options with the schema that they ask for, if they do.

    Raises:
        OptionError: there is no such schema, or there are several.
    """
    if options.payload_format != "schema" or options.registered is not None:
        return options
    (stream,) = options.target.stream_names
    info = get_connection(options.reach).client.stream_info(stream)
    try:
        return replace(options, registered=find_schema(info, options.payload_schema))
    except SchemaProblem as error:
        raise OptionError("payloadSchema", str(error)) from error


def find_schema(info: Mapping[str, Any], name: str = "") -> RegisteredSchema:
    """The schema of a stream, by its name or because it is the only one.

    Args:
        info: STREAM.INFO.
        name: empty for the only one.

    Raises:
        SchemaProblem: there is no such schema, or there are several.
    """
    config = info["config"]
    found = schemas_in(config.get("metadata") or {})
    if name:
        if name not in found:
            raise SchemaProblem(f"stream {config['name']} has no schema {name}")
        return found[name]
    if len(found) != 1:
        raise SchemaProblem(f"stream {config['name']} has {len(found)} schemas; name one")
    return next(iter(found.values()))
