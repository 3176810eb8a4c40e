"""The plain types of Go's that requests are made of: texts, booleans, numbers, times, closed sets.

A `GoType` knows its Go name (error texts contain it), how to read a value into Python and how to write it back. What is
made of these is in `bind`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from slipstream.jetstream.gojson.parse import Unusual
from slipstream.jetstream.gojson.scan import JsonError, go_quote
from slipstream.jetstream.gojson.times import format_time, parse_time

__all__ = [
    "BOOL",
    "DURATION",
    "INT",
    "INT32",
    "INT64",
    "STRING",
    "TIME",
    "UINT64",
    "ZEROS",
    "GoEnum",
    "GoInt",
    "GoType",
    "Lax",
    "Path",
    "below",
    "cannot_unmarshal",
    "is_null",
    "kind_of",
    "mismatch",
    "text_of",
]

# Names and positions from the root struct to a value; a position (int) is an array index.
Path = tuple[str | int, ...]


class Lax(tuple[str | int, ...]):
    """A path on which unknown names are passed over."""


def below(path: Path, step: str | int) -> Path:
    """The path of a part of what this path leads to."""
    return Lax((*path, step)) if isinstance(path, Lax) else (*path, step)


_INTEGER = re.compile(rb"-?[0-9]+")
_KINDS = {ord("{"): "object", ord("["): "array", ord('"'): "string", ord("t"): "bool", ord("f"): "bool"}


class GoType(Protocol):
    """One type of Go's, in both directions."""

    name: str

    def bind(self, data: bytes, start: int, end: int, current: object, path: Path) -> object:
        """The value of `data[start:end]`, given what the field held before."""

    def take(self, value: object, current: object) -> object:
        """The same for a value that was read by a general parser.

        Raises:
            Unusual: the value needs a closer look, because it is wrong or Go has a rule of its own for it.
        """

    def wire(self, value: object) -> object:
        """The value as something the JSON encoder takes."""


def kind_of(data: bytes, at: int) -> str:
    """Go's word for the JSON value at `at`."""
    return _KINDS.get(data[at], "number")


def is_null(data: bytes, at: int) -> bool:
    """Whether the value at `at` is null (its syntax was checked before)."""
    return data[at] == ord("n")


def mismatch(what: str, path: Path, type_name: str) -> JsonError:
    """Go's complaint about a value of the wrong kind."""
    if len(path) == 1:
        return JsonError(f"json: cannot unmarshal {what} into Go value of type {type_name}")
    dotted = ".".join(str(part) for part in path)
    place = dotted if isinstance(path[-1], int) else f"Go struct field {dotted}"
    return JsonError(f"json: cannot unmarshal {what} into {place} of type {type_name}")


def text_of(raw: bytes) -> str:
    """The text of a JSON string literal; what is no Unicode becomes U+FFFD, as in Go."""
    if b"\\" not in raw:
        return raw[1:-1].decode("utf-8", "replace")
    text = json.loads(raw.decode("utf-8", "replace"))
    assert isinstance(text, str)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _GoString:
    name = "string"

    def bind(self, data: bytes, start: int, end: int, current: object, path: Path) -> object:
        if is_null(data, start):
            return current
        if data[start] != ord('"'):
            raise mismatch(kind_of(data, start), path, self.name)
        return text_of(data[start:end])

    def take(self, value: object, current: object) -> object:
        if value is None:
            return current
        if type(value) is not str:
            raise Unusual
        return value

    def wire(self, value: object) -> object:
        return value


class _GoBool:
    name = "bool"

    def bind(self, data: bytes, start: int, end: int, current: object, path: Path) -> object:
        if is_null(data, start):
            return current
        if data[start] not in b"tf":
            raise mismatch(kind_of(data, start), path, self.name)
        return data[start] == ord("t")

    def take(self, value: object, current: object) -> object:
        if value is None:
            return current
        if type(value) is not bool:
            raise Unusual
        return value

    def wire(self, value: object) -> object:
        return value


