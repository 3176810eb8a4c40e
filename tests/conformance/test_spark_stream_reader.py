"""The streaming reader against a server, called as Spark calls it, without Spark: losses, holds, limits, consumers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, LongType, StructType

from slipstream.bulk import BulkError
from slipstream.spark.data_source import SlipstreamSource
from slipstream.spark.runtime import connection
from slipstream.spark.runtime.errors import DataLoss, OptionError
from slipstream.spark.runtime.target import Reach
from support.servers import Launcher
from support.spark_streams import Streams
from support.stream_queries import SCHEMA, Query, read, started


@pytest.fixture
def streams(ours: Launcher, monkeypatch: pytest.MonkeyPatch) -> Iterator[Streams]:
    """A server of the test's own."""
    yield from started(ours, monkeypatch)


@pytest.fixture
def any_streams(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> Iterator[Streams]:
    """The same, also nats-server."""
    yield from started(launcher, monkeypatch)


def test_losses_are_errors_unless_accepted(streams: Streams) -> None:
    streams.create("A")
    query = Query(streams, stream="A")
    assert query.run() == []
    first = streams.fill("A", 10)
    assert query.run() == first
    streams.fill("A", 10, begin=10)
    streams.purge("A", seq=16)
    with pytest.raises(DataLoss, match="no longer holds messages 11 to 15"):
        query.run()
    assert query.run(failOnDataLoss="false") == [b"%06d" % number for number in range(15, 20)]
    streams.delete("A")
    streams.create("A")
    anew = streams.fill("A", 3, begin=100)
    with pytest.raises(DataLoss, match="deleted and created again"):
        query.run()
    assert query.run(failOnDataLoss="false") == anew
    streams.delete("A")
    with pytest.raises(DataLoss, match="stream 'A' is gone"):
        query.run()
    assert query.run(failOnDataLoss="false") == []


def test_a_batch_can_be_read_again_exactly_while_it_is_open(streams: Streams) -> None:
    """Limits leave what is not committed, also for a reader that begins again, until twice the limit is reached."""
    streams.create("A", max_msgs=50)
    expected = streams.fill("A", 50)
    reader = Query(streams, stream="A").reader()
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    streams.fill("A", 40, begin=50)
    assert read(reader, start, end) == expected
    again = Query(streams, stream="A").reader()
    assert read(again, start, end) == expected
    again.commit(end)
    reader.commit(end)
    streams.fill("A", 1, begin=90)
    assert streams.state("A")["first_seq"] == 42
    with pytest.raises(DataLoss, match="no longer holds messages 1 to 41"):
        again.partitions(start, end)


def test_messages_that_go_between_plan_and_read_are_missed(streams: Streams) -> None:
    streams.create("A")
    streams.fill("A", 20)
    query = Query(streams, stream="A", hold="false")
    reader = query.reader()
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    tasks = reader.partitions(start, end)
    streams.api("STREAM.MSG.DELETE.A", {"seq": 7})
    with pytest.raises(DataLoss, match="has 19 of the 20 messages"):
        [batch for task in tasks for batch in reader.read(task)]
    assert len(read(query.reader(), start, end)) == 19, "planned anew it is a gap like any other"


def test_limits_and_filters(streams: Streams) -> None:
    streams.create("A")
    expected = streams.fill("A", 100)
    query = Query(streams, stream="A", subjects="A.3,A.4", maxMessagesPerTrigger=6)
    assert query.run() == [payload for payload in expected if payload[-1:] in b"34"]
    assert [len(batch) for batch in query.batches] == [6, 6, 6, 2]
    by_bytes = Query(streams, stream="A", maxBytesPerTrigger=500)
    assert by_bytes.run() == expected and len(by_bytes.batches) > 5


def test_a_least_number_waits_unless_the_query_is_to_finish(streams: Streams) -> None:
    streams.create("A")
    streams.fill("A", 5)
    query = Query(streams, stream="A", minMessagesPerTrigger=10)
    reader = query.reader()
    start = reader.initialOffset()
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start
    assert reader.reportLatestOffset()["s"]["A"]["q"] == 6
    assert len(query.run()) == 5


def test_starts(streams: Streams) -> None:
    streams.create("A")
    streams.fill("A", 5)

    def first(**options: Any) -> int:
        given = {name: str(value) for name, value in {"servers": streams.url, "stream": "A", **options}.items()}
        reader = SlipstreamSource(given).streamReader(SCHEMA)
        return int(reader.initialOffset()["s"]["A"]["q"])

    assert first() == 6
    assert first(starting="earliest") == 1
    assert first(startingSequence=3) == 3
    assert first(startingTime="2001-01-01") == 1
    assert first(startingTime="2100-01-01") == 6
    streams.purge("A", seq=4)
    with pytest.raises(DataLoss, match="outOfRange=adjust"):
        first(startingSequence=2)
    assert first(startingSequence=2, outOfRange="adjust") == 4


def test_a_start_beyond_the_end_is_waited_for(any_streams: Streams) -> None:
    any_streams.create("A")
    any_streams.fill("A", 10)
    query = Query(any_streams, stream="A", startingSequence=15, starting="")
    reader = query.reader()
    start = json.loads(json.dumps(reader.initialOffset()))
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start
    any_streams.fill("A", 3, begin=10)
    again = query.reader()
    assert again.latestOffset(start, again.getDefaultReadLimit()) == start
    any_streams.fill("A", 5, begin=13)
    end = again.latestOffset(start, again.getDefaultReadLimit())
    assert read(again, start, end) == [b"%06d" % number for number in range(14, 18)]
    assert end["s"]["A"].keys() == {"q", "id"}


def test_several_streams_and_new_ones(streams: Streams) -> None:
    for name in ("Sa", "Sb"):
        streams.create(name)
        streams.fill(name, 40)
    query = Query(streams, streams="S*", maxMessagesPerTrigger=30)
    assert len(query.run()) == 80
    assert all(len(batch) <= 30 for batch in query.batches)
    streams.create("Sc")
    assert query.run() == []
    new = streams.fill("Sc", 5)
    assert query.run() == new


def test_a_stream_that_joins_is_read_again_exactly(streams: Streams) -> None:
    streams.create("Sa")
    streams.fill("Sa", 10)
    query = Query(streams, streams="S*")
    query.run()
    streams.create("Sb", max_msgs=50)
    streams.fill("Sb", 20)
    streams.purge("Sb", seq=5)
    expected = streams.payloads("Sb")
    start = query.checkpoint
    assert start is not None
    reader = query.reader()
    end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    streams.fill("Sb", 60, begin=20)
    assert streams.state("Sb")["first_seq"] == 5, "held as soon as it was seen"
    assert read(reader, start, end) == expected
    assert read(query.reader(), start, end) == expected
    query.checkpoint = end
    assert len(query.run()) == 60
    streams.purge("Sb", seq=9)
    with pytest.raises(DataLoss, match="'Sb' no longer holds messages 5 to 8"):
        query.reader().partitions(start, end)
    assert len(read(query.reader(failOnDataLoss="false"), start, end)) == 12


def test_a_durable_consumer_is_told(streams: Streams) -> None:
    streams.create("A")
    streams.fill("A", 60)
    config = {"durable_name": "LAG", "ack_policy": "all", "headers_only": True}
    streams.api("CONSUMER.DURABLE.CREATE.A.LAG", {"stream_name": "A", "config": config})
    query = Query(streams, stream="A", durable="LAG", maxMessagesPerTrigger=25)
    query.run()
    streams.fill("A", 3, begin=60)
    info = streams.api("CONSUMER.INFO.A.LAG")
    assert (info["ack_floor"]["stream_seq"], info["num_pending"]) == (60, 3)
    made = len(query.batches)
    with pytest.raises(OptionError, match=r"stream 'A' has no consumer 'NOBODY'; create it first.* --ack all"):
        query.run(durable="NOBODY")
    with pytest.raises(OptionError, match="has no consumer 'NOBODY'"):
        Query(streams, stream="A", durable="NOBODY").reader().initialOffset()
    streams.api(
        "CONSUMER.DURABLE.CREATE.A.EACH",
        {"stream_name": "A", "config": {**config, "durable_name": "EACH", "ack_policy": "explicit"}},
    )
    with pytest.raises(OptionError, match="ack policy 'all'"):
        query.run(durable="EACH")
    assert len(query.batches) == made, "checked before a batch is made"


def test_a_bucket_whose_entries_are_replaced_loses_nothing(any_streams: Streams) -> None:
    config = {"max_msgs_per_subject": 1, "subjects": ["$KV.b.>"], "allow_rollup_hdrs": True}
    any_streams.create("KV_b", **config)
    any_streams.publish([("$KV.b.x", b"1"), ("$KV.b.y", b"2")])
    source = SlipstreamSource({"servers": any_streams.url, "bucket": "b", "starting": "earliest", "hold": "false"})
    reader = source.streamReader(StructType().add("revision", LongType()).add("value", BinaryType()))
    start = reader.initialOffset()
    any_streams.publish([("$KV.b.x", b"3")])
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    rows = [row for task in reader.partitions(start, end) for batch in reader.read(task) for row in batch.to_pylist()]
    assert sorted((row["revision"], row["value"]) for row in rows) == [(2, b"2"), (3, b"3")]


def test_limits_are_losses_also_where_messages_are_replaced(any_streams: Streams) -> None:
    any_streams.create("A", max_msgs_per_subject=1000, max_msgs=100)
    any_streams.fill("A", 100)
    query = Query(any_streams, stream="A", hold="false")
    assert len(query.run()) == 100
    any_streams.fill("A", 500, begin=100)
    with pytest.raises(DataLoss, match="no longer holds messages 101 to 500"):
        query.run()
    with pytest.raises(DataLoss, match="startingSequence 1 of stream 'A' is older"):
        Query(any_streams, stream="A", startingSequence=1, starting="").run()
    assert len(query.run(failOnDataLoss="false")) == 100


def test_a_purge_is_a_loss_also_where_messages_are_replaced(any_streams: Streams) -> None:
    any_streams.create("A", max_msgs_per_subject=5)
    query = Query(any_streams, stream="A", hold="false")
    any_streams.fill("A", 10)
    assert len(query.run()) == 10
    any_streams.fill("A", 20, begin=10)
    any_streams.purge("A")
    with pytest.raises(DataLoss, match="no longer holds messages 11 to 30"):
        query.run()


def test_a_busy_bucket_with_an_age_loses_nothing_as_long_as_it_is_read_in_time(any_streams: Streams) -> None:
    hour_ns = 3_600 * 10**9
    any_streams.create(
        "KV_b", max_msgs_per_subject=1, max_age=hour_ns, subjects=["$KV.b.>"], discard="new", max_bytes=10**6
    )
    any_streams.publish([("$KV.b.x", b"0")])
    query = Query(any_streams, stream="KV_b", hold="false")
    for number in range(3):
        any_streams.publish([("$KV.b.x", b"%d" % n) for n in range(number + 5)])
        assert query.run() == [b"%d" % (number + 4)], "the newest of the only key"
    assert query.checkpoint is not None
    place = query.checkpoint["s"]["KV_b"]
    # The same place, reached so long ago that what came next may have been too old.
    query.checkpoint["s"]["KV_b"] = {**place, "t": place["t"] - hour_ns}
    reader = query.reader()
    assert reader.latestOffset(query.checkpoint, reader.getDefaultReadLimit()) == query.checkpoint
    any_streams.publish([("$KV.b.x", b"new"), ("$KV.b.x", b"newer")])
    with pytest.raises(DataLoss, match="no longer holds"):
        query.run()
    end = reader.latestOffset(query.checkpoint, reader.getDefaultReadLimit())
    assert read(reader, query.checkpoint, end) == [b"newer"], "this reader has just seen that nothing was there"


def test_a_stream_without_direct_gets_says_so(streams: Streams) -> None:
    streams.create("A")
    streams.fill("A", 3)
    with pytest.raises(BulkError, match="set its allow_direct"):
        Query(streams, stream="A", transport="direct").run()
    streams.api("STREAM.UPDATE.A", {"name": "A", "subjects": ["A.>"], "storage": "file", "allow_direct": True})
    assert len(Query(streams, stream="A", transport="direct").run()) == 3


def test_options_that_make_no_sense(streams: Streams) -> None:
    with pytest.raises(OptionError, match="does not go with a streaming read"):
        Query(streams, stream="A", endingSequence=5).reader()
    with pytest.raises(DataLoss, match="there is no stream 'NOWHERE'"):
        Query(streams, stream="NOWHERE").run()
    assert Reach(servers=streams.url) in connection._connections
