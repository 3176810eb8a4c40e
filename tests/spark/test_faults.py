"""Exactly once under faults: what arrives is what was sent, no message lost, none twice.

Every test copies a stream into another with a streaming query and breaks something on the way; faults are of
`support.spark_faults`. The sink's fence does the rest.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.server_process import ServerProcess
from support.spark_copy import COUNT, Copy
from support.spark_faults import FaultySource
from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(300)
WAIT_S = 120


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
    copy.until(fault)
    own_node.kill()
    own_node.start()
    copy.go_on()
    assert query.awaitTermination(WAIT_S)
    copy.check()


def test_a_stream_is_purged_under_a_running_query(copy: Copy, streams: Streams, name: str) -> None:
    """What is gone cannot be delivered: the query says so instead of going on with less."""
    query = copy.start(read="read-wait")
    copy.until("read-wait")
    streams.purge(name)
    copy.go_on()
    with pytest.raises(Exception, match=r"removed|no longer holds"):
        query.awaitTermination(WAIT_S)
    arrived = streams.payloads(f"{name}copy")
    assert arrived == copy.expected[: len(arrived)], "whole batches, each once"


def test_limits_remove_messages_under_a_running_query(copy: Copy, streams: Streams, name: str) -> None:
    """The messages of an open batch are held, whatever the limits say meanwhile."""
    query = copy.start(read="read-wait")
    copy.until("read-wait")
    config = streams.api(f"STREAM.INFO.{name}")["config"]
    streams.api(f"STREAM.UPDATE.{name}", {**config, "max_msgs": COUNT // 2 + 10})
    copy.expected += streams.fill(name, 1, begin=COUNT)
    copy.go_on()
    assert query.awaitTermination(WAIT_S)
    assert copy.start().awaitTermination(WAIT_S)
    copy.check()
