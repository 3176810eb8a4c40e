"""Typed reading and writing of JSON the way Go's `encoding/json` does it for nats-server's request structs.

A `GoType` knows its Go name (error texts contain it), how to read a value into Python and how to write it back.
`GoStruct` is a table of fields over a msgspec Struct: one table gives decoding, encoding, field order and what is left
out when empty, so the compatible surface of a struct is in one place.

What Go does and this follows: names match without regard to case; an unknown name is an error; `null` leaves a plain
field as it was and clears a pointer, list or map; several documents in one body are read one after the other into the
same struct; the first error in reading order is reported, but syntax of the whole document comes before all else.

Nearly every body is one plain document, so a general parser reads it first (`take`), many times faster; what it gives
is used only where Go would have got the same. Everything else, errors included, is read byte by byte (`bind`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from slipstream.jetstream.gojson.parse import Unusual, parse
from slipstream.jetstream.gojson.scan import (
    JsonError,
    JsonSyntaxError,
    behind_document,
    elements,
    go_quote,
    members,
    skip_blank,
    value_end,
    without_offset,
)
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
    "Field",
    "GoEnum",
    "GoInt",
    "GoList",
    "GoMap",
    "GoPointer",
    "GoStruct",
    "GoType",
]

# Names and positions from the root struct to a value; a position (int) is an array index.
Path = tuple[str | int, ...]


class _Lax(tuple[str | int, ...]):
    """A path on which unknown names are passed over."""


def _below(path: Path, step: str | int) -> Path:
    return _Lax((*path, step)) if isinstance(path, _Lax) else (*path, step)


StructT = TypeVar("StructT", bound=msgspec.Struct)

_DOCUMENTS_MAX: Final = 1_000  # in one body; Go has no limit, and nobody sends two
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


class GoList:
    """A slice. An empty list and an absent one are the same here."""

    def __init__(self, element: GoType, name: str = "") -> None:
        """A list of `element`; `name` where Go's differs from `[]element` (slices of pointers)."""
        self.element = element
        self.name = name or f"[]{element.name}"

    def bind(self, data: bytes, start: int, end: int, current: object, path: Path) -> object:
        """A new list. An element that is null becomes what stood there if the name came before, else the zero."""
        if is_null(data, start):
            return []
        if data[start] != ord("["):
            raise mismatch(kind_of(data, start), path, self.name)
        before = current if isinstance(current, list) else []
        zero = _ZEROS.get(self.element.name)
        return [
            self.element.bind(data, at, until, before[index] if index < len(before) else zero, _below(path, index))
            for index, (at, until) in enumerate(elements(data, start))
        ]

    def take(self, value: object, current: object) -> object:
        """A new list."""
        if value is None:
            return []
        if type(value) is not list:
            raise Unusual
        take, zero = self.element.take, _ZEROS.get(self.element.name)
        before = current if isinstance(current, list) else []
        if self.element is STRING and set(map(type, value)) <= _TEXTS:
            return value  # there may be very many
        if not before:
            return [take(element, zero) for element in value]
        return [take(element, before[i] if i < len(before) else zero) for i, element in enumerate(value)]

    def wire(self, value: object) -> object:
        """A list of written elements."""
        assert isinstance(value, Sequence)
        return list(value) if self.element is STRING else [self.element.wire(element) for element in value]


class GoMap:
    """A map of strings to values, strings if nothing is said; a second document adds to the first one's map."""

    def __init__(self, element: GoType | None = None) -> None:
        """A map to values of `element`."""
        self.element = element or STRING
        self.name = f"map[string]{self.element.name}"

    def bind(self, data: bytes, start: int, end: int, current: object, path: Path) -> object:
        """The entries, over those already there."""
        if is_null(data, start):
            return {}
        if data[start] != ord("{"):
            raise mismatch(kind_of(data, start), path, self.name)
        assert isinstance(current, dict)
        result = dict(current)
        for raw_key, at, until in members(data, start):
            key = text_of(raw_key)
            result[key] = self.element.bind(data, at, until, _ZEROS[self.element.name], _below(path, key))
        return result

    def take(self, value: object, current: object) -> object:
        """The entries, over those already there."""
        if value is None:
            return {}
        if type(value) is not dict:
            raise Unusual
        assert isinstance(current, dict)
        take, zero = self.element.take, _ZEROS[self.element.name]
        return current | {key: take(element, zero) for key, element in value.items()}

    def wire(self, value: object) -> object:
        """Sorted by key, as Go writes maps."""
        assert isinstance(value, dict)
        return dict(sorted(value.items()))


class GoPointer:
    """A pointer to a value that may be absent."""

    def __init__(self, target: GoType) -> None:
        """A pointer; Go's error texts name the target."""
        self.target = target
        self.name = target.name

    def bind(self, data: bytes, start: int, end: int, current: object, path: Path) -> object:
        """None for null, else the target's value."""
        if is_null(data, start):
            return None
        return self.target.bind(data, start, end, current, path)

    def take(self, value: object, current: object) -> object:
        """None for null, else the target's value."""
        return None if value is None else self.target.take(value, current)

    def wire(self, value: object) -> object:
        """The target's form."""
        return self.target.wire(value)


