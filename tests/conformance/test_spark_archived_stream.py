"""Streaming reads of a stream and its archive against a server, called as Spark calls them, without Spark."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from slipstream.spark.archive.archived import FilePartition
from slipstream.spark.lake import Archived, LakeError, create_lake, note_erased, open_lake
from slipstream.spark.lake.files import COLUMNS, read_file, write_file
from slipstream.spark.readers.streaming import SlipstreamStreamReader
from slipstream.spark.runtime.errors import DataLoss
from slipstream.spark.source.ranges import RangePartition
from support.servers import Launcher
from support.spark_streams import Streams
from support.stream_queries import JOB, Query, archive, read, started


@pytest.fixture
def streams(ours: Launcher, monkeypatch: pytest.MonkeyPatch) -> Iterator[Streams]:
    """A server of the test's own."""
    yield from started(ours, monkeypatch)


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture
def query(streams: Streams, lake: str) -> Query:
    """A query of "A" with its archive, from the beginning."""
    return Query(streams, stream="A", archive=lake)


def numbered(first: int, last: int) -> list[bytes]:
    """Payloads by sequence."""
    return [b"%06d" % (seq - 1) for seq in range(first, last + 1)]


def next_end(reader: SlipstreamStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    end: dict[str, Any] = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    return end


def compact(location: str) -> None:
    """All files into one; the old ones are gone, as after a vacuum."""
    lake = open_lake(location)
    old = lake.files()
    paths = [lake.path_of(file) for file in old]
    new = write_file(location, (batch for path in paths for batch in read_file(path, COLUMNS)), job=JOB)
    assert new is not None
    lake.commit(lake.facts, add=[new], remove=old, operation="compact", changes_data=False)
    for path in paths:
        Path(path).unlink()


def test_everything_once_from_the_archive_to_what_is_published_later(streams: Streams, lake: str, query: Query) -> None:
    streams.create("A")
    streams.fill("A", 300)
    archive(streams, "A", lake, 180, a_file=50)
    assert query.run() == numbered(1, 300)
    assert query.checkpoint is not None and query.checkpoint["s"]["A"].keys() == {"q", "id"}
    streams.fill("A", 20, begin=300)
    assert query.run() == numbered(301, 320)
    archive(streams, "A", lake, 320)
    assert query.run() == []
    streams.fill("A", 5, begin=320)
    assert query.run() == numbered(321, 325)


def test_a_stopped_query_goes_on_in_the_archive(streams: Streams, lake: str, query: Query) -> None:
    streams.create("A")
    streams.fill("A", 100)
    archive(streams, "A", lake, 10)
    alone = Query(streams, stream="A")
    assert alone.run() == numbered(11, 100)
    streams.fill("A", 200, begin=100)
    archive(streams, "A", lake, 250, a_file=70)
    with pytest.raises(DataLoss, match="no longer holds messages 101 to 250"):
        alone.run()
    assert alone.run(archive=lake) == numbered(101, 300), "a checkpoint made without the option"
    streams.fill("A", 10, begin=300)
    assert alone.run() == numbered(301, 310), "and without it again"
    query.checkpoint = None
    archive(streams, "A", lake, 310)
    assert query.run() == numbered(1, 310), "all of it archived, and nothing in the stream"


def test_limits_are_kept_on_both_sides(streams: Streams, lake: str) -> None:
    streams.create("A")
    streams.fill("A", 150)
    archive(streams, "A", lake, 100, a_file=32)
    for limit in (1, 7, 50, 64, 1000):
        query = Query(streams, stream="A", archive=lake, maxMessagesPerTrigger=limit)
        assert query.run() == numbered(1, 150)
        assert {len(batch) for batch in query.batches[:-1]} <= {limit}
        assert len(query.batches[-1]) == (150 % limit or limit)


def test_bytes_filters_and_least_numbers(streams: Streams, lake: str, query: Query) -> None:
    streams.create("A")
    streams.fill("A", 150)
    archive(streams, "A", lake, 100, a_file=32)
    assert query.run(maxBytesPerTrigger=10 * 48) == numbered(1, 150)  # 32 + 3 of subject + 6 of payload, by eights
    assert [len(batch) for batch in query.batches] == [10] * 15
    query.checkpoint, query.batches = None, []
    assert query.run(maxBytesPerTrigger=10 * 48, minMessagesPerTrigger=20) == numbered(1, 150)
    assert [len(batch) for batch in query.batches] == [10] * 15
    some = Query(streams, stream="A", archive=lake, subjects="A.3,A.4", maxMessagesPerTrigger=4)
    assert some.run() == [payload for payload in numbered(1, 150) if payload[-1:] in b"34"]
    assert max(len(batch) for batch in some.batches) == 4
    waiting = Query(streams, stream="A", archive=lake, minMessagesPerTrigger=151)
    reader = waiting.reader()
    start = reader.initialOffset()
    assert next_end(reader, start) == start
    streams.fill("A", 1, begin=150)
    assert next_end(reader, start)["s"]["A"]["q"] == 152, "both sides count"
    nothing = Query(streams, stream="A", archive=lake, subjects="A.none").reader()
    start = nothing.initialOffset()
    assert next_end(nothing, start) == next_end(nothing, start) == start


def test_starts(streams: Streams, lake: str) -> None:
    streams.create("A")
    streams.fill("A", 30)
    streams.purge("A", seq=6)
    rows = streams.rows("A", "seq", "ts_ns")
    archive(streams, "A", lake, 20, a_file=4)

    def first(**options: Any) -> int:
        given = {"starting": "", **options}
        return int(Query(streams, stream="A", archive=lake, **given).reader().initialOffset()["s"]["A"]["q"])

    assert (first(), first(starting="latest"), first(starting="earliest")) == (31, 31, 6)
    assert [first(startingSequence=seq) for seq in (6, 15, 20, 21, 25, 40)] == [6, 15, 20, 21, 25, 40]
    with pytest.raises(DataLoss, match=r"startingSequence 5 .* older than what is archived \(from 6\)"):
        first(startingSequence=5)
    assert first(startingSequence=5, outOfRange="adjust") == 6
    for row in rows:
        # The option is cut to microseconds: messages of one microsecond count, too.
        wanted = row["ts_ns"] // 1000 * 1000
        moment = datetime.fromtimestamp(wanted // 10**9, UTC).replace(microsecond=wanted // 1000 % 10**6)
        expected = next(one["seq"] for one in rows if one["ts_ns"] >= wanted)
        assert first(startingTime=moment.isoformat()) == expected
    assert (first(startingTime="2001-01-01"), first(startingTime="2100-01-01")) == (6, 31)


def test_a_batch_is_the_same_whatever_the_archive_does_meanwhile(streams: Streams, lake: str, query: Query) -> None:
    streams.create("A")
    streams.fill("A", 100)
    archive(streams, "A", lake, 20, a_file=6)
    reader = query.reader()
    start = reader.initialOffset()
    end = next_end(reader, start)
    kinds = [type(task) for task in reader.partitions(start, end)]
    assert kinds == [FilePartition] * 4 + [RangePartition]
    assert read(reader, start, end) == numbered(1, 100)
    archive(streams, "A", lake, 50)
    assert read(query.reader(), start, end) == numbered(1, 100), "the border has moved"
    compact(lake)
    assert read(query.reader(), start, end) == numbered(1, 100), "other files"
    archive(streams, "A", lake, 100)
    assert read(query.reader(), start, end) == numbered(1, 100), "nothing is live"


def test_tasks_find_what_moved_after_they_were_planned(streams: Streams, lake: str, query: Query) -> None:
    streams.create("A")
    streams.fill("A", 100)
    archive(streams, "A", lake, 40, a_file=9)
    reader = query.reader(startingSequence=4, starting="")
    start = reader.initialOffset()
    tasks = reader.partitions(start, next_end(reader, start))
    archive(streams, "A", lake, 80)
    compact(lake)
    rows = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    assert [row["payload"] for row in rows] == numbered(4, 100)
    assert [row["seq"] for row in rows] == list(range(4, 101))


def test_the_border_moves_while_a_batch_is_measured(
    streams: Streams, lake: str, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted as live, archived and dropped before the count was made: no more messages than allowed."""
    from slipstream.spark.runtime.connection import Connection

    streams.create("A")
    streams.fill("A", 100)
    archive(streams, "A", lake, 5)
    moves, measure = iter((30, 60)), Connection.measure

    def moving(self: Connection, *args: Any) -> Any:
        ask = measure(self, *args)

        def asked(*how: Any) -> Any:
            upto = next(moves, None)
            if upto is not None:
                archive(streams, "A", lake, upto)
            return ask(*how)

        return asked

    monkeypatch.setattr(Connection, "measure", moving)
    assert query.run(maxMessagesPerTrigger=10) == numbered(1, 100)
    assert [len(batch) for batch in query.batches] == [10] * 10


def test_the_border_moves_while_live_messages_are_planned(
    streams: Streams, lake: str, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams.create("A")
    streams.fill("A", 100)
    archive(streams, "A", lake, 5)
    archived_stream = importlib.import_module("slipstream.spark.archive.streaming")
    plan = archived_stream.plan_range

    def moving(*args: Any) -> Any:
        archive(streams, "A", lake, 40)
        return plan(*args)

    reader = query.reader(startingSequence=11, starting="", maxMessagesPerTrigger=20)
    start = reader.initialOffset()
    end = next_end(reader, start)
    monkeypatch.setattr(archived_stream, "plan_range", moving)
    assert read(reader, start, end) == numbered(11, 30), "the stream has nothing of the range any more"


def test_what_is_on_neither_side_is_lost(streams: Streams, lake: str, query: Query) -> None:
    streams.create("A")
    streams.fill("A", 100)
    archive(streams, "A", lake, 40)
    reader = query.reader(maxMessagesPerTrigger=20)
    query.checkpoint = next_end(reader, reader.initialOffset())
    streams.purge("A", seq=61)
    with pytest.raises(DataLoss, match="messages 41 to 60 of stream 'A' are neither archived nor in the stream"):
        query.run()
    with pytest.raises(DataLoss, match="messages 41 to 60"):
        Query(streams, stream="A", archive=lake, startingTime="2001-01-01", starting="").run()
    with pytest.raises(DataLoss, match="messages 45 to 60"):
        Query(streams, stream="A", archive=lake, startingSequence=45, starting="").run()
    moved = Query(streams, stream="A", archive=lake, startingSequence=45, starting="", outOfRange="adjust")
    assert moved.run() == numbered(61, 100)
    without = Query(streams, stream="A", archive=lake, failOnDataLoss="false")
    without.checkpoint = query.checkpoint
    assert without.run() == [*numbered(21, 40), *numbered(61, 100)]
    note_erased(lake, [[41, 60]])
    assert query.run() == [*numbered(21, 40), *numbered(61, 100)], "erased on purpose"


def test_an_archive_that_begins_behind_the_query_does_not_help(streams: Streams, lake: str, query: Query) -> None:
    streams.create("A")
    streams.fill("A", 10)
    before = Query(streams, stream="A")
    assert len(before.run()) == 10
    streams.fill("A", 90, begin=10)
    streams.purge("A", seq=31)
    archive(streams, "A", lake, 50)
    query.checkpoint = before.checkpoint
    with pytest.raises(DataLoss, match=r"messages 11 to 30 of stream 'A' are neither .* archive begins behind them"):
        query.run()
    assert query.run(failOnDataLoss="false") == numbered(31, 100)


def test_archives_that_do_not_fit_are_refused_at_the_start(streams: Streams, lake: str, query: Query) -> None:
    streams.create("A")
    streams.fill("A", 10)
    for options in ({}, {"starting": "latest"}):
        with pytest.raises(LakeError, match="there is no table at"):
            query.run(**options)
    alone = Query(streams, stream="A")
    alone.run()
    with pytest.raises(LakeError, match="there is no table at"):
        alone.run(archive=lake)
    create_lake(lake, Archived("B", "17/other"), "parquet")
    with pytest.raises(LakeError, match="is of another stream: B 17/other"):
        query.run()
    with pytest.raises(LakeError, match="is of another stream: B 17/other"):
        alone.run(archive=lake)


def test_a_place_in_the_archive_holds_what_is_live(streams: Streams, lake: str, query: Query) -> None:
    streams.create("A", max_msgs=50)
    streams.fill("A", 50)
    archive(streams, "A", lake, 20)
    reader = query.reader(maxMessagesPerTrigger=10)
    start = reader.initialOffset()
    streams.fill("A", 40, begin=50)
    assert streams.state("A")["messages"] == 70, "held: the limit would leave 50"
    end = next_end(reader, start)
    assert read(reader, start, end) == numbered(1, 10)
    reader.commit(end)
    query.checkpoint = end
    assert query.run() == numbered(11, 90)
    reader.commit(query.checkpoint)
    streams.fill("A", 1, begin=90)
    assert streams.state("A")["messages"] == 50


def test_a_durable_consumer_is_told(streams: Streams, lake: str, query: Query) -> None:
    streams.create("A")
    streams.fill("A", 60)
    archive(streams, "A", lake, 30)
    config = {"durable_name": "LAG", "ack_policy": "all", "headers_only": True}
    streams.api("CONSUMER.DURABLE.CREATE.A.LAG", {"stream_name": "A", "config": config})
    assert query.run(durable="LAG", maxMessagesPerTrigger=8) == numbered(1, 60)
    assert streams.api("CONSUMER.INFO.A.LAG")["ack_floor"]["stream_seq"] == 60


def test_a_bucket_whose_entries_are_replaced_loses_nothing(streams: Streams, lake: str) -> None:
    streams.create("KV_b", max_msgs_per_subject=1, subjects=["$KV.b.>"], allow_rollup_hdrs=True)
    streams.publish([("$KV.b.x", b"1"), ("$KV.b.y", b"2")])
    archive(streams, "KV_b", lake, 2, drop=False)
    query = Query(streams, stream="KV_b", archive=lake, hold="false")
    reader = query.reader()
    start = reader.initialOffset()
    streams.publish([("$KV.b.x", b"3"), ("$KV.b.y", b"4"), ("$KV.b.x", b"5")])
    assert streams.state("KV_b")["first_seq"] == 4
    end = next_end(reader, start)
    assert read(reader, start, end) == [b"1", b"2", b"4", b"5"], "two archived, the third replaced, two live"
