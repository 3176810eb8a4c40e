"""The fall-backs on a plain nats-server: direct gets, consumers, and writes without transactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from support.server_process import ServerProcess
from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def plain(plain_node: ServerProcess) -> Streams:
    return Streams(plain_node.url)


@pytest.mark.parametrize(("direct", "transport"), [(True, "auto"), (True, "consumer"), (False, "auto")])
def test_reads(spark: SparkSession, plain: Streams, name: str, direct: bool, transport: str) -> None:
    plain.create(name, allow_direct=direct)
    payloads = plain.fill(name, 2500)
    plain.api(f"STREAM.MSG.DELETE.{name}", {"seq": 5})
    frame = (
        spark.read.format("slipstream")
        .options(servers=plain.url, stream=name, transport=transport, numPartitions=3)
        .load()
    )
    rows = frame.orderBy("seq").collect()
    assert [bytes(row.payload) for row in rows] == payloads[:4] + payloads[5:]
    assert frame.where(f"subject = '{name}.3'").count() == 250


def test_a_query_with_limits_restarts(spark: SparkSession, plain: Streams, name: str, tmp_path: Path) -> None:
    plain.create(name, allow_direct=True)
    plain.create(f"{name}copy", subjects=[f"copy.{name}.>"])
    payloads = plain.fill(name, 200)

    def run() -> None:
        frame = (
            spark.readStream.format("slipstream")
            .options(servers=plain.url, stream=name, starting="earliest", maxMessagesPerTrigger=90)
            .load()
            .selectExpr("stream", "seq", "concat('copy.', subject) subject", "payload")
        )
        writer = frame.writeStream.format("slipstream").options(
            servers=plain.url, stream=f"{name}copy", mode="msgid", checkpointLocation=str(tmp_path)
        )
        assert writer.trigger(availableNow=True).start().awaitTermination(120)

    run()
    payloads += plain.fill(name, 30, begin=200)
    run()
    assert sorted(plain.payloads(f"{name}copy")) == payloads


def write(frame: DataFrame, plain: Streams, **options: Any) -> None:
    frame.write.format("slipstream").mode("append").options(servers=plain.url, **options).save()


def test_writes(spark: SparkSession, plain: Streams, name: str) -> None:
    plain.create(name, allow_atomic=True)
    frame = spark.range(0, 300, 1, 2).selectExpr(f"'{name}.x' subject", "lpad(cast(id as string), 6, '0') payload")
    for mode in ("auto", "transaction"):
        with pytest.raises(Exception, match=r"msgid.*atomic.*append"):
            write(frame, plain, stream=name, mode=mode)
    write(frame, plain, stream=name, mode="append")
    for _ in range(2):
        write(frame, plain, stream=name, mode="msgid", idColumn="payload")
    assert plain.state(name)["messages"] == 600
    for _ in range(2):
        write(frame, plain, stream=name, mode="atomic", txnId="once")
    assert plain.payloads(name)[600:] == [b"%06d" % number for number in range(300)]
    with pytest.raises(Exception, match="at most 1000 messages"):
        write(frame.union(frame).union(frame).union(frame), plain, stream=name, mode="atomic")
