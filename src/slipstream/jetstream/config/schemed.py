"""Schemas of a stream's payloads, by metadata, so that any client can register them (ADR 97).

    slipstream.schema.NAME     a schema for subjects of the stream, with its versions (`schemas.registered`)
    slipstream.schema-check    what becomes of messages that do not fit: `reject` or `deadletter`; if missing, nothing
    slipstream.schema-letters  with `deadletter`: such a message is stored under this subject, then a dot and its own

Schemas without a check are known to readers, which make columns of them.
"""

from __future__ import annotations

from typing import Final

from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.config.templated import TEMPLATE_OF_KEY
from slipstream.jetstream.errors import invalid_config
from slipstream.kernels.subjects.subject import is_valid_publish, overlaps
from slipstream.schemas.errors import SchemaProblem
from slipstream.schemas.evolution import check_follows
from slipstream.schemas.payloads import SchemaChecks, compiled
from slipstream.schemas.registered import SCHEMA_PREFIX, RegisteredSchema, schemas_in

__all__ = ["CHECK_KEY", "LETTERS_KEY", "check_schemas", "check_schemas_follow", "letters_of", "schema_checks"]

CHECK_KEY: Final = "slipstream.schema-check"
LETTERS_KEY: Final = "slipstream.schema-letters"
_REJECT: Final = "reject"
_DEADLETTER: Final = "deadletter"


def schema_checks(config: StreamConfig) -> SchemaChecks | None:
    """What messages of a stream are held to when they are published; None: nothing is checked."""
    return SchemaChecks(schemas_in(config.metadata)) if CHECK_KEY in config.metadata else None


def letters_of(config: StreamConfig) -> bytes:
    """Where messages that do not fit are kept; empty: nowhere."""
    return config.metadata.get(LETTERS_KEY, "").encode() if CHECK_KEY in config.metadata else b""


def check_schemas(config: StreamConfig) -> None:
    """Whether a stream can have the schemas that it asks for.

    Raises:
        TableError: 10052, one cannot be used, or nothing can be checked here.
    """
    if not any(key.startswith(SCHEMA_PREFIX) or key in (CHECK_KEY, LETTERS_KEY) for key in config.metadata):
        return
    try:
        schemas = schemas_in(config.metadata)
        for name, schema in schemas.items():
            _check_subjects(config, name, schema)
            _check_compiles(name, schema)
    except SchemaProblem as error:
        raise invalid_config(str(error)) from error
    check, letters = config.metadata.get(CHECK_KEY), config.metadata.get(LETTERS_KEY)
    if (check == _DEADLETTER) != (letters is not None):
        raise invalid_config(f"{LETTERS_KEY} goes with {CHECK_KEY}: {_DEADLETTER}")
    if letters is not None and not is_valid_publish(letters.encode()):
        raise invalid_config(f"{LETTERS_KEY} must be a subject without wildcards")
    if check is None:
        return
    if check not in (_REJECT, _DEADLETTER):
        raise invalid_config(f"{CHECK_KEY} must be {_REJECT} or {_DEADLETTER}")
    if not schemas:
        raise invalid_config(f"{CHECK_KEY} needs a schema")
    if config.mirror is not None:
        raise invalid_config(f"{CHECK_KEY} is not for mirrors: messages were checked where they were published")
    if config.allow_msg_counter:
        raise invalid_config(f"{CHECK_KEY} is not for streams of counters")


def _check_subjects(config: StreamConfig, name: str, schema: RegisteredSchema) -> None:
    """A schema about nothing that the stream has would be ignored in silence."""
    takes_others = config.mirror is not None or config.sources or config.subject_transform is not None
    if takes_others or TEMPLATE_OF_KEY in config.metadata:
        return
    for subject in schema.subjects:
        if not any(overlaps(subject.encode(), one.encode()) for one in config.subjects):
            raise invalid_config(f"schema {name}: no subject of the stream is in {subject}")


def _check_compiles(name: str, schema: RegisteredSchema) -> None:
    try:
        compiled(schema)
    except SchemaProblem as error:
        raise SchemaProblem(f"schema {name}: {error}") from error


def check_schemas_follow(old: StreamConfig, new: StreamConfig) -> None:
    """Whether new versions keep what was promised to readers. A schema may go as a whole.

    Raises:
        TableError: 10052, a version breaks its promise.
    """
    try:
        before, after = schemas_in(old.metadata), schemas_in(new.metadata)
        for name in before.keys() & after.keys():
            if before[name] != after[name]:
                check_follows(name, before[name], after[name])
    except SchemaProblem as error:
        raise invalid_config(str(error)) from error
