"""Expressions over infos: `state.messages > 10 and "orders.*" in config.subjects`.

The language is Python's, cut down to names, fields, numbers, texts, lists, comparisons, sums and `and`, `or`, `not`;
`&&`, `||` and `!` are understood as well. Nothing can be called, so an expression can do nothing but say yes or no.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from slipstream.cli.connection import Failure

__all__ = ["Expression"]

_LENGTH_MAX: Final = 10_000

_COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in (right or ()),
    ast.NotIn: lambda left, right: left not in (right or ()),
}
_COMBINE: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Expression:
    """An expression, ready to be asked about many things."""

    def __init__(self, text: str) -> None:
        """Read it.

        Raises:
            Failure: it is no expression of this language.
        """
        python = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or "))
        python = re.sub(r"\b(true|false|nil)\b", lambda word: {"nil": "None"}.get(word[0], word[0].title()), python)
        try:
            if len(text) > _LENGTH_MAX:
                raise ValueError("too long")
            self._root = ast.parse(python.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError) as error:
            raise Failure(f"{text!r} is not an expression: {error}") from error
        self._text = text

    def holds(self, names: Mapping[str, Any]) -> bool:
        """Whether it is true of some values.

        Raises:
            Failure: it asks for something that is not there, or compares what cannot be compared.
        """
        try:
            return bool(self._value(self._root, names))
        except (TypeError, KeyError, ZeroDivisionError, IndexError) as error:
            raise Failure(f"{self._text!r} cannot be answered: {error}") from error

    def _value(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return names[name]
            case ast.Attribute(value=inner, attr=field):
                holder = self._value(inner, names)
                return holder.get(field) if isinstance(holder, Mapping) else None
            case ast.Subscript(value=inner, slice=key):
                return self._value(inner, names)[self._value(key, names)]
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self._value(item, names) for item in items]
            case ast.BoolOp(op=ast.And(), values=parts):
                return all(self._value(part, names) for part in parts)
            case ast.BoolOp(op=ast.Or(), values=parts):
                return any(self._value(part, names) for part in parts)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return not self._value(inner, names)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self._value(inner, names)
            case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _COMBINE:
                return _COMBINE[type(operation)](self._value(left, names), self._value(right, names))
            case ast.Compare(left=left, ops=operations, comparators=others):
                return self._compare(left, operations, others, names)
        raise Failure(f"{self._text!r} has something that expressions cannot do: {ast.unparse(node)}")

    def _compare(
        self, left: ast.expr, operations: list[ast.cmpop], others: list[ast.expr], names: Mapping[str, Any]
    ) -> bool:
        value = self._value(left, names)
        for operation, other in zip(operations, others, strict=True):
            following = self._value(other, names)
            if type(operation) not in _COMPARE:
                raise Failure(f"{self._text!r} compares in a way that expressions cannot")
            if not _COMPARE[type(operation)](value, following):
                return False
            value = following
        return True
