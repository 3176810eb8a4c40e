"""Avro, by fastavro: a payload is one datum, alone (of the newest version) or behind the fingerprint of its schema.

Two kinds of schemas are refused, because a few bytes of payload could keep a reader busy for ever or exhaust its stack:
arrays of what takes no bytes, and types that contain themselves.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from slipstream.schemas.definitions import missing_package, read_definition
from slipstream.schemas.errors import SchemaProblem
from slipstream.schemas.limits import PROBLEM_CHARACTERS_MAX

if TYPE_CHECKING:
    from slipstream.schemas.payloads import PayloadCheck

__all__ = ["AvroVersions", "avro_check", "parsed_avro"]

_MARKER: Final = b"\xc3\x01"  # of a datum behind the fingerprint of its schema
_FINGERPRINT_BYTES: Final = 8
_NAMED: Final = ("record", "error", "enum", "fixed")


def parsed_avro(definition: str) -> Any:
    """The schema as fastavro takes it.

    Raises:
        SchemaProblem: it is none, or could not be read safely.
    """
    try:
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema
    except ImportError as error:
        raise missing_package(error) from error
    document = read_definition(definition)
    try:
        parsed = parse_schema(document)
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SchemaProblem(f"not an Avro schema: {str(error) or type(error).__name__}") from error
    _check_safe(parsed, {}, ())
    return parsed


def _check_safe(schema: Any, named: dict[str, Any], inside: tuple[str, ...]) -> None:
    """Refuse what a few bytes could make endless."""
    if isinstance(schema, str):
        if schema in inside:
            raise SchemaProblem(f"{schema} contains itself; payloads of such types are not checked here")
        return
    if isinstance(schema, list):
        for branch in schema:
            _check_safe(branch, named, inside)
        return
    kind = schema["type"]
    if isinstance(kind, dict | list):
        _check_safe(kind, named, inside)
        return
    if kind in _NAMED:
        named[schema["name"]] = schema
    if kind in ("record", "error"):
        for field in schema["fields"]:
            _check_safe(field["type"], named, (*inside, schema["name"]))
    elif kind == "array":
        _check_safe(schema["items"], named, inside)
        if _least_bytes(schema["items"], named) == 0:
            raise SchemaProblem("an array of what takes no bytes could have any number of elements")
    elif kind == "map":
        _check_safe(schema["values"], named, inside)
    elif kind in inside:
        raise SchemaProblem(f"{kind} contains itself; payloads of such types are not checked here")


def _least_bytes(schema: Any, named: dict[str, Any]) -> int:
    """Bytes that a datum takes at least, as far as 0 and more go."""
    if isinstance(schema, list):
        return 1  # the number of the branch
    if isinstance(schema, str):
        return 0 if schema == "null" else _least_bytes(named[schema], named) if schema in named else 1
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return _least_bytes(kind, named)
    if kind in ("record", "error"):
        return sum(_least_bytes(field["type"], named) for field in schema["fields"])
    if kind == "fixed":
        return int(schema["size"])
    return 0 if kind == "null" else 1


class AvroVersions:
    """All versions of a schema, found by fingerprint."""

    def __init__(self, definitions: Sequence[str]) -> None:
        """Read them.

        Raises:
            SchemaProblem: one cannot be used.
        """
        self._versions = parsed = [parsed_avro(definition) for definition in definitions]
        from fastavro.schema import fingerprint, to_parsing_canonical_form

        self.newest = parsed[-1]
        # The fingerprint is in the order of little-endian numbers, as the specification has it.
        self._by_fingerprint = {
            bytes.fromhex(fingerprint(to_parsing_canonical_form(one), "CRC-64-AVRO")): one for one in parsed
        }

    def decode_stored(self, payload: bytes) -> Any:
        """The value of a payload that was stored when another version may have been the newest.

        Without a fingerprint it is of the newest version that it fits, as nothing else is known of it.

        Raises:
            SchemaProblem: it is of none of the versions.
        """
        try:
            return self.decode(payload)
        except SchemaProblem:
            if payload.startswith(_MARKER):
                raise
            for version in reversed(self._versions[:-1]):
                with suppress(SchemaProblem):
                    return self._decode(payload, 0, version)
            raise

    def decode(self, payload: bytes) -> Any:
        """The value of a payload, as the newest version has it.

        Raises:
            SchemaProblem: it is neither of the newest version nor of the one whose fingerprint it has.
        """
        writer, begin = self.newest, 0
        if payload.startswith(_MARKER):
            begin = len(_MARKER) + _FINGERPRINT_BYTES
            found = self._by_fingerprint.get(payload[len(_MARKER) : begin])
            if found is None:
                raise SchemaProblem("its fingerprint is that of no registered version")
            writer = found
        return self._decode(payload, begin, writer)

    def _decode(self, payload: bytes, begin: int, writer: Any) -> Any:
        from fastavro import schemaless_reader

        stream = io.BytesIO(payload)
        stream.seek(begin)
        try:
            value = schemaless_reader(stream, writer, None if writer is self.newest else self.newest)
        except Exception as error:  # fastavro lets through whatever Python says about the bytes
            reason = f"no datum of the schema: {type(error).__name__} {error}"
            raise SchemaProblem(reason.strip()[:PROBLEM_CHARACTERS_MAX]) from error
        if stream.tell() != len(payload):
            raise SchemaProblem(f"{len(payload) - stream.tell()} bytes behind the datum")
        return value


def avro_check(definitions: Sequence[str]) -> PayloadCheck:
    """What says why a payload does not fit.

    Raises:
        SchemaProblem: a definition cannot be used.
    """
    versions = AvroVersions(definitions)

    def problem(payload: bytes) -> str | None:
        try:
            versions.decode(payload)
        except SchemaProblem as error:
            return str(error)
        return None

    return problem
