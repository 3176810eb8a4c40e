"""Jobs that copy, stopped anywhere and run again: with more cores, with a source that has grown, with another at work.

A wave is some messages here, so that few of them make many commits.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slipstream.bulk import BulkError
from slipstream.spark import jobs
from slipstream.spark.jobs import copying
from slipstream.spark.jobs.ranges import ReadRange
from slipstream.spark.lake import Wish, open_lake
from slipstream.spark.runtime.target import Reach
from support.server_process import ServerProcess
from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(300)
PIECE = 10  # sequences of a piece
mirror_module = importlib.import_module("slipstream.spark.jobs.mirror")
dlq_module = importlib.import_module("slipstream.spark.jobs.dlq")


class Death(Exception):
    """The driver is gone."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (mirror_module, dlq_module):
        real: Callable[..., list[ReadRange]] = module.plan_stream

        def plan(*args: Any, real: Callable[..., list[ReadRange]] = real, **more: Any) -> list[ReadRange]:
            return [
                replace(one, first=first, last=min(first + PIECE - 1, one.last), messages=None)
                for one in real(*args, **more)
                for first in range(one.first, one.last + 1, PIECE)
            ]

        monkeypatch.setattr(module, "plan_stream", plan)
    cores(monkeypatch, 1)


def cores(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """So many pieces are a wave."""

    def waves(_: SparkSession, items: Sequence[Any]) -> list[Sequence[Any]]:
        return [items[start : start + number] for start in range(0, len(items), number)]

    monkeypatch.setattr(copying, "waves", waves)


def dies(monkeypatch: pytest.MonkeyPatch, *, at: int, before: bool) -> None:
    """The driver dies at a commit, before the server hears of it or when it has made it."""
    real = copying._commit
    calls = 0

    def commit(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at and before:
            raise Death
        result = real(*args)
        if calls == at:
            raise Death
        return result

    monkeypatch.setattr(copying, "_commit", commit)


def lives(monkeypatch: pytest.MonkeyPatch, real: Any = copying._commit) -> None:
    monkeypatch.setattr(copying, "_commit", real)


@pytest.fixture
def lake(spark: SparkSession, source: Streams, ways: dict[str, Reach], name: str, tmp_path: Path) -> str:
    """An archive of 60 messages in six files."""
    source.create(name)
    source.fill(name, 60)
    location = str(tmp_path / "lake")
    for upto in range(10, 70, 10):
        jobs.archive(spark, name, location, reach=ways["reach"], upto=upto)
    assert len(open_lake(location).files()) == 6
    return location


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 3])
def test_a_driver_dies_and_the_source_grows(
    spark: SparkSession,
    source: Streams,
    streams: Streams,
    ways: dict[str, Reach],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    at: int,
    before: bool,
) -> None:
    source.create(name)
    streams.create(name)
    payloads = source.fill(name, 45)
    cores(monkeypatch, 2)
    dies(monkeypatch, at=at, before=before)
    with pytest.raises(Death):
        jobs.mirror(spark, name, name, **ways)
    lives(monkeypatch)
    payloads += source.fill(name, 28, begin=45)
    cores(monkeypatch, 3)
    report = jobs.mirror(spark, name, name, **ways)
    assert streams.payloads(name) == payloads
    committed = min(20 * (at - before), 45)
    assert (report["copied_before"], report["messages"]) == (committed, 73 - committed)
    assert report.ok and report["equal"] and report["verified"] == report["messages"]


def test_a_mirror_that_is_run_again_adds_what_is_new(
    spark: SparkSession, source: Streams, streams: Streams, ways: dict[str, Reach], name: str
) -> None:
    source.create(name)
    streams.create(name)
    payloads = source.fill(name, 30)
    assert jobs.mirror(spark, name, name, **ways, last=25)["messages"] == 25
    payloads += source.fill(name, 12, begin=30)
    assert jobs.mirror(spark, name, name, **ways)["messages"] == 17
    nothing = jobs.mirror(spark, name, name, **ways)
    assert (nothing["messages"], nothing["copied_before"], nothing["verified"]) == (0, 42, 0) and nothing.ok
    assert streams.payloads(name) == payloads
    twice = payloads + source.fill(name, 3, begin=42)
    assert jobs.mirror(spark, name, name, **ways, again=True)["messages"] == 45
    assert jobs.mirror(spark, name, name, **ways)["messages"] == 0, "all of it is there"
    assert streams.payloads(name) == payloads + twice
    payloads += source.fill(name, 1, begin=45)
    assert jobs.mirror(spark, name, name, **ways)["messages"] == 1


