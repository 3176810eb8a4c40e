"""Filters of a Spark query that the server can answer.

Spark hands over the conjunction it has. What `slipstream.bulk.narrowing` takes goes to the server; what it takes whole
Spark need not check again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from slipstream.bulk.narrowing import Operator, Pushed, narrow

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

__all__ = ["Pushed", "push"]

_OPERATORS: Final[dict[str, Operator]] = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "In": "in",
    "StringStartsWith": "prefix",
    "IsNotNull": "present",
}


def push(filters: Sequence[Filter], *, bucket: bool) -> tuple[Pushed, list[Filter]]:
    """Take what can be taken.

    Args:
        filters: of the query, all to hold.
        bucket: whether `revision` is the sequence, and subjects are not there.

    Returns:
        What was taken, and the filters Spark still has to check.
    """
    names = {"revision": "seq"} if bucket else {"seq": "seq", "subject": "subject"}
    names |= {"ts": "ts", "ts_ns": "ts_ns"}
    pushed, left = Pushed(), []
    for one in filters:
        operator = _OPERATORS.get(type(one).__name__)
        name = names.get(_column(one))
        narrowed = narrow(pushed, name, operator, getattr(one, "value", None)) if name and operator else None
        if narrowed is None:
            left.append(one)
            continue
        pushed, whole = narrowed
        if not whole:
            left.append(one)
    return pushed, left


def _column(one: Any) -> str:
    """The column a filter is about; empty if it is about a part of one, or negated."""
    path: tuple[str, ...] = getattr(one, "attribute", ())
    return path[0] if len(path) == 1 else ""
