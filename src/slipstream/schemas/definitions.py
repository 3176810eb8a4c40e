"""A definition as a value: read as JSON, and not deeper than its users can follow."""

from __future__ import annotations

from typing import Any

import msgspec

from slipstream.errors import UNREADABLE
from slipstream.schemas.errors import SchemaProblem
from slipstream.schemas.limits import SCHEMA_DEPTH_MAX

__all__ = ["missing_package", "read_definition"]


def read_definition(text: str) -> Any:
    """The JSON of a definition.

    Raises:
        SchemaProblem: it is none, or too deep.
    """
    try:
        found = msgspec.json.decode(text)
    except UNREADABLE as error:
        raise SchemaProblem(f"the definition is no JSON: {error}") from error
    _check_depth(found, 0)
    return found


def _check_depth(value: Any, depth: int) -> None:
    if depth > SCHEMA_DEPTH_MAX:
        raise SchemaProblem(f"the definition has more than {SCHEMA_DEPTH_MAX} values inside each other")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(inner, depth + 1)


def missing_package(error: ImportError) -> SchemaProblem:
    """What to say when a library is not there."""
    return SchemaProblem(f"{error.name} is not installed: pip install 'slipstream-server[schemas]'")
