"""One plain JSON document, read by the standard parser, or the news that it has to be read more closely.

The standard parser agrees with Go's about nearly everything. It is not asked where it does not: a name that comes
twice, bytes that are no UTF-8, halves of surrogate pairs, numbers not written as integers, several documents, none.
"""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn

from slipstream.units import MIB

__all__ = ["Unusual", "parse"]

_BODY_BYTES_MAX: Final = 2 * MIB  # 50 ms; a configuration that is longer is nobody's
_OBJECTS_MAX: Final = 20_000  # each becomes a struct: 50 ms
# Halves of pairs, escaped; letters and digits, escaped, which words of an enumeration may not be; and a zero with a
# sign, which is no integer of Go's unsigned types.
_ODD: Final = re.compile(rb"\\u[dD][89a-fA-F]|\\u00(?:3[0-9]|[46][0-9a-fA-F]|[57][0-9aAfF])|[:,\[\s]-0")


class Unusual(Exception):
    """The document cannot be taken as it is."""


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Unusual
    return found


def _refuse(_text: str) -> NoReturn:
    raise Unusual


_decode = json.JSONDecoder(object_pairs_hook=_once, parse_float=_refuse, parse_constant=_refuse).decode


def parse(body: bytes) -> object:
    """The value of a document.

    Raises:
        Unusual: it has to be looked at more closely, perhaps because it is wrong.
    """
    if not body or len(body) > _BODY_BYTES_MAX or body.count(b"{") > _OBJECTS_MAX:
        raise Unusual
    if (b"\\u" in body or b"-0" in body) and _ODD.search(body):
        raise Unusual
    try:
        return _decode(body.decode())
    except (ValueError, RecursionError):
        raise Unusual from None
