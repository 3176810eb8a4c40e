"""Batches that run again: because the driver died after the server's commit, or between it and what follows.

Whatever happens, the target is what the first run made it. Most tests call the sink as Spark does, without Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from slipstream.spark.runtime.errors import SparkSideError
from slipstream.spark.sink import writer
from support import nats_py
from support.server_process import ServerProcess
from support.spark_faults import FaultySource
from support.spark_sink import MESSAGE, Sink
from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(300)
OBJECT = {"name": pa.string(), "data": pa.binary()}
ENTRY = {"key": pa.string(), "value": pa.binary(), "op": pa.string()}
LARGE = bytes(range(256)) * 2000


def make_store(node: ServerProcess, name: str, **objects: bytes) -> None:
    async def create() -> None:
        async with nats_py.connected(node) as client:
            store = await client.jetstream().create_object_store(name)
            for key, data in objects.items():
                await store.put(key, data)

    nats_py.run(create)


def make_bucket(node: ServerProcess, name: str, **entries: bytes) -> None:
    async def create() -> None:
        async with nats_py.connected(node) as client:
            bucket = await client.jetstream().create_key_value(bucket=name, history=5)
            for key, data in entries.items():
                await bucket.put(key, data)

    nats_py.run(create)


def objects(node: ServerProcess, name: str) -> dict[str, bytes]:
    async def look() -> dict[str, bytes]:
        async with nats_py.connected(node) as client:
            store = await client.jetstream().object_store(name)
            return {info.name: (await store.get(info.name)).data or b"" for info in await store.list()}

    return nats_py.run(look)


def contents(streams: Streams, stream: str) -> list[tuple[int, str]]:
    """Every message: its sequence and subject."""
    return [(row["seq"], row["subject"]) for row in streams.rows(stream)]


def test_objects_stay_whole_when_their_batch_runs_again(node: ServerProcess, streams: Streams, name: str) -> None:
    make_store(node, name, replaced=b"old" * 1000)
    sink = Sink(node.url, OBJECT, objectStore=name)
    sink.write([("a", LARGE), ("replaced", b"new")])
    first = contents(streams, f"OBJ_{name}")
    assert len(first) == 4 + 1 + 2, "of the object that was replaced nothing is left"
    for _ in range(2):
        sink.write([("a", LARGE), ("replaced", b"new")])
        assert contents(streams, f"OBJ_{name}") == first
    assert objects(node, name) == {"a": LARGE, "replaced": b"new"}


@pytest.mark.parametrize("kind", ["object", "bucket"])
def test_a_driver_that_dies_right_after_the_commit(
    node: ServerProcess, streams: Streams, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was replaced is removed by the run that follows, though its commit adds nothing."""
    if kind == "object":
        make_store(node, name, x=LARGE)
        sink, rows, left = Sink(node.url, OBJECT, objectStore=name), [("x", b"new")], 2
    else:
        make_bucket(node, name, x=b"1", y=b"2")
        sink, rows, left = Sink(node.url, ENTRY, bucket=name), [("x", None, "PURGE")], 2
    stream = sink.options.target.one

    def die(*_: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr(writer, "remove_replaced", die)
        sink.write(rows)
    assert len(contents(streams, stream)) > left
    sink.write(rows)
    assert len(contents(streams, stream)) == left


def test_a_client_s_object_of_after_the_batch_stays(node: ServerProcess, name: str) -> None:
    make_store(node, name)
    sink = Sink(node.url, OBJECT, objectStore=name)
    sink.write([("a", LARGE)])

    async def put() -> None:
        async with nats_py.connected(node) as client:
            await (await client.jetstream().object_store(name)).put("a", b"by a client")

    nats_py.run(put)
    sink.write([("a", LARGE)])
    assert objects(node, name) == {"a": b"by a client"}


def test_a_purge_that_runs_again_takes_nothing_newer(node: ServerProcess, streams: Streams, name: str) -> None:
    make_bucket(node, name, k=b"1", other=b"1")
    sink = Sink(node.url, ENTRY, bucket=name)
    sink.write([("k", b"2", "PUT"), ("k", None, "PURGE"), ("k", b"3", "PUT")])
    streams.publish([(f"$KV.{name}.k", b"4"), (f"$KV.{name}.k", b"5")])
    expected = contents(streams, f"KV_{name}")
    assert [seq for seq, _ in expected] == [2, 4, 5, 6, 7], "the mark, and what was put after it"
    sink.write([("k", b"2", "PUT"), ("k", None, "PURGE"), ("k", b"3", "PUT")])
    assert contents(streams, f"KV_{name}") == expected


def test_of_objects_with_one_name_the_last_stays(node: ServerProcess, streams: Streams, name: str) -> None:
    make_store(node, name)
    sink = Sink(node.url, OBJECT, objectStore=name)
    late = sink.task([("x", b"of the second partition")], partition=1)
    early = sink.task([("x", LARGE), ("y", b"1"), ("y", b"2"), ("x", b"of the first")], partition=0)
    sink.commit([late, early])
    assert objects(node, name) == {"x": b"of the second partition", "y": b"2"}
    assert len(contents(streams, f"OBJ_{name}")) == 4


@pytest.mark.parametrize("others", [0, 6000])
def test_many_objects_and_keys_at_once(node: ServerProcess, streams: Streams, name: str, others: int) -> None:
    """Which of them have something older is asked in one go, unless the bucket has a great many others."""
    make_store(node, name, **{f"o{number}": LARGE for number in range(3)})
    store = Sink(node.url, OBJECT, objectStore=name)
    store.write([(f"o{number}", b"new") for number in range(1, 20)], [("o5", b"newer")])
    assert objects(node, name) == {"o0": LARGE, "o5": b"newer"} | {f"o{n}": b"new" for n in range(1, 20) if n != 5}
    assert len(contents(streams, f"OBJ_{name}")) == 5 + 2 * 19
    make_bucket(node, name, k3=b"1", k18=b"1")
    streams.publish((f"$KV.{name}.x{number}", b"") for number in range(others))
    bucket = Sink(node.url, ENTRY, bucket=name)
    bucket.write([(f"k{number}", None, "PURGE") for number in range(20)])
    assert len(contents(streams, f"KV_{name}")) == others + 20


@pytest.mark.parametrize("server", ["node", "plain_node"])
def test_an_appending_write_replaces_too(request: pytest.FixtureRequest, name: str, server: str) -> None:
    node: ServerProcess = request.getfixturevalue(server)
    streams = Streams(node.url)
    make_store(node, name, x=LARGE)
    sink = Sink(node.url, OBJECT, objectStore=name, mode="append")
    for _ in range(2):
        sink.write([("x", b"new")])
    assert objects(node, name) == {"x": b"new"}
    assert len(contents(streams, f"OBJ_{name}")) == 2


@pytest.mark.parametrize(
    ("kind", "fault"),
    [("object", "commit-raise"), ("bucket", "commit-raise"), ("object", "write-exit"), ("bucket", "write-raise")],
)
def test_queries_into_buckets_and_stores_under_faults(
    spark: SparkSession, node: ServerProcess, streams: Streams, name: str, tmp_path: Path, kind: str, fault: str
) -> None:
    """A task fails or dies, or the driver fails between the server's commit and Spark's; rows go to dead letters."""
    if kind == "object":
        make_store(node, f"{name}T", x3=LARGE)
        columns, target = (
            ["nullif(concat('x', seq % 8), 'x2') name", "repeat(string(payload), 30000) data"],
            "objectStore",
        )
    else:
        make_bucket(node, f"{name}T", x3=b"1")
        columns = ["concat('x', seq % 8) key", "payload value"]
        columns, target = [*columns, "if(seq % 8 = 2, 'WRONG', if(seq % 8 = 3, 'PURGE', 'PUT')) op"], "bucket"
    streams.create(name)
    streams.create(f"{name}D", subjects=[f"dead.{name}"])
    payloads = streams.fill(name, 20)
    spark.dataSource.register(FaultySource)

    def run() -> None:
        source = spark.readStream.format("slipstream").options(servers=node.url, stream=name, starting="earliest")
        frame = source.option("maxMessagesPerTrigger", 10).load().selectExpr(*columns)
        sink = frame.writeStream.format("slipstream_faulty").options(fault=fault, faultDir=str(tmp_path))
        sink = sink.options(servers=node.url, onError="dlq", dlqSubject=f"dead.{name}", **{target: f"{name}T"})
        sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))
        sink.trigger(availableNow=True).start().awaitTermination(120)

    if fault == "commit-raise":
        with pytest.raises(Exception, match="fault commit-raise"):
            run()
    run()
    assert (tmp_path / f"{fault}.happened").exists()
    assert [payload[:6] for payload in streams.payloads(f"{name}D")] == payloads[1::8]
    newest = {f"x{number % 8}": payload for number, payload in enumerate(payloads, 1)}
    if kind == "object":
        del newest["x2"]
        assert objects(node, f"{name}T") == {key: payload * 30000 for key, payload in newest.items()}
        assert streams.state(f"OBJ_{name}T")["messages"] == 7 * (1 + 2)
    else:
        rows = streams.rows(f"KV_{name}T")
        purged = [row["seq"] for row in rows if row["subject"].endswith(".x3")]
        assert len(purged) == 1 and len(rows) == 20 - 3 - 2, "of the purged key one mark is left"


