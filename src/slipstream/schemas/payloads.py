"""Payloads held to schemas: one function for each schema, made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from slipstream.kernels.subjects.subject import matches
from slipstream.schemas.errors import SchemaProblem
from slipstream.schemas.limits import CHECKED_PAYLOAD_BYTES_MAX
from slipstream.schemas.registered import RegisteredSchema, SchemaFormat

__all__ = ["PayloadCheck", "SchemaChecks", "compiled"]

PayloadCheck = Callable[[bytes], str | None]
"""Why a payload does not fit; None: it does."""

_REMEMBERED_MAX: Final = 10_000  # subjects whose schema is known


def compiled(schema: RegisteredSchema) -> PayloadCheck:
    """The check of a schema's newest version; of Avro all versions count, since payloads may say which they are of.

    Raises:
        SchemaProblem: a definition cannot be used.
    """
    if schema.format is SchemaFormat.JSON:
        from slipstream.schemas.json_schema import json_check

        return json_check(schema.newest)
    if schema.format is SchemaFormat.AVRO:
        from slipstream.schemas.avro import avro_check

        return avro_check(schema.versions)
    from slipstream.schemas.protobuf import protobuf_check

    return protobuf_check(schema.newest, schema.message)


class SchemaChecks:
    """All schemas of a stream. What is remembered of subjects changes no answer."""

    def __init__(self, schemas: dict[str, RegisteredSchema]) -> None:
        """Compile them. One that cannot be, because its library is gone since it was registered, lets nothing in."""
        self._checks = []
        for name, schema in schemas.items():
            patterns = tuple(subject.encode() for subject in schema.subjects)
            self._checks.append((name, patterns, _compiled_or_closed(schema)))
        self._known: dict[bytes, tuple[str, PayloadCheck] | None] = {}

    def problem(self, subject: bytes, payload: bytes) -> tuple[str, str] | None:
        """The schema that a message does not fit and why; None: it does, or no schema is about it."""
        try:
            found = self._known[subject]
        except KeyError:
            found = self._find(subject)
        if found is None:
            return None
        name, check = found
        if len(payload) > CHECKED_PAYLOAD_BYTES_MAX:
            return name, f"more than {CHECKED_PAYLOAD_BYTES_MAX} bytes are not checked"
        reason = check(payload)
        return None if reason is None else (name, reason)

    def _find(self, subject: bytes) -> tuple[str, PayloadCheck] | None:
        if len(self._known) >= _REMEMBERED_MAX:
            self._known.clear()
        found = next(
            (
                (name, check)
                for name, patterns, check in self._checks
                if any(matches(pattern, subject) for pattern in patterns)
            ),
            None,
        )
        self._known[subject] = found
        return found


def _compiled_or_closed(schema: RegisteredSchema) -> PayloadCheck:
    try:
        return compiled(schema)
    except SchemaProblem as error:
        reason = str(error)
        return lambda _payload: reason
