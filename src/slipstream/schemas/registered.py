"""Schemas as they stand in the metadata of a stream, one key each: `slipstream.schema.NAME`.

    {"subjects": ["orders.>"], "format": "json", "evolution": "backward", "versions": ["{…}", "{…}"]}

Definitions are texts: JSON for JSON Schema and Avro, base64 of a FileDescriptorSet for Protobuf, where `message` names
the type. The newest version is the last one; older ones stay, because messages of that time do.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from slipstream.kernels.subjects.subject import is_valid_subscription, matches
from slipstream.schemas.errors import SchemaProblem
from slipstream.schemas.limits import SCHEMA_BYTES_MAX, SCHEMA_SUBJECTS_MAX, SCHEMA_VERSIONS_MAX

__all__ = ["SCHEMA_PREFIX", "Evolution", "RegisteredSchema", "SchemaFormat", "schema_for", "schemas_in"]

SCHEMA_PREFIX: Final = "slipstream.schema."
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class SchemaFormat(enum.StrEnum):
    """Languages of definitions."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"


class Evolution(enum.StrEnum):
    """What a new version must not break."""

    NONE = "none"
    BACKWARD = "backward"
    """Readers of the new version read what was written by the old one."""
    FORWARD = "forward"
    """Readers of the old version read what is written by the new one."""
    FULL = "full"
    """Both."""


class RegisteredSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One schema with all its versions."""

    subjects: tuple[str, ...]
    format: SchemaFormat
    versions: tuple[str, ...]
    evolution: Evolution = Evolution.BACKWARD
    message: str = ""
    """Protobuf: the full name of the type."""

    @property
    def newest(self) -> str:
        """The definition that counts."""
        return self.versions[-1]

    def covers(self, subject: bytes) -> bool:
        """Whether it is about messages of a subject."""
        return any(matches(pattern.encode(), subject) for pattern in self.subjects)

    def text(self) -> str:
        """As it stands in metadata."""
        return msgspec.json.encode(self).decode()


def schemas_in(metadata: Mapping[str, str]) -> dict[str, RegisteredSchema]:
    """The schemas of a stream by name, in the order of names.

    Raises:
        SchemaProblem: one cannot be read.
    """
    found = {}
    for key in sorted(metadata):
        if not key.startswith(SCHEMA_PREFIX):
            continue
        name = key.removeprefix(SCHEMA_PREFIX)
        if not _NAME.fullmatch(name):
            raise SchemaProblem(f"{name!r} is no name of a schema: letters, digits, _ and - make one")
        try:
            schema = msgspec.json.decode(metadata[key], type=RegisteredSchema)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise SchemaProblem(f"schema {name} cannot be read: {error}") from error
        _check(name, schema)
        found[name] = schema
    return found


def schema_for(schemas: Mapping[str, RegisteredSchema], subject: bytes) -> str | None:
    """The name of the schema that messages of a subject are held to: the first that covers it."""
    return next((name for name, schema in schemas.items() if schema.covers(subject)), None)


def _check(name: str, schema: RegisteredSchema) -> None:
    if not 1 <= len(schema.subjects) <= SCHEMA_SUBJECTS_MAX:
        raise SchemaProblem(f"schema {name} needs 1 to {SCHEMA_SUBJECTS_MAX} subjects")
    for subject in schema.subjects:
        if not is_valid_subscription(subject.encode()):
            raise SchemaProblem(f"schema {name}: {subject!r} is no subject")
    if not 1 <= len(schema.versions) <= SCHEMA_VERSIONS_MAX:
        raise SchemaProblem(f"schema {name} needs 1 to {SCHEMA_VERSIONS_MAX} versions")
    if any(len(definition.encode()) > SCHEMA_BYTES_MAX for definition in schema.versions):
        raise SchemaProblem(f"schema {name}: a definition has at most {SCHEMA_BYTES_MAX} bytes")
    if (schema.format is SchemaFormat.PROTOBUF) != bool(schema.message):
        raise SchemaProblem(f"schema {name}: message names the type of a Protobuf schema, and of no other")
