"""Exactly once across a leader change: who leads a stream is killed in every phase of source and sink.

The query talks to the leader itself, which then takes the connection with it, or to another server, which stays.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slipstream.bulk import BulkError, ConnectOptions, connect
from support.server_process import ServerProcess
from support.spark_copy import Copy
from support.spark_faults import FaultySource
from support.spark_streams import Streams
from support.three_servers import three_servers

pytest.importorskip("slipstream_raft")
pytestmark = pytest.mark.timeout(300)
WAIT_S = 120
SOURCE_PHASES = ("initial", "latest", "plan", "open", "read", "last", "done")
SINK_PHASES = ("begin", "write", "staged", "ask", "lost", "commit")
# What the leader had in stages goes with it; from then on the parts of a batch are known, and cannot be made again.
STAGED_PHASES = ("write", "staged", "ask")
IN_CI = {("write", "leader")}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[dict[str, ServerProcess]]:
    """Three servers that keep every stream; the format with faults is known to Spark."""
    spark.dataSource.register(FaultySource)
    with three_servers(tmp_path_factory.mktemp("cluster")) as running:
        for server in running.values():
            _until_it_answers(server.url)
        yield running


class Victim:
    """A copy in a cluster, and the leader of its source or its target, which dies once."""

    def __init__(self, copy: Copy, streams: Streams, servers: dict[str, ServerProcess], stream: str, via: str) -> None:
        self.copy = copy
        self._servers = servers
        self._leader = streams.api(f"STREAM.INFO.{stream}")["cluster"]["leader"]
        # The first that lets a client in is the one it talks to.
        ordered = sorted(servers, key=lambda name: (name == self._leader) != (via == "leader"))
        copy.servers = ",".join(servers[name].url for name in ordered)

    def killed_at(self, fault: str) -> None:
        """Wait for the phase, kill, and let the query go on."""
        self.copy.until(fault)
        self._servers[self._leader].kill()
        self.copy.go_on()

    def back(self) -> None:
        server = self._servers[self._leader]
        server.start_timeout_s = WAIT_S
        if not server.is_running:
            server.start()
            _until_it_answers(server.url)


@pytest.fixture
def victim(
    spark: SparkSession, servers: dict[str, ServerProcess], name: str, tmp_path: Path, phase: str, via: str
) -> Iterator[Victim]:
    streams = Streams(",".join(server.url for server in servers.values()))
    copy = Copy(spark, streams, name, tmp_path, num_replicas=3)
    made = Victim(copy, streams, servers, name if phase in SOURCE_PHASES else f"{name}copy", via)
    yield made
    made.back()


def _until_it_answers(url: str) -> None:
    """Wait until a server takes part in the cluster; what it is asked before that, nobody may answer."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            with connect(ConnectOptions(url, timeout=1.0)) as client:
                client.link.request("STREAM.NAMES")
            return
        except BulkError:
            assert time.monotonic() < deadline


def _cases(phases: tuple[str, ...]) -> pytest.MarkDecorator:
    cases = [(phase, via) for phase in phases for via in ("leader", "other")]
    return pytest.mark.parametrize(
        ("phase", "via"), [pytest.param(*one, marks=() if one in IN_CI else pytest.mark.long) for one in cases]
    )


@_cases(SOURCE_PHASES + SINK_PHASES)
def test_a_streaming_query(victim: Victim, phase: str) -> None:
    fault = f"{phase}-wait"
    copy = victim.copy
    query = copy.start(read=fault) if phase in SOURCE_PHASES else copy.start(write=fault)
    victim.killed_at(fault)
    _end(copy, query, phase)
    copy.check()


@pytest.mark.long
@_cases(("plan", "open", "read", "begin", "ask", "lost"))
def test_a_query_that_begins_with_its_checkpoint(victim: Victim, phase: str) -> None:
    """The server has committed batch 1, and Spark does not know: the batch is run again, and found to be there."""
    copy = victim.copy
    with pytest.raises(StreamingQueryException, match="fault commit-raise"):
        copy.start(write="commit-raise").awaitTermination(WAIT_S)
    fault = f"{phase}-wait"
    query = copy.start(read=fault) if phase in SOURCE_PHASES else copy.start(write=fault)
    victim.killed_at(fault)
    _end(copy, query, phase)
    copy.check()


@pytest.mark.long
@_cases(("open", "read", "last"))
def test_a_read_of_one_batch(victim: Victim, phase: str) -> None:
    fault = f"{phase}-wait"
    with ThreadPoolExecutor(1) as others:
        rows = others.submit(victim.copy.read, fault)
        victim.killed_at(fault)
        assert rows.result(WAIT_S) == victim.copy.expected


@pytest.mark.long
@_cases(("begin", "lost", "commit"))
def test_a_write_of_one_batch(victim: Victim, phase: str) -> None:
    fault = f"{phase}-wait"
    with ThreadPoolExecutor(1) as others:
        # Spark looks for a sink of Python's in the session of the thread that writes.
        killed = others.submit(victim.killed_at, fault)
        victim.copy.write(fault)
        killed.result(WAIT_S)
    victim.back()  # nobody may lead the stream yet, and who asks then is not answered
    victim.copy.check()


def _end(copy: Copy, query: StreamingQuery, phase: str) -> None:
    """Wait for a query. What was staged and not committed went with the leader: it says so, and is started again."""
    try:
        assert query.awaitTermination(WAIT_S)
    except StreamingQueryException as error:
        assert phase in STAGED_PHASES and "staged part not found" in str(error)
        assert copy.start().awaitTermination(WAIT_S)
