"""Whether a version may follow another: what was promised to readers is kept."""

from __future__ import annotations

from slipstream.schemas.errors import SchemaProblem
from slipstream.schemas.registered import Evolution, RegisteredSchema, SchemaFormat

__all__ = ["check_follows"]


def check_follows(name: str, old: RegisteredSchema, new: RegisteredSchema) -> None:
    """Look at what is new in a schema.

    Raises:
        SchemaProblem: versions are changed or gone instead of added, or one breaks a promise.
    """
    if new.format is not old.format:
        raise SchemaProblem(f"schema {name} is {old.format}: another format is another schema")
    if new.versions[: len(old.versions)] != old.versions:
        raise SchemaProblem(f"schema {name}: versions are added; those that are there stay as they are")
    before = old.newest
    for definition in new.versions[len(old.versions) :]:
        for reader, writer, what in _pairs(new.evolution, before, definition):
            reason = unreadable(new, reader, writer, old.message)
            if reason is not None:
                raise SchemaProblem(f"schema {name}: the new version is not {what}: {reason}")
        before = definition


def _pairs(evolution: Evolution, old: str, new: str) -> list[tuple[str, str, str]]:
    """Who reads, who writes, and what that is called."""
    pairs = []
    if evolution in (Evolution.BACKWARD, Evolution.FULL):
        pairs.append((new, old, "backward compatible"))
    if evolution in (Evolution.FORWARD, Evolution.FULL):
        pairs.append((old, new, "forward compatible"))
    return pairs


def unreadable(schema: RegisteredSchema, reader: str, writer: str, old_message: str) -> str | None:
    """Why a reader of one definition does not understand everything that a writer of the other may write."""
    if schema.format is SchemaFormat.JSON:
        from slipstream.schemas.json_evolution import not_accepted

        return not_accepted(reader, writer)
    if schema.format is SchemaFormat.AVRO:
        from slipstream.schemas.avro_evolution import not_resolved

        return not_resolved(reader, writer)
    from slipstream.schemas.protobuf_evolution import not_compatible

    if schema.message != old_message:
        return f"its message is {schema.message}, not {old_message}"
    return not_compatible(reader, writer, schema.message)
