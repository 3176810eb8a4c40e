"""A configuration text with its name, and the places in it.

Lines and columns are counted as nats-server counts them, so that both servers point at the same place: a value is where
its key starts; columns are bytes, from 0 in the first line of a file and from 1 in every other.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from slipstream.config.options import Position
from slipstream.errors import ConfigError

__all__ = ["ConfigSyntaxError", "ConfigText"]


class ConfigSyntaxError(ConfigError):
    """The text is not a configuration. The message names the line itself, as nats-server's does."""

    def __str__(self) -> str:
        return self.message


class ConfigText:
    """One text with a name, and the arithmetic from offsets to lines and columns."""

    __slots__ = ("_newlines", "name", "text")

    def __init__(self, name: str, text: str) -> None:
        """Args: the path shown in errors, and the decoded text (undecodable bytes as surrogates)."""
        self.name = name
        self.text = text
        self._newlines: list[int] | None = None  # offsets of "\n", found when first needed

    def line(self, end: int) -> int:
        """1-based line of the character before `end`; a newline belongs to the line it opens."""
        if self._newlines is None:
            self._newlines = [match.start() for match in re.finditer("\n", self.text)]
        return bisect_left(self._newlines, end) + 1

    def position(self, start: int, end: int) -> Position:
        """Where an item is. Columns are bytes, from 0 in the first line and from 1 in every other."""
        line_start = max(self.text.rfind("\n", 0, start), 0)
        before = self.text[line_start:start]
        column = len(before) if before.isascii() else len(before.encode("utf-8", "replace"))
        return Position(self.name, self.line(end), column)

    def error(self, message: str, start: int, end: int) -> ConfigSyntaxError:
        """A syntax error at an item, with `message` as its whole text."""
        at = self.position(start, end)
        return ConfigSyntaxError(message, file=at.file, line=at.line, column=at.column)