def test_a_batch_that_is_not_what_it_was(node: ServerProcess, streams: Streams, name: str) -> None:
    streams.create(name)
    streams.create(f"{name}dead", subjects=[f"dead.{name}"])
    sink = Sink(node.url, MESSAGE, stream=name, onError="dlq", dlqSubject=f"dead.{name}")
    rows = [(f"{name}.a", b"%d" % number) for number in range(5)]
    sink.write(rows[:2], [])
    sink.write(rows[2:3], [("elsewhere", b"bad")], batch=1)
    for again in ([rows[2:3], [("elsewhere", b"bad")]], [[("elsewhere", b"bad")], rows[2:3]]):
        sink.write(*again, batch=1)
    with pytest.raises(SparkSideError, match=r"batch 1 had 1 messages, now it has 2.*new checkpoint.*onChangedBatch"):
        sink.write(rows[2:4], [("elsewhere", b"bad")], batch=1)
    with pytest.raises(SparkSideError, match=r"dead.*batch 1 had 1 messages, now it has 2"):
        sink.write(rows[2:3], [("elsewhere", b"bad"), ("elsewhere", b"worse")], batch=1)
    with pytest.raises(SparkSideError, match="has committed batch 1 already, and now runs batch 0"):
        sink.write(rows[:2], batch=0)
    lax = Sink(node.url, MESSAGE, stream=name, onChangedBatch="skip")
    lax.write(rows, batch=0)
    lax.write(rows, batch=1)
    lax.write(rows[4:], batch=2)
    assert streams.payloads(name) == [b"0", b"1", b"2", b"4"]
    assert streams.payloads(f"{name}dead") == [b"bad"]


