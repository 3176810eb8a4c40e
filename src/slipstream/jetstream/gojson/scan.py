"""Syntax of JSON as Go's decoder reports it: where a value ends, or what is wrong and at which offset.

Clients and their tests compare the text of error 10025, so the words and offsets below are those of Go's
`encoding/json`. Nothing here builds values (`bind` does) and nothing recurses: nesting is a counter and a byte stack,
bounded by `JSON_DEPTH_MAX`, so a body of 100,000 brackets costs no more than its first 10,000. The number of values is
bounded too (`JSON_VALUES_MAX`, our own limit; values around the present one are not counted), because this runs on the
event loop.

An offset in an error is the number of bytes read when the error was seen, so it points behind the offending rune.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import Final

__all__ = [
    "JsonError",
    "JsonSyntaxError",
    "behind_document",
    "elements",
    "go_quote",
    "members",
    "skip_blank",
    "value_end",
    "without_offset",
]

# Containers inside each other in a request body: Go's decoder, and so nats-server, refuses deeper ones.
JSON_DEPTH_MAX: Final = 10_000
# Values in one request body that has to be read byte by byte, because something in it is unusual or wrong; plain lists
# of scalars are not counted. About 50 ms.
JSON_VALUES_MAX: Final = 5_000


class JsonError(Exception):
    """A body that cannot be read; `str()` is the text behind `invalid JSON: `."""


class JsonSyntaxError(JsonError):
    """The body is not JSON. Go appends the offset to these, except when the body merely ends too early."""


_BLANK = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"')
_NUMBER = re.compile(rb"-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+")
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
# One run of scalars each followed by a comma: lets a long flat array be skipped without a step per element.
_SCALAR_RUN = re.compile(
    rb'(?:[ \t\r\n]*+(?:"[^"\\\x00-\x1f]*+"|-?+(?:0|[1-9][0-9]*+)(?![0-9.eE])|true|false|null)[ \t\r\n]*+,)++'
)
_OPEN_OBJECT, _OPEN_ARRAY = ord("{"), ord("[")
_CLOSE_OBJECT, _CLOSE_ARRAY = ord("}"), ord("]")
_COMMA, _COLON, _QUOTE, _MINUS = ord(","), ord(":"), ord('"'), ord("-")
_DIGITS = frozenset(b"0123456789")

_IN_VALUE = "looking for beginning of value"
_IN_KEY = "looking for beginning of object key string"
_AFTER_KEY = "after object key"
_AFTER_PAIR = "after object key:value pair"
_AFTER_ELEMENT = "after array element"


def skip_blank(data: bytes, at: int) -> int:
    """The first offset at or after `at` that is not JSON white space."""
    match = _BLANK.match(data, at)
    assert match is not None
    return match.end()


def value_end(data: bytes, at: int) -> int:
    """The offset behind the value that starts at `at` (blanks before it are skipped).

    Raises:
        JsonSyntaxError: if the bytes there are not one complete JSON value.
    """
    containers = bytearray()  # the opening byte of each container we are inside of
    for values in count():
        if values - len(containers) > JSON_VALUES_MAX:
            raise JsonError(f"more than {JSON_VALUES_MAX} values in one document")
        # Here a value has to begin.
        at = skip_blank(data, at)
        if at >= len(data):
            raise _ended()
        first = data[at]
        if first == _OPEN_OBJECT:
            at = _enter(containers, first, at)
            peeked = skip_blank(data, at)
            if peeked < len(data) and data[peeked] == _CLOSE_OBJECT:
                containers.pop()
                at = peeked + 1
            else:
                at = _key_end(data, peeked)
                continue
        elif first == _OPEN_ARRAY:
            at = _enter(containers, first, at)
            peeked = skip_blank(data, at)
            if peeked < len(data) and data[peeked] == _CLOSE_ARRAY:
                containers.pop()
                at = peeked + 1
            else:
                run = _SCALAR_RUN.match(data, peeked)
                at = run.end() if run is not None else peeked
                continue
        else:
            at = _scalar_end(data, at)
        # Here a value has ended: close containers until one of them goes on.
        while containers:
            at = skip_blank(data, at)
            if at >= len(data):
                raise _ended()
            byte = data[at]
            inside = containers[-1]
            if byte == _COMMA:
                at += 1
                if inside == _OPEN_OBJECT:
                    at = _key_end(data, skip_blank(data, at))
                break
            if byte == (_CLOSE_OBJECT if inside == _OPEN_OBJECT else _CLOSE_ARRAY):
                containers.pop()
                at += 1
                continue
            raise _unexpected(data, at, _AFTER_PAIR if inside == _OPEN_OBJECT else _AFTER_ELEMENT)
        else:
            return at
    raise AssertionError("counting does not end")


def members(data: bytes, at: int) -> Iterator[tuple[bytes, int, int]]:
    """Key (with its quotes), start and end of each value of the object at `at`, which `value_end` has accepted."""
    assert data[at] == _OPEN_OBJECT
    at = skip_blank(data, at + 1)
    while data[at] != _CLOSE_OBJECT:
        key = _STRING.match(data, at)
        assert key is not None
        start = skip_blank(data, skip_blank(data, key.end()) + 1)
        end = value_end(data, start)
        yield key.group(), start, end
        at = skip_blank(data, end)
        if data[at] == _COMMA:
            at = skip_blank(data, at + 1)


def elements(data: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Start and end of each value of the array at `at`, which `value_end` has accepted."""
    assert data[at] == _OPEN_ARRAY
    at = skip_blank(data, at + 1)
    while data[at] != _CLOSE_ARRAY:
        end = value_end(data, at)
        yield at, end
        at = skip_blank(data, end)
        if data[at] == _COMMA:
            at = skip_blank(data, at + 1)


