"""`slipstream sql`, through the command line."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slipstream.testing import ServerThread
from support.cli import Cli
from support.spark_streams import Streams


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ServerThread(store_dir=str(tmp_path_factory.mktemp("sql"))) as server:
        streams = Streams(server.url)
        streams.create("ORDERS")
        streams.publish([("ORDERS.eu", b"7 apples"), ("ORDERS.us", b"\xff"), ("ORDERS.eu", b'a,"b"')])
        yield server.url


@pytest.fixture
def cli(url: str, tmp_path: Path) -> Cli:
    return Cli(tmp_path, url)


TABLE = """\
╭────────────────────────────╮
│           2 rows           │
├─────┬───────────┬──────────┤
│ seq │ subject   │ text     │
├─────┼───────────┼──────────┤
│ 1   │ ORDERS.eu │ 7 apples │
│ 3   │ ORDERS.eu │ a,"b"    │
╰─────┴───────────┴──────────╯
"""
QUERY = "SELECT seq, subject, decode(payload) AS text FROM orders WHERE subject = 'ORDERS.eu'"


def test_a_table(cli: Cli) -> None:
    said = cli.call("sql", QUERY).stdout
    assert said == TABLE


def test_more_rows_than_shown(cli: Cli) -> None:
    result = cli.call("sql", "SELECT seq FROM ORDERS ORDER BY seq", "--rows", "2")
    assert "there are more rows; --rows shows more than 2" in result.stderr
    assert "2 rows" in result.stdout and "3" not in result.stdout


def test_json(cli: Cli) -> None:
    assert cli.json("sql", "SELECT seq, payload FROM ORDERS ORDER BY seq", "-f", "json") == [
        {"seq": 1, "payload": "7 apples"},
        {"seq": 2, "payload": "base64:/w=="},
        {"seq": 3, "payload": 'a,"b"'},
    ]
    assert cli.json("sql", "SELECT seq FROM ORDERS WHERE seq > 9", "-f", "json") == []


def test_csv(cli: Cli) -> None:
    said = cli.call("sql", "SELECT seq, payload FROM ORDERS WHERE seq <> 2 ORDER BY seq", "--format", "csv").stdout
    assert list(csv.reader(io.StringIO(said))) == [["seq", "payload"], ["1", "7 apples"], ["3", 'a,"b"']]


def test_arrow_and_parquet(cli: Cli, tmp_path: Path) -> None:
    arrow, parquet = tmp_path / "rows.arrow", tmp_path / "rows.parquet"
    cli.call("sql", "SELECT * FROM ORDERS ORDER BY seq", "-f", "arrow", "-o", str(arrow))
    cli.call("sql", "SELECT * FROM ORDERS ORDER BY seq", "-f", "parquet", "-o", str(parquet))
    table = pa.ipc.open_stream(arrow.read_bytes()).read_all()
    assert table.column("payload").to_pylist() == [b"7 apples", b"\xff", b'a,"b"']
    assert pq.read_table(parquet).to_pylist() == table.to_pylist()
    done = cli.run("sql", "SELECT seq FROM ORDERS", "-f", "arrow")
    assert pa.ipc.open_stream(done.stdout).read_all().num_rows == 3
    assert done.stderr == b""


def test_what_the_server_was_asked(cli: Cli) -> None:
    said = cli.call("sql", "SELECT count(*) FROM ORDERS WHERE subject = 'ORDERS.eu'", "--explain").stdout
    assert "counted by the index" in said and "ORDERS.eu" in said


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("SELEC 1",), 2, "syntax error"),
        (("DROP TABLE ORDERS",), 2, "only SELECT is answered"),
        (("SELECT 1 FROM NOTHING",), 1, "there is no stream 'NOTHING'"),
        (("SELECT * FROM read_text('/etc/hostname')",), 1, "disabled"),
        (("SELECT 1", "--output", "x.txt"), 2, "a table is printed"),
        (("SELECT sum(a.range) FROM range(1000000) a, range(1000000) b", "--time-limit", "200ms"), 1, "stopped after"),
    ],
)
def test_what_goes_wrong(cli: Cli, arguments: tuple[str, ...], status: int, said: str) -> None:
    assert said in cli.call("sql", *arguments, status=status).stderr


def test_the_command_line_starts_without_duckdb() -> None:
    code = "import sys, slipstream, slipstream.cli.main; print({'duckdb', 'pyarrow'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_times_with_nanoseconds(url: str) -> None:
    """Python has none; and pandas, which has, is not imported for a query, nor is numpy."""
    query = "SELECT make_timestamp_ns(1) AS t FROM ORDERS LIMIT 1"
    command = [sys.executable, "-X", "importtime", "-m", "slipstream", "-s", url, "sql", query, "-f", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [{"t": "1970-01-01T00:00:00.000000001"}]
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pyarrow" in imported and not {"pandas.core", "numpy.lib", "numpy._core"} & imported


def test_rows_of_all_kinds_without_numpy(cli: Cli, tmp_path: Path) -> None:
    query = """SELECT *, 1.50::DECIMAL(9, 2) AS price, [1, 2] AS some FROM ORDERS
               WHERE subject = 'ORDERS.eu' AND decode(payload) LIKE '7%'"""
    parquet = tmp_path / "rows.parquet"
    assert cli.run("sql", query, "-f", "parquet", "-o", str(parquet)).stderr == b""
    (row,) = json.loads(cli.run("sql", query, "-f", "json").stdout)
    (same,) = pq.read_table(parquet).to_pylist()
    assert (row["seq"], row["payload"], row["price"], row["some"]) == (1, "7 apples", 1.5, [1, 2])
    assert {**same, "ts": same["ts"].isoformat(), "payload": same["payload"].decode(), "price": 1.5} == {
        **row,
        "headers": same["headers"],
    }


def test_a_count_of_everything_needs_no_dataset(url: str) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "slipstream", "-s", url, "sql", "SELECT count(*) FROM ORDERS"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "│ 3 " in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pyarrow" in imported and not {"pyarrow.dataset", "pyarrow.compute"} & imported
