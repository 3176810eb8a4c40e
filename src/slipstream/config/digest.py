"""The digest of a configuration, the same one nats-server prints for the same file.

It covers the parsed values in a canonical JSON form, so comments, order and style do not change it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slipstream.config.parser import Value

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["config_digest"]

_escaped = re.compile('["\\\\<>&\x00-\x1f\u2028\u2029]').sub
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def config_digest(root: Value) -> str:
    """`sha256:` and the hash of the canonical form."""
    import hashlib

    parts: list[str] = []
    _encode(root, parts)
    parts.append("\n")
    return "sha256:" + hashlib.sha256("".join(parts).encode()).hexdigest()


def _encode(value: Value, parts: list[str]) -> None:
    """Append the canonical form. Recursion is as deep as the parser allows maps to be."""
    data = value.data
    if isinstance(data, dict):
        separator = "{"
        for key in sorted(data):
            parts.append(f"{separator}{_text(key)}:")
            _encode(data[key], parts)
            separator = ","
        parts.append("}" if data else "{}")
    elif isinstance(data, list):
        separator = "["
        for entry in data:
            parts.append(separator)
            _encode(entry, parts)
            separator = ","
        parts.append("]" if data else "[]")
    elif isinstance(data, str):
        parts.append(_text(data))
    elif isinstance(data, bool):
        parts.append("true" if data else "false")
    elif isinstance(data, float):
        parts.append(_float(data))
    elif isinstance(data, int):
        parts.append(str(data))
    else:
        parts.append(_date(data))


def _text(text: str) -> str:
    return '"' + _escaped(lambda match: _SHORT.get(match[0]) or f"\\u{ord(match[0]):04x}", text) + '"'


def _float(number: float) -> str:
    """Shortest digits that read back the same, without exponent between 1e-6 and 1e21."""
    from decimal import Decimal

    exact = Decimal(repr(number))
    if number == 0 or 1e-6 <= abs(number) < 1e21:
        plain = format(exact, "f")
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    sign, digits, exponent = exact.normalize().as_tuple()
    assert isinstance(exponent, int), "a configured float is finite"
    exponent += len(digits) - 1
    mantissa = str(digits[0]) + ("." + "".join(map(str, digits[1:])) if len(digits) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{exponent:+d}"


def _date(date: datetime) -> str:
    return date.strftime('"%Y-%m-%dT%H:%M:%SZ"')
