"""How a read is cut into work: whole rounds of tasks, of pieces that are not small."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.bulk import Plan
from slipstream.bulk.values import Split
from slipstream.spark.runtime.connection import Connection
from slipstream.spark.runtime.pieces import TASKS_VARIABLE, even_pieces, local_tasks, tasks_at_once
from slipstream.spark.source.options import read_source_options
from slipstream.spark.source.ranges import Window, plan_range

MIB = 1 << 20


@pytest.mark.parametrize(
    ("pieces", "size", "at_once", "expected"),
    [
        (3, 351 * MIB, 2, 4),  # two cores would work on three for two rounds
        (1, 100 * MIB, 2, 2),
        (1, 100 * MIB, 64, 3),  # a quarter of the wanted size is small enough
        (1, 10 * MIB, 2, 1),
        (0, 0, 2, 0),
        (4, 512 * MIB, 2, 4),
        (4, 512 * MIB, 1, 4),
    ],
)
def test_pieces_fill_rounds(pieces: int, size: int, at_once: int, expected: int) -> None:
    assert even_pieces(pieces, size, 128 * MIB, at_once) == expected


@given(st.integers(0, 1_000), st.integers(0, 1 << 40), st.integers(1, 1 << 30), st.integers(1, 200))
def test_never_fewer_and_never_a_whole_round_more(pieces: int, size: int, target: int, at_once: int) -> None:
    assert pieces <= even_pieces(pieces, size, target, at_once) < pieces + at_once


@pytest.mark.parametrize(
    ("master", "tasks"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[3,2]", 3),
        ("local[*]", os.cpu_count()),
        ("local[*, 4]", os.cpu_count()),
        ("local-cluster[2,1,1024]", None),
        ("spark://localhost:7077", None),
        ("", None),
    ],
)
def test_tasks_of_a_master(master: str, tasks: int | None) -> None:
    assert local_tasks(master) == tasks


@pytest.mark.parametrize(("said", "tasks"), [("4", 4), ("0", 1), ("", 1), ("many", 1), ("9" * 5_000, 1), ("-2", 1)])
def test_what_the_variable_says(monkeypatch: pytest.MonkeyPatch, said: str, tasks: int) -> None:
    monkeypatch.setenv(TASKS_VARIABLE, said)
    assert tasks_at_once() == tasks


class Planning:
    """A server that cuts 351 MiB into equal pieces."""

    def __init__(self) -> None:
        self.asked: list[int | None] = []

    def plan(self, stream: str, first: int, last: int, **more: Any) -> Plan:
        self.asked.append(more["partitions"])
        count = more["partitions"] or 3
        each = 300_000 // count
        splits = [Split(1 + at * each, (at + 1) * each, each, 351 * MIB // count) for at in range(count)]
        return Plan(stream, "I", first, last, 300_000, 351 * MIB, splits)


@pytest.mark.parametrize(
    ("tasks", "given", "asked", "pieces"),
    [
        ("2", {}, [None, 4], 4),
        ("3", {}, [None], 3),
        ("", {}, [None], 3),
        ("2", {"numPartitions": "5"}, [5], 5),
        ("2", {"minPartitionRows": "90000"}, [None], 3),
    ],
)
def test_readers_fill_rounds(
    monkeypatch: pytest.MonkeyPatch, tasks: str, given: dict[str, str], asked: list[int | None], pieces: int
) -> None:
    monkeypatch.setenv(TASKS_VARIABLE, tasks)
    server = Planning()
    connection = cast(Connection, SimpleNamespace(client=server))
    options = read_source_options({"stream": "S", **given}, streaming=False)
    assert len(plan_range(connection, options, "S", "I", 1, 300_000, Window())) == pieces
    assert server.asked == asked