def _enter(containers: bytearray, opening: int, at: int) -> int:
    """Go one level deeper; the offset behind the opening byte."""
    if len(containers) >= JSON_DEPTH_MAX:
        raise JsonSyntaxError(f"exceeded max depth at offset {at + 1}")
    containers.append(opening)
    return at + 1


def _key_end(data: bytes, at: int) -> int:
    """The offset behind the key at `at` and its colon."""
    if at >= len(data):
        raise _ended()
    if data[at] != _QUOTE:
        raise _unexpected(data, at, _IN_KEY)
    at = skip_blank(data, _string_end(data, at))
    if at >= len(data):
        raise _ended()
    if data[at] != _COLON:
        raise _unexpected(data, at, _AFTER_KEY)
    return at + 1


def _scalar_end(data: bytes, at: int) -> int:
    """The offset behind the string, number or word at `at`."""
    first = data[at]
    if first == _QUOTE:
        return _string_end(data, at)
    if first == _MINUS or first in _DIGITS:
        return _number_end(data, at)
    word = _LITERALS.get(first)
    if word is None:
        raise _unexpected(data, at, _IN_VALUE)
    for index, expected in enumerate(word):
        if at + index >= len(data):
            raise _ended()
        if data[at + index] != expected:
            raise _unexpected(data, at + index, f"in literal {word.decode()} (expecting {chr(expected)!r})")
    return at + len(word)


def _string_end(data: bytes, at: int) -> int:
    match = _STRING.match(data, at)
    if match is not None:
        return match.end()
    # Not a complete string: walk it to say why. Rare, and it stops at the first bad byte.
    at += 1
    while at < len(data):
        byte = data[at]
        if byte == _QUOTE:
            raise AssertionError("the string pattern rejects a string without a fault")
        if byte < 0x20:
            raise _unexpected(data, at, "in string")
        if byte != ord("\\"):
            at += 1
            continue
        if at + 1 >= len(data):
            break
        if data[at + 1] != ord("u"):
            if data[at + 1] not in b'"\\/bfnrt':
                raise _bad_escape(data, at, 2)
            at += 2
            continue
        digits = data[at + 2 : at + 6]
        if any(digit not in b"0123456789abcdefABCDEF" for digit in digits):
            raise _bad_escape(data, at, 6)
        at += 2 + len(digits)
    raise _ended()


def _number_end(data: bytes, at: int) -> int:
    match = _NUMBER.match(data, at)
    end = match.end() if match is not None else at + 1  # a lone minus sign does not match
    if match is not None and (end >= len(data) or data[end] not in b".eE"):
        return end
    # A fraction or exponent that has begun must go on with a digit.
    if match is not None:
        exponent = data[end] in b"eE"
        end += 1
        if exponent and end < len(data) and data[end] in b"+-":
            end += 1
    if end >= len(data):
        raise _ended()
    raise _unexpected(data, end, "in numeric literal")


def behind_document(data: bytes, at: int) -> JsonSyntaxError:
    """What is wrong with a body that goes on at `at`, where one document has ended."""
    return _unexpected(data, at, "after top-level value")


def without_offset(error: JsonSyntaxError) -> JsonSyntaxError:
    """The same as Go says it when it was given one document instead of a stream of them."""
    text = re.sub(r" at offset [0-9]+$", "", str(error))
    return JsonSyntaxError("unexpected end of JSON input" if text == "unexpected EOF" else text)


def _ended() -> JsonSyntaxError:
    return JsonSyntaxError("unexpected EOF")


def _unexpected(data: bytes, at: int, where: str) -> JsonSyntaxError:
    text, size = _rune(data, at)
    return JsonSyntaxError(f"invalid character {text} {where} at offset {at + size}")


def _bad_escape(data: bytes, at: int, size: int) -> JsonSyntaxError:
    raw = data[at : at + size]
    text = raw.decode("utf-8", "replace")
    plain = text.isprintable() and "`" not in text and "\ufffd" not in text and " " not in text
    shown = f"`{text}`" if plain else go_quote(text)
    return JsonSyntaxError(f"invalid escape sequence {shown} in string at offset {at + len(raw)}")


def _rune(data: bytes, at: int) -> tuple[str, int]:
    """The character at `at` as Go quotes it, and its size in bytes; a byte that is no UTF-8 counts alone."""
    for size in (1, 2, 3, 4):
        try:
            char = data[at : at + size].decode()
        except UnicodeDecodeError:
            continue
        if len(char) == 1:
            if char == "'":
                return r"'\''", size
            return "'" + (char if char == '"' else go_quote(char)[1:-1]) + "'", size
    return f"'\\x{data[at]:02x}'", 1


_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}


def go_quote(text: str) -> str:
    """`text` as Go's `%q` prints it: double quotes, backslash escapes for what does not print."""
    return '"' + "".join(_quoted_char(char) for char in text) + '"'


def _quoted_char(char: str) -> str:
    escaped = _ESCAPES.get(char)
    if escaped is not None:
        return escaped
    if char.isprintable():
        return char
    point = ord(char)
    if point < 0x80:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
