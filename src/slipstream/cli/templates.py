"""`{{Count}}` and its relatives in bodies, subjects and headers, as `nats` knows them.

A text is compiled once and expanded for each message. Functions get the number of the message, the time and randomness
from outside. What stands in braces and is no function is an error, so that a misspelt name is not published.
"""

from __future__ import annotations

import random
import re
import secrets
import string
from collections.abc import Callable
from datetime import datetime
from typing import Final

from slipstream.errors import SlipstreamError

__all__ = ["FUNCTIONS_HELP", "Template", "TemplateError"]

FUNCTIONS_HELP: Final = """\b
{{Count}}           number of the message, from 1
{{TimeStamp}}       current time, RFC 3339
{{Time}}            current time of day
{{Unix}}            seconds since 1970
{{UnixNano}}        nanoseconds since 1970
{{ID}}              a unique id
{{Random MIN MAX}}  random letters and digits, between MIN and MAX of them
"""

_LETTERS: Final = string.ascii_letters + string.digits
_RANDOM_MAX: Final = 64 * 1024 * 1024  # no server takes more in one message
_CALL: Final = re.compile(r"\{\{-?\s*\.?(\w+)\s*(?:\(?\s*(\d{1,9})[\s,]+(\d{1,9})\s*\)?)?\s*-?\}\}")


class TemplateError(SlipstreamError):
    """A template that cannot be expanded."""


Part = str | Callable[[int], str]


class Template:
    """A text with functions, ready to be expanded."""

    def __init__(self, text: str, request: str = "") -> None:
        """Compile a text; `{{Request}}` is the payload that is being answered.

        Raises:
            TemplateError: unknown function, wrong arguments, or braces without a function.
        """
        self._parts: list[Part] = []
        at = 0
        for call in _CALL.finditer(text):
            self._parts += [text[at : call.start()], _function(call[1], call[2], call[3], request)]
            at = call.end()
        self._parts.append(text[at:])
        for part in self._parts:
            if isinstance(part, str) and "{{" in part:
                raise TemplateError(f"no template function here: {part[part.index('{{') :][:40]!r}")

    @property
    def is_constant(self) -> bool:
        """Every expansion is the same."""
        return len(self._parts) == 1

    def expand(self, count: int) -> str:
        """The text for the message with this number."""
        return "".join(part if isinstance(part, str) else part(count) for part in self._parts)


def _function(name: str, least: str | None, most: str | None, request: str) -> Part:
    if name == "Random":
        return _random(least, most)
    function = _PLAIN.get(name) if name != "Request" else lambda _: request
    if function is None:
        raise TemplateError(f"unknown template function {name!r}")
    if least is not None:
        raise TemplateError(f"template function {name!r} takes no arguments")
    return function


def _random(least: str | None, most: str | None) -> Part:
    if least is None or most is None:
        raise TemplateError("Random takes two numbers: {{Random 10 100}}")
    shortest, longest = int(least), int(most)
    if not shortest <= longest <= _RANDOM_MAX:
        raise TemplateError(f"Random cannot make between {least} and {most} letters")

    def text(_: int) -> str:
        return "".join(random.choices(_LETTERS, k=random.randint(shortest, longest)))

    return text


def _nanoseconds(_: int) -> str:
    from time import time_ns

    return str(time_ns())


_PLAIN: Final[dict[str, Callable[[int], str]]] = {
    "Count": str,
    "Cnt": str,
    "TimeStamp": lambda _: datetime.now().astimezone().isoformat(timespec="seconds"),
    "Time": lambda _: datetime.now().strftime("%I:%M%p").lstrip("0"),
    "Unix": lambda _: str(int(datetime.now().timestamp())),
    "UnixNano": _nanoseconds,
    "ID": lambda _: secrets.token_hex(11),
}
