"""Expressions in Substrait, the format in which engines exchange them, as far as filters on columns need it.

A few messages of Protocol Buffers: constants, columns, calls of functions, "one of these". Whatever else there is
makes an expression unknown, never wrong. The bytes are made by pyarrow in this process; they are checked all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["Call", "Column", "Constant", "Node", "UnknownExpression", "read_expression"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DEPTH_MAX: Final = 64
_INTEGERS: Final = (2, 3, 5, 7)  # fields of a literal: i8, i16, i32, i64


@dataclass(frozen=True)
class Column:
    name: str


@dataclass(frozen=True)
class Constant:
    value: object


@dataclass(frozen=True)
class Call:
    name: str
    arguments: tuple[Node, ...]


Node = Column | Constant | Call


class UnknownExpression(Exception):
    """Something that is not read here."""


def read_expression(message: bytes, names: Sequence[str]) -> Node:
    """The expression in an `ExtendedExpression`.

    Args:
        message: as `pyarrow.compute.Expression.to_substrait` gives it.
        names: of the columns, by their numbers.

    Raises:
        UnknownExpression: there is something in it that is not read here.
    """
    try:
        return _Reader(message, names).root()
    except (LookupError, ValueError, OverflowError) as error:
        raise UnknownExpression(str(error)) from error


class _Reader:
    """An extended expression: `extensions` name the functions, `referred_expr` is the filter."""

    def __init__(self, message: bytes, names: Sequence[str]) -> None:
        self._names = names
        self._functions: dict[int, str] = {}
        self._expression = b""
        for number, value in _members(message):
            if number == 2:
                function = _only(dict(_members(_bytes(value))), 3)
                members = dict(_members(function))
                self._functions[_number(members.get(2, 0))] = _bytes(members[3]).decode().partition(":")[0]
            elif number == 3:
                self._expression = _only(dict(_members(_bytes(value))), 1)

    def root(self) -> Node:
        return self._node(self._expression, 0)

    def _node(self, message: bytes, depth: int) -> Node:
        members = list(_members(message))
        if len(members) != 1 or depth > _DEPTH_MAX:
            raise UnknownExpression
        kind, value = members[0][0], _bytes(members[0][1])
        match kind:
            case 1:
                return _literal(value)
            case 2:
                return self._selection(value)
            case 3:
                return self._call(value, depth)
            case 6:
                return self._if_then(value, depth)
            case 8:
                return self._one_of(value, depth)
        raise UnknownExpression

    def _selection(self, message: bytes) -> Column:
        segment = _only(dict(_members(message)), 1)
        place = dict(_members(_only(dict(_members(segment)), 2)))
        if place.keys() - {1}:
            raise UnknownExpression  # a part of a column
        return Column(self._names[_number(place.get(1, 0))])

    def _call(self, message: bytes, depth: int) -> Call:
        members = list(_members(message))
        name = self._functions[next((_number(value) for number, value in members if number == 1), 0)]
        arguments = [_only(dict(_members(_bytes(value))), 3) for number, value in members if number == 4]
        return Call(name, tuple(self._node(one, depth + 1) for one in arguments))

    def _if_then(self, message: bytes, depth: int) -> Call:
        """`if a then b else null`, which is how "one of these" comes: as a filter it is "a and b"."""
        members = list(_members(message))
        if [number for number, _ in members] != [1, 2] or self._node(_bytes(members[1][1]), depth) != Constant(None):
            raise UnknownExpression
        clause = dict(_members(_bytes(members[0][1])))
        return Call("and", tuple(self._node(_only(clause, number), depth + 1) for number in (1, 2)))

    def _one_of(self, message: bytes, depth: int) -> Call:
        members = list(_members(message))
        column = _only(dict(members), 1)
        options = [_bytes(value) for number, value in members if number == 2]
        return Call("in", tuple(self._node(one, depth + 1) for one in (column, *options)))


def _literal(message: bytes) -> Constant:
    members = {
        number: value for number, value in _members(message) if number not in (50, 51)
    }  # not: nullable, variation
    if len(members) != 1:
        raise UnknownExpression
    kind, value = next(iter(members.items()))
    if kind in _INTEGERS:
        return Constant(_signed(_number(value)))
    match kind:
        case 12:
            return Constant(_bytes(value).decode())
        case 27:
            return Constant(_EPOCH + timedelta(microseconds=_signed(_number(value))))
        case 29:
            return Constant(None)
    return Constant(_Opaque(kind, value))


@dataclass(frozen=True)
class _Opaque:
    """A value that no index is asked about."""

    kind: int
    value: object


# --- Protocol Buffers -----------------------------------------------------------------------------------------------


def _members(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message, in order: numbers, or bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == 2:
            length, at = _varint(message, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise UnknownExpression
        if at + length > len(message):
            raise UnknownExpression
        yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise UnknownExpression


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _only(members: dict[int, int | bytes], number: int) -> bytes:
    try:
        return _bytes(members[number])
    except KeyError:
        raise UnknownExpression from None


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise UnknownExpression
    return value


def _number(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise UnknownExpression
    return value
