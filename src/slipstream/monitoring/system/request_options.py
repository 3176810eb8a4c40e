"""The JSON of a `$SYS` request: options of an endpoint, and which servers should answer.

Read as Go reads it: names in any case, unknown ones ignored, `null` for "as it was". What does not fit is refused with
Go's words, because operators meet them in their tools.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from slipstream.jetstream.gojson import JsonError
from slipstream.jetstream.gojson.scan import go_quote, skip_blank, value_end
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.limits import SYSTEM_REQUEST_BYTES_MAX

__all__ = ["BadOptions", "ServerFilter", "concerns", "read_options"]

T = TypeVar("T", bound=msgspec.Struct)

_INT_MIN, _INT_MAX, _UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
_GO_TYPES: Mapping[object, str] = {bool: "bool", int: "int", str: "string", list[str]: "[]string"}
# Numbers that are never negative in nats-server, and fields whose types have names of their own there.
_UNSIGNED = frozenset({"cid"})
_NAMED_TYPES = {"cid": "uint64", "sort": "server.SortOpt", "state": "server.ConnState"}
_OFFSET = re.compile(r" at offset \d+$")


class BadOptions(Exception):
    """The options cannot be read; the text is Go's."""


class ServerFilter(msgspec.Struct, kw_only=True):
    """Which servers should answer; an empty field means any."""

    server_name: str = ""
    cluster: str = ""
    host: str = ""
    exact_match: bool = False  # otherwise a part of a name is enough
    tags: list[str] = []  # all of them
    domain: str = ""


def read_options(body: bytes, kind: type[T], go_name: str) -> tuple[T, ServerFilter]:
    """Read one request.

    Args:
        body: the payload; empty for no options.
        kind: the options of the endpoint.
        go_name: what nats-server calls them, for complaints.

    Raises:
        BadOptions: it is not the JSON it should be.
    """
    if not body:
        return kind(), ServerFilter()
    if len(body) > SYSTEM_REQUEST_BYTES_MAX:
        raise BadOptions(f"request of {len(body)} bytes is too large")
    try:
        end = skip_blank(body, value_end(body, 0))
    except JsonError as error:
        raise BadOptions(_about_one_document(str(error))) from None
    if end < len(body):
        shown = body[end:].decode("utf-8", "replace")[0]
        raise BadOptions(f"invalid character {go_quote(shown).replace(chr(34), chr(39))} after top-level value")
    given = _decoded(body)
    if given is None:
        return kind(), ServerFilter()
    if not isinstance(given, dict):
        raise BadOptions(f"json: cannot unmarshal {_kind(given)} into Go value of type server.{go_name}")
    values = {str(key).lower(): value for key, value in given.items() if value is not None}
    return _filled(kind, values, go_name), _filled(ServerFilter, values, go_name)


def _about_one_document(text: str) -> str:
    """The scanner's complaints are those about a stream of documents; Go says less about a single one."""
    return "unexpected end of JSON input" if text in ("EOF", "unexpected EOF") else _OFFSET.sub("", text)


def concerns(facts: Facts, wanted: ServerFilter) -> bool:
    """Whether this server should answer."""
    options = facts.options
    names = (
        (wanted.server_name, facts.server_name),
        (wanted.host, facts.hub.host),
        (wanted.cluster, options.cluster.name),
    )
    if wanted.exact_match:
        fits = all(name in ("", own) for name, own in names)
    else:
        fits = all(name in own for name, own in names)
    return (
        fits
        and all(tag.strip().lower() in options.server_tags for tag in wanted.tags)
        and wanted.domain in ("", options.jetstream.domain)
    )


def _decoded(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except UnicodeDecodeError:
        return msgspec.json.decode(body.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadOptions(str(error)) from None


def _filled(kind: type[T], values: Mapping[str, object], go_name: str) -> T:
    filled = {}
    for field in msgspec.structs.fields(kind):
        name = field.encode_name
        if name in values:
            value = values[name]
            if not _fits(value, field.type, unsigned=name in _UNSIGNED):
                type_name = _NAMED_TYPES.get(name) or _GO_TYPES[field.type]
                # A number is quoted only where another number would have done.
                number = f" {value}" if field.type is int and _kind(value) == "number" else ""
                place = f"Go struct field {go_name}.{name} of type {type_name}"
                raise BadOptions(f"json: cannot unmarshal {_kind(value)}{number} into {place}")
            filled[field.name] = value
    return kind(**filled)


def _fits(value: object, wanted: object, *, unsigned: bool) -> bool:
    if wanted is int:
        lowest, highest = (0, _UINT_MAX) if unsigned else (_INT_MIN, _INT_MAX)
        return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest
    if wanted == list[str]:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return isinstance(value, bool if wanted is bool else str)


def _kind(value: object) -> str:
    """Go's word for a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
