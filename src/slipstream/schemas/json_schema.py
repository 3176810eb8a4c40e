"""JSON Schema, by jsonschema-rs: compiled once, patterns in time that is linear, nothing fetched from anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from slipstream.errors import UNREADABLE
from slipstream.schemas.definitions import missing_package, read_definition
from slipstream.schemas.errors import SchemaProblem
from slipstream.schemas.limits import PROBLEM_CHARACTERS_MAX

if TYPE_CHECKING:
    from slipstream.schemas.payloads import PayloadCheck

__all__ = ["json_check"]


def json_check(definition: str) -> PayloadCheck:
    """What says why a payload does not fit.

    Raises:
        SchemaProblem: the definition is no JSON Schema, or refers to another document.
    """
    try:
        import jsonschema_rs
    except ImportError as error:
        raise missing_package(error) from error
    document = read_definition(definition)
    if not isinstance(document, dict | bool):
        raise SchemaProblem("a JSON Schema is an object, true or false")
    try:
        # The engine without look-around and back references: no pattern takes longer than its text is long.
        validator = jsonschema_rs.validator_for(
            document, retriever=_no_other_document, pattern_options=jsonschema_rs.RegexOptions()
        )
    except ValueError as error:
        raise SchemaProblem(f"not a JSON Schema that can be used here: {_first_line(error)}") from error
    is_valid, validate = validator.is_valid, validator.validate

    def problem(payload: bytes) -> str | None:
        try:
            value: Any = msgspec.json.decode(payload)
        except UNREADABLE as error:
            return f"no JSON: {error}"[:PROBLEM_CHARACTERS_MAX]
        try:
            if is_valid(value):
                return None
            validate(value)
        except jsonschema_rs.ValidationError as error:
            place = "/".join(str(part) for part in error.instance_path)
            return f"{place or 'the payload'}: {_first_line(error)}"[:PROBLEM_CHARACTERS_MAX]
        except (ValueError, RecursionError) as error:
            return f"cannot be checked: {_first_line(error)}"
        return None

    return problem


def _no_other_document(uri: str) -> Any:
    raise ValueError(f"{uri} is another document; a schema has everything in itself")


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:PROBLEM_CHARACTERS_MAX]
