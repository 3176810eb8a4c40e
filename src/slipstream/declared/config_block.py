"""The block `declared` of a server's configuration: the same words as in a file of declarations.

The syntax of the configuration has told numbers and booleans from texts already, so a text that looks like one of them
wants quotes; and a bare number is no duration, since everywhere else in a configuration it would be seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from slipstream.declared.nodes import DeclarationError, NodeKind, TextPlace
from slipstream.declared.reading import Declared, read_nodes

if TYPE_CHECKING:
    from slipstream.config.parser import Value

__all__ = ["block_problem", "read_block"]


def read_block(block: Value) -> Declared:
    """Read a block.

    Raises:
        DeclarationError: it cannot be read; it names the place.
    """
    return read_nodes(_ConfigNode(block), "declared")


def block_problem(block: Value) -> tuple[str, TextPlace] | None:
    """What is wrong with a block, and where; None if nothing is."""
    try:
        read_block(block)
    except DeclarationError as error:
        assert error.place is not None  # every value of a configuration has one
        return error.message, error.place
    return None


class _ConfigNode:
    """A value of a configuration."""

    def __init__(self, value: Value) -> None:
        self._value = value

    @property
    def kind(self) -> NodeKind:
        data = self._value.data
        if isinstance(data, dict):
            return "map"
        if isinstance(data, list):
            return "list"
        if isinstance(data, bool):  # before int, which bool is one of
            return "flag"
        return "number" if isinstance(data, int | float) else "word"

    @property
    def place(self) -> TextPlace:
        at = self._value.position
        return TextPlace(at.file, at.line, at.column)

    @property
    def text(self) -> str:
        data = self._value.data
        if isinstance(data, bool):
            return "true" if data else "false"
        return data.isoformat() if isinstance(data, datetime) else str(data)

    @property
    def is_variable(self) -> bool:
        return self._value.used_as_variable

    def entries(self) -> Iterable[tuple[str | None, TextPlace, _ConfigNode]]:
        assert isinstance(self._value.data, dict)
        for name, value in self._value.data.items():
            node = _ConfigNode(value)
            yield name, node.place, node

    def elements(self) -> Iterable[_ConfigNode]:
        assert isinstance(self._value.data, list)
        return map(_ConfigNode, self._value.data)
