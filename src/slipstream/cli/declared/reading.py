"""A file with declarations: YAML, or JSON, which is nearly YAML.

A value is read as its field wants it, not as YAML guesses: a subject `1.2` is a text, `no` is one as well, a duration
is written as `7d` and a size as `1GiB` (or as the numbers of the API). What a field is comes from the same table from
which the server reads its requests, so a field that the API has can be declared, and nothing else: unknown and repeated
keys are refused with their line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from slipstream.cli.connection import Failure
from slipstream.cli.human import parse_bytes, parse_duration, parse_timestamp, to_rfc3339
from slipstream.cli.nearness import near
from slipstream.jetstream.config.structs import CONSUMER_CONFIG, STREAM_CONFIG
from slipstream.jetstream.gojson.bind import BOOL, DURATION, TIME, GoEnum, GoInt, GoList, GoMap, GoPointer, GoStruct

__all__ = ["Declaration", "Declared", "read_declarations"]

_FILE_BYTES_MAX: Final = 8 * 1024 * 1024
_VALUES_MAX: Final = 1_000_000  # aliases make much out of little
_SIZES: Final = frozenset(("max_bytes", "max_msg_size", "max_value_size", "max_bucket_size"))
_TRUE: Final = frozenset(("true", "yes", "on"))
_FALSE: Final = frozenset(("false", "no", "off"))
_MERGE: Final = "tag:yaml.org,2002:merge"
_NULL: Final = "tag:yaml.org,2002:null"


@dataclass(frozen=True)
class Declaration:
    """One thing that should be there: its fields as the API has them."""

    name: str
    fields: dict[str, Any]
    line: int
    consumers: dict[str, Declaration] | None = None  # None: nothing is said about them


@dataclass(frozen=True)
class Declared:
    """Everything in a file."""

    streams: dict[str, Declaration] = field(default_factory=dict)
    kv: dict[str, Declaration] = field(default_factory=dict)
    objects: dict[str, Declaration] = field(default_factory=dict)


def read_declarations(text: str, place: str) -> Declared:
    """Read a file.

    Raises:
        Failure: it cannot be read; the text names the line.
    """
    import yaml

    if len(text) > _FILE_BYTES_MAX:
        raise Failure(f"{place} is longer than {_FILE_BYTES_MAX} bytes")
    if text.lstrip().startswith("{"):
        text = text.replace("\t", " ")  # JSON has them between values only, YAML nowhere
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise Failure(f"{place}{line}: {error.problem or error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise Failure(f"{place} is not YAML: {error}") from error
    if root is None:
        return Declared()
    reader = _Reader(place)
    found = {key: value for key, value, _ in reader.mapping(root, "the file", ("streams", "kv", "objects"))}
    return Declared(
        streams={
            one.name: one for one in reader.declarations(found.get("streams"), "stream", _STREAM, has_consumers=True)
        },
        kv={one.name: one for one in reader.declarations(found.get("kv"), "bucket", _BUCKET)},
        objects={one.name: one for one in reader.declarations(found.get("objects"), "object store", _OBJECTS)},
    )


class _Reader:
    """Reads the nodes of one file."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._values = 0

    def declarations(
        self, node: Any, what: str, fields: Mapping[str, Any], *, has_consumers: bool = False
    ) -> Iterator[Declaration]:
        """Things by their names."""
        if node is None or node.tag == _NULL:
            return
        for name, body, line in self.mapping(node, f"{what}s"):
            if not name or any(letter in name for letter in " \t\r\n.*>/\\"):
                raise self.failure(line, f"{name!r} cannot be the name of a {what}")
            known = (*fields, "consumers") if has_consumers else tuple(fields)
            values: dict[str, Any] = {}
            consumers: dict[str, Declaration] | None = None
            entries = () if body.tag == _NULL else self.mapping(body, f"{what} {name}", known)
            for key, value, _ in entries:
                if key == "consumers" and has_consumers:
                    consumers = {one.name: one for one in self.declarations(value, "consumer", _CONSUMER)}
                else:
                    values[key] = self.value(value, fields[key], key)
            yield Declaration(name, values, line, consumers)

    def mapping(self, node: Any, what: str, known: tuple[str, ...] = ()) -> Iterator[tuple[str, Any, int]]:
        """Keys, the nodes of their values, and their lines; only known keys if some are."""
        if node.id != "mapping":
            raise self.failure(_line(node), f"{what}: keys with values are expected")
        seen: dict[str, int] = {}
        for key, value in self._merged(node):
            self._count(key)
            line = _line(key)
            if key.id != "scalar":
                raise self.failure(line, f"{what}: a key is a text")
            if key.value in seen:
                raise self.failure(line, f"{what}: {key.value!r} is there twice, first in line {seen[key.value]}")
            if known and key.value not in known:
                meant = near(key.value, known)
                hint = f"; did you mean {meant[0]!r}?" if meant else ""
                raise self.failure(line, f"{what}: unknown key {key.value!r}{hint}")
            seen[key.value] = line
            yield key.value, value, line

    def _merged(self, node: Any) -> list[tuple[Any, Any]]:
        """The entries of a mapping; what `<<` takes over comes last and yields to the mapping's own."""
        own = [(key, value) for key, value in node.value if key.tag != _MERGE]
        names = {key.value for key, _ in own if key.id == "scalar"}
        for key, value in node.value:
            if key.tag != _MERGE:
                continue
            for other in value.value if value.id == "sequence" else [value]:
                if other.id != "mapping" or other is node:
                    raise self.failure(_line(key), "<< takes over the entries of a mapping")
                for more_key, more in other.value:
                    if more_key.id == "scalar" and more_key.tag != _MERGE and more_key.value not in names:
                        names.add(more_key.value)
                        own.append((more_key, more))
        return own

    def value(self, node: Any, kind: Any, name: str) -> Any:
        """A value as its field wants it."""
        self._count(node)
        if isinstance(kind, GoPointer):
            return None if node.tag == _NULL else self.value(node, kind.target, name)
        if isinstance(kind, GoStruct):
            fields = {one.name: one.type for one in kind.fields}
            entries = self.mapping(node, name, tuple(fields))
            return {key: self.value(value, fields[key], key) for key, value, _ in entries}
        if isinstance(kind, GoMap):
            return {key: self._text(value, key) for key, value, _ in self.mapping(node, name)}
        if isinstance(kind, GoList):
            if node.id != "sequence":
                raise self.failure(_line(node), f"{name}: a list is expected")
            return [self.value(each, kind.element, name) for each in node.value]
        text = self._text(node, name)
        try:
            return _scalar(text, kind, name)
        except ValueError as error:
            raise self.failure(_line(node), f"{name}: {error}") from None

    def _text(self, node: Any, name: str) -> str:
        if node.id != "scalar" or node.tag == _NULL:
            raise self.failure(_line(node), f"{name}: a value is expected")
        return str(node.value)

    def _count(self, node: Any) -> None:
        self._values += 1
        if self._values > _VALUES_MAX:
            raise self.failure(_line(node), f"more than {_VALUES_MAX} values")

    def failure(self, line: int, text: str) -> Failure:
        """What is wrong, and where."""
        return Failure(f"{self._place}:{line}: {text}")


def _scalar(text: str, kind: Any, name: str) -> Any:
    """A single value from its text.

    Raises:
        ValueError: it is none of this kind.
    """
    if kind is BOOL:
        if text.lower() not in _TRUE | _FALSE:
            raise ValueError(f"{text!r} is not true or false")
        return text.lower() in _TRUE
    if kind is TIME:
        return to_rfc3339(parse_timestamp(text))
    if kind is DURATION:
        return int(text) if text.lstrip("-").isdecimal() else parse_duration(text)
    if isinstance(kind, GoInt):
        if name in _SIZES:
            return parse_bytes(text)
        if not text.lstrip("-").replace("_", "").isdecimal():
            raise ValueError(f"{text!r} is not a number")
        return int(text.replace("_", ""))
    if isinstance(kind, GoEnum) and f'"{text}"' not in kind.words:
        words = ", ".join(word[1:-1] for word in kind.words)
        raise ValueError(f"{text!r} is not one of {words}")
    return text


def _line(node: Any) -> int:
    line: int = node.start_mark.line
    return line + 1


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
