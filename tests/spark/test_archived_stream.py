"""Streaming queries of Spark over a stream and its archive, with the jobs that move messages from one to the other.

More of the reader is in `tests/conformance/test_spark_archived_stream.py`, which needs no Java.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slipstream.spark import jobs
from slipstream.spark.runtime.target import Reach
from slipstream.spark.source.progress import lag
from support.spark_queries import Query
from support.spark_streams import Streams

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


def test_archive_stream_and_what_comes_in_one_query(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, tmp_path: Path
) -> None:
    streams.create(name)
    expected = streams.fill(name, 250)
    jobs.archive(spark, name, lake, reach=reach, upto=180, target_bytes=2048, drop=True)
    query = Query(spark, streams, tmp_path / "checkpoint", stream=name, archive=lake, maxMessagesPerTrigger=100)
    done = query.run()
    assert query.collected.payloads == expected
    assert [len(batch) for batch in query.collected.batches.values()] == [100, 100, 50]
    assert lag(done.lastProgress) == {name: 0}
    expected += streams.fill(name, 30, begin=250)
    query.run()
    assert query.collected.payloads == expected


def test_a_stopped_query_whose_place_was_archived_and_dropped(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, tmp_path: Path
) -> None:
    streams.create(name)
    expected = streams.fill(name, 60)
    jobs.archive(spark, name, lake, reach=reach, upto=10, drop=True)
    query = Query(spark, streams, tmp_path / "checkpoint", stream=name, archive=lake)
    query.run()
    expected += streams.fill(name, 100, begin=60)
    jobs.archive(spark, name, lake, reach=reach, target_bytes=1024, drop=True, keep=20)
    expected += streams.fill(name, 5, begin=160)
    jobs.compact(spark, lake, vacuum=True)
    query.run()
    assert query.collected.payloads == expected
    # The driver died before it noted that the last batch was done, and everything was archived meanwhile.
    last = max(query.collected.batches)
    before = query.collected.batches[last]
    for noted in (tmp_path / "checkpoint" / "commits").glob(f"*{last}*"):
        noted.unlink()
    jobs.archive(spark, name, lake, reach=reach, drop=True)
    query.collected.batches[last] = []
    query.run()
    assert query.collected.batches[last] == before
    assert query.collected.payloads == expected


def test_a_bucket_in_both(spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str) -> None:
    config = {"max_msgs_per_subject": 5, "allow_rollup_hdrs": True}
    streams.create(f"KV_{name}", subjects=[f"$KV.{name}.>"], **config)
    entries = [(f"$KV.{name}.k{number % 10}", b"%d" % number) for number in range(40)]
    streams.publish(entries)
    jobs.archive(spark, f"KV_{name}", lake, reach=reach, upto=25, drop=True)
    options = {"servers": streams.url, "bucket": name, "archive": lake, "starting": "earliest"}
    frame = spark.readStream.format("slipstream").options(**options).load()
    rows: list[tuple[int, str, bytes]] = []
    writer = frame.writeStream.foreachBatch(
        lambda batch, _: rows.extend((row.revision, row.key, bytes(row.value)) for row in batch.collect())
    )
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert sorted(rows) == [
        (revision, subject.rpartition(".")[2], value) for revision, (subject, value) in enumerate(entries, 1)
    ]
