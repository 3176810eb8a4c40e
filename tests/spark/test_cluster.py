"""Exactly once when an executor is killed: a cluster of two executors, each a Java machine of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(600)
COUNT = 3000


@pytest.fixture
def no_work_left() -> Iterator[None]:
    """A local cluster leaves its directory in the package."""
    work = Path(pyspark.__file__).parent / "work"
    existed = work.exists()
    yield
    if work.exists() and not existed:
        subprocess.run(["rm", "-r", str(work)], check=True)


@pytest.mark.long
@pytest.mark.usefixtures("no_work_left")
@pytest.mark.parametrize("fault", ["read-wait", "write-wait"])
def test_an_executor_is_killed(streams: Streams, name: str, tmp_path: Path, fault: str) -> None:
    streams.create(name)
    streams.create(f"{name}copy", subjects=[f"copy.{name}.>"])
    expected = streams.fill(name, COUNT)
    (tmp_path / "faults").mkdir()
    victim = Path(__file__).with_name("cluster_victim.py")
    arguments = [streams.url, name, str(tmp_path / "checkpoint"), str(tmp_path / "faults"), fault]
    done = subprocess.run(
        [sys.executable, str(victim), *arguments], capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert "killed executor" in done.stdout
    assert streams.payloads(f"{name}copy") == expected
