"""Options of a read, each with a read: called as Spark calls the source, without Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, LongType, StructType

from slipstream.bulk import BulkError
from slipstream.spark.data_source import SlipstreamSource
from slipstream.spark.runtime import connection
from slipstream.spark.runtime.errors import OptionError
from support.server_process import ServerProcess
from support.servers import Launcher
from support.spark_streams import Streams

SCHEMA = StructType().add("seq", LongType()).add("payload", BinaryType())
WAIT_S = 20.0


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """None stays open."""
    monkeypatch.setattr(connection, "_settled", True)  # the garbage of other tests is not to be frozen
    yield
    for reach in list(connection._connections):
        connection.drop_connection(reach)


def started(ours: Launcher, config: str = "") -> ServerProcess:
    server = ours.prepared(config, "-js")
    server.flags += ["-sd", str(server.directory / "store")]
    return server.start()


def source(server: ServerProcess, **options: Any) -> SlipstreamSource:
    given = {"servers": server.url, "stream": "A", **options}
    return SlipstreamSource({name: str(value) for name, value in given.items()})


def batches(server: ServerProcess, **options: Any) -> list[int]:
    """Rows of each Arrow batch."""
    reader = source(server, **options).reader(SCHEMA)
    rows: list[Any] = [batch for task in reader.partitions() for batch in reader.read(task)]
    return [batch.num_rows for batch in rows]


def test_sizes_of_batches_and_tasks(ours: Launcher) -> None:
    server = started(ours)
    streams = Streams(server.url)
    streams.create("A")
    streams.publish([("A.x", b"x" * 1000)] * 400)
    assert batches(server) == [400]
    small = batches(server, batchBytes="20k")
    assert sum(small) == 400 and len(small) >= 15
    assert sum(batches(server, batchRows=7)) == 400 and max(batches(server, batchRows=7)) <= 7

    def tasks(**options: Any) -> int:
        reader = source(server, **options).reader(SCHEMA)
        return len(reader.partitions())

    assert tasks() == 1
    assert tasks(targetPartitionBytes="50k", minPartitionRows=1) >= 8
    assert tasks(targetPartitionBytes="50k", minPartitionRows=200) == 2


def test_ways_to_the_server(ours: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    users = 'authorization { users: [{user: "ada", password: "s3cret"}] }'
    server = started(ours, users + '\njetstream { domain: "hub" }')
    monkeypatch.setenv("ADAS_PASSWORD", "s3cret")
    ada = {"user": "ada", "passwordEnv": "ADAS_PASSWORD"}
    streams = Streams(server.url.replace("nats://", "nats://ada:s3cret@"))
    streams.create("A")
    streams.fill("A", 5)
    for way in ({}, {"domain": "hub"}, {"apiPrefix": "$JS.hub.API"}, {"connectTimeout": "5s"}):
        assert batches(server, **ada, **way) == [5]
    for way, words in (
        ({}, "Authorization Violation"),
        ({"user": "ada", "passwordEnv": "PATH"}, "Authorization Violation"),
        ({**ada, "domain": "elsewhere"}, "JetStream is not available here"),
    ):
        with pytest.raises(BulkError, match=words):
            batches(server, **way, readTimeout="100ms")


def test_a_hold_ends_by_itself(ours: Launcher) -> None:
    server = started(ours)
    streams = Streams(server.url)
    streams.create("A", max_msgs=10)
    streams.fill("A", 10)
    source(server, starting="earliest", holdTimeout="1h").streamReader(SCHEMA).initialOffset()
    streams.fill("A", 5, begin=10)
    assert streams.state("A")["first_seq"] == 1
    streams.create("B", max_msgs=10)
    streams.fill("B", 10)
    source(server, stream="B", starting="earliest", holdTimeout="100ms").streamReader(SCHEMA).initialOffset()
    deadline = time.monotonic() + WAIT_S
    while streams.state("B")["first_seq"] == 1 and time.monotonic() < deadline:
        streams.fill("B", 1)
    assert streams.state("B")["first_seq"] > 1
    with pytest.raises(OptionError, match="at most 24h"):
        source(server, holdTimeout="25h").streamReader(SCHEMA)


def test_the_longest_delay(ours: Launcher) -> None:
    server = started(ours)
    streams = Streams(server.url)
    streams.create("A")
    streams.fill("A", 5)
    waits = {"starting": "earliest", "minMessagesPerTrigger": 100}
    reader = source(server, **waits, maxTriggerDelay="1h").streamReader(SCHEMA)
    start = reader.initialOffset()
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start
    reader = source(server, **waits, maxTriggerDelay="1ms").streamReader(SCHEMA)
    deadline = time.monotonic() + WAIT_S
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) == start:
        assert time.monotonic() < deadline
    assert end["s"]["A"]["q"] == 6
