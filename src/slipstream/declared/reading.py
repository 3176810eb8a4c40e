"""Nodes to declarations: each value as its field wants it.

A duration is written as `7d` and a size as `1GiB` (or as the numbers of the API, where the syntax allows it). What a
field is comes from the same table from which the server reads its requests, so a field that the API has can be
declared, and nothing else: unknown and repeated keys are refused with their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from slipstream.buckets import is_bucket_name
from slipstream.declared.nodes import DeclarationError, TextPlace, ValueNode
from slipstream.jetstream.config.structs import CONSUMER_CONFIG, STREAM_CONFIG
from slipstream.jetstream.gojson.bind import GoList, GoMap, GoPointer, GoStruct
from slipstream.jetstream.gojson.scalars import BOOL, DURATION, TIME, GoEnum, GoInt
from slipstream.nearness import near
from slipstream.quantities import parse_bytes, parse_duration, parse_timestamp, to_rfc3339

__all__ = ["Declaration", "Declared", "read_nodes"]

_VALUES_MAX: Final = 1_000_000  # aliases make much out of little
_SIZES: Final = frozenset(("max_bytes", "max_msg_size", "max_value_size", "max_bucket_size"))
_TRUE: Final = frozenset(("true", "yes", "on"))
_FALSE: Final = frozenset(("false", "no", "off"))
_BARE_DURATIONS: Final = frozenset(("0", "-1"))  # that mean the same in every unit


@dataclass(frozen=True)
class Declaration:
    """One thing that should be there: its fields as the API has them."""

    name: str
    fields: dict[str, Any]
    place: TextPlace
    consumers: dict[str, Declaration] | None = None  # None: nothing is said about them


@dataclass(frozen=True)
class Declared:
    """Everything in a file or block."""

    streams: dict[str, Declaration] = field(default_factory=dict)
    kv: dict[str, Declaration] = field(default_factory=dict)
    objects: dict[str, Declaration] = field(default_factory=dict)


def read_nodes(root: ValueNode, what: str) -> Declared:
    """Read everything; `what` is said where the outermost map is meant.

    Raises:
        DeclarationError: something is wrong.
    """
    reader = _Reader()
    found = {key: value for key, value, _ in reader.mapping(root, what, ("streams", "kv", "objects"))}
    return Declared(
        streams={
            one.name: one for one in reader.declarations(found.get("streams"), "stream", _STREAM, has_consumers=True)
        },
        kv={one.name: one for one in reader.declarations(found.get("kv"), "bucket", _BUCKET)},
        objects={one.name: one for one in reader.declarations(found.get("objects"), "object store", _OBJECTS)},
    )


class _Reader:
    """Reads nodes, and counts them."""

    def __init__(self) -> None:
        self._values = 0

    def declarations(
        self, node: ValueNode | None, what: str, fields: Mapping[str, Any], *, has_consumers: bool = False
    ) -> Iterator[Declaration]:
        """Things by their names."""
        if node is None or node.kind == "null":
            return
        for name, body, place in self.mapping(node, f"{what}s"):
            if body.is_variable and body.kind != "map":
                continue
            if not _fits(name, what):
                raise DeclarationError(place, f"{name!r} cannot be the name of a {what}")
            known = (*fields, "consumers") if has_consumers else tuple(fields)
            values: dict[str, Any] = {}
            consumers: dict[str, Declaration] | None = None
            entries = () if body.kind == "null" else self.mapping(body, f"{what} {name}", known)
            for key, value, _ in entries:
                if key == "consumers" and has_consumers:
                    consumers = {one.name: one for one in self.declarations(value, "consumer", _CONSUMER)}
                else:
                    values[key] = self.value(value, fields[key], key)
            yield Declaration(name, values, place, consumers)

    def mapping(
        self, node: ValueNode, what: str, known: tuple[str, ...] = ()
    ) -> Iterator[tuple[str, ValueNode, TextPlace]]:
        """Keys, the nodes of their values, and their places; only known keys if some are."""
        if node.kind != "map":
            raise DeclarationError(node.place, f"{what}: keys with values are expected")
        seen: dict[str, int] = {}
        for key, place, value in node.entries():
            self._count(place)
            if key is None:
                raise DeclarationError(place, f"{what}: a key is a text")
            if key in seen:
                raise DeclarationError(place, f"{what}: {key!r} is there twice, first in line {seen[key]}")
            if known and key not in known:
                if value.is_variable:
                    continue
                meant = near(key, known)
                hint = f"; did you mean {meant[0]!r}?" if meant else ""
                raise DeclarationError(place, f"{what}: unknown key {key!r}{hint}")
            seen[key] = place.line
            yield key, value, place

    def value(self, node: ValueNode, kind: Any, name: str) -> Any:
        """A value as its field wants it."""
        self._count(node.place)
        if isinstance(kind, GoPointer):
            return None if node.kind == "null" else self.value(node, kind.target, name)
        if isinstance(kind, GoStruct):
            fields = {one.name: one.type for one in kind.fields}
            entries = self.mapping(node, name, tuple(fields))
            return {key: self.value(value, fields[key], key) for key, value, _ in entries}
        if isinstance(kind, GoMap):
            return {key: _text(value, key) for key, value, _ in self.mapping(node, name)}
        if isinstance(kind, GoList):
            if node.kind != "list":
                raise DeclarationError(node.place, f"{name}: a list is expected")
            return [self.value(each, kind.element, name) for each in node.elements()]
        try:
            return _scalar(node, kind, name)
        except ValueError as error:
            raise DeclarationError(node.place, f"{name}: {error}") from None

    def _count(self, place: TextPlace) -> None:
        self._values += 1
        if self._values > _VALUES_MAX:
            raise DeclarationError(place, f"more than {_VALUES_MAX} values")


def _fits(name: str, what: str) -> bool:
    if what in ("bucket", "object store"):
        return is_bucket_name(name)
    return bool(name) and not any(letter in name for letter in " \t\r\n.*>/\\")


def _written(node: ValueNode, name: str) -> str:
    if node.kind in ("map", "list", "null"):
        raise DeclarationError(node.place, f"{name}: a value is expected")
    return node.text


def _text(node: ValueNode, name: str) -> str:
    text = _written(node, name)
    if node.kind != "word":
        raise DeclarationError(node.place, f"{name}: a text is expected; write it in quotes")
    return text


def _scalar(node: ValueNode, kind: Any, name: str) -> Any:
    """A single value.

    Raises:
        ValueError: it is none of this kind.
    """
    text = _written(node, name)
    if kind is BOOL:
        if text.lower() not in _TRUE | _FALSE:
            raise ValueError(f"{text!r} is not true or false")
        return text.lower() in _TRUE
    if kind is TIME:
        return to_rfc3339(parse_timestamp(text))
    if kind is DURATION:
        if node.kind == "number" and text not in _BARE_DURATIONS:
            raise ValueError(f"{text} has no unit; write a duration such as 2s, 1h30m or 7d")
        return int(text) if text.lstrip("-").isdecimal() else parse_duration(text)
    if isinstance(kind, GoInt):
        if name in _SIZES:
            return parse_bytes(text)
        if not text.lstrip("-").replace("_", "").isdecimal():
            raise ValueError(f"{text!r} is not a number")
        return int(text.replace("_", ""))
    text = _text(node, name)
    if isinstance(kind, GoEnum) and f'"{text}"' not in kind.words:
        words = ", ".join(word[1:-1] for word in kind.words)
        raise ValueError(f"{text!r} is not one of {words}")
    return text


def _fields_of(struct: GoStruct[Any], *left_out: str) -> dict[str, Any]:
    return {one.name: one.type for one in struct.fields if one.name not in left_out}


_STREAM: Final = _fields_of(STREAM_CONFIG, "name", "sealed")
_CONSUMER: Final = _fields_of(CONSUMER_CONFIG, "name", "durable_name", "direct", "sourcing", "pause_until")
_OF_BUCKETS: Final = {
    name: _STREAM[name]
    for name in ("description", "storage", "num_replicas", "compression", "placement", "republish", "metadata")
}
_OBJECTS: Final = {**_OF_BUCKETS, "ttl": DURATION, "max_bucket_size": _STREAM["max_bytes"]}
_BUCKET: Final = {
    **_OBJECTS,
    "history": _STREAM["max_msgs_per_subject"],
    "max_value_size": _STREAM["max_msg_size"],
    "limit_marker_ttl": DURATION,
}
