"""A stream and its archive in one read, while messages move from the one to the other."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import slipstream.spark
from slipstream.spark import jobs
from slipstream.spark.runtime.target import Reach
from support.spark_streams import Streams

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


@pytest.fixture
def read(spark: SparkSession, streams: Streams, name: str, lake: str) -> Callable[..., DataFrame]:
    """Both in one read of the source."""

    def frame(**options: Any) -> DataFrame:
        reader = spark.read.format("slipstream").options(servers=streams.url, stream=name, archive=lake)
        return reader.options(**options).load()

    return frame


def sequences(frame: DataFrame) -> list[int]:
    return [row.seq for row in frame.select("seq").orderBy("seq").collect()]


def test_a_table_finds_what_is_archived_and_dropped_after_it_was_made(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str
) -> None:
    streams.create(name)
    streams.fill(name, 50)
    jobs.archive(spark, name, lake, reach=reach, upto=20, drop=True)
    table = slipstream.spark.table(spark, name, archive=lake, reach=reach)
    jobs.archive(spark, name, lake, reach=reach, upto=40, drop=True)
    assert sequences(table) == list(range(1, 51))
    planned = slipstream.spark.table(spark, name, archive=lake, reach=reach)
    assert planned.count() == 50
    jobs.archive(spark, name, lake, reach=reach, drop=True)
    streams.fill(name, 5)
    assert sequences(planned) == list(range(1, 51))


def test_a_table_without_what_was_removed_is_an_error(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str
) -> None:
    streams.create(name)
    streams.fill(name, 50)
    jobs.archive(spark, name, lake, reach=reach, upto=20)
    table = slipstream.spark.table(spark, name, archive=lake, reach=reach)
    alone = slipstream.spark.table(spark, name, reach=reach)
    streams.purge(name, seq=31)
    with pytest.raises(Exception, match=r"messages 21 to 30 of stream .* are neither archived nor in the stream"):
        table.count()
    with pytest.raises(Exception, match="older than what it keeps"):
        alone.count()
    streams.purge(name)
    with pytest.raises(jobs.JobError, match=r"messages 21 to 50 of .* neither archived nor in the stream"):
        slipstream.spark.table(spark, name, archive=lake, reach=reach)
    assert slipstream.spark.table(spark, name, archive=lake, reach=reach, as_of=20).count() == 20


def test_as_of_takes_sequences_and_times_and_nothing_else(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str
) -> None:
    streams.create(name)
    streams.fill(name, 10)
    jobs.archive(spark, name, lake, reach=reach, upto=5, drop=True)

    def count(as_of: Any) -> int:
        return slipstream.spark.table(spark, name, archive=lake, reach=reach, as_of=as_of).count()

    now = datetime.now(UTC)
    later, zone = now + timedelta(hours=1), timezone(timedelta(hours=5))
    assert [count(one) for one in (7, "2020-01-01", datetime(2020, 1, 1, tzinfo=UTC))] == [7, 0, 0]
    assert [count(one) for one in (later, later.isoformat(), later.replace(tzinfo=None).isoformat())] == [10, 10, 10]
    assert count(later.astimezone(zone).isoformat()) == 10
    assert count((now - timedelta(hours=1)).astimezone(zone).isoformat()) == 0
    assert count(later.astimezone().replace(tzinfo=None)) == 10  # without a zone it is local, as Spark's rows are
    for wrong in ("yesterday", "7", 7.5, True, -1, b"2020-01-01"):
        with pytest.raises(jobs.JobError, match="as_of"):
            count(wrong)


def test_the_source_reads_below_the_stream_from_its_archive(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, read: Callable[..., DataFrame]
) -> None:
    streams.create(name)
    expected = streams.fill(name, 40)
    streams.publish([(f"{name}.with", b"headers")], b"NATS/1.0\r\nX: 1\r\nX: two words\r\n\r\n")
    columns = "stream,seq,ts,subject,headers,payload,ts_ns,reply,size,hdr_raw"
    before = spark.read.format("slipstream").options(servers=streams.url, stream=name, columns=columns).load()
    rows = before.orderBy("seq").collect()
    jobs.archive(spark, name, lake, reach=reach, target_bytes=1024, drop=True, keep=10)
    assert read(columns=columns).orderBy("seq").collect() == rows
    assert [bytes(row.payload) for row in read().orderBy("seq").collect()][:40] == expected
    assert sequences(read(startingSequence=25, endingSequence=35)) == list(range(25, 36))
    assert sequences(read(startingSequence=36)) == list(range(36, 42))
    assert sequences(read(endingSequence=7)) == list(range(1, 8))
    assert sequences(read(subjects=f"{name}.3")) == [4, 14, 24, 34]
    assert sequences(read(starting="latest")) == []
    assert sequences(read(pushdown=True).where("seq > 28 and seq <= 33")) == [29, 30, 31, 32, 33]
    assert [row.payload for row in read(payloadFormat="string").where("seq = 3").collect()] == ["000002"]


def test_the_cut_moves_while_a_read_is_planned(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process: Spark's planners are others."""
    from pyspark.sql.types import LongType, StructField, StructType

    from slipstream.spark.readers.batch import SlipstreamReader
    from slipstream.spark.source.options import read_source_options

    streams.create(name)
    streams.fill(name, 40)
    jobs.archive(spark, name, lake, reach=reach, upto=10, drop=True)
    archived = importlib.import_module("slipstream.spark.archive.archived")
    plan, moves = archived.plan_range, iter((20, 30))

    def moving(*args: Any) -> Any:
        upto = next(moves, None)
        if upto is not None:
            jobs.archive(spark, name, lake, reach=reach, upto=upto, drop=True)
        return plan(*args)

    monkeypatch.setattr(archived, "plan_range", moving)
    options = read_source_options({"servers": streams.url, "stream": name, "archive": lake}, streaming=False)
    reader = SlipstreamReader(StructType([StructField("seq", LongType())]), options)
    tasks = reader.partitions()
    jobs.archive(spark, name, lake, reach=reach, upto=35, drop=True)  # planned as live, archived when it is read
    found = [seq for task in tasks for batch in reader.read(task) for seq in batch.column("seq").to_pylist()]
    assert found == list(range(1, 41))


def test_an_archive_that_does_not_fit_is_refused(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, read: Callable[..., DataFrame]
) -> None:
    streams.create(name)
    streams.fill(name, 10)
    with pytest.raises(Exception, match="there is no table at"):
        read().count()
    jobs.archive(spark, name, lake, reach=reach)
    with pytest.raises(Exception, match="goes with reads of one stream"):
        spark.read.format("slipstream").options(servers=streams.url, streams=f"{name},X", archive=lake).load()
    streams.delete(name)
    streams.create(name)
    with pytest.raises(Exception, match="is of another stream"):
        read().count()


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("options", [{"streams": "A*"}, {"streams": "A,B"}, {"objectStore": "O"}])
def test_an_archive_goes_with_reads_of_one_stream(options: dict[str, str], streaming: bool) -> None:
    from slipstream.spark.runtime.errors import OptionError
    from slipstream.spark.source.options import read_source_options

    with pytest.raises(OptionError, match="goes with reads of one stream or bucket"):
        read_source_options({**options, "archive": "./lake"}, streaming=streaming)
