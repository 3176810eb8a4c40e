"""Parameters of a monitoring request, read with the rules and the complaints of Go's `net/url` and `strconv`.

The first of several values counts; an empty one counts as absent; what cannot be decoded is ignored. A number or a
boolean that cannot be read is refused with nats-server's text, because scripts look at it.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from slipstream.errors import SlipstreamError
from slipstream.jetstream.gojson.scan import go_quote

__all__ = ["BadRequest", "UrlQuery", "decode_component"]

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INT_MIN, _INT_MAX, _UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
_DIGITS_MAX = 20  # of any 64-bit number; int() of a very long text is slow
_BROKEN_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")


class BadRequest(SlipstreamError):
    """A request that makes no sense: status 400 over HTTP, an error in the answer over `$SYS`."""


class UrlQuery:
    """The part of a URL after the question mark."""

    def __init__(self, text: str) -> None:
        """Read it; nothing raises here."""
        self._values: dict[str, str] = {}
        for part in text.split("&"):
            # Go refuses the old separator `;` and drops the whole part.
            if not part or ";" in part:
                continue
            name, _, value = part.partition("=")
            key, decoded = decode_component(name, plus=True), decode_component(value, plus=True)
            if key is not None and decoded is not None:
                self._values.setdefault(key, decoded)

    def text(self, name: str) -> str:
        """The value, empty if absent."""
        return self._values.get(name, "")

    def flag(self, name: str) -> bool:
        """A boolean.

        Raises:
            BadRequest: it is none of Go's twelve words.
        """
        value = self.text(name)
        if not value or value in _FALSE:
            return False
        if value in _TRUE:
            return True
        raise BadRequest(f"Error decoding boolean for '{name}': strconv.ParseBool: parsing {_quoted(value)}")

    def integer(self, name: str) -> int:
        """A signed 64-bit number; 0 if absent.

        Raises:
            BadRequest: it is not one.
        """
        value = self.text(name)
        if not value:
            return 0
        try:
            return _parsed(value, _INTEGER, _INT_MIN, _INT_MAX)
        except ValueError as error:
            raise BadRequest(f"Error decoding int for '{name}': strconv.Atoi: {error}") from None

    def unsigned(self, name: str) -> int:
        """An unsigned 64-bit number; 0 if absent.

        Raises:
            BadRequest: it is not one.
        """
        value = self.text(name)
        if not value:
            return 0
        try:
            return _parsed(value, _UNSIGNED, 0, _UINT_MAX)
        except ValueError as error:
            raise BadRequest(f"Error decoding uint64 for '{name}': strconv.ParseUint: {error}") from None


def decode_component(text: str, *, plus: bool) -> str | None:
    """A piece of a URL without its percent escapes; None when an escape is broken.

    Args:
        text: the piece.
        plus: whether `+` stands for a blank, as it does in queries.
    """
    if plus:
        text = text.replace("+", " ")
    if "%" not in text:
        return text
    if _BROKEN_ESCAPE.search(text):
        return None
    return unquote_to_bytes(text).decode("utf-8", "surrogateescape")


def _parsed(value: str, form: re.Pattern[str], lowest: int, highest: int) -> int:
    if not form.fullmatch(value):
        raise ValueError(f"parsing {_quoted(value)}")
    sign, digits = ("-", value[1:]) if value.startswith("-") else ("", value.lstrip("+"))
    digits = digits.lstrip("0") or "0"
    if len(digits) > _DIGITS_MAX or not lowest <= int(sign + digits) <= highest:
        raise ValueError(f"parsing {go_quote(value)}: value out of range")
    return int(sign + digits)


def _quoted(value: str) -> str:
    return f"{go_quote(value)}: invalid syntax"
