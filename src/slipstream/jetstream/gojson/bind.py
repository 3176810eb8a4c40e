"""Typed reading and writing of JSON the way Go's `encoding/json` does it for nats-server's request structs.

Lists, maps, pointers and structs over the plain types of `scalars`. `GoStruct` is a table of fields over a msgspec
Struct: one table gives decoding, encoding, field order and what is left out when empty, so the compatible surface of a
struct is in one place.

What Go does and this follows: names match without regard to case; an unknown name is an error; `null` leaves a plain
field as it was and clears a pointer, list or map; several documents in one body are read one after the other into the
same struct; the first error in reading order is reported, but syntax of the whole document comes before all else.

Nearly every body is one plain document, so a general parser reads it first (`take`), many times faster; what it gives
is used only where Go would have got the same. Everything else, errors included, is read byte by byte (`bind`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import msgspec

from slipstream.jetstream.gojson.parse import Unusual, parse
from slipstream.jetstream.gojson.scalars import (
    STRING,
    ZEROS,
    GoType,
    Lax,
    Path,
    below,
    is_null,
    kind_of,
    mismatch,
    text_of,
)
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

__all__ = ["Field", "GoList", "GoMap", "GoPointer", "GoStruct"]

StructT = TypeVar("StructT", bound=msgspec.Struct)

_DOCUMENTS_MAX: Final = 1_000  # in one body; Go has no limit, and nobody sends two
_TEXTS = frozenset((str,))


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
        zero = ZEROS.get(self.element.name)
        return [
            self.element.bind(data, at, until, before[index] if index < len(before) else zero, below(path, index))
            for index, (at, until) in enumerate(elements(data, start))
        ]

    def take(self, value: object, current: object) -> object:
        """A new list."""
        if value is None:
            return []
        if type(value) is not list:
            raise Unusual
        take, zero = self.element.take, ZEROS.get(self.element.name)
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
            result[key] = self.element.bind(data, at, until, ZEROS[self.element.name], below(path, key))
        return result

    def take(self, value: object, current: object) -> object:
        """The entries, over those already there."""
        if value is None:
            return {}
        if type(value) is not dict:
            raise Unusual
        assert isinstance(current, dict)
        take, zero = self.element.take, ZEROS[self.element.name]
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
        self._read(body, at, target, Lax((self.short_name,)))

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
                if isinstance(path, Lax):
                    continue
                raise JsonError(f"json: unknown field {go_quote(key)}")
            before = getattr(target, field.attribute)
            setattr(target, field.attribute, field.type.bind(data, at, until, before, below(path, field.name)))

    def wire(self, value: object) -> dict[str, object]:
        """Members in order, without those that are empty and say so."""
        result: dict[str, object] = {}
        for field in self.fields:
            member = getattr(value, field.attribute)
            if member is None or (field.omit_empty and not member):
                continue
            result[field.name] = field.type.wire(member)
        return result