class GoInt:
    """An integer of some width; fractions and exponents are refused even if the value is whole."""

    def __init__(self, name: str, low: int, high: int) -> None:
        """Name the type as Go does and give its range, both ends included."""
        self.name = name
        self.low = low
        self.high = high

    def bind(self, data: bytes, start: int, end: int, current: object, path: Path) -> object:
        """An int in range, or the error Go gives, which quotes the number."""
        if is_null(data, start):
            return current
        kind = kind_of(data, start)
        if kind != "number":
            raise mismatch(kind, path, self.name)
        raw = data[start:end]
        # Twenty digits hold every 64-bit number; longer ones are not worth converting.
        if _INTEGER.fullmatch(raw) and len(raw) <= 21:
            number = int(raw)
            if self.low <= number <= self.high and not (number == 0 and raw[:1] == b"-" and self.low == 0):
                return number
        raise mismatch(f"number {raw.decode()}", path, self.name)

    def take(self, value: object, current: object) -> object:
        """An int in range."""
        if value is None:
            return current
        if type(value) is not int or not self.low <= value <= self.high:
            raise Unusual
        return value

    def wire(self, value: object) -> object:
        """The number itself."""
        return value


class _GoTime:
    name = "time.Time"

    def bind(self, data: bytes, start: int, end: int, current: object, path: Path) -> object:
        if is_null(data, start):
            return current
        if data[start] != ord('"'):
            raise mismatch(kind_of(data, start), path, self.name)
        return parse_time(text_of(data[start:end]))

    def take(self, value: object, current: object) -> object:
        if value is None:
            return current
        if type(value) is not str:
            raise Unusual
        return parse_time(value)

    def wire(self, value: object) -> object:
        assert isinstance(value, int)
        return format_time(value)


class GoEnum:
    """A closed set written as text. Go's types compare the raw bytes, so an escaped spelling is refused."""

    def __init__(self, name: str, words: Mapping[str, object], complaint: Callable[[bytes], str]) -> None:
        """Name the type; `words` maps raw JSON (with quotes) to members, the first spelling of each is written."""
        self.name = name
        self.words = words
        self._complaint = complaint
        self._spelling: dict[object, str] = {}
        for raw, member in words.items():
            self._spelling.setdefault(member, raw[1:-1])

    def bind(self, data: bytes, start: int, end: int, current: object, path: Path) -> object:
        """The member; anything else, null included, is the type's own complaint."""
        raw = data[start:end]
        member = self.words.get(raw.decode("utf-8", "replace"))
        if member is None:
            raise JsonError(self._complaint(raw))
        return member

    def take(self, value: object, current: object) -> object:
        """The member; `parse` leaves escaped spellings to a closer look."""
        member = self.words.get(f'"{value}"') if type(value) is str else None
        if member is None:
            raise Unusual
        return member

    def wire(self, value: object) -> object:
        """The member's spelling."""
        return self._spelling[value]


def cannot_unmarshal(raw: bytes) -> str:
    """The complaint most of nats-server's own enum types give."""
    return f"can not unmarshal {go_quote(raw.decode('utf-8', 'replace'))}"


STRING = _GoString()
BOOL = _GoBool()
INT = GoInt("int", -(2**63), 2**63 - 1)
INT32 = GoInt("int32", -(2**31), 2**31 - 1)
INT64 = GoInt("int64", -(2**63), 2**63 - 1)
UINT64 = GoInt("uint64", 0, 2**64 - 1)
DURATION = GoInt("time.Duration", -(2**63), 2**63 - 1)
TIME = _GoTime()

ZEROS: Final[Mapping[str, object]] = {
    "string": "",
    "bool": False,
    "int": 0,
    "int64": 0,
    "uint64": 0,
    "time.Duration": 0,
}
"""What an element of a list or map is before anything was read into it, by the name of its type."""
