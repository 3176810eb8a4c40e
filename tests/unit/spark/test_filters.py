"""Which filters of a query go to the server, and which stay with Spark."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from slipstream.spark.source.filters import Pushed, push

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_NS = 1_767_268_800_000_000_000


@pytest.mark.parametrize(
    ("one", "pushed"),
    [
        (EqualTo(("seq",), 5), Pushed(first=5, last=5)),
        (GreaterThan(("seq",), 5), Pushed(first=6)),
        (GreaterThanOrEqual(("seq",), 5), Pushed(first=5)),
        (LessThan(("seq",), 5), Pushed(last=4)),
        (LessThanOrEqual(("seq",), 5), Pushed(last=5)),
        (GreaterThanOrEqual(("ts",), NOON), Pushed(start_time_ns=NOON_NS)),
        (GreaterThan(("ts",), NOON), Pushed(start_time_ns=NOON_NS + 1000)),
        (LessThan(("ts",), NOON), Pushed(end_time_ns=NOON_NS)),
        (LessThanOrEqual(("ts",), NOON), Pushed(end_time_ns=NOON_NS + 1000)),
        (LessThanOrEqual(("ts_ns",), 7), Pushed(end_time_ns=8)),
        (EqualTo(("subject",), "orders.eu"), Pushed(subjects=("orders.eu",))),
        (In(("subject",), ("a", "b.c")), Pushed(subjects=("a", "b.c"))),
        (IsNotNull(("seq",)), Pushed()),
    ],
)
def test_taken_whole(one: Filter, pushed: Pushed) -> None:
    assert push([one], bucket=False) == (pushed, [])


@pytest.mark.parametrize(
    ("one", "pushed"),
    [
        (StringStartsWith(("subject",), "orders."), Pushed(subjects=("orders.>",))),
        (StringStartsWith(("subject",), "orders.eu.12"), Pushed(subjects=("orders.eu.>",))),
        (In(("seq",), (9, 3, 5)), Pushed(first=3, last=9)),
    ],
)
def test_narrowed_by_the_server_and_checked_by_spark(one: Filter, pushed: Pushed) -> None:
    assert push([one], bucket=False) == (pushed, [one])


@pytest.mark.parametrize(
    "one",
    [
        Not(EqualTo(("seq",), 5)),
        EqualTo(("headers", "seq"), "x"),
        EqualTo(("payload",), b"x"),
        StringContains(("subject",), "eu"),
        StringStartsWith(("subject",), "ord"),
        EqualTo(("subject",), "orders.*"),
        EqualTo(("subject",), "orders..x"),
        In(("subject",), tuple(f"s{n}" for n in range(100))),
        In(("seq",), (1, None)),
    ],
)
def test_left_to_spark(one: Filter) -> None:
    assert push([one], bucket=False) == (Pushed(), [one])


def test_filters_hold_together() -> None:
    filters = [GreaterThan(("seq",), 5), LessThan(("seq",), 100), GreaterThan(("seq",), 10), LessThan(("seq",), 50)]
    assert push(filters, bucket=False) == (Pushed(first=11, last=49), [])
    pushed, _ = push([GreaterThan(("seq",), 5), LessThan(("seq",), 5)], bucket=False)
    assert pushed.empty


def test_a_second_filter_on_subjects_stays_with_spark() -> None:
    first, second = EqualTo(("subject",), "a"), EqualTo(("subject",), "b")
    assert push([first, second], bucket=False) == (Pushed(subjects=("a",)), [second])


def test_a_bucket_has_revisions_and_no_subjects() -> None:
    key = EqualTo(("key",), "a")
    assert push([GreaterThan(("revision",), 4), key], bucket=True) == (Pushed(first=5), [key])
