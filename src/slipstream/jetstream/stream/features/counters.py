"""Counters: a message adds `Nats-Incr` to the value under its subject, and is stored with the new value as its body.

The body is `{"val":"<number>"}`; numbers have as many digits as they need. A message that comes from another counter
stream (`Nats-Stream-Source`) brings that stream's whole value: what is added is the difference to what came from there
before, which `Nats-Counter-Sources` remembers by stream and subject.

What this is not: storing. `counted` gives what has to be stored in the place of what came.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from slipstream.errors import UNREADABLE, ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson import JsonError, encode
from slipstream.jetstream.gojson.bind import Field, GoStruct
from slipstream.jetstream.gojson.scalars import STRING
from slipstream.jetstream.stream.admission.ingest_ports import Newest

__all__ = ["CountedMessage", "counted", "increment_of", "number", "refusal", "text_of_number"]

_INTEGER = re.compile(rb"[+-]?[0-9]+")
_CHUNK = 4000  # digits the interpreter converts at once
_INCOMPATIBLE = (
    b"Nats-Rollup",
    b"Nats-Expected-Stream",
    b"Nats-Expected-Last-Msg-Id",
    b"Nats-Expected-Last-Subject-Sequence-Subject",
    b"Nats-Expected-Last-Sequence",
    b"Nats-Expected-Last-Subject-Sequence",
)


class _Value(msgspec.Struct):
    val: str = ""


_VALUE = GoStruct("CounterValue", _Value, (Field("val", STRING),))
Sources = dict[str, dict[str, str]]
"""Stream, subject there, value of that counter."""


class _Total(NamedTuple):
    """What a counter is at, and what came from other streams so far."""

    value: int
    sources: Sources


class CountedMessage(NamedTuple):
    """What is stored in the place of a message that counts."""

    header: bytes
    payload: bytes


def increment_of(header: bytes) -> bytes | None:
    """The increment as it is written, None if there is none."""
    return headers.find(header, b"Nats-Incr") or None


def refusal(header: bytes, payload: bytes, *, allowed: bool) -> ApiError | None:
    """Why a message with this header must not count."""
    increment = increment_of(header)
    if increment is None:
        return None
    if not _INTEGER.fullmatch(increment):
        return TableError(table.MESSAGE_INCR_INVALID)
    if not allowed:
        return TableError(table.MESSAGE_INCR_DISABLED)
    if payload:
        return TableError(table.MESSAGE_INCR_PAYLOAD)
    if any(headers.find(header, name) for name in _INCOMPATIBLE):
        return TableError(table.MESSAGE_INCR_INVALID)
    return None


def counted(subject: bytes, header: bytes, payload: bytes, newest: Newest) -> CountedMessage | ApiError:
    """What to store for a message that passed `refusal`.

    Args:
        subject: of the counter.
        header: of the message.
        payload: of the message: empty, or the origin's value.
        newest: finds what the counter is at.
    """
    written = increment_of(header)
    if written is None:
        return TableError(table.MESSAGE_INCR_MISSING)
    if not _INTEGER.fullmatch(written):
        return TableError(table.MESSAGE_INCR_INVALID)
    total = _total(newest(subject))
    if total is None:
        return TableError(table.MESSAGE_COUNTER_BROKEN)
    increment, sources = number(written), total.sources
    origin = headers.find(header, b"Nats-Stream-Source")
    if origin:
        theirs = _value(payload)
        if theirs is None:
            return TableError(table.MESSAGE_COUNTER_BROKEN)
        fields = origin.decode("utf-8", "replace").split(" ")
        stream, source_subject = fields[0], fields[4] if len(fields) >= 5 else subject.decode("utf-8", "replace")
        known = sources.get(stream, {})
        increment = theirs - _number_or_zero(known.get(source_subject, ""))
        sources = {**sources, stream: {**known, source_subject: text_of_number(theirs)}}
        header = headers.put(header, b"Nats-Incr", text_of_number(increment).encode())
    if sources:
        ordered = {name: dict(sorted(sources[name].items())) for name in sorted(sources)}
        header = headers.put(header, b"Nats-Counter-Sources", encode(ordered))
    return CountedMessage(header, b'{"val":"%b"}' % text_of_number(total.value + increment).encode())


def _total(last: tuple[bytes, bytes] | None) -> _Total | None:
    """The total that a message leaves behind: zero if there is none, None if it is no counter."""
    if last is None:
        return _Total(0, {})
    header, payload = last
    value = _value(payload)
    if value is None:
        return None
    written = headers.find(header, b"Nats-Counter-Sources") if header else None
    if not written:
        return _Total(value, {})
    try:
        return _Total(value, msgspec.json.decode(written, type=Sources))
    except UNREADABLE:
        return None


def _value(payload: bytes) -> int | None:
    """The number in the body of a counter; None if it is no such body."""
    if not payload.strip():
        return None
    try:
        return _number_or_zero(_VALUE.decode(payload, strict=False).val)
    except JsonError:
        return None


def _number_or_zero(text: str) -> int:
    raw = text.encode()
    return number(raw) if _INTEGER.fullmatch(raw) else 0


def number(text: bytes) -> int:
    """An integer of any length."""
    digits = text.lstrip(b"+-")
    if len(digits) <= _CHUNK:
        return int(text)
    value = 0
    for at in range(0, len(digits), _CHUNK):
        part = digits[at : at + _CHUNK]
        value = value * 10 ** len(part) + int(part)
    return -value if text[:1] == b"-" else value


def text_of_number(value: int) -> str:
    """The digits of an integer of any length."""
    if value < 0:
        return "-" + text_of_number(-value)
    parts: list[str] = []
    limit = 10**_CHUNK
    while value >= limit:
        value, rest = divmod(value, limit)
        parts.append(f"{rest:0{_CHUNK}d}")
    parts.append(str(value))
    return "".join(reversed(parts))
