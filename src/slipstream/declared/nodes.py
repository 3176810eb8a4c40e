"""What declarations are written in, whatever the syntax: maps, lists and words that know their place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol

from slipstream.errors import SlipstreamError

__all__ = ["DeclarationError", "NodeKind", "TextPlace", "ValueNode"]

# A word means what its field wants. Numbers and flags are only told apart where the syntax has done so already.
NodeKind = Literal["map", "list", "word", "number", "flag", "null"]


class TextPlace(NamedTuple):
    """Where something is written."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class DeclarationError(SlipstreamError):
    """What is declared cannot be read; the text names the place."""

    def __init__(self, place: TextPlace | None, message: str) -> None:
        """Say what is wrong, and where."""
        super().__init__(message if place is None else f"{place}: {message}")
        self.place = place
        self.message = message


class ValueNode(Protocol):
    """One value, read as far as it is asked for: aliases can make very much of a short text."""

    @property
    def kind(self) -> NodeKind:
        """What it is."""
        ...

    @property
    def place(self) -> TextPlace:
        """Where it is."""
        ...

    @property
    def text(self) -> str:
        """What is written there; only for words, numbers and flags."""
        ...

    @property
    def is_variable(self) -> bool:
        """Whether it is there for others to refer to, so that its key need not mean anything."""
        ...

    def entries(self) -> Iterable[tuple[str | None, TextPlace, ValueNode]]:
        """Keys of a map with their places and values; None for a key that is no text."""
        ...

    def elements(self) -> Iterable[ValueNode]:
        """The elements of a list."""
        ...
