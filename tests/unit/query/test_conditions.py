"""What of a filter the server is asked for, and that it is never asked for too little."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.bulk.arrow import DEFAULT_COLUMNS, message_schema
from slipstream.bulk.narrowing import Pushed
from slipstream.kernels.subjects.subject import matches
from slipstream.query.conditions import WantedRows, read_filter, successor
from slipstream.query.substrait import UnknownExpression, read_expression

SCHEMA = message_schema(DEFAULT_COLUMNS)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_NS = 1_767_268_800_000_000_000
seq, ts, subject = pc.field("seq"), pc.field("ts"), pc.field("subject")


def noon() -> pa.Scalar:
    return pa.scalar(NOON, pa.timestamp("us", "UTC"))


def one_of(column: Any, values: list[Any]) -> Any:
    """As DuckDB hands over `IN`."""
    return pc.if_else(pc.is_valid(column), column.isin(values), pa.scalar(None, pa.bool_()))


@pytest.mark.parametrize(
    ("expression", "pushed"),
    [
        (seq == 5, Pushed(first=5, last=5)),
        (seq > 5, Pushed(first=6)),
        (seq >= -5, Pushed(first=-5)),
        ((seq >= 3) & (seq < 9), Pushed(first=3, last=8)),
        (ts >= noon(), Pushed(start_time_ns=NOON_NS)),
        (ts <= noon(), Pushed(end_time_ns=NOON_NS + 1000)),
        (subject == "a.b", Pushed(subjects=("a.b",))),
        (one_of(subject, ["a", "b"]), Pushed(subjects=("a", "b"))),
        ((subject == "a") | (subject == "b"), Pushed(subjects=("a", "b"))),
        (seq.is_valid() & (subject == "it's\"x\\"), Pushed(subjects=("it's\"x\\",))),
    ],
)
def test_the_server_answers_all_of_it(expression: Any, pushed: Pushed) -> None:
    found = read_filter(expression, SCHEMA)
    assert (found.pushed, found.whole) == (pushed, True)


@pytest.mark.parametrize(
    ("expression", "pushed", "columns"),
    [
        ((subject >= "orders.eu.") & (subject < "orders.eu/"), Pushed(subjects=("orders.eu.>",)), {"subject"}),
        ((subject >= "orders.eu.7") & (subject < "orders.eu.8"), Pushed(subjects=("orders.eu.>",)), {"subject"}),
        ((subject >= "orders.eu") & (subject < "orders.us"), Pushed(subjects=("orders.>",)), {"subject"}),
        (one_of(seq, [9, 3]), Pushed(first=3, last=9), {"seq"}),
        ((seq == 3) | (subject == "a"), Pushed(), {"seq", "subject"}),
        ((seq > 3) & (pc.field("payload") == b"x"), Pushed(first=4), {"seq", "payload"}),
        (seq != 4, Pushed(), {"seq"}),
        (subject > "b", Pushed(), {"subject"}),
        (subject == "no subject", Pushed(), {"subject"}),
        (subject == "a.*", Pushed(), {"subject"}),
    ],
)
def test_the_rest_is_checked_row_by_row(expression: Any, pushed: Pushed, columns: set[str]) -> None:
    found = read_filter(expression, SCHEMA)
    assert (found.pushed, found.whole, found.columns) == (pushed, False, columns)


def test_no_filter() -> None:
    assert read_filter(None, SCHEMA) == WantedRows()


def test_what_is_not_understood_asks_for_everything() -> None:
    found = read_filter(pc.binary_length(pc.field("payload")) > 3, SCHEMA)
    assert found.pushed == Pushed() and not found.whole


@given(st.binary(max_size=200))
def test_bytes_that_are_no_expression(message: bytes) -> None:
    with pytest.raises(UnknownExpression):
        read_expression(message, SCHEMA.names)


@given(st.data())
def test_cut_and_changed_expressions_are_read_or_refused(data: st.DataObject) -> None:
    message = bytearray(bytes(((seq > 3) & one_of(subject, ["a", "b"])).to_substrait(SCHEMA)))
    for at in data.draw(st.lists(st.integers(0, len(message) - 1), max_size=4)):
        message[at] = data.draw(st.integers(0, 255))
    with suppress(UnknownExpression):
        read_expression(bytes(message[: data.draw(st.integers(0, len(message)))]), SCHEMA.names)


def test_the_text_behind_a_prefix() -> None:
    assert successor("orders.") == "orders/"
    assert successor("a\U0010ffff") == "b"
    assert successor("\ud7ff") == "\ue000"  # nothing between them is a character
    assert successor("\U0010ffff") is None


SUBJECTS = ["a", "a.b", "a.b.c", "a.c", "b", "b.x", "ab", "a-b.c"]
leaves = st.one_of(
    st.tuples(st.sampled_from(["==", "<", "<=", ">", ">="]), st.just("seq"), st.integers(-2, 12)),
    st.tuples(st.sampled_from(["==", "<", "<=", ">", ">="]), st.just("subject"), st.sampled_from(SUBJECTS)),
    st.tuples(st.just("in"), st.just("seq"), st.lists(st.integers(0, 12), min_size=1, max_size=4)),
    st.tuples(st.just("in"), st.just("subject"), st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=4)),
    st.tuples(st.sampled_from(["==", "<", "<=", ">", ">="]), st.just("ts"), st.integers(0, 12)),
)
trees = st.recursive(leaves, lambda one: st.tuples(st.sampled_from(["and", "or"]), one, one), max_leaves=6)
ROWS = pa.table(
    {
        "seq": list(range(1, 11)),
        "subject": [SUBJECTS[number % len(SUBJECTS)] for number in range(10)],
        "ts": pa.array(range(1, 11), pa.timestamp("us", "UTC")),
    }
)


def made(tree: Any) -> Any:
    kind, left, right = tree
    if kind in ("and", "or"):
        return made(left) & made(right) if kind == "and" else made(left) | made(right)
    column = pc.field(left)
    if kind == "in":
        return one_of(column, right)
    value = pa.scalar(right, pa.timestamp("us", "UTC")) if left == "ts" else right
    return {
        "==": column == value,
        "<": column < value,
        "<=": column <= value,
        ">": column > value,
        ">=": column >= value,
    }[kind]


def answered(pushed: Pushed) -> list[int]:
    """What a server has for this."""
    if pushed.empty:
        return []
    kept = []
    for row in ROWS.to_pylist():
        time_ns = row["seq"] * 1000
        if (
            (pushed.first is None or row["seq"] >= pushed.first)
            and (pushed.last is None or row["seq"] <= pushed.last)
            and (pushed.start_time_ns is None or time_ns >= pushed.start_time_ns)
            and (pushed.end_time_ns is None or time_ns < pushed.end_time_ns)
            and (not pushed.subjects or any(matches(one.encode(), row["subject"].encode()) for one in pushed.subjects))
        ):
            kept.append(row["seq"])
    return kept


@given(trees)
def test_rows_are_those_of_the_filter(tree: Any) -> None:
    expression = made(tree)
    wanted = read_filter(expression, SCHEMA)
    right = ROWS.filter(expression).column("seq").to_pylist()
    offered = answered(wanted.pushed)
    assert set(right) <= set(offered)
    if wanted.whole:
        assert right == offered
