"""Streaming reads: limits, restarts, losses, holds, lag, durable consumers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slipstream.spark.progress import lag
from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(300)
WAIT_S = 120


class Collected:
    """What a query has handed over, by batch; a batch that is run again replaces itself, as in an idempotent sink."""

    def __init__(self) -> None:
        self.batches: dict[int, list[bytes]] = {}

    def __call__(self, frame: DataFrame, number: int) -> None:
        rows = frame.select("seq", "payload").collect()
        self.batches[number] = [bytes(row.payload) for row in sorted(rows)]

    @property
    def payloads(self) -> list[bytes]:
        return [payload for number in sorted(self.batches) for payload in self.batches[number]]


class Query:
    """A streaming query of a stream into a `Collected`, to be run several times."""

    def __init__(self, spark: SparkSession, server: Streams, checkpoint: Path, **options: Any) -> None:
        self._spark = spark
        self.options = {"servers": server.url, "starting": "earliest", **options}
        self._checkpoint = str(checkpoint)
        self.collected = Collected()

    def start(self, on_batch: Callable[[DataFrame, int], None] | None = None, **trigger: Any) -> StreamingQuery:
        frame = self._spark.readStream.format("slipstream").options(**self.options).load()
        writer = frame.writeStream.foreachBatch(on_batch or self.collected)
        return (
            writer.option("checkpointLocation", self._checkpoint).trigger(**trigger or {"availableNow": True}).start()
        )

    def run(self) -> StreamingQuery:
        """Everything that is there now."""
        query = self.start()
        assert query.awaitTermination(WAIT_S)
        return query


def test_limits_and_restarts(spark: SparkSession, streams: Streams, name: str, tmp_path: Path) -> None:
    streams.create(name)
    expected = streams.fill(name, 250)
    query = Query(spark, streams, tmp_path, stream=name, maxMessagesPerTrigger=100, minMessagesPerTrigger=1000)
    query.run()
    assert [len(batch) for batch in query.collected.batches.values()] == [100, 100, 50]
    expected += streams.fill(name, 30, begin=250)
    done = query.run()
    assert query.collected.payloads == expected
    assert lag(done.lastProgress) == {name: 0}


def test_a_new_query_begins_at_the_end_and_sees_what_comes(
    spark: SparkSession, streams: Streams, name: str, tmp_path: Path
) -> None:
    streams.create(name)
    streams.fill(name, 20)
    query = Query(spark, streams, tmp_path, stream=name, starting="latest", subjects=f"{name}.1,{name}.2")
    running = query.start(processingTime="50 milliseconds")
    try:
        running.processAllAvailable()
        streams.fill(name, 20, begin=20)
        running.processAllAvailable()
    finally:
        running.stop()
    assert query.collected.payloads == [b"%06d" % number for number in (21, 22, 31, 32)]


def test_losses_stop_a_query_unless_accepted(spark: SparkSession, streams: Streams, name: str, tmp_path: Path) -> None:
    streams.create(name)
    first = streams.fill(name, 10)
    query = Query(spark, streams, tmp_path, stream=name)
    query.run()
    streams.fill(name, 10, begin=10)
    streams.purge(name, seq=16)
    with pytest.raises(Exception, match="no longer holds messages 11 to 15"):
        query.run()
    query.options["failOnDataLoss"] = "false"
    query.run()
    assert query.collected.payloads == first + [b"%06d" % number for number in range(15, 20)]
    streams.delete(name)
    streams.create(name)
    anew = streams.fill(name, 3, begin=100)
    query.options["failOnDataLoss"] = "true"
    with pytest.raises(Exception, match="deleted and created again"):
        query.run()
    query.options["failOnDataLoss"] = "false"
    query.run()
    assert query.collected.payloads[-3:] == anew
    streams.delete(name)
    query.options["failOnDataLoss"] = "true"
    with pytest.raises(Exception, match=f"stream '{name}' is gone"):
        query.run()


def test_limits_of_a_stream_wait_for_a_running_query(
    spark: SparkSession, streams: Streams, name: str, tmp_path: Path
) -> None:
    """Messages that a batch has yet to read are held, though the stream keeps only so many (and up to twice that)."""
    streams.create(name, max_msgs=50)
    expected = streams.fill(name, 50)
    collected = Collected()

    def on_batch(frame: DataFrame, number: int) -> None:
        if number == 0:
            # The batch is planned and not read: now its messages would have to go.
            expected.extend(streams.fill(name, 40, begin=50))
            assert streams.state(name)["messages"] == 90
        collected(frame, number)

    query = Query(spark, streams, tmp_path, stream=name, maxMessagesPerTrigger=25)
    first = query.start(on_batch)
    assert first.awaitTermination(WAIT_S)
    assert collected.payloads == expected[:50]
    second = query.start(collected)
    assert second.awaitTermination(WAIT_S)
    assert collected.payloads == expected


def test_a_durable_consumer_shows_the_lag(spark: SparkSession, streams: Streams, name: str, tmp_path: Path) -> None:
    streams.create(name)
    streams.fill(name, 60)
    config = {"durable_name": "LAG", "ack_policy": "all", "headers_only": True}
    streams.api(f"CONSUMER.DURABLE.CREATE.{name}.LAG", {"stream_name": name, "config": config})
    query = Query(spark, streams, tmp_path, stream=name, durable="LAG", maxMessagesPerTrigger=25)
    query.run()
    assert len(query.collected.payloads) == 60
    info = streams.api(f"CONSUMER.INFO.{name}.LAG")
    # Spark commits a batch when the next one is planned; the last one is committed by the next run.
    assert info["ack_floor"]["stream_seq"] >= 50
    query.run()
    query.options["durable"] = "NOBODY"
    streams.fill(name, 60, begin=60)
    with pytest.raises(Exception, match="consumer 'NOBODY'"):
        query.run()


def test_buckets_and_several_streams(spark: SparkSession, streams: Streams, name: str, tmp_path: Path) -> None:
    for suffix in "ab":
        streams.create(f"{name}{suffix}")
        streams.fill(f"{name}{suffix}", 40)
    query = Query(spark, streams, tmp_path, streams=f"{name}*", maxMessagesPerTrigger=30)
    query.run()
    assert all(len(batch) <= 30 for batch in query.collected.batches.values())
    streams.create(f"{name}c")
    streams.fill(f"{name}c", 5)
    query.run()
    assert len(query.collected.payloads) == 85


def test_options_that_make_no_sense(spark: SparkSession, streams: Streams, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="does not go with a streaming read"):
        Query(spark, streams, tmp_path, stream="X", endingSequence=5).run()
