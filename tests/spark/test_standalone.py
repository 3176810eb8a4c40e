"""One job of each kind on a real cluster: a standalone master and two workers, each a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from slipstream.spark.runtime.jvm import find_java
from support.spark_streams import Streams

pytestmark = [pytest.mark.timeout(1200), pytest.mark.long]
_JARS = str(Path(pyspark.__file__).parent / "jars" / "*")
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master")


class Daemon:
    """A process of the cluster; started when its log says so."""

    def __init__(self, directory: Path, log: str, ready: re.Pattern[str], *words: str) -> None:
        self.log = directory / log
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(directory / "work")}
        environment["SPARK_SCALA_VERSION"] = "2.13"  # found by scripts that pip does not install
        environment |= {"SPARK_HOME": str(Path(pyspark.__file__).parent), "PYSPARK_PYTHON": sys.executable}
        with open(self.log, "wb") as sink:
            command = [find_java().program, "-cp", _JARS, "-Xmx512m", *words]
            self.process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, env=environment)
        self.said = self._wait(ready)

    def _wait(self, ready: re.Pattern[str]) -> re.Match[str]:
        with subprocess.Popen(["tail", "-n", "+1", "-f", str(self.log)], stdout=subprocess.PIPE, text=True) as tail:
            assert tail.stdout is not None
            try:
                for line in tail.stdout:
                    if found := ready.search(line):
                        return found
            finally:
                tail.kill()
        raise AssertionError(self.log.read_text())

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    deploy = "org.apache.spark.deploy"
    daemons = [
        Daemon(
            tmp_path, "master.log", _MASTER, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", "0",
            "--webui-port", "0",
        )
    ]  # fmt: skip
    try:
        url = daemons[0].said[1]
        for number in (1, 2):
            words = (f"{deploy}.worker.Worker", url, "-c", "1", "-m", "1g", "--webui-port", "0")
            daemons.append(Daemon(tmp_path, f"worker{number}.log", _REGISTERED, *words, "--host", "127.0.0.1"))
        yield url
    finally:
        for daemon in daemons:
            daemon.end()


def test_every_job(master: str, streams: Streams, name: str, tmp_path: Path) -> None:
    def run(*words: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "slipstream", "-s", streams.url, "spark", *words]
        done = subprocess.run(
            [*command, "--master", master, "--json"], capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, (words, done.stderr[-3000:])
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    lake, bucket = str(tmp_path / "lake"), f"B{name}"
    streams.create(name)
    streams.fill(name, 2000)
    streams.create(f"KV_{bucket}", subjects=[f"$KV.{bucket}.>"])
    streams.publish((f"$KV.{bucket}.{number % 5}", b"v") for number in range(20))
    assert run("archive", name, lake, "--file-size", "32KB")["messages"] == 2000
    assert run("compact", lake)["files_after"] == 1
    assert run("audit", name, "--table", lake)["equal"]
    assert run("stats", name)["messages"] == 2000
    assert run("materialize", bucket, str(tmp_path / "kv"))["rows"] == 5
    assert run("dlq", name)["letters"] == 2000
    config = streams.api(f"STREAM.INFO.{name}")["config"]
    streams.api(f"STREAM.UPDATE.{name}", {**config, "subjects": [f"gone.{name}"]})
    streams.create(f"{name}_BACK", subjects=[f"{name}.>"])
    assert run("replay", lake, f"{name}_BACK")["messages"] == 2000
    assert streams.payloads(f"{name}_BACK") == streams.payloads(name)
    streams.api(f"STREAM.UPDATE.{name}_BACK", {**streams.api(f"STREAM.INFO.{name}_BACK")["config"], "subjects": ["x"]})
    streams.create(f"{name}_COPY", subjects=[f"{name}.>"])
    assert run("mirror", name, f"{name}_COPY")["equal"]
    assert run("erase", f"{name}.3", "--stream", name, "--table", lake, "-f")["archive_messages"] == 200
