"""JSON Schema: is whatever one schema accepts accepted by another?

Types, members, required members, elements, enumerations and bounds are compared. Of everything else (references,
combinations, patterns, …) it is only known that the same words mean the same: what the reader asks for there, the
writer has to promise in the same words. Members that the writer's schema does not name are taken not to occur, unless
`additionalProperties` speaks of them: so an optional member may be added.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from slipstream.schemas.definitions import read_definition

__all__ = ["not_accepted"]

_TYPES: Final = ("null", "boolean", "object", "array", "number", "integer", "string")
_NOTES: Final = frozenset(
    ["$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"]
)
_COMPARED: Final = frozenset(["type", "enum", "const", "properties", "required", "additionalProperties", "items"])
# Keyword → whether the reader's must be the smaller one.
_BOUNDS: Final = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), True),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), False),
}


def not_accepted(reader: str, writer: str) -> str | None:
    """The first thing that the writer's schema allows and the reader's does not, as far as can be told."""
    return _excess(read_definition(reader), read_definition(writer), "the payload")


def _excess(reader: Any, writer: Any, where: str) -> str | None:
    if reader is True or reader == {} or writer is False or _same(reader, writer):
        return None
    if reader is False:
        return f"{where} is not allowed any more"
    if writer is True:
        writer = {}
    for found in (
        _types(reader, writer, where),
        _values(reader, writer, where),
        _bounds(reader, writer, where),
        _members(reader, writer, where),
        _elements(reader, writer, where),
    ):
        if found is not None:
            return found
    known = _COMPARED | _BOUNDS.keys() | _NOTES
    for keyword in reader:
        if keyword not in known and (keyword not in writer or not _same(reader[keyword], writer[keyword])):
            return f"{where}: {keyword} is not the same, and cannot be compared"
    return None


def _same(one: Any, other: Any) -> bool:
    """Whether they are the same JSON; for Python 1 is True."""
    return msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")


def _types_of(schema: dict[str, Any]) -> set[str]:
    kind = schema.get("type")
    found = {kind} if isinstance(kind, str) else set(kind) if kind else set(_TYPES)
    return found | ({"integer"} if "number" in found else set())


def _types(reader: dict[str, Any], writer: dict[str, Any], where: str) -> str | None:
    if "enum" in writer or "const" in writer:
        return None  # values are compared
    more = _types_of(writer) - _types_of(reader)
    if not more:
        return None
    written = " or ".join(sorted(more)) if "type" in writer else "anything"
    return f"{where} may be {written}"


def _values(reader: dict[str, Any], writer: dict[str, Any], where: str) -> str | None:
    allowed = _enumerated(reader)
    written = _enumerated(writer)
    if allowed is None:
        if written is not None and "type" in reader and not all(_is_of(value, _types_of(reader)) for value in written):
            return f"{where} may have values of other types"
        return None
    if written is None:
        return f"{where} may have other values than those listed"
    more = [value for value in written if not any(_same(value, one) for one in allowed)]
    return f"{where} may be {more[0]!r}" if more else None


def _enumerated(schema: dict[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    found: list[Any] | None = schema.get("enum")
    return found


def _is_of(value: Any, types: set[str]) -> bool:
    match value:
        case None:
            return "null" in types
        case bool():
            return "boolean" in types
        case int():
            return "integer" in types
        case float():
            return "number" in types
        case str():
            return "string" in types
        case list():
            return "array" in types
    return "object" in types


def _bounds(reader: dict[str, Any], writer: dict[str, Any], where: str) -> str | None:
    for keyword, is_lower in _BOUNDS.items():
        if keyword not in reader:
            continue
        bound, written = reader[keyword], writer.get(keyword)
        if written is None or (written < bound if is_lower else written > bound):
            return f"{where}: {keyword} is stricter"
    return None


def _members(reader: dict[str, Any], writer: dict[str, Any], where: str) -> str | None:
    missing = set(reader.get("required", ())) - set(writer.get("required", ()))
    if missing:
        return f"{where} needs the member {min(missing)}"
    named, written = reader.get("properties", {}), writer.get("properties", {})
    others, other_written = reader.get("additionalProperties", True), writer.get("additionalProperties")
    for name, schema in named.items():
        if name in written:
            found = _excess(schema, written[name], f"{where}.{name}")
        else:
            found = None if other_written is None else _excess(schema, other_written, f"{where}.{name}")
        if found is not None:
            return found
    for name, schema in written.items():
        if name not in named:
            found = _excess(others, schema, f"{where}.{name}")
            if found is not None:
                return found
    return None if other_written is None else _excess(others, other_written, f"other members of {where}")


def _elements(reader: dict[str, Any], writer: dict[str, Any], where: str) -> str | None:
    if "items" not in reader:
        return None
    return _excess(reader["items"], writer.get("items", True), f"elements of {where}")
