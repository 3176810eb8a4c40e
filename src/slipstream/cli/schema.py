"""`slipstream schema`: the documents of the JetStream API, as JSON Schema and checked by the reader the server uses."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from slipstream.cli.connection import Failure, LocalCommand
from slipstream.cli.lazy import LazyGroup, Verb
from slipstream.cli.render import print_json, print_names, say
from slipstream.cli.types import json_flag

if TYPE_CHECKING:
    from slipstream.jetstream.gojson.bind import GoStruct
    from slipstream.jetstream.gojson.scalars import GoType
    from slipstream.jetstream.gojson.scan import JsonError

__all__ = ["explained", "info", "ls", "schema", "validate"]

_PREFIX: Final = "io.nats.jetstream.api.v1."


_HERE: Final = "slipstream.cli.schema"
VERBS: Final = {
    "ls": Verb(f"{_HERE}:ls", "List document types.", ("search", "find", "list")),
    "info": Verb(f"{_HERE}:info", "Show a type as JSON Schema.", ("show", "view")),
    "validate": Verb(f"{_HERE}:validate", "Check a document.", ("check",)),
}


@click.group(cls=LazyGroup, entries=VERBS)
def schema() -> None:
    """Look up and check the documents of the JetStream API."""


@click.command(cls=LocalCommand)
@click.argument("pattern", default="")
@json_flag
def ls(pattern: str, as_json: bool) -> None:
    """List document types whose name matches PATTERN, a regular expression."""
    try:
        names = [name for name in sorted(_documents()) if re.search(pattern, name)]
    except re.error as error:
        raise Failure(f"{pattern!r} is no regular expression: {error}") from error
    if as_json:
        print_json(names)
    else:
        print_names(names)


@click.command(cls=LocalCommand)
@click.argument("name")
def info(name: str) -> None:
    """Show the type NAME as JSON Schema."""
    document = _document(name)
    print_json({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, **_struct(document)})


@click.command(cls=LocalCommand)
@click.argument("name")
@click.argument("file", default="-")
def validate(name: str, file: str) -> None:
    """Check that FILE, or standard input, is a document of the type NAME."""
    from slipstream.jetstream.gojson.scan import JsonError

    content = sys.stdin.buffer.read() if file == "-" else _content(file)
    shown = "standard input" if file == "-" else file
    document = _document(name)
    try:
        document.decode(content)
    except JsonError as error:
        raise Failure(f"{shown} is no {name}: {explained(error, document, content)}") from error
    say(f"{shown} validates using schema {name}")


_WRONG_WORD: Final = "can not unmarshal"
_WRONG_TYPE: Final = re.compile(
    r"json: cannot unmarshal (.+) into (?:Go value|(?:Go struct field )?\w+\.(\S+)) of type (\S+)"
)


def explained(error: JsonError, document: GoStruct[Any], content: bytes) -> str:
    """What is wrong with a document, in words of JSON instead of the server's, which are of Go."""
    found = _WRONG_TYPE.fullmatch(str(error))
    if found is None and str(error).startswith(_WRONG_WORD):
        return next(_wrong_words(document, json.loads(content), ""), str(error))
    if found is None:
        return str(error).removeprefix("json: ")
    article = "an" if found[1][0] in "aeiou" else "a"
    return f"{found[2] or 'the document'} is {article} {found[1]}, which does not fit the type {found[3]}"


def _wrong_words(kind: GoType, value: Any, where: str) -> Iterator[str]:
    """The fields whose value is none of the words they may have."""
    from slipstream.jetstream.gojson.bind import GoList, GoPointer, GoStruct
    from slipstream.jetstream.gojson.scalars import GoEnum

    match kind:
        case GoPointer():
            yield from _wrong_words(kind.target, value, where)
        case GoList() if isinstance(value, list):
            for element in value:
                yield from _wrong_words(kind.element, element, where)
        case GoStruct() if isinstance(value, dict):
            for field in kind.fields:
                if field.name in value:
                    yield from _wrong_words(field.type, value[field.name], f"{where}.{field.name}".lstrip("."))
        case GoEnum():
            words = [word.strip('"') for word in kind.words]
            if value not in words:
                yield f"{where} is {json.dumps(value)}; it may be {', '.join(filter(None, words))}"


def _content(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}") from error


def _document(name: str) -> GoStruct[Any]:
    documents = _documents()
    found = documents.get(name) or documents.get(_PREFIX + name)
    if found is None:
        raise Failure(f"there is no document type {name!r}; `slipstream schema ls` lists them")
    return found


def _documents() -> dict[str, GoStruct[Any]]:
    from slipstream.jetstream.api import bodies
    from slipstream.jetstream.config import structs

    tables: dict[str, GoStruct[Any]] = {
        "stream_configuration": structs.STREAM_CONFIG,
        "stream_create_request": structs.STREAM_CONFIG_REQUEST,
        "stream_update_request": structs.STREAM_CONFIG_REQUEST,
        "stream_source": structs.SOURCE,
        "placement": structs.PLACEMENT,
        "external_stream_source": structs.EXTERNAL,
        "subject_transform": structs.TRANSFORM,
        "stream_names_request": bodies.STREAM_NAMES,
        "stream_list_request": bodies.STREAM_LIST,
        "stream_info_request": bodies.STREAM_INFO,
        "stream_purge_request": bodies.STREAM_PURGE,
        "stream_msg_get_request": bodies.MSG_GET,
        "stream_msg_delete_request": bodies.MSG_DELETE,
        "consumer_configuration": structs.CONSUMER_CONFIG,
    }
    return {f"{_PREFIX}{name}": table for name, table in tables.items()}


def _struct(table: GoStruct[Any]) -> dict[str, Any]:
    properties = {field.name: _schema_of(field.type) for field in table.fields}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _schema_of(kind: GoType) -> dict[str, Any]:
    from slipstream.jetstream.gojson.bind import GoList, GoMap, GoPointer, GoStruct
    from slipstream.jetstream.gojson.scalars import GoEnum, GoInt

    match kind:
        case GoStruct():
            return _struct(kind)
        case GoPointer():
            return _schema_of(kind.target)
        case GoList():
            return {"type": "array", "items": _schema_of(kind.element)}
        case GoMap():
            return {"type": "object", "additionalProperties": {"type": "string"}}
        case GoEnum():
            return {"type": "string", "enum": [word.strip('"') for word in kind.words]}
        case GoInt():
            unit = {"description": "nanoseconds"} if kind.name == "time.Duration" else {}
            return {"type": "integer", "minimum": kind.low, "maximum": kind.high, **unit}
    return {"bool": {"type": "boolean"}, "time.Time": {"type": "string", "format": "date-time"}}.get(
        kind.name, {"type": "string"}
    )
