"""Exactly once across a leader change: who leads a stream is killed in a phase of source or sink."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slipstream.bulk import BulkError
from support.server_process import ServerProcess
from support.spark_copy import Copy
from support.spark_faults import FaultySource
from support.spark_streams import Streams
from support.three_servers import three_servers

pytest.importorskip("slipstream_raft")
pytestmark = pytest.mark.timeout(300)
WAIT_S = 120


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[dict[str, ServerProcess]]:
    """Three servers that keep every stream; the format with faults is known to Spark."""
    spark.dataSource.register(FaultySource)
    with three_servers(tmp_path_factory.mktemp("cluster")) as running:
        streams = Streams(",".join(server.url for server in running.values()))
        deadline = time.monotonic() + WAIT_S
        while True:  # until they have found each other
            try:
                streams.create("FIRST", num_replicas=3)
                break
            except BulkError:
                assert time.monotonic() < deadline
        yield running


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("read-wait", marks=pytest.mark.long),
        "write-wait",
        pytest.param("ask-wait", marks=pytest.mark.long),
        pytest.param("commit-wait", marks=pytest.mark.long),
    ],
)
def test_the_leader_is_killed(
    spark: SparkSession, servers: dict[str, ServerProcess], name: str, tmp_path: Path, fault: str
) -> None:
    streams = Streams(",".join(server.url for server in servers.values()))
    copy = Copy(spark, streams, name, tmp_path, num_replicas=3)
    reads = fault.startswith("read")
    query = copy.start(read=fault) if reads else copy.start(write=fault)
    copy.until(fault)
    leader = streams.api(f"STREAM.INFO.{name if reads else name + 'copy'}")["cluster"]["leader"]
    servers[leader].kill()
    try:
        copy.go_on()
        _end(copy, query, fault)
        copy.check()
    finally:
        servers[leader].start()


def _end(copy: Copy, query: StreamingQuery, fault: str) -> None:
    """Wait for a query. What was staged and not committed went with the leader: it says so, and is started again."""
    try:
        assert query.awaitTermination(WAIT_S)
        assert fault != "ask-wait"
    except StreamingQueryException as error:
        assert not fault.startswith("read") and "staged part not found" in str(error)
        assert copy.start().awaitTermination(WAIT_S)
