"""Protobuf: fields are numbers on the wire, so a number keeps its meaning; what is unknown is skipped."""

from __future__ import annotations

from typing import Any, Final

from slipstream.schemas.protobuf import message_class

__all__ = ["not_compatible"]

# Types of fields (FieldDescriptor.TYPE_*) that are read as each other, by groups.
_INTERCHANGEABLE: Final = (
    {3, 4, 5, 8, 13, 14},  # int64, uint64, int32, bool, uint32, enum
    {17, 18},  # sint32, sint64
    {9, 12},  # string, bytes
    {7, 15},  # fixed32, sfixed32
    {6, 16},  # fixed64, sfixed64
)
_MESSAGES: Final = (10, 11)  # group, message


def not_compatible(reader: str, writer: str, message: str) -> str | None:
    """Why a reader of one definition misunderstands what a writer of the other writes."""
    return _differ(
        message_class(reader, message).DESCRIPTOR, message_class(writer, message).DESCRIPTOR, message, frozenset()
    )


def _differ(reader: Any, writer: Any, where: str, inside: frozenset[tuple[str, str]]) -> str | None:
    pair = (reader.full_name, writer.full_name)
    if pair in inside:
        return None  # a type that contains itself is being compared already
    written = writer.fields_by_number
    for number, field in reader.fields_by_number.items():
        place = f"{where}.{field.name}"
        if number not in written:
            if field.is_required:
                return f"{place} is required, and not written"
            continue
        other = written[number]
        if field.is_repeated != other.is_repeated:
            return f"{place} ({number}) is {'' if other.is_repeated else 'not '}repeated"
        if field.type in _MESSAGES and other.type == field.type:
            found = _differ(field.message_type, other.message_type, place, inside | {pair})
            if found is not None:
                return found
        elif field.type != other.type and not any({field.type, other.type} <= group for group in _INTERCHANGEABLE):
            return f"{place} ({number}) has another type on the wire"
        if field.is_required and not other.is_required:
            return f"{place} is required, and not always written"
    return None
