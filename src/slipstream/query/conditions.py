"""What of a filter the server's index can answer.

DuckDB hands filters to a scan as `pyarrow.compute.Expression`, which has no members to look at; its Substrait form has
all of it. A filter that is not understood is never wrong: then the server is asked for more, and the filter is applied
to every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from slipstream.bulk.narrowing import Operator, Pushed, narrow
from slipstream.query.substrait import Call, Column, Constant, Node, UnknownExpression, read_expression

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["WantedRows", "read_filter", "successor"]

_COMPARISONS: Final[dict[str, Operator]] = {"equal": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_MIRRORED: Final[dict[Operator, Operator]] = {"=": "=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}


@dataclass(frozen=True)
class WantedRows:
    """What a filter asks for."""

    pushed: Pushed = field(default_factory=Pushed)
    whole: bool = True  # the server answers all of it
    columns: frozenset[str] | None = frozenset()  # that it looks at; None if that is not known


def read_filter(expression: Any, schema: pa.Schema) -> WantedRows:
    """What a filter asks for.

    Args:
        expression: a `pyarrow.compute.Expression`; None for no filter.
        schema: of the table it is about.
    """
    import pyarrow as pa

    if expression is None:
        return WantedRows()
    try:
        root = read_expression(bytes(expression.to_substrait(schema)), schema.names)
    except (pa.ArrowException, UnknownExpression):
        return WantedRows(whole=False, columns=None)
    pushed, whole = _narrowed(list(_terms(root)))
    return WantedRows(pushed, whole, frozenset(_fields(root)))


def successor(text: str) -> str | None:
    """The least text above all that begin with this one; None if there is none."""
    for at in range(len(text) - 1, -1, -1):
        code = ord(text[at]) + 1
        code = 0xE000 if code == 0xD800 else code
        if code <= 0x10FFFF:
            return text[:at] + chr(code)
    return None


# --- what the server can be asked -----------------------------------------------------------------------------------


def _terms(node: Node) -> Iterator[Node]:
    """The conditions that all have to hold."""
    if isinstance(node, Call) and node.name == "and":
        for one in node.arguments:
            yield from _terms(one)
    else:
        yield node


def _narrowed(terms: Sequence[Node]) -> tuple[Pushed, bool]:
    pushed, whole = Pushed(), True
    low = high = None
    for term in terms:
        found = _condition(term)
        taken = narrow(pushed, *found) if found is not None else None
        if taken is not None:
            pushed, is_whole = taken
            whole = whole and is_whole
            continue
        whole = False
        if found is not None and found[0] == "subject" and isinstance(found[2], str):
            if found[1] in (">", ">="):
                low = found[2] if low is None else max(low, found[2])
            elif found[1] in ("<", "<="):
                high = found[2] if high is None else min(high, found[2])
    if low is not None and high is not None:
        prefix = low if high == successor(low) else _common(low, high)
        taken = narrow(pushed, "subject", "prefix", prefix)
        pushed = taken[0] if taken is not None else pushed
    return pushed, whole


def _condition(term: Node) -> tuple[str, Operator, object] | None:
    """A condition on one column, in the words of `narrow`."""
    if not isinstance(term, Call):
        return None
    match term.name, term.arguments:
        case "is_not_null", (Column(name),):
            return name, "present", None
        case "in", (Column(name), *options) if all(isinstance(one, Constant) for one in options):
            return name, "in", tuple(one.value for one in options if isinstance(one, Constant))
        case operator, (Column(name), Constant(value)) if operator in _COMPARISONS:
            return name, _COMPARISONS[operator], value
        case operator, (Constant(value), Column(name)) if operator in _COMPARISONS:
            return name, _MIRRORED[_COMPARISONS[operator]], value
        case "or", choices:
            return _alternatives([_condition(one) for one in choices])
    return None


def _alternatives(choices: Sequence[tuple[str, Operator, object] | None]) -> tuple[str, Operator, object] | None:
    """Values of one column with "or" between them."""
    values: list[object] = []
    for choice in choices:
        if choice is None or choice[0] != choices[0][0] or choice[1] not in ("=", "in"):  # type: ignore[index]
            return None
        values += choice[2] if isinstance(choice[2], tuple) else (choice[2],)
    return (choices[0][0], "in", tuple(values)) if choices and choices[0] else None


def _common(one: str, other: str) -> str:
    """The beginning that both have, and so all between them."""
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]


def _fields(node: Node) -> Iterator[str]:
    if isinstance(node, Column):
        yield node.name
    elif isinstance(node, Call):
        for one in node.arguments:
            yield from _fields(one)
