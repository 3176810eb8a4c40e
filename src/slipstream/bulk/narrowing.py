"""Conditions of a query that the server's index can answer: on sequence, store time and subject.

What is taken narrows the range or the subjects that a plan and a read ask for; what is taken whole need not be checked
row by row. A prefix of subjects becomes a wildcard of the whole tokens in it (`orders.eu.12` asks the server for
`orders.eu.>`), and whoever asks checks the rest.

What this is not: a filter on payloads or headers. Spark's filters and DuckDB's come here in words of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, TypeGuard

__all__ = ["Operator", "Pushed", "narrow"]

Operator = Literal["=", ">", ">=", "<", "<=", "in", "prefix", "present"]

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


def narrow(pushed: Pushed, column: str, operator: Operator, value: object) -> tuple[Pushed, bool] | None:
    """Take a condition that has to hold together with those before.

    Args:
        pushed: what was taken so far.
        column: `seq`, `ts`, `ts_ns` or `subject`; no other can be narrowed.
        operator: what the column is to the value; `present` is "not null", which these columns always are.
        value: of the type of the column, a sequence of such for `in`.

    Returns:
        What is asked for now, and whether the condition is answered by that alone; None if it cannot be taken.
    """
    if column not in ("seq", "ts", "ts_ns", "subject"):
        return None
    if operator == "present":
        return pushed, True
    if column == "subject":
        return _narrow_subject(pushed, operator, value)
    if operator == "in":
        values = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else ()
        numbers = [one for one in values if _whole_number(one)]
        if column != "seq" or not numbers or len(numbers) != len(values):
            return None
        return _bounds(pushed, min(numbers), max(numbers)), False
    if column == "seq" and _whole_number(value):
        return _narrow_seq(pushed, operator, value)
    if column == "ts" and isinstance(value, datetime):
        return _narrow_time(pushed, operator, _nanoseconds(value), 1_000)
    if column == "ts_ns" and _whole_number(value):
        return _narrow_time(pushed, operator, value, 1)
    return None


def _narrow_seq(pushed: Pushed, operator: Operator, value: int) -> tuple[Pushed, bool] | None:
    match operator:
        case "=":
            return _bounds(pushed, value, value), True
        case ">":
            return _bounds(pushed, value + 1, None), True
        case ">=":
            return _bounds(pushed, value, None), True
        case "<":
            return _bounds(pushed, None, value - 1), True
        case "<=":
            return _bounds(pushed, None, value), True
    return None


def _narrow_time(pushed: Pushed, operator: Operator, value_ns: int, step_ns: int) -> tuple[Pushed, bool] | None:
    """`ts` is cut to microseconds, so that "after 5 us" begins at 6,000 ns."""
    start, end = None, None
    match operator:
        case "=":
            start, end = value_ns, value_ns + step_ns
        case ">":
            start = value_ns + step_ns
        case ">=":
            start = value_ns
        case "<":
            end = value_ns
        case "<=":
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


def _narrow_subject(pushed: Pushed, operator: Operator, value: object) -> tuple[Pushed, bool] | None:
    if pushed.subjects is not None:
        return None  # one filter on subjects; the others are checked row by row
    if operator == "=" and isinstance(value, str) and _literal(value):
        return replace(pushed, subjects=(value,)), True
    if operator == "in" and isinstance(value, Sequence) and not isinstance(value, str) and len(value) <= _SUBJECTS_MAX:
        subjects = tuple(dict.fromkeys(one for one in value if isinstance(one, str) and _literal(one)))
        return (replace(pushed, subjects=subjects), True) if len(subjects) == len({*value}) else None
    if operator == "prefix" and isinstance(value, str):
        head, dot, _ = value.rpartition(".")
        if dot and _literal(head):
            return replace(pushed, subjects=(f"{head}.>",)), False
    return None


def _bounds(pushed: Pushed, first: int | None, last: int | None) -> Pushed:
    return replace(pushed, first=_larger(pushed.first, first), last=_smaller(pushed.last, last))


def _larger(one: int | None, other: int | None) -> int | None:
    return max(one, other) if one is not None and other is not None else one if other is None else other


def _smaller(one: int | None, other: int | None) -> int | None:
    return min(one, other) if one is not None and other is not None else one if other is None else other


def _whole_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _literal(value: str) -> bool:
    """Whether this is a subject without wildcards, as stored messages have it."""
    tokens = value.split(".")
    return all(tokens) and not any(token in ("*", ">") for token in tokens) and not any(c in value for c in " \t\r\n\f")


def _nanoseconds(moment: datetime) -> int:
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000
