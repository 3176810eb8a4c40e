"""JSON bytes as Go's encoder writes them: no blanks, and `<`, `>`, `&` escaped inside strings.

The three characters can only occur inside strings, so replacing them in the finished bytes is exact.
"""

from __future__ import annotations

import msgspec

__all__ = ["encode"]

_encoder = msgspec.json.Encoder()
_ESCAPES = (
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    (b"&", rb"\u0026"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)


def encode(value: object) -> bytes:
    """`value` (dicts in order, lists, texts, numbers, bytes as base64) as Go would write it."""
    text = _encoder.encode(value)
    for plain, escaped in _ESCAPES:
        if plain in text:
            text = text.replace(plain, escaped)
    return text
