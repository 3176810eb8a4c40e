"""Options that change how a read or a write goes about it, each with one through Spark."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from support import nats_py
from support.server_process import ServerProcess
from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(300)


def read(spark: SparkSession, streams: Streams, **options: Any) -> DataFrame:
    return spark.read.format("slipstream").options(servers=streams.url, **options).load()


def test_options_of_reads(spark: SparkSession, streams: Streams, name: str) -> None:
    streams.create(name)
    streams.publish([(f"{name}.x", b"%06d" % number + b"x" * 1000) for number in range(400)])
    sized = read(spark, streams, stream=name, targetPartitionBytes="150k", minPartitionRows=1, batchBytes="10k")
    assert sized.rdd.getNumPartitions() == 4, "three by size, and two tasks run at once"
    assert sorted(bytes(row.payload)[:6] for row in sized.collect()) == [b"%06d" % number for number in range(400)]
    assert read(spark, streams, stream=name, targetPartitionBytes="50k").rdd.getNumPartitions() == 1
    few = read(spark, streams, stream=name, targetPartitionBytes="50k", minPartitionRows=200)
    assert few.rdd.getNumPartitions() == 2


def test_payload_errors(spark: SparkSession, streams: Streams, name: str) -> None:
    streams.create(name)
    payloads = [b'{"id":1,"t":"2024-01-31T12:00:00Z"}', b"oops", b'{"id":1.5}', b'{"id":2,"m":{"a":1}}']
    streams.publish((f"{name}.x", payload) for payload in payloads)
    json = {"payloadFormat": "json", "payloadSchema": "id bigint, t timestamp, m map<string,int>"}
    frame = read(spark, streams, stream=name, columns="seq,payload", **json).orderBy("seq")
    rows = frame.selectExpr("payload.id", "unix_seconds(payload.t) t", "payload.m").collect()
    assert rows == [
        Row(id=1, t=1_706_702_400, m=None),
        Row(id=None, t=None, m=None),
        Row(id=None, t=None, m=None),
        Row(id=2, t=None, m={"a": 1}),
    ]
    with pytest.raises(Exception, match=r"not JSON of the given schema.*oops"):
        read(spark, streams, stream=name, columns="payload", payloadErrors="fail", **json).collect()
    with pytest.raises(Exception, match=r"payload\.x is map<int,int>: JSON is read as"):
        schema = {**json, "payloadSchema": "x map<int,int>"}
        read(spark, streams, stream=name, columns="payload", **schema).collect()


def test_keys_of_a_bucket(spark: SparkSession, streams: Streams, name: str) -> None:
    streams.create(f"KV_{name}", subjects=[f"$KV.{name}.>"], max_msgs_per_subject=3)
    streams.publish((f"$KV.{name}.{key}", key.encode()) for key in ("k0", "k1", "user.a", "user.b"))
    for subjects, keys in (("k0", ["k0"]), ("user.*,k1", ["k1", "user.a", "user.b"]), (f"$KV.{name}.k1", ["k1"])):
        assert sorted(row.key for row in read(spark, streams, bucket=name, subjects=subjects).collect()) == keys


def test_options_of_writes(spark: SparkSession, node: ServerProcess, streams: Streams, name: str) -> None:
    async def make_store() -> None:
        async with nats_py.connected(node) as client:
            await client.jetstream().create_object_store(name)

    nats_py.run(make_store)
    data = bytes(range(256)) * 100
    objects = spark.createDataFrame([("large", bytearray(data))], "name string, data binary")
    writer = objects.write.format("slipstream").mode("append")
    writer.options(servers=streams.url, objectStore=name, chunkBytes="10k").save()
    chunks = [row for row in streams.rows(f"OBJ_{name}") if row["subject"].startswith(f"$O.{name}.C.")]
    assert [len(row["payload"]) for row in chunks] == [10_240, 10_240, 5_120]
    assert [bytes(row.data) for row in read(spark, streams, objectStore=name).collect()] == [data]

    streams.create(name)
    frame = spark.range(0, 50, 1, 2).selectExpr(f"'{name}.x' subject", "cast(id as string) payload")
    writer = frame.write.format("slipstream").mode("append").options(stream=name, mode="append", maxInFlight=1)
    writer.options(servers=streams.url).save()
    assert streams.state(name)["messages"] == 50


@pytest.mark.timeout(120)
def test_a_write_gives_up_when_asked_to(spark: SparkSession, name: str) -> None:
    """By itself it would try three tasks for a minute each."""
    frame = spark.range(1).selectExpr(f"'{name}.x' subject", "'y' payload")
    writer = frame.write.format("slipstream").mode("append").options(stream=name, mode="append")
    with pytest.raises(Exception, match="cannot connect"):
        writer.options(servers="nats://127.0.0.1:1", writeTimeout="100ms", connectTimeout="1s").save()
