"""Writes: to streams, buckets and object stores; modes, columns, dead letters, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from support import nats_py
from support.server_process import ServerProcess
from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(300)


def write(frame: DataFrame, streams: Streams, **options: Any) -> None:
    frame.write.format("slipstream").mode("append").options(servers=streams.url, **options).save()


def numbers(spark: SparkSession, name: str, count: int, partitions: int = 3) -> DataFrame:
    frame = spark.range(0, count, 1, partitions)
    return frame.selectExpr(f"concat('{name}.', id % 10) subject", "lpad(cast(id as string), 6, '0') payload")


def expected(count: int) -> list[bytes]:
    return [b"%06d" % number for number in range(count)]


def test_a_batch_is_written_whole_in_order_and_once(spark: SparkSession, streams: Streams, name: str) -> None:
    streams.create(name)
    frame = numbers(spark, name, 1000).selectExpr(
        "*", "map('Kind', array('a', 'b')) headers", "concat('id-', payload) msg_id"
    )
    write(frame, streams, stream=name, txnId=f"nightly-{name}")
    rows = streams.rows(name)
    assert [row["payload"] for row in rows] == expected(1000)
    assert rows[17]["subject"] == f"{name}.7"
    assert dict(rows[17]["headers"]) == {"Kind": ["a", "b"], "Nats-Msg-Id": ["id-000017"]}
    write(frame, streams, stream=name, txnId=f"nightly-{name}")
    assert streams.state(name)["last_seq"] == 1000


def test_what_was_read_can_be_written(spark: SparkSession, streams: Streams, name: str, tmp_path: Path) -> None:
    streams.create(name)
    streams.create(f"{name}copy", subjects=[f"copy.{name}.>"])
    payloads = streams.fill(name, 300)
    frame = (
        spark.readStream.format("slipstream")
        .options(servers=streams.url, stream=name, starting="earliest", maxMessagesPerTrigger=120, numPartitions=2)
        .load()
        .selectExpr("concat('copy.', subject) subject", "headers", "payload")
    )
    query = (
        frame.writeStream.format("slipstream")
        .options(servers=streams.url, stream=f"{name}copy", checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert streams.payloads(f"{name}copy") == payloads


def test_modes_without_transactions(spark: SparkSession, streams: Streams, name: str) -> None:
    streams.create(name)
    write(numbers(spark, name, 100), streams, stream=name, mode="append")
    assert sorted(streams.payloads(name)) == expected(100)
    frame = numbers(spark, name, 50).selectExpr("*", "payload id")
    for _ in range(2):
        write(frame, streams, stream=name, mode="msgid", idColumn="id")
    assert streams.state(name)["messages"] == 150
    with pytest.raises(Exception, match="msgid needs ids"):
        write(numbers(spark, name, 5), streams, stream=name, mode="msgid")
    write(numbers(spark, name, 5), streams, stream=name, mode="msgid", deterministic="true")
    assert streams.state(name)["messages"] == 155


def test_a_bucket_that_clients_read(spark: SparkSession, node: ServerProcess, streams: Streams, name: str) -> None:
    async def create() -> None:
        async with nats_py.connected(node) as client:
            bucket = await client.jetstream().create_key_value(bucket=name, history=3)
            await bucket.put("old", b"1")
            await bucket.put("older", b"1")

    async def look() -> dict[str, bytes | None]:
        async with nats_py.connected(node) as client:
            bucket = await client.jetstream().key_value(name)
            return {key: (await bucket.get(key)).value for key in sorted(await bucket.keys())}

    nats_py.run(create)
    entries = [("a", "1", "PUT"), ("b.c", "2", "PUT"), ("old", None, "DEL"), ("a", "3", None), ("older", None, "PURGE")]
    frame = spark.createDataFrame(entries, "key string, value string, op string").coalesce(1)
    write(frame, streams, bucket=name)
    assert nats_py.run(look) == {"a": b"3", "b.c": b"2"}
    assert streams.state(f"KV_{name}")["messages"] == 6, "of the purged key only the mark is left"
    wrong = spark.createDataFrame([("a", "9", 1)], "key string, value string, revision long")
    with pytest.raises(Exception, match="wrong last sequence"):
        write(wrong, streams, bucket=name)
    assert nats_py.run(look)["a"] == b"3"


def test_an_object_store_that_clients_read(
    spark: SparkSession, node: ServerProcess, streams: Streams, name: str
) -> None:
    async def create() -> None:
        async with nats_py.connected(node) as client:
            store = await client.jetstream().create_object_store(name)
            await store.put("replaced", b"old" * 1000)

    async def look() -> dict[str, bytes]:
        async with nats_py.connected(node) as client:
            store = await client.jetstream().object_store(name)
            return {info.name: (await store.get(info.name)).data or b"" for info in await store.list()}

    nats_py.run(create)
    content = {"replaced": b"new", "large/ä": bytes(range(256)) * 2000, "empty": b""}
    frame = spark.createDataFrame([(key, bytearray(data)) for key, data in content.items()], "name string, data binary")
    write(frame, streams, objectStore=name)
    assert nats_py.run(look) == content
    assert streams.state(f"OBJ_{name}")["num_subjects"] == 5  # three descriptions, two objects with chunks


def test_bad_rows(spark: SparkSession, streams: Streams, name: str) -> None:
    streams.create(name, max_msg_size=1024)
    streams.create(f"{name}dead", subjects=[f"dead.{name}"])
    rows = [
        (f"{name}.a", "fine"),
        ("elsewhere", "lost"),
        (f"{name}.b c", "blank"),
        (None, "nowhere"),
        (f"{name}.d", "x" * 2000),
    ]
    frame = spark.createDataFrame(rows, "subject string, payload string").coalesce(1)
    with pytest.raises(Exception, match=r"4 of 5 rows cannot be messages.*'elsewhere' is not among.*onError=dlq"):
        write(frame, streams, stream=name)
    assert streams.payloads(name) == []
    write(frame, streams, stream=name, onError="dlq", dlqSubject=f"dead.{name}", txnId=f"dead-{name}")
    write(frame, streams, stream=name, onError="dlq", dlqSubject=f"dead.{name}", txnId=f"dead-{name}")
    assert streams.payloads(name) == [b"fine"]
    dead = streams.rows(f"{name}dead")
    assert sorted(row["payload"][:7] for row in dead) == [b"blank", b"lost", b"nowhere", b"x" * 7]
    reasons = " ".join(dict(row["headers"])["Slipstream-Error"][0] for row in dead)
    for words in ("not among the subjects", "no subject to publish to", "has no subject", "2000 bytes"):
        assert words in reasons


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("payload", {}, "column 'subject' is missing"),
        ("subject, 1 payload", {}, "is int, not string or binary"),
        ("subject, payload", {"stream": "NOWHERE"}, "there is no stream 'NOWHERE'.*createStream"),
        ("subject, payload", {"mode": "fast"}, "auto, transaction"),
        ("'elsewhere' subject, payload", {}, "'elsewhere' is not among the subjects.*onError=dlq"),
    ],
)
def test_refusals(
    spark: SparkSession, streams: Streams, name: str, columns: str, options: dict[str, str], words: str
) -> None:
    streams.create(name)
    frame = numbers(spark, name, 3).selectExpr(*columns.split(", "))
    with pytest.raises(Exception, match=words):
        write(frame, streams, **{"stream": name, **options})
    assert streams.state(name)["messages"] == 0


def test_streams_can_be_created_and_never_overwritten(spark: SparkSession, streams: Streams, name: str) -> None:
    frame = numbers(spark, name, 3)
    write(frame, streams, stream=name, createStream="true", streamSubjects=f"{name}.>")
    assert streams.payloads(name) == expected(3)
    with pytest.raises(Exception, match="cannot be overwritten"):
        frame.write.format("slipstream").mode("overwrite").options(servers=streams.url, stream=name).save()
