"""Batch reads: every message once, as it was published; columns, ranges, filters, buckets, object stores."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import slipstream
from slipstream.testing import ServerThread
from support import nats_py
from support.config_loading import options
from support.jwt import USER, Key
from support.server_process import ServerProcess
from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(300)


def read(spark: SparkSession, streams: Streams, **options: Any) -> DataFrame:
    return spark.read.format("slipstream").options(servers=streams.url, **options).load()


def test_every_message_once_as_it_was_published(spark: SparkSession, streams: Streams, name: str) -> None:
    streams.create(name)
    streams.publish([(f"{name}.a.{n}", b"\x00\xff%d" % n) for n in range(500)])
    streams.publish([(f"{name}.b", b"")], b"NATS/1.0\r\nX: 1\r\nX: 2\r\nY: \xc3\xa4\r\n\r\n")
    streams.api(f"STREAM.MSG.DELETE.{name}", {"seq": 7})
    expected = streams.rows(name, "stream", "seq", "ts", "subject", "headers", "payload")
    assert len(expected) == 500
    frame = read(spark, streams, stream=name, numPartitions=4)
    assert frame.rdd.getNumPartitions() == 4
    found = [row.asDict() for row in frame.orderBy("seq").collect()]
    for row, message in zip(found, expected, strict=True):
        assert (row["stream"], row["seq"], row["subject"]) == (name, message["seq"], message["subject"])
        assert bytes(row["payload"]) == message["payload"]
        assert row["headers"] == (None if message["headers"] is None else dict(message["headers"]))
    assert found[-1]["headers"] == {"X": ["1", "2"], "Y": ["ä"]}
    times = [row.t for row in frame.selectExpr("unix_micros(ts) t").orderBy("t").collect()]
    assert times == sorted(int(message["ts"].timestamp() * 1_000_000 + 0.5) for message in expected)


def test_columns_and_payload_formats(spark: SparkSession, streams: Streams, name: str) -> None:
    streams.create(name)
    streams.publish([(f"{name}.x", json.dumps({"id": n, "tags": ["a"], "other": 1}).encode()) for n in range(3)])
    streams.publish([(f"{name}.x", b"no json")])
    assert read(spark, streams, stream=name, columns="seq,size").columns == ["seq", "size"]
    by_schema = (
        spark.read.format("slipstream").schema("payload binary, seq long").options(servers=streams.url, stream=name)
    )
    assert by_schema.load().orderBy("seq").first()["seq"] == 1  # type: ignore[index]
    text = read(spark, streams, stream=name, payloadFormat="string", columns="payload")
    assert {row.payload for row in text.collect()} >= {"no json"}
    rows = read(
        spark,
        streams,
        stream=name,
        payloadFormat="json",
        payloadSchema="id bigint, tags array<string>",
        columns="seq,payload",
    )
    assert [row.payload for row in rows.orderBy("seq").collect()] == [*(Row(id=n, tags=["a"]) for n in range(3)), None]


def test_payloads_of_a_registered_schema(spark: SparkSession, streams: Streams, name: str) -> None:
    record = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "long"}, {"name": "tags", "type": {"type": "array", "items": "string"}}],
    }
    schema = {"subjects": [f"{name}.>"], "format": "avro", "versions": [json.dumps(record)]}
    streams.create(name, metadata={"slipstream.schema.r": json.dumps(schema)})
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, fastavro.parse_schema(record), {"id": 7, "tags": ["a", "b"]})
    streams.publish([(f"{name}.x", payload.getvalue()), (f"{name}.x", b"none")])
    frame = read(spark, streams, stream=name, payloadFormat="schema", columns="seq,payload")
    assert frame.schema["payload"].dataType.simpleString() == "struct<id:bigint,tags:array<string>>"
    rows = frame.select("seq", "payload.id", "payload.tags").orderBy("seq").collect()
    assert [tuple(row) for row in rows] == [(1, 7, ["a", "b"]), (2, None, None)]


def test_ranges(spark: SparkSession, streams: Streams, name: str) -> None:
    streams.create(name)
    streams.fill(name, 100)

    def seqs(**options: Any) -> list[int]:
        return sorted(row.seq for row in read(spark, streams, stream=name, columns="seq,ts", **options).collect())

    assert seqs(startingSequence=90, endingSequence=95) == list(range(90, 96))
    middle = read(spark, streams, stream=name, columns="seq,ts_ns").where("seq = 50").first()
    assert middle is not None
    streams.purge(name, seq=41)
    assert seqs() == list(range(41, 101))
    assert seqs(startingSequence=5, outOfRange="adjust") == list(range(41, 101))
    with pytest.raises(Exception, match="outOfRange=adjust"):
        seqs(startingSequence=5)
    assert seqs(starting="latest") == []
    assert len(seqs(startingTime="2100-01-01")) == 0
    assert len(seqs(endingTime="2100-01-01T00:00:00Z")) == 60


def test_filters_go_to_the_server(spark: SparkSession, streams: Streams, name: str) -> None:
    streams.create(name)
    streams.fill(name, 1000)

    def where(condition: str, **options: Any) -> DataFrame:
        return read(spark, streams, stream=name, pushdown="true", **options).where(condition)

    one = where(f"subject = '{name}.3' and seq > 100 and seq <= 900")
    assert "Filter" not in one._jdf.queryExecution().optimizedPlan().toString()
    assert sorted(row.seq for row in one.collect()) == [seq for seq in range(101, 901) if (seq - 1) % 10 == 3]
    assert where(f"subject like '{name}.%' and seq in (5, 7, 9)").count() == 3
    assert where("seq = 5 and seq = 6").count() == 0
    assert where("ts < timestamp'2001-01-01'").count() == 0
    assert where(f"subject = '{name}.3' or seq = 1").count() == 101
    both = f"{name}.3,{name}.4"
    assert where(f"subject = '{name}.4'", subjects=both).count() == 100
    assert where(f"subject = '{name}.5'", subjects=both).count() == 0
    assert where(f"subject like '{name}.%'", subjects=both).count() == 200


def test_a_frame_can_be_used_for_many_queries(spark: SparkSession, streams: Streams, name: str) -> None:
    """Spark keeps what was pushed with the frame, so by default nothing is."""
    streams.create(name)
    streams.fill(name, 100)
    frame = read(spark, streams, stream=name)
    assert [frame.where("seq = 5").count(), frame.count(), frame.where("seq = 1 or seq = 2").count()] == [1, 100, 2]
    assert frame.where("seq <= 5").union(frame.where("seq > 5")).count() == 100
    low, high = frame.where("seq <= 10").alias("low"), frame.where("seq > 5").alias("high")
    assert low.join(high, "seq").count() == 5
    assert frame.alias("all").join(low, "seq").count() == 10
    kept = frame.where("seq > 90").cache()
    try:
        assert [kept.count(), frame.where("seq > 80").count(), kept.where("seq > 95").count()] == [10, 20, 5]
    finally:
        kept.unpersist(blocking=True)
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        assert low.join(high.groupBy("subject").count(), "subject").count() == 10
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", before)
    assert read(spark, streams, stream=name, subjects=f"{name}.3,{name}.4").count() == 20


def test_spark_still_keeps_what_was_pushed(spark: SparkSession, streams: Streams, name: str) -> None:
    """Why nothing is pushed by default. When this fails, Spark plans each query by itself: push by default then."""
    streams.create(name)
    streams.fill(name, 100)
    frame = read(spark, streams, stream=name, pushdown="true")
    assert frame.where("seq = 5").count() == 1
    assert frame.count() == 1  # there are 100


def test_sql_and_several_streams(spark: SparkSession, streams: Streams, name: str) -> None:
    for suffix, count in (("x", 30), ("y", 12)):
        streams.create(f"{name}{suffix}")
        streams.fill(f"{name}{suffix}", count)
    spark.sql(f"CREATE TEMPORARY VIEW {name} USING slipstream OPTIONS (servers '{streams.url}', streams '{name}*')")
    rows = spark.sql(f"SELECT stream, count(*) n FROM {name} GROUP BY stream ORDER BY stream").collect()
    assert [(row.stream, row.n) for row in rows] == [(f"{name}x", 30), (f"{name}y", 12)]


def test_a_bucket_and_an_object_store_written_by_a_client(
    spark: SparkSession, node: ServerProcess, streams: Streams, name: str
) -> None:
    async def scenario() -> None:
        async with nats_py.connected(node) as client:
            jetstream = client.jetstream()
            bucket = await jetstream.create_key_value(bucket=name, history=5)
            await bucket.put("apple", b"1")
            await bucket.put("pear.green", b"2")
            await bucket.delete("apple")
            store = await jetstream.create_object_store(name)
            await store.put("large", b"abc" * 100_000)
            await store.put("small", b"x")
            await store.put("gone", b"y")
            await store.delete("gone")
            await store.put("small", b"new")

    nats_py.run(scenario)
    rows = read(spark, streams, bucket=name).orderBy("revision").collect()
    assert [(row.key, row.value and bytes(row.value), row.op, row.revision) for row in rows] == [
        ("apple", b"1", "PUT", 1),
        ("pear.green", b"2", "PUT", 2),
        ("apple", None, "DEL", 3),
    ]
    objects = {row.name: bytes(row.data) for row in read(spark, streams, objectStore=name).collect()}
    assert objects == {"large": b"abc" * 100_000, "small": b"new"}
    with pytest.raises(Exception, match="maxObjectBytes"):
        read(spark, streams, objectStore=name, maxObjectBytes="1k").collect()
    sizes = read(spark, streams, objectStore=name, maxObjectBytes="1k", columns="name,size").collect()
    assert {(row.name, row["size"]) for row in sizes} == {("large", 300_000), ("small", 3)}


def test_errors_say_what_to_do(spark: SparkSession, streams: Streams, name: str) -> None:
    with pytest.raises(Exception, match="there is no stream 'NOWHERE'"):
        read(spark, streams, stream="NOWHERE").count()
    with pytest.raises(Exception, match="did you mean 'stream'"):
        read(spark, streams, strem="X")
    with pytest.raises(Exception, match="is bigint, not int"):
        spark.read.format("slipstream").schema("seq int").options(servers=streams.url, stream="X").load().count()
    with pytest.raises(Exception, match="cannot connect"):
        spark.read.format("slipstream").options(
            servers="nats://127.0.0.1:1", stream="X", readTimeout="1s"
        ).load().count()
    streams.create(name)
    plan = read(spark, streams, stream=name)._jdf.queryExecution().toString()
    assert "assword" not in plan


def test_the_audit_trail_is_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """Who did what, from where, and with what result, as users of the system account read it."""
    accounts = "accounts { APP { jetstream: enabled, users: [{user: ann, password: a}] }, "
    accounts += f"$SYS {{ users: [{{nkey: {Key(USER, 'admin').public}}}] }} }}"
    secret = tmp_path / "admin.nk"
    secret.write_bytes(Key(USER, "admin").seed)
    text = f'listen: "127.0.0.1:-1", {accounts}\njetstream {{ store_dir: "{tmp_path}/store", audit: true }}'
    with ServerThread(options(text)) as server:
        where = server.url.removeprefix("nats://")
        with slipstream.connect(f"nats://ann:a@{where}") as ann:
            ann.jetstream().create_stream("ORDERS", subjects=["orders"])
            ann.jetstream().stream("ORDERS").purge()
        trail = spark.read.format("slipstream").options(
            servers=server.url,
            nkeyFile=str(secret),
            stream="SLIPSTREAM_AUDIT",
            payloadFormat="json",
            payloadSchema="action string, stream string, result string, client struct<user string, host string>",
        )
        found = trail.load().orderBy("seq").selectExpr("payload.*").collect()
    assert [(row.action, row.stream, row.result, row.client.user, row.client.host) for row in found] == [
        ("stream.create", "ORDERS", "ok", "ann", "127.0.0.1"),
        ("stream.purge", "ORDERS", "ok", "ann", "127.0.0.1"),
    ]
