"""kill -9 of a lake writer, or of the server that has one, while messages come: the table has each of them once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from slipstream.bulk import ConnectOptions, connect
from slipstream.lake.delta_table import open_delta
from slipstream.lake.iceberg_table import IcebergCatalogue
from slipstream.lake.opening import TablePlan
from slipstream.lake.tables import LakeTable
from slipstream.lake.writing import StreamWriter, WriteSettings
from slipstream.spark.lake import LakeError, Wish
from slipstream.testing import ServerThread
from support.server_process import ServerProcess
from support.spark_streams import Streams

VICTIM = Path(__file__).with_name("lake_victim.py")
KILLS = 4
pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.fixture
def streams(tmp_path: Path) -> Iterator[Streams]:
    with ServerThread(store_dir=str(tmp_path / "server")) as server:
        yield Streams(server.url)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_writer_is_killed_while_messages_come(streams: Streams, tmp_path: Path, kind: str) -> None:
    name, directory = "ORDERS", str(tmp_path / "lake")
    streams.create(name)
    chance = random.Random(19)
    filled = 0
    for _ in range(KILLS):
        victim = subprocess.Popen(
            [sys.executable, str(VICTIM), streams.url, directory, kind, name],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert victim.stdout is not None and victim.stderr is not None
        with victim:
            for _ in range(2):
                streams.fill(name, 300, filled)
                filled += 300
                assert victim.stdout.readline(), victim.stderr.read()
            streams.fill(name, 1000, filled)  # some commits
            filled += 1000
            threading.Event().wait(chance.random() * 0.3)  # chance, not order: somewhere in a turn
            os.kill(victim.pid, signal.SIGKILL)

    def open_table(stream: str, identity: str | None) -> LakeTable:
        if kind == "delta":
            return open_delta(directory, stream, identity)
        return IcebergCatalogue(directory, {}, "streams").open(stream, identity)

    with connect(ConnectOptions(streams.url)) as client:
        StreamWriter(name, open_table, WriteSettings()).turn(client)
    table = open_table(name, None)
    found = [row for batch in table.read(Wish(), None) for row in batch.select(["seq", "payload"]).to_pylist()]
    assert found == streams.rows(name, "seq", "payload")
    assert len(found) == filled
    if kind == "delta":  # and by somebody else's eyes
        from deltalake import DeltaTable

        files = DeltaTable(f"{directory}/{name}").file_uris()
        with duckdb.connect() as engine:
            assert engine.read_parquet(files).count("seq").fetchall() == [(len(found),)]


# Each start of a writer loads Arrow and the libraries of its format, so that the short form has one kill.
SERVER_KILLS = [
    ("delta", 1),
    pytest.param("delta", 5, marks=pytest.mark.long),
    pytest.param("iceberg", 5, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("kind", "kills"), SERVER_KILLS)
def test_a_server_is_killed_with_its_writer_at_work(tmp_path: Path, kind: str, kills: int) -> None:
    """`lake { … }`: the writer ends with its server, wherever it is, and the next one goes on."""
    name, lake = "ORDERS", str(tmp_path / "lake")
    config = (
        f'jetstream {{ store_dir: "{tmp_path}/store" }}\n'
        f'lake {{ location: "{lake}", format: {kind}, every: "100ms", file_size: 65536 }}\n'
    )
    plan = TablePlan(lake, kind)
    (tmp_path / "run").mkdir()
    server = ServerProcess(Path(sys.executable).parent / "slipstream-server", tmp_path / "run", config=config)
    filled = 0
    with server:
        streams = Streams(server.url)
        streams.create(name)
        for _ in range(kills):
            streams.fill(name, 1500, filled)
            filled += 1500
            (writer,) = children(server.pid)
            until(lambda: position(plan, name) > 0)
            streams.fill(name, 1500, filled)
            filled += 1500
            server.kill()
            until(lambda: not Path(f"/proc/{writer}").exists())  # noqa: B023 - it is waited for here
            server.restart()
        until(lambda: position(plan, name) == filled)
        table = plan.opener()(name, None)
        found = [row for batch in table.read(Wish(), None) for row in batch.select(["seq", "payload"]).to_pylist()]
        assert found == streams.rows(name, "seq", "payload")
        assert len(found) == filled


def children(pid: int) -> list[int]:
    """Processes that a process has started."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(one) for path in found for one in path.read_text().split()]


def position(plan: TablePlan, name: str) -> int:
    try:
        return plan.opener()(name, None).position()
    except LakeError:
        return 0  # not made yet


def until(holds: Callable[[], bool]) -> None:
    """Wait for it; a test that waits in vain fails by its time limit, with this line."""
    while not holds():
        threading.Event().wait(0.1)
