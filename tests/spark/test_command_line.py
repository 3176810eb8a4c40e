"""`slipstream spark`: every job through its command, on the session of these tests; one as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from slipstream.cli.main import cli
from support.server_process import ServerProcess
from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(300)


class Commands:
    """The command line, against one server."""

    def __init__(self, url: str) -> None:
        self._flags = ["-s", url, "spark"]

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(cli, [*self._flags, *words])

    def json(self, *words: str) -> dict[str, Any]:
        result = self.run(*words, "--json")
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found


@pytest.fixture
def commands(spark: SparkSession, streams: Streams, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Commands:
    assert spark is not None
    monkeypatch.setenv("HOME", str(tmp_path))
    return Commands(streams.url)


def test_archive_and_what_follows(commands: Commands, streams: Streams, name: str, tmp_path: Path) -> None:
    streams.create(name)
    streams.fill(name, 60)
    table = str(tmp_path / "lake")
    first = commands.run("archive", name, table, "--upto", "40")
    assert first.exit_code == 0, first.output
    assert "Archived up to: 40" in first.output and "Messages: 40" in first.output
    assert commands.json("archive", name, table)["messages"] == 20
    assert commands.json("compact", table, "--vacuum")["files_after"] == 1
    assert commands.json("audit", name, "--table", table)["equal"] is True
    streams.create(f"{name}_BACK", subjects=[f"back.{name}"])
    refused = commands.run("replay", table, f"{name}_BACK")
    assert refused.exit_code == 1 and f"{name}_BACK refused the messages: the stream does" in refused.output
    erased = commands.json("erase", f"{name}.3", "--stream", name, "--table", table, "-f", "--reason", "asked")
    assert (erased["stream_messages"], erased["archive_messages"]) == (6, 6)
    streams.api(f"STREAM.MSG.DELETE.{name}", {"seq": 10})
    differs = commands.run("audit", name, "--table", table, "--json")
    assert differs.exit_code == 1 and json.loads(differs.stdout)["ok"] is False


def test_gaps_and_records(commands: Commands, streams: Streams, name: str, tmp_path: Path) -> None:
    streams.create(name)
    streams.fill(name, 20)
    table = str(tmp_path / "lake")
    commands.json("archive", name, table, "--upto", "10")
    streams.purge(name)
    refused = commands.run("archive", name, table)
    assert refused.exit_code == 1 and "messages 11 to 20" in refused.output and "--accept-gap" in refused.output
    assert commands.json("archive", name, table, "--accept-gap")["archived_upto"] == 20
    streams.fill(name, 10)
    erased = commands.json("erase", f"{name}.3", "--stream", name, "-f", "--record", str(tmp_path / "records"))
    assert erased["stream_messages"] == 1 and Path(erased["record"]).parent == tmp_path / "records"


def test_replay_of_some(commands: Commands, streams: Streams, name: str, tmp_path: Path) -> None:
    streams.create(name)
    streams.fill(name, 30)
    table = str(tmp_path / "lake")
    commands.json("archive", name, table, "--format", "parquet")
    streams.delete(name)
    streams.create(name)
    some = ("replay", table, name, "--first", "5", "--last", "20", "--subjects", f"{name}.6")
    assert commands.json(*some)["messages"] == 2
    nothing = commands.run(*some)
    assert nothing.exit_code == 0 and "Copied before, up to: 20" in nothing.output and "Messages: 0" in nothing.output
    assert commands.json(*some, "--name", "another")["messages"] == 2
    assert commands.json(*some, "--again")["messages"] == 2
    assert streams.payloads(name) == [b"000006", b"000016"] * 3


def test_stats_materialize_dlq_mirror(commands: Commands, streams: Streams, name: str, tmp_path: Path) -> None:
    streams.create(f"KV_{name}", subjects=[f"$KV.{name}.>"])
    streams.publish((f"$KV.{name}.k{number % 3}", b"v") for number in range(9))
    shown = commands.run("stats", f"KV_{name}", "--chart", str(tmp_path / "page.html"), "--top", "2")
    assert shown.exit_code == 0 and "Top subjects" in shown.output, shown.output
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    refused = commands.run("stats", f"KV_{name}", "--chart", str(tmp_path / "page.png"))
    assert refused.exit_code == 1 and "(.html) or a drawing (.svg)" in refused.output, refused.output
    assert not (tmp_path / "page.png").exists()
    assert commands.json("materialize", name, str(tmp_path / "kv"))["rows"] == 3
    assert commands.json("dlq", f"KV_{name}")["letters"] == 9
    streams.create(f"{name}_COPY", subjects=[f"never.{name}"])
    refused = commands.run("mirror", f"KV_{name}", f"{name}_COPY")
    assert refused.exit_code == 1 and "slipstream: error:" in refused.output


def test_copies_say_what_was_there_and_what_was_compared(
    commands: Commands, streams: Streams, second_node: ServerProcess, name: str
) -> None:
    other = Streams(second_node.url)
    streams.create(name)
    streams.fill(name, 30)
    other.create(name)
    words = ("mirror", name, name, "--target-server", other.url)
    first = commands.run(*words, "--last", "20")
    assert first.exit_code == 0 and "Mirror done" in first.output
    for line in ("Copied before, up to: 0", "Copied now, up to: 20", "Read back and compared: 20", "Equal: true"):
        assert line in first.output, first.output
    assert "Copied before, up to: 20" in commands.run(*words).output
    assert commands.json(*words, "--again", "--no-verify")["messages"] == 30
    other.delete(name)
    other.create(name, retention="interest")
    nobody = commands.run(*words)
    assert nobody.exit_code == 1 and "Mirror left messages out" in nobody.output and "Left out: 30" in nobody.output


def test_what_is_wrong_is_said_in_a_line(commands: Commands, tmp_path: Path) -> None:
    for words, said in (
        (("archive", "NOPE", str(tmp_path / "x")), "error: there is no stream 'NOPE' on nats://127"),
        (("stats", "NOPE"), "error: there is no stream 'NOPE' on nats://127"),
        (("materialize", "nope", str(tmp_path / "x")), "error: there is no bucket 'nope' on nats://127"),
        (("compact", str(tmp_path / "x")), "there is no table"),
        (("audit",), "name a stream"),
        (("erase", "a", "-f"), "name --stream"),
        (("replay", str(tmp_path), "NOPE", "--since", "yesterday"), "is no time"),
    ):
        result = commands.run(*words)
        assert result.exit_code == 1 and said in result.output, (words, result.output)
        assert "Traceback" not in result.output


def test_what_spark_refuses_is_said_in_a_line(commands: Commands, streams: Streams, name: str, tmp_path: Path) -> None:
    streams.create(f"KV_{name}", subjects=[f"$KV.{name}.>"])
    streams.publish([(f"$KV.{name}.key", b"v")])
    (tmp_path / "file").write_text("")
    result = commands.run("materialize", name, str(tmp_path / "file" / "table"))
    assert result.exit_code == 1 and "Traceback" not in result.output
    assert result.stderr.splitlines()[-1].startswith("slipstream: error: Spark: "), result.output


def test_a_process_of_its_own(streams: Streams, name: str, tmp_path: Path) -> None:
    streams.create(name)
    streams.fill(name, 10)
    command = [sys.executable, "-m", "slipstream", "-s", streams.url, "spark", "archive", name, str(tmp_path / "lake")]
    done = subprocess.run([*command, "--master", "local[1]", "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["messages"] == 10
    assert done.stderr == ""


def test_a_session_of_its_own_says_what_others_log_and_nothing_else() -> None:
    """Nothing of workers that still wrote when Spark had enough of them, nor of the address that Spark takes."""
    code = """
import slipstream.spark
spark = slipstream.spark.session("batch", master="local[2]")
rows = spark.sparkContext.parallelize(range(100_000), 2)
print(len(rows.map(lambda number: "x" * 1000).take(1)))
log = spark._jvm.org.apache.logging.log4j.LogManager.getLogger("org.apache.spark.util.Utils")
log.warn("Your hostname, box, resolves to a loopback address: 127.0.1.1; using 10.0.0.1 instead")
log.warn("Set SPARK_LOCAL_IP if you need to bind to another address")
log.warn("Something else")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.endswith(" WARN Utils: Something else\n")