class Field:
    """One member of a struct: its JSON name, the attribute that holds it, its type, and whether empty is left out."""

    __slots__ = ("attribute", "name", "omit_empty", "type")

    def __init__(self, name: str, go_type: GoType, *, attribute: str = "", omit_empty: bool = False) -> None:
        """Describe the member; the attribute is named like the member unless said otherwise."""
        self.name = name
        self.type = go_type
        self.attribute = attribute or name
        self.omit_empty = omit_empty


class GoStruct(Generic[StructT]):
    """A struct of named fields over a msgspec Struct whose fields all have defaults."""

    def __init__(self, short_name: str, factory: type[StructT], fields: Sequence[Field]) -> None:
        """Name the struct as Go does (without `server.`); `fields` are in Go's order."""
        self.short_name = short_name
        self.name = f"server.{short_name}"
        self.fields = tuple(fields)
        self._factory = factory
        self._by_name = {field.name.lower(): field for field in fields}

    def decode(self, body: bytes, *, strict: bool = True) -> StructT:
        """Read a request body: no document at all gives the defaults.

        Args:
            body: the documents.
            strict: False ignores unknown names and allows only one document, as some endpoints do.

        Raises:
            JsonError: with the text nats-server puts behind `invalid JSON: `.
        """
        try:
            return self._taken(parse(body), self._factory())
        except (Unusual, JsonError):
            pass  # looked at byte by byte, for what is meant or the right complaint
        target = self._factory()
        at = skip_blank(body, 0)
        if not strict:
            self._decode_one(body, at, target)
            return target
        for _ in range(_DOCUMENTS_MAX):
            if at == len(body):
                return target
            end = value_end(body, at)
            self._read(body, at, target, (self.short_name,))
            at = skip_blank(body, end)
        raise JsonError(f"more than {_DOCUMENTS_MAX} documents in one body")

    def _decode_one(self, body: bytes, at: int, target: StructT) -> None:
        if at == len(body):
            return
        try:
            end = skip_blank(body, value_end(body, at))
            if end < len(body):
                raise behind_document(body, end)
        except JsonSyntaxError as error:
            raise without_offset(error) from None
        self._read(body, at, target, _Lax((self.short_name,)))

    def bind(self, data: bytes, start: int, end: int, current: object, path: Path) -> object:
        """Read one object into `current`, or into a new struct if there is none."""
        target = current if isinstance(current, self._factory) else self._factory()
        self._read(data, start, target, path)
        return target

    def take(self, value: object, current: object) -> object:
        """Read one object into `current`, or into a new struct if there is none."""
        return self._taken(value, current if isinstance(current, self._factory) else self._factory())

    def _taken(self, value: object, target: StructT) -> StructT:
        if value is None:
            return target
        if type(value) is not dict:
            raise Unusual
        for key, member in value.items():
            field = self._by_name.get(key) or self._by_name.get(key.lower())
            if field is None:
                raise Unusual
            setattr(target, field.attribute, field.type.take(member, getattr(target, field.attribute)))
        return target

    def _read(self, data: bytes, start: int, target: StructT, path: Path) -> None:
        if is_null(data, start):
            return
        if data[start] != ord("{"):
            raise mismatch(kind_of(data, start), path, self.name)
        for raw_key, at, until in members(data, start):
            key = text_of(raw_key)
            field = self._by_name.get(key.lower())
            if field is None:
                if isinstance(path, _Lax):
                    continue
                raise JsonError(f"json: unknown field {go_quote(key)}")
            before = getattr(target, field.attribute)
            setattr(target, field.attribute, field.type.bind(data, at, until, before, _below(path, field.name)))

    def wire(self, value: object) -> dict[str, object]:
        """Members in order, without those that are empty and say so."""
        result: dict[str, object] = {}
        for field in self.fields:
            member = getattr(value, field.attribute)
            if member is None or (field.omit_empty and not member):
                continue
            result[field.name] = field.type.wire(member)
        return result


STRING = _GoString()
_TEXTS = frozenset((str,))
BOOL = _GoBool()
INT = GoInt("int", -(2**63), 2**63 - 1)
INT32 = GoInt("int32", -(2**31), 2**31 - 1)
INT64 = GoInt("int64", -(2**63), 2**63 - 1)
UINT64 = GoInt("uint64", 0, 2**64 - 1)
DURATION = GoInt("time.Duration", -(2**63), 2**63 - 1)
TIME = _GoTime()

_ZEROS: Mapping[str, object] = {"string": "", "bool": False, "int": 0, "int64": 0, "uint64": 0, "time.Duration": 0}