def test_a_commit_whose_answer_was_lost(
    spark: SparkSession,
    source: Streams,
    streams: Streams,
    ways: dict[str, Reach],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from slipstream.bulk import BulkClient

    source.create(name)
    streams.create(name)
    payloads = source.fill(name, 25)
    real, calls = BulkClient.commit, 0

    def commit(self: BulkClient, *args: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        result = real(self, *args, **more)
        if calls == 2:
            raise BulkError("connection lost", retryable=True)
        return result

    monkeypatch.setattr(BulkClient, "commit", commit)
    report = jobs.mirror(spark, name, name, **ways)
    assert calls == 4 and streams.payloads(name) == payloads
    assert (report["messages"], report["verified"], report["equal"]) == (25, 25, True)


@pytest.mark.parametrize("other_cores", [1, 3])
def test_two_copies_at_once(
    spark: SparkSession,
    source: Streams,
    streams: Streams,
    ways: dict[str, Reach],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    other_cores: int,
) -> None:
    """The other one comes between staging and commit of the second wave, and gets further or not as far."""
    source.create(name)
    streams.create(name)
    payloads = source.fill(name, 60)
    cores(monkeypatch, 2)
    real, calls, lines = copying._commit, 0, []

    def commit(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            monkeypatch.setattr(copying, "_commit", real)
            cores(monkeypatch, other_cores)
            dies(monkeypatch, at=2, before=True)
            with pytest.raises(Death):
                jobs.mirror(spark, name, name, **ways)
            monkeypatch.setattr(copying, "_commit", real)
        return real(*args)

    monkeypatch.setattr(copying, "_commit", commit)
    report = jobs.mirror(spark, name, name, **ways, say=lines.append)
    assert streams.payloads(name) == payloads
    assert report["messages"] == 60 - 10 * other_cores and report["equal"]
    assert any("another run has copied up to" in line for line in lines)


@pytest.mark.parametrize("more_cores", [False, True])
def test_a_replay_goes_on_where_it_stopped(
    spark: SparkSession,
    streams: Streams,
    ways: dict[str, Reach],
    name: str,
    lake: str,
    monkeypatch: pytest.MonkeyPatch,
    more_cores: bool,
) -> None:
    """With other cores, or with other files, one of which reaches over the place."""
    streams.create(name)
    here = ways["target_reach"]
    cores(monkeypatch, 2)
    dies(monkeypatch, at=2, before=True)
    with pytest.raises(Death):
        jobs.replay(spark, lake, name, reach=here)
    lives(monkeypatch)
    if more_cores:
        cores(monkeypatch, 4)
    else:
        jobs.compact(spark, lake)
        assert len(open_lake(lake).files()) == 1
    report = jobs.replay(spark, lake, name, reach=here)
    assert (report["copied_before"], report["messages"], report["left_out"]) == (20, 40, 0)
    assert streams.payloads(name) == [b"%06d" % number for number in range(60)]


def test_a_replay_adds_what_was_archived_since(
    spark: SparkSession, source: Streams, streams: Streams, ways: dict[str, Reach], name: str, lake: str
) -> None:
    streams.create(name)
    here = ways["target_reach"]
    assert jobs.replay(spark, lake, name, reach=here, wish=Wish(last_seq=35))["messages"] == 35
    assert jobs.replay(spark, lake, name, reach=here)["messages"] == 25
    source.fill(name, 10, begin=60)
    jobs.archive(spark, name, lake, reach=ways["reach"])
    jobs.compact(spark, lake, vacuum=True)
    assert jobs.replay(spark, lake, name, reach=here, mark=True)["messages"] == 10
    assert streams.payloads(name) == [b"%06d" % number for number in range(70)]
    some = Wish(subjects=(f"{name}.3",))
    assert jobs.replay(spark, lake, name, reach=here, wish=some)["messages"] == 7, "a selection is a replay of its own"
    assert jobs.replay(spark, lake, name, reach=here, wish=some)["messages"] == 0
    assert jobs.replay(spark, lake, name, reach=here, wish=some, again=True)["messages"] == 7


@pytest.mark.parametrize("committed", [False, True])
def test_the_server_is_killed_around_a_commit(
    spark: SparkSession,
    source: Streams,
    own_node: ServerProcess,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    committed: bool,
) -> None:
    """Before it, and between the commit and its answer: the same run goes on, and knows what it has copied."""
    from slipstream.bulk import BulkClient

    source.create(name)
    payloads = source.fill(name, 40)
    target = Streams(own_node.url)
    target.create(name)
    real, calls = BulkClient.commit, 0

    def commit(self: BulkClient, *args: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            if committed:
                real(self, *args, **more)
            own_node.kill()
            own_node.start()
            raise BulkError("connection lost", retryable=True)
        return real(self, *args, **more)

    monkeypatch.setattr(BulkClient, "commit", commit)
    ways = {"reach": Reach(servers=source.url), "target_reach": Reach(servers=own_node.url)}
    report = jobs.mirror(spark, name, name, **ways)
    assert target.payloads(name) == payloads
    assert (report["messages"], report["verified"], report["equal"]) == (40, 40, True)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("job", ["mirror", "replay"])
def test_whatever_happens_every_message_comes_once(
    spark: SparkSession,
    source: Streams,
    streams: Streams,
    ways: dict[str, Reach],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    job: str,
    seed: int,
) -> None:
    """Growth, deletions, compactions, other cores and deaths, in any order."""
    chance = random.Random(f"{job} {seed}")
    source.create(name)
    streams.create(name)
    lake = str(tmp_path / "lake")
    expected: list[bytes] = []
    published = 0

    def run() -> None:
        if job == "mirror":
            jobs.mirror(spark, name, name, **ways)
        else:
            jobs.replay(spark, lake, name, reach=ways["target_reach"])

    for _ in range(6):
        count = chance.randrange(1, 40)
        new = source.fill(name, count, begin=published)
        gone = set(chance.sample(range(count), count // 4))
        for number in gone:
            source.api(f"STREAM.MSG.DELETE.{name}", {"seq": published + number + 1})
        published += count
        if job == "replay":
            jobs.archive(spark, name, lake, reach=ways["reach"])
            if chance.random() < 0.4:
                jobs.compact(spark, lake, target_bytes=chance.choice([1 << 15, 1 << 20]))
        expected += [payload for number, payload in enumerate(new) if number not in gone]
        cores(monkeypatch, chance.randrange(1, 5))
        dies(monkeypatch, at=chance.randrange(1, 4), before=chance.random() < 0.5)
        with suppress(Death):
            run()
        lives(monkeypatch)
        arrived = streams.payloads(name)
        assert arrived == expected[: len(arrived)]
    run()
    assert streams.payloads(name) == expected
