"""Streaming reads in Spark: limits, restarts, what comes while a query runs, lag.

More of the reader is in `tests/conformance/test_spark_stream_reader.py`, which needs no Java.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import slipstream.spark
from slipstream.spark.source.progress import lag
from support.spark_queries import WAIT_S, Query
from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(300)


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


def test_a_batch_with_a_stream_that_joined_is_run_again(
    spark: SparkSession, streams: Streams, name: str, tmp_path: Path
) -> None:
    """The driver died before it noted that batch 1 was done, and the new stream has limits."""
    streams.create(f"{name}a")
    streams.fill(f"{name}a", 5)
    query = Query(spark, streams, tmp_path, streams=f"{name}*")
    query.run()
    streams.create(f"{name}b", max_msgs=50)
    expected = streams.fill(f"{name}b", 50)
    query.run()
    assert query.collected.batches[1] == expected
    (tmp_path / "commits" / "1").unlink()
    (tmp_path / "commits" / ".1.crc").unlink(missing_ok=True)
    more = streams.fill(f"{name}b", 30, begin=50)
    query.run()
    assert (query.collected.batches[1], query.collected.batches[2]) == (expected, more)


def test_a_query_that_writes_is_started_in_a_thread(
    spark: SparkSession, streams: Streams, name: str, tmp_path: Path
) -> None:
    """Spark itself finds no format there: the Java thread behind has no session until ours is asked for."""
    streams.create(name)
    streams.create(f"{name}T")
    streams.fill(name, 10)
    outcome: list[object] = []

    def work() -> None:
        own = slipstream.spark.session()
        frame = (
            own.readStream.format("slipstream").options(servers=streams.url, stream=name, starting="earliest").load()
        )
        rows = frame.selectExpr(f"'{name}T.x' subject", "payload")
        target = rows.writeStream.format("slipstream").options(servers=streams.url, stream=f"{name}T")
        target = target.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        outcome.extend([own is spark, target.start().awaitTermination(WAIT_S)])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(WAIT_S)
    assert outcome == [True, True]
    assert streams.state(f"{name}T")["messages"] == 10


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
