"""What copies do with messages that ask something of a stream: ids, conditions, roll-ups; and how they are compared."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nats.js.kv import KeyValue
from pyspark.sql import SparkSession

from slipstream.bulk import ConnectOptions, connect
from slipstream.spark import jobs
from slipstream.spark.jobs import copying
from slipstream.spark.jobs.rollups import Rollups
from slipstream.spark.runtime.target import Reach
from support import nats_py
from support.server_process import ServerProcess
from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(300)
ID = b"NATS/1.0\r\nNats-Msg-Id: one\r\n\r\n"
CONTENT = ("subject", "hdr_raw", "payload")
mirror_module = importlib.import_module("slipstream.spark.jobs.mirror")


def use_bucket(node: ServerProcess, name: str, work: Callable[[KeyValue], Awaitable[Any]]) -> Any:
    """Do something with a bucket that keeps five values a key."""

    async def use() -> Any:
        async with nats_py.connected(node) as client:
            return await work(await client.jetstream().create_key_value(bucket=name, history=5))

    return nats_py.run(use)


async def write_all_kinds(bucket: KeyValue) -> None:
    await bucket.create("created", b"1")
    revision = await bucket.put("kept", b"1")
    await bucket.update("kept", b"2", last=revision)
    await bucket.put("deleted", b"1")
    await bucket.delete("deleted")
    await bucket.put("purged", b"secret")
    await bucket.put("purged", b"secret too")
    await bucket.put("later", b"secret")
    await bucket.purge("purged")


async def purge_later(bucket: KeyValue) -> None:
    await bucket.purge("later")
    await bucket.put("later", b"new")


async def look(bucket: KeyValue) -> dict[str, list[tuple[bytes | None, str | None]]]:
    return {
        key: [(entry.value, entry.operation) for entry in await bucket.history(key)]
        for key in ("created", "kept", "deleted", "purged", "later")
    }


def test_a_bucket_with_everything_a_bucket_does(
    spark: SparkSession,
    node: ServerProcess,
    second_node: ServerProcess,
    source: Streams,
    streams: Streams,
    ways: dict[str, Reach],
    name: str,
) -> None:
    """Keys that were created, updated on a condition, deleted and purged: also after an earlier run had copied them."""
    use_bucket(second_node, name, write_all_kinds)
    use_bucket(node, name, KeyValue.status)
    first = jobs.mirror(spark, f"KV_{name}", f"KV_{name}", **ways)
    assert first.ok and first["messages"] == source.state(f"KV_{name}")["messages"]
    assert streams.rows(f"KV_{name}", *CONTENT) == source.rows(f"KV_{name}", *CONTENT)
    use_bucket(second_node, name, purge_later)
    second = jobs.mirror(spark, f"KV_{name}", f"KV_{name}", **ways)
    assert second.ok and second["messages"] == 2
    assert streams.rows(f"KV_{name}", *CONTENT) == source.rows(f"KV_{name}", *CONTENT)
    assert use_bucket(node, name, look) == use_bucket(second_node, name, look)


def test_a_driver_that_dies_before_it_has_purged(
    spark: SparkSession,
    node: ServerProcess,
    second_node: ServerProcess,
    streams: Streams,
    ways: dict[str, Reach],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_bucket(second_node, name, write_all_kinds)
    use_bucket(node, name, KeyValue.status)
    jobs.mirror(spark, f"KV_{name}", f"KV_{name}", **ways)
    use_bucket(second_node, name, purge_later)
    real = Rollups.apply
    monkeypatch.setattr(Rollups, "apply", None)
    with pytest.raises(TypeError):
        jobs.mirror(spark, f"KV_{name}", f"KV_{name}", **ways)
    assert b"secret" in streams.payloads(f"KV_{name}")
    monkeypatch.setattr(Rollups, "apply", real)
    assert jobs.mirror(spark, f"KV_{name}", f"KV_{name}", **ways)["messages"] == 0
    assert b"secret" not in streams.payloads(f"KV_{name}")
    assert use_bucket(node, name, look) == use_bucket(second_node, name, look)


def test_the_archive_of_a_bucket(
    spark: SparkSession,
    node: ServerProcess,
    second_node: ServerProcess,
    ways: dict[str, Reach],
    name: str,
    tmp_path: Path,
) -> None:
    """It has what was archived before the purge; the bucket that comes out of it has not."""
    lake = str(tmp_path / "lake")
    use_bucket(second_node, name, write_all_kinds)
    jobs.archive(spark, f"KV_{name}", lake, reach=ways["reach"])
    use_bucket(second_node, name, purge_later)
    jobs.archive(spark, f"KV_{name}", lake, reach=ways["reach"])
    use_bucket(node, name, KeyValue.status)
    report = jobs.replay(spark, lake, f"KV_{name}", reach=ways["target_reach"], mark=True)
    assert report.ok and report["left_out"] == 0
    assert use_bucket(node, name, look) == use_bucket(second_node, name, look)


def test_roll_ups_mean_nothing_to_a_stream_that_does_none(
    spark: SparkSession,
    second_node: ServerProcess,
    source: Streams,
    streams: Streams,
    ways: dict[str, Reach],
    name: str,
) -> None:
    use_bucket(second_node, name, write_all_kinds)
    streams.create(f"{name}_PLAIN", subjects=[f"$KV.{name}.>"])
    streams.publish([(f"$KV.{name}.purged", b"before")])
    assert jobs.mirror(spark, f"KV_{name}", f"{name}_PLAIN", **ways).ok
    assert streams.rows(f"{name}_PLAIN", *CONTENT)[1:] == source.rows(f"KV_{name}", *CONTENT)
    streams.delete(f"{name}_PLAIN")


def test_message_ids_that_are_repeated(
    spark: SparkSession, source: Streams, streams: Streams, ways: dict[str, Reach], name: str, tmp_path: Path
) -> None:
    """The source has taken both; and the target has seen the id as well, a moment ago."""
    source.create(name)
    streams.create(name)
    streams.publish([(f"{name}.1", b"own")], ID)
    with connect(ConnectOptions(source.url)) as client:
        rows = {"subject": [f"{name}.1"] * 3, "hdr_raw": [ID, None, ID], "payload": [b"a", b"b", b"c"]}
        part = client.stage(name, "made").write(pa.RecordBatch.from_pydict(rows)).close()
        client.commit(name, "made", 1, [part], copied=True)
    lake = str(tmp_path / "lake")
    jobs.archive(spark, name, lake, reach=ways["reach"])
    report = jobs.replay(spark, lake, name, reach=ways["target_reach"])
    assert (report.ok, report["messages"], report["left_out"]) == (True, 3, 0)
    assert [row["hdr_raw"] for row in streams.rows(name, "hdr_raw")] == [ID, ID, None, ID]
    report = jobs.mirror(spark, name, name, **ways)
    assert report.ok and (report["messages"], report["verified"]) == (3, 3)
    assert streams.payloads(name) == [b"own", b"a", b"b", b"c", b"a", b"b", b"c"]


def test_what_the_target_leaves_out_is_told(
    spark: SparkSession, source: Streams, streams: Streams, ways: dict[str, Reach], name: str, tmp_path: Path
) -> None:
    """A stream that keeps what somebody is interested in."""
    source.create(name)
    source.fill(name, 20)
    streams.create(name, retention="interest")
    consumer = {"durable_name": "C", "ack_policy": "explicit", "filter_subject": f"{name}.3"}
    streams.api(f"CONSUMER.DURABLE.CREATE.{name}.C", {"stream_name": name, "config": consumer})
    lake = str(tmp_path / "lake")
    jobs.archive(spark, name, lake, reach=ways["reach"])
    report = jobs.replay(spark, lake, name, reach=ways["target_reach"])
    assert (report.ok, report["messages"], report["left_out"]) == (False, 2, 18)
    assert report.as_json()["left_out"] == 18
    report = jobs.mirror(spark, name, name, **ways)
    assert (report.ok, report["equal"], report["left_out"], report["verified"]) == (False, False, 18, 0)


@pytest.mark.parametrize("damage", ["nothing", "removed", "changed"])
def test_a_copy_behind_other_messages_and_with_gaps_is_compared(
    spark: SparkSession,
    source: Streams,
    streams: Streams,
    ways: dict[str, Reach],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    damage: str,
) -> None:
    source.create(name)
    source.fill(name, 50)
    source.publish([(f"{name}.x", b"with headers")], ID)
    for sequence in (1, 2, 20, 21, 35):
        source.api(f"STREAM.MSG.DELETE.{name}", {"seq": sequence})
    streams.create(name)
    streams.fill(name, 7, begin=900)
    real = mirror_module._verify

    def verify(*args: Any) -> None:
        if damage == "removed":
            streams.api(f"STREAM.MSG.DELETE.{name}", {"seq": 30})
        if damage == "changed":
            args[-1].parts[0] = replace(args[-1].parts[0], digest="of something else")
        real(*args)

    monkeypatch.setattr(mirror_module, "_verify", verify)
    report = jobs.mirror(spark, name, name, **ways)
    assert report["messages"] == 46
    assert report.ok is report["equal"] is (damage == "nothing")
    assert report["verified"] == (45 if damage == "removed" else 46)
    found = [{"first_seq": 8, "last_seq": 53, "copied": 46, "found": report["verified"]}]
    assert report["differences"] == ([] if damage == "nothing" else found)


def test_a_verified_copy_does_not_depend_on_what_else_is_written(
    spark: SparkSession,
    source: Streams,
    streams: Streams,
    ways: dict[str, Reach],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others publish to both streams, and the source removes messages, between copying and comparing."""
    source.create(name)
    source.fill(name, 20)
    streams.create(name)
    real = mirror_module._verify

    def verify(*args: Any) -> None:
        source.fill(name, 5, begin=20)
        source.purge(name, seq=10)
        streams.publish([(f"{name}.other", b"other")])
        real(*args)

    monkeypatch.setattr(mirror_module, "_verify", verify)
    report = jobs.mirror(spark, name, name, **ways)
    assert report.ok and (report["messages"], report["verified"]) == (20, 20)


def test_a_bucket_that_is_written_to_meanwhile(
    spark: SparkSession,
    source: Streams,
    streams: Streams,
    ways: dict[str, Reach],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was planned is held until it is read, though new values replace it."""
    for server in (source, streams):
        server.create(name, max_msgs_per_subject=1)
    source.fill(name, 10)
    real = copying.run_tasks

    def run_tasks(*args: Any) -> Any:
        if not streams.state(name)["messages"]:
            source.fill(name, 10, begin=10)
        return real(*args)

    monkeypatch.setattr(copying, "run_tasks", run_tasks)
    report = jobs.mirror(spark, name, name, **ways)
    assert report.ok and report["messages"] == 10
    assert jobs.mirror(spark, name, name, **ways)["messages"] == 10
    assert streams.payloads(name) == source.payloads(name) == [b"%06d" % number for number in range(10, 20)]