def test_a_checkpoint_that_has_lost_its_newest_files(
    spark: SparkSession, node: ServerProcess, streams: Streams, name: str, tmp_path: Path
) -> None:
    streams.create(name)
    streams.create(f"{name}copy", subjects=[f"copy.{name}.>"])

    def run(**options: str) -> None:
        source = spark.readStream.format("slipstream").options(servers=node.url, stream=name, starting="earliest")
        frame = source.load().selectExpr("concat('copy.', subject) subject", "payload")
        sink = frame.writeStream.format("slipstream").options(servers=node.url, stream=f"{name}copy", **options)
        sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination(120)

    streams.fill(name, 10)
    run()
    streams.fill(name, 10, begin=10)
    run()
    for log in ("offsets", "commits"):
        for path in (tmp_path / log).glob("*1*"):
            path.unlink()
    streams.fill(name, 5, begin=20)
    with pytest.raises(Exception, match="batch 1 had 10 messages, now it has 15"):
        run()
    assert len(streams.payloads(f"{name}copy")) == 20
    run(onChangedBatch="skip")
    streams.fill(name, 1, begin=25)
    run()
    assert streams.payloads(f"{name}copy")[20:] == [b"000025"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("mode", ["transaction", "append"])
@pytest.mark.parametrize("limit", [{"max_msgs": 2}, {"max_bytes": 300}])
def test_a_full_stream_is_said_at_once(
    node: ServerProcess, streams: Streams, name: str, mode: str, limit: dict[str, int]
) -> None:
    streams.create(name, discard="new", **limit)
    sink = Sink(node.url, MESSAGE, stream=name, mode=mode, writeTimeout="1h")
    with pytest.raises(SparkSideError, match=r"is full and refuses .*maximum \w+ exceeded.*raise its limits"):
        sink.write([(f"{name}.a", b"x" * 100)] * 3)
    assert streams.payloads(name) == []
