"""Exactly once under faults: what arrives is what was sent, no message lost, none twice.

Every test copies a stream into another with a streaming query and breaks something on the way; faults are of
`support.spark_faults`. The sink's fence does the rest.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from support.server_process import ServerProcess
from support.spark_faults import FaultySource
from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(300)
WAIT_S = 120
COUNT = 900


class Copy:
    """A query that copies one stream into another; source or sink may be faulty."""

    def __init__(self, spark: SparkSession, streams: Streams, name: str, directory: Path) -> None:
        self._spark = spark
        self._streams = streams
        self._name = name
        self._directory = directory
        (directory / "faults").mkdir()
        streams.create(name)
        streams.create(f"{name}copy", subjects=[f"copy.{name}.>"])
        self.expected = streams.fill(name, COUNT)

    @property
    def faults(self) -> Path:
        return self._directory / "faults"

    def start(self, *, read: str = "", write: str = "") -> StreamingQuery:
        source, sink = ("slipstream_faulty" if fault else "slipstream" for fault in (read, write))
        reader = self._spark.readStream.format(source).options(
            servers=self._streams.url,
            stream=self._name,
            starting="earliest",
            maxMessagesPerTrigger=COUNT // 3,
            numPartitions=2,
            batchRows=50,
        )
        if read:
            reader = reader.options(fault=read, faultDir=str(self.faults))
        frame = reader.load().selectExpr("concat('copy.', subject) subject", "payload")
        writer = frame.writeStream.format(sink).options(
            servers=self._streams.url,
            stream=f"{self._name}copy",
            checkpointLocation=str(self._directory / "checkpoint"),
        )
        if write:
            writer = writer.options(fault=write, faultDir=str(self.faults))
        return writer.trigger(availableNow=True).start()

    def check(self) -> None:
        """Everything, in order, once."""
        assert self._streams.payloads(f"{self._name}copy") == self.expected
        assert list(self.faults.glob("*.happened")), "the fault has not happened"


@pytest.fixture(scope="module", autouse=True)
def faulty(spark: SparkSession) -> None:
    """The format with faults."""
    spark.dataSource.register(FaultySource)


@pytest.fixture
def copy(spark: SparkSession, streams: Streams, name: str, tmp_path: Path) -> Copy:
    return Copy(spark, streams, name, tmp_path)


@pytest.mark.parametrize("fault", ["read-raise", "read-exit"])
def test_a_reading_task_fails_or_dies(copy: Copy, fault: str) -> None:
    assert copy.start(read=fault).awaitTermination(WAIT_S)
    copy.check()


@pytest.mark.parametrize("fault", ["write-raise", "write-exit"])
def test_a_writing_task_fails_or_dies(copy: Copy, fault: str) -> None:
    assert copy.start(write=fault).awaitTermination(WAIT_S)
    copy.check()


def test_the_driver_is_killed_between_the_server_s_commit_and_spark_s(
    copy: Copy, streams: Streams, name: str, tmp_path: Path
) -> None:
    victim = Path(__file__).with_name("driver_victim.py")
    arguments = [streams.url, name, str(tmp_path / "checkpoint"), str(copy.faults), str(COUNT // 3)]
    done = subprocess.run(
        [sys.executable, str(victim), *arguments], capture_output=True, text=True, timeout=200, check=False
    )
    assert (copy.faults / "commit-kill.happened").exists(), done.stderr[-3000:]
    assert done.returncode != 0
    written = len(streams.payloads(f"{name}copy"))
    assert written == 2 * COUNT // 3, "two batches were committed, and Spark knows of one"
    assert copy.start().awaitTermination(WAIT_S)
    copy.check()


@pytest.mark.parametrize("where", ["read", "write"])
def test_the_server_is_killed_in_the_middle_of_a_batch(
    spark: SparkSession, own_node: ServerProcess, name: str, tmp_path: Path, where: str
) -> None:
    copy = Copy(spark, Streams(own_node.url), name, tmp_path)
    fault = f"{where}-wait"
    query = copy.start(**{where: fault})
    _until((copy.faults / f"{fault}.happened").exists)
    own_node.kill()
    own_node.start()
    (copy.faults / "go").touch()
    assert query.awaitTermination(WAIT_S)
    copy.check()


def test_a_stream_is_purged_under_a_running_query(copy: Copy, streams: Streams, name: str) -> None:
    """What is gone cannot be delivered: the query says so instead of going on with less."""
    query = copy.start(read="read-wait")
    _until((copy.faults / "read-wait.happened").exists)
    streams.purge(name)
    (copy.faults / "go").touch()
    with pytest.raises(Exception, match=r"removed|no longer holds"):
        query.awaitTermination(WAIT_S)
    arrived = streams.payloads(f"{name}copy")
    assert arrived == copy.expected[: len(arrived)], "whole batches, each once"


def test_limits_remove_messages_under_a_running_query(copy: Copy, streams: Streams, name: str) -> None:
    """The messages of an open batch are held, whatever the limits say meanwhile."""
    query = copy.start(read="read-wait")
    _until((copy.faults / "read-wait.happened").exists)
    config = streams.api(f"STREAM.INFO.{name}")["config"]
    streams.api(f"STREAM.UPDATE.{name}", {**config, "max_msgs": COUNT // 2 + 10})
    copy.expected += streams.fill(name, 1, begin=COUNT)
    (copy.faults / "go").touch()
    assert query.awaitTermination(WAIT_S)
    assert copy.start().awaitTermination(WAIT_S)
    copy.check()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        threading.Event().wait(0.01)
