"""Filters of a query that the server can answer: on sequence, time and subject.

Spark hands over the conjunction it has; what is taken here narrows the range or the subjects, and what is taken whole
need not be checked again. A prefix of subjects becomes a wildcard of the whole tokens in it (`orders.eu.12` asks the
server for `orders.eu.>`), and Spark checks the rest.

What this is not: a filter on payloads or headers. Those stay with Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

__all__ = ["Pushed", "push"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SUBJECTS_MAX = 64  # more alternatives than this are cheaper to check row by row


@dataclass(frozen=True)
class Pushed:
    """What the server is asked for; bounds are inclusive, times in nanoseconds."""

    first: int | None = None
    last: int | None = None
    start_time_ns: int | None = None
    end_time_ns: int | None = None  # exclusive
    subjects: tuple[str, ...] | None = None  # None: no filter; empty: nothing can match

    @property
    def empty(self) -> bool:
        """Whether nothing can match."""
        nothing = self.first is not None and self.last is not None and self.first > self.last
        return nothing or self.subjects == ()


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
        name = names.get(_column(one))
        narrowed = _narrow(pushed, name, one) if name else None
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


def _narrow(pushed: Pushed, name: str, one: Any) -> tuple[Pushed, bool] | None:
    kind = type(one).__name__
    if kind == "IsNotNull":
        return pushed, True  # these columns never are
    if name == "seq" and _whole_number(one.value if hasattr(one, "value") else None):
        return _narrow_seq(pushed, kind, one.value)
    if name == "seq" and kind == "In" and all(_whole_number(value) for value in one.value) and one.value:
        return _bounds(pushed, min(one.value), max(one.value)), False
    if name == "ts" and isinstance(getattr(one, "value", None), datetime):
        return _narrow_time(pushed, kind, _nanoseconds(one.value), 1_000)
    if name == "ts_ns" and _whole_number(getattr(one, "value", None)):
        return _narrow_time(pushed, kind, one.value, 1)
    if name == "subject":
        return _narrow_subject(pushed, kind, one)
    return None


def _narrow_seq(pushed: Pushed, kind: str, value: int) -> tuple[Pushed, bool] | None:
    match kind:
        case "EqualTo" | "EqualNullSafe":
            return _bounds(pushed, value, value), True
        case "GreaterThan":
            return _bounds(pushed, value + 1, None), True
        case "GreaterThanOrEqual":
            return _bounds(pushed, value, None), True
        case "LessThan":
            return _bounds(pushed, None, value - 1), True
        case "LessThanOrEqual":
            return _bounds(pushed, None, value), True
    return None


def _narrow_time(pushed: Pushed, kind: str, value_ns: int, step_ns: int) -> tuple[Pushed, bool] | None:
    """`ts` is cut to microseconds, so that "after 5 us" begins at 6,000 ns."""
    start, end = None, None
    match kind:
        case "EqualTo" | "EqualNullSafe":
            start, end = value_ns, value_ns + step_ns
        case "GreaterThan":
            start = value_ns + step_ns
        case "GreaterThanOrEqual":
            start = value_ns
        case "LessThan":
            end = value_ns
        case "LessThanOrEqual":
            end = value_ns + step_ns
        case _:
            return None
    return (
        replace(
            pushed,
            start_time_ns=_larger(pushed.start_time_ns, start),
            end_time_ns=_smaller(pushed.end_time_ns, end),
        ),
        True,
    )


def _narrow_subject(pushed: Pushed, kind: str, one: Any) -> tuple[Pushed, bool] | None:
    if pushed.subjects is not None:
        return None  # one filter on subjects; Spark checks the others
    if kind in ("EqualTo", "EqualNullSafe") and _literal(one.value):
        return replace(pushed, subjects=(one.value,)), True
    if kind == "In" and len(one.value) <= _SUBJECTS_MAX and all(_literal(value) for value in one.value):
        return replace(pushed, subjects=tuple(dict.fromkeys(one.value))), True
    if kind == "StringStartsWith" and isinstance(one.value, str):
        head, dot, _ = one.value.rpartition(".")
        if dot and _literal(head):
            return replace(pushed, subjects=(f"{head}.>",)), False
    return None


def _bounds(pushed: Pushed, first: int | None, last: int | None) -> Pushed:
    return replace(pushed, first=_larger(pushed.first, first), last=_smaller(pushed.last, last))


def _larger(one: int | None, other: int | None) -> int | None:
    return max(one, other) if one is not None and other is not None else one if other is None else other


def _smaller(one: int | None, other: int | None) -> int | None:
    return min(one, other) if one is not None and other is not None else one if other is None else other


def _whole_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _literal(value: object) -> bool:
    """Whether this is a subject without wildcards, as stored messages have it."""
    if not isinstance(value, str) or not value:
        return False
    tokens = value.split(".")
    return all(tokens) and not any(token in ("*", ">") for token in tokens) and not any(c in value for c in " \t\r\n\f")


def _nanoseconds(moment: datetime) -> int:
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000
