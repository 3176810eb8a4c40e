"""Avro: schema resolution as its specification has it, decided for the schemas instead of for a datum."""

from __future__ import annotations

from typing import Any, Final

from slipstream.schemas.avro import parsed_avro

__all__ = ["not_resolved"]

# Who reads what besides its own type.
_PROMOTED: Final = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}


def not_resolved(reader: str, writer: str) -> str | None:
    """Why a reader of one schema cannot read a datum of the other."""
    return _Resolution(parsed_avro(reader), parsed_avro(writer)).reason


class _Resolution:
    def __init__(self, reader: Any, writer: Any) -> None:
        self._readers: dict[str, Any] = {}
        self._writers: dict[str, Any] = {}
        _collect(reader, self._readers)
        _collect(writer, self._writers)
        self.reason = self._differ(reader, writer, "the datum")

    def _differ(self, reader: Any, writer: Any, where: str) -> str | None:
        reader, writer = _resolved(reader, self._readers), _resolved(writer, self._writers)
        if isinstance(writer, list):
            found = (self._differ(reader, branch, where) for branch in writer)
            return next((one for one in found if one is not None), None)
        if isinstance(reader, list):
            reasons = [self._differ(branch, writer, where) for branch in reader]
            return None if None in reasons else f"{where} may be {_kind(writer)}, which no branch reads"
        kind, written = _kind(reader), _kind(writer)
        if kind != written:
            return None if written in _PROMOTED.get(kind, ()) else f"{where} is {written}, not {kind}"
        if kind in ("record", "error"):
            return self._fields(reader, writer, where)
        if kind == "array":
            return self._differ(reader["items"], writer["items"], f"elements of {where}")
        if kind == "map":
            return self._differ(reader["values"], writer["values"], f"values of {where}")
        if kind == "enum":
            more = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
            return f"{where} may be {more[0]}" if more and "default" not in reader else None
        if kind == "fixed" and reader["size"] != writer["size"]:
            return f"{where} has {writer['size']} bytes, not {reader['size']}"
        if isinstance(reader, dict) and reader.get("logicalType") == "decimal":
            same = all(reader.get(key) == writer.get(key) for key in ("logicalType", "precision", "scale"))
            return None if same else f"{where} is another decimal"
        return None

    def _fields(self, reader: Any, writer: Any, where: str) -> str | None:
        if _short(reader["name"]) != _short(writer["name"]) and _short(writer["name"]) not in map(
            _short, reader.get("aliases", ())
        ):
            return f"{where} is the record {writer['name']}, not {reader['name']}"
        written = {field["name"]: field for field in writer["fields"]}
        for field in reader["fields"]:
            name = next((one for one in (field["name"], *field.get("aliases", ())) if one in written), None)
            if name is None:
                if "default" not in field:
                    return f"{where} lacks {field['name']}, which has no default"
                continue
            found = self._differ(field["type"], written[name]["type"], f"{where}.{field['name']}")
            if found is not None:
                return found
        return None


def _collect(schema: Any, named: dict[str, Any]) -> None:
    """Named types, wherever they stand."""
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, named)
    elif isinstance(schema, dict):
        if "name" in schema:
            named[schema["name"]] = schema
        for key in ("type", "items", "values"):
            if isinstance(schema.get(key), dict | list):
                _collect(schema[key], named)
        for field in schema.get("fields", ()):
            _collect(field["type"], named)


def _resolved(schema: Any, named: dict[str, Any]) -> Any:
    while True:
        if isinstance(schema, str) and schema in named:
            schema = named[schema]
        elif isinstance(schema, dict) and isinstance(schema["type"], dict | list):
            schema = schema["type"]
        else:
            return schema


def _kind(schema: Any) -> str:
    return str(schema if isinstance(schema, str) else schema["type"])


def _short(name: str) -> str:
    return name.rpartition(".")[2]
