"""`slipstream lake`, through the command line."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipstream.testing import ServerThread
from support.cli import Cli
from support.spark_streams import Streams
from support.terminal import program

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Streams]:
    with ServerThread(store_dir=str(tmp_path_factory.mktemp("lake"))) as server:
        yield Streams(server.url)


@pytest.fixture
def cli(streams: Streams, tmp_path: Path) -> Cli:
    return Cli(tmp_path, streams.url)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_write_once_and_replay(cli: Cli, streams: Streams, tmp_path: Path, kind: str) -> None:
    name, lake = f"ORDERS{kind}", str(tmp_path / "lake")
    streams.create(name)
    streams.fill(name, 30)
    metrics = tmp_path / "lake.prom"
    common = ("--format", kind)
    done = cli.json("lake", "run", lake, "--streams", name, "--once", "--json", "--metrics-file", str(metrics), *common)
    assert [(one["stream"], one["written"], one["upto"], one["lag"]) for one in done["streams"]] == [(name, 30, 30, 0)]
    assert f'slipstream_lake_lag_messages{{stream="{name}"}} 0' in metrics.read_text()
    assert name in cli.call("lake", "run", lake, "--streams", name, "--once", *common).stdout
    before = streams.rows(name, "subject", "hdr_raw", "payload")
    streams.delete(name)
    streams.create(f"{name}2", subjects=[f"{name}.>"])
    said = cli.json("lake", "replay", lake, name, f"{name}2", "--json", *common)
    assert (said["messages"], said["upto"]) == (30, 30)
    assert streams.rows(f"{name}2", "subject", "hdr_raw", "payload") == before
    assert "Replayed before, up to: 30" in cli.call("lake", "replay", lake, name, f"{name}2", *common).stdout


def test_a_stream_that_fails_is_told_and_ends_with_status_1(cli: Cli, streams: Streams, tmp_path: Path) -> None:
    streams.create("AGAIN")
    streams.fill("AGAIN", 3)
    cli.call("lake", "run", str(tmp_path), "--streams", "AGAIN", "--once")
    streams.delete("AGAIN")
    streams.create("AGAIN")
    failed = cli.call("lake", "run", str(tmp_path), "--streams", "AGAIN", "--once", status=1)
    assert "AGAIN: the table at" in failed.stderr and "deleted and made anew" in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("run", "x", "--partition", "day"), 2, "are for the format iceberg"),
        (("run", "x", "--catalog", "uri=x"), 2, "are for the format iceberg"),
        (("run", "x", "--format", "iceberg", "--catalog", "token=x"), 1, "token is a secret"),
        (("run", "x", "--columns", "id bigint"), 2, "columns go with one stream"),
        (("run", "x", "--dead-letters", "a"), 2, "dead letters go with columns"),
        (("run", "x", "--format", "iceberg", "--streams", "A", "--columns", "id"), 1, "is no column such as"),
        (("run", "s3://bucket/x", "--format", "iceberg"), 1, "name the catalogue"),
        (("run", "az://tables/x?sig=hidden"), 2, "belong into the environment"),
        (("replay", "nothing", "ORDERS", "X"), 1, "there is no table"),
    ],
)
def test_what_is_refused(cli: Cli, arguments: tuple[str, ...], status: int, said: str) -> None:
    assert said in " ".join(cli.call("lake", *arguments, status=status).stderr.split())


def test_it_runs_until_it_is_stopped(cli: Cli, streams: Streams, tmp_path: Path) -> None:
    streams.create("LIVE")
    streams.fill("LIVE", 20)
    process = subprocess.Popen(
        [program("slipstream"), "lake", "run", str(tmp_path), "--streams", "LIVE", "--every", "100ms"],
        env={**os.environ, **cli.env},
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        assert "20 messages written" in process.stderr.readline()
        streams.fill("LIVE", 5)
        assert "5 messages written" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, process.stderr.read()
