"""BULK.PLAN: pieces that cover a range without a gap, with exact counts, whatever was asked for."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.jetstream.bulk import plan as plan_module
from slipstream.jetstream.bulk.plan import SplitTarget, cut
from slipstream.jetstream.store.bulk import measure_step
from support.bulk_world import BulkWorld

MARKS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 50), st.integers(1, 5000)), max_size=40)


@given(MARKS, st.one_of(st.none(), st.integers(1, 60)), st.integers(1, 20_000), st.integers(1, 100))
def test_pieces_cover_the_range(
    steps: list[tuple[int, int, int]], partitions: int | None, target: int, min_rows: int
) -> None:
    marks, seq = [], 9
    for step, rows, size in steps:
        seq += step
        marks.append((seq, rows, size))
    last = seq + 3
    splits = cut(5, last, marks, SplitTarget(partitions, target, min_rows))
    if not marks:
        assert splits == []
        return
    assert (splits[0].first, splits[-1].last) == (5, last)
    assert all(one.last + 1 == two.first for one, two in pairwise(splits))
    assert sum(split.messages for split in splits) == sum(mark[1] for mark in marks)
    assert sum(split.bytes for split in splits) == sum(mark[2] for mark in marks)
    if partitions is not None:
        assert len(splits) <= partitions
    else:
        assert len(splits) <= max(sum(mark[1] for mark in marks) // min_rows, 1)


@pytest.fixture(params=["file", "memory"])
def world(request: pytest.FixtureRequest) -> BulkWorld:
    """A stream of 1000 messages under ten subjects."""
    made = BulkWorld()
    made.create("S", subjects=["s.*"], storage=request.param)
    made.fill(1000)
    return made


@pytest.mark.parametrize("marks_max", [4, 16, 16_384])
def test_counts_are_what_a_read_gives(world: BulkWorld, marks_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "BULK_MARKS_MAX", marks_max)
    world.api("STREAM.MSG.DELETE.S", {"seq": 500})
    for body in ({}, {"subjects": ["s.3", "s.4"]}, {"subjects": ["s.7"]}, {"first": 100, "last": 600}):
        plan = world.api("BULK.PLAN.S", {**body, "partitions": 4})
        assert 1 <= len(plan["splits"]) <= 4
        total = 0
        for first, last, messages, size in plan["splits"]:
            reading = world.read(**{**body, "first": first, "last": last})
            assert (reading.end["rows"], reading.end["bytes"]) == (messages, size)
            total += messages
        assert total == plan["messages"] == len(world.read(**body).seqs)
        if marks_max > 1000:
            assert len(plan["splits"]) == 4


def test_limits(world: BulkWorld) -> None:
    plan = world.api("BULK.PLAN.S", {"first": 11, "max_msgs": 7})
    assert (plan["first"], plan["last"], plan["messages"]) == (11, 17, 7)
    plan = world.api("BULK.PLAN.S", {"subjects": ["s.3"], "max_msgs": 2})
    assert (plan["last"], plan["messages"]) == (14, 2)
    size = plan["bytes"] // 2
    plan = world.api("BULK.PLAN.S", {"max_bytes": size * 10})
    assert 5 < plan["messages"] <= 10
    assert world.api("BULK.PLAN.S", {"max_bytes": 1})["messages"] == 1
    assert world.api("BULK.PLAN.S", {"max_msgs": 5000})["last"] == 1000


def test_size_decides_without_a_number(world: BulkWorld) -> None:
    whole = world.api("BULK.PLAN.S")
    assert len(whole["splits"]) == 1  # fewer than min_rows
    parts = world.api("BULK.PLAN.S", {"target_bytes": whole["bytes"] // 5, "min_rows": 1})
    assert len(parts["splits"]) in (5, 6)
    assert len(world.api("BULK.PLAN.S", {"target_bytes": 1, "min_rows": 400})["splits"]) == 2


def test_a_plan_of_many_messages_has_few_marks(world: BulkWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks are what a plan costs: pieces come out even with a few of them, and messages do not all become marks."""
    monkeypatch.setattr(plan_module, "BULK_MARKS_A_SPLIT", 16)
    seen: list[int] = []

    def measured(*args: Any, **kwargs: Any) -> tuple[int, bool]:
        known = len(kwargs["marks"])
        answer = measure_step(*args, **kwargs)
        seen.append(len(kwargs["marks"]) - known)
        return answer

    monkeypatch.setattr(plan_module, "measure_step", measured)
    plan = world.api("BULK.PLAN.S", {"partitions": 4})
    assert sum(seen) < 250
    assert [messages for _, _, messages, _ in plan["splits"]] == pytest.approx([250] * 4, rel=0.1)


def test_nothing_to_plan(world: BulkWorld) -> None:
    plan = world.api("BULK.PLAN.S", {"subjects": ["x"]})
    assert (plan["splits"], plan["messages"], plan["first"], plan["last"]) == ([], 0, 1, 1000)
    world.create("E", subjects=["e"])
    plan = world.api("BULK.PLAN.E")
    assert (plan["splits"], plan["last"], plan["first_seq"], plan["last_seq"]) == ([], 0, 1, 0)


@pytest.mark.parametrize(
    "body", [{"partitions": 0}, {"max_msgs": 0}, {"max_bytes": -1}, {"partitions": 5000}, {"partitions": 1.5}]
)
def test_bad_requests(world: BulkWorld, body: dict[str, object]) -> None:
    assert world.error("BULK.PLAN.S", body)[0] == 30001


def test_a_plan_takes_turns(world: BulkWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large stream is measured in slices, and publishes come between them."""
    monkeypatch.setattr("slipstream.jetstream.store.bulk.BULK_SCAN_ENTRIES", 10)
    assert world.api("BULK.PLAN.S", {"partitions": 3})["messages"] == 1000
    assert len(world.read(subjects=["s.3", "s.4"]).seqs) == 200
