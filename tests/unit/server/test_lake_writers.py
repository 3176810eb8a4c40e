"""`lake { … }`: the process that a server starts, what it writes, and that its end is nobody else's."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from deltalake import DeltaTable

from slipstream import connect
from slipstream.config.lake_options import LakeOptions
from slipstream.config.reload import diff
from slipstream.config.validate import unsupported
from slipstream.server.jetstream import lake_writers
from slipstream.server.jetstream.lake_writers import LakeWriter, child_settings
from slipstream.testing import ServerThread
from slipstream.units import HOUR_NS, SECOND_NS
from support.config_loading import errors, options

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

SERVER = """
port: -1, http_port: -1
jetstream {{ store_dir: "{store}" }}
accounts {{
  A {{ jetstream: enabled, users: [{{user: a, password: pa}}] }}
  B {{ jetstream: enabled, users: [{{user: b, password: pb}}] }}
}}
lake {{ location: "{tables}", user: a, password: pa, every: "100ms" }}
"""


def until(holds: Callable[[], object]) -> None:
    """Wait for it; a test that waits in vain fails by its time limit, with this line."""
    while not holds():
        time.sleep(0.02)


# --- the block -----------------------------------------------------------------------------------------------------


def test_every_key_reaches_the_process() -> None:
    found = options("""
        jetstream: enabled
        lake {
          location: "s3://bucket/tables", format: iceberg, streams: [ORDERS]
          namespace: sales, partition: [day, subject]
          catalog { type: rest, uri: "http://127.0.0.1:1" }
          columns: "id bigint", dead_letters: dead.orders
          every: "1s", file_size: 1MB, compact_files: 4, keep: "2h", accept_gap: true
          user: u, password: p, url: "tls://here:4222", ca_file: ca.pem, cert_file: c.pem, key_file: k.pem
        }
    """)
    (block,) = found.lake
    assert (block.every_ns, block.keep_ns, block.file_size) == (SECOND_NS, 2 * HOUR_NS, 1 << 20)
    assert child_settings(block, "nats://127.0.0.1:4222", "hub") == {
        "login": {
            "servers": "tls://here:4222",
            "user": "u",
            "password": "p",
            "tls_ca": "ca.pem",
            "tls_cert": "c.pem",
            "tls_key": "k.pem",
            "domain": "hub",
        },
        "streams": ["ORDERS"],
        "tables": {
            "location": "s3://bucket/tables",
            "format": "iceberg",
            "catalog": {"type": "rest", "uri": "http://127.0.0.1:1"},
            "namespace": "sales",
            "partition": ["day", "subject"],
            "columns": "id bigint",
            "dead_letters": "dead.orders",
        },
        "writing": {"file_bytes": 1 << 20, "compact_files": 4, "keep_seconds": 7200.0, "accept_gap": True},
        "every": 1.0,
    }
    assert "'p'" not in repr(block)


def test_other_logins_and_defaults() -> None:
    url = "nats://127.0.0.1:4222"
    for key, name in (("token", "token"), ("credentials", "creds_file"), ("nkey_file", "nkey_file")):
        (block,) = options(f"lake {{ location: x, {key}: y }}").lake
        assert child_settings(block, url)["login"] == {"servers": url, name: "y"}
    first, second = options("lake [ {location: a}, {location: b, stream: ORDERS} ]").lake
    assert (first.streams, second.streams) == (("*",), ("ORDERS",))
    assert first == LakeOptions("a")


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("{}", "no location"),
        ("7", "map or a list of maps"),
        ("{location: x, format: parquet}", "delta or iceberg"),
        ("{location: x, partition: day}", "for the format iceberg"),
        ("{location: x, format: iceberg, partition: week}", 'got "week"'),
        ("{location: x, columns: 'id bigint'}", "one stream"),
        ("{location: x, dead_letters: d}", "go with columns"),
        ("{location: x, every: '1ms'}", "100ms at least"),
        ("{location: x, file_size: 10}", "64K at least"),
        ("{location: x, user: u, token: t}", "one of user, token"),
        ("{location: x, key_file: k}", "needs cert_file"),
        ("{location: x, format: iceberg, catalog {'s3.secret-access-key': k}}", "is a secret"),
        ("{location: x, colour: red}", 'unknown field "colour"'),
    ],
)
def test_what_cannot_be_is_refused(block: str, problem: str) -> None:
    (found,) = errors(f"lake: {block}")
    assert problem in found


def test_tables_need_streams_and_reload() -> None:
    (refused,) = unsupported(options("lake {location: x}"))
    assert "needs JetStream" in str(refused)
    before, after = (options(f"jetstream: enabled\nlake {{location: {name}}}") for name in "xy")
    plan = diff(before, after)
    assert plan.changed == {"lake"} and not plan.refusals


# --- a server with tables --------------------------------------------------------------------------------------------


def sequences(place: Path) -> list[int]:
    if not (place / "_delta_log").exists():
        return []
    rows = DeltaTable(str(place)).to_pyarrow_table(columns=["seq"])
    return sorted(rows.column("seq").to_pylist())


def test_streams_are_tables_whatever_becomes_of_the_writer(tmp_path: Path) -> None:
    text = SERVER.format(store=tmp_path / "store", tables=tmp_path / "tables")
    with ServerThread(options(text)) as thread:
        server = thread.server
        with connect(thread.url, user="b", password="pb") as other:
            other.jetstream().create_stream("THEIRS", subjects=["t.>"])
            other.jetstream().publish("t.1", b"not ours")
        with connect(thread.url, user="a", password="pa") as client:
            streams = client.jetstream()
            streams.create_stream("ORDERS", subjects=["orders.>"])
            for number in range(20):
                streams.publish("orders.eu", b"%d" % number)
            table = tmp_path / "tables" / "ORDERS"
            until(lambda: len(sequences(table)) == 20)
            lag = re.compile(rf'slipstream_bulk_reader_lag_messages{{.*by="table {table} \([-0-9a-f]+\)"}} 0\n')
            until(lambda: lag.search(metrics_of(thread)) is not None)
            assert server.lake is not None
            (writer,) = server.lake.writers
            first = writer.pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            for number in range(20):
                streams.publish("orders.eu", b"%d" % number)
            until(lambda: len(sequences(table)) == 40)
            assert sequences(table) == list(range(1, 41))
            assert not (tmp_path / "tables" / "THEIRS").exists()
            label = f'{{location="{tmp_path / "tables"}",stream="ORDERS"}}'
            until(lambda: f"slipstream_lake_last_sequence{label} 40" in metrics_of(thread))
            shown = metrics_of(thread)
            assert f"slipstream_lake_lag_messages{label} 0" in shown
            assert f"slipstream_lake_failed{label} 0" in shown
            assert f'slipstream_lake_restarts_total{{location="{tmp_path / "tables"}"}} 1' in shown

            second = writer.pid
            moved = options(text.replace(str(tmp_path / "tables"), str(tmp_path / "moved")))
            server.turns.loop.call_soon_threadsafe(server.reload, moved)
            until(lambda: len(sequences(tmp_path / "moved" / "ORDERS")) == 40)
            until(lambda: not is_alive(second))
            last = server.lake.writers[0].pid
    assert not is_alive(last)


def metrics_of(thread: ServerThread) -> str:
    assert thread.server.monitoring is not None
    with urlopen(f"{thread.server.monitoring.url}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def is_alive(pid: int | None) -> bool:
    assert pid is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# --- the process, played by others -----------------------------------------------------------------------------------


class Watched:
    """A loop in a thread, and the log of the writer on it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def writer(self, program: str) -> LakeWriter:
        return LakeWriter("here", {}, self.loop, self.log, (sys.executable, "-c", program))

    def log(self, level: str, text: str) -> None:
        self.lines.append(f"{level} {text}")

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setattr(lake_writers, "LAKE_PAUSE_S", 0.01)
    monkeypatch.setattr(lake_writers, "LAKE_STOP_S", 0.2)
    found = Watched()
    yield found
    found.close()


def test_a_process_that_ends_is_started_again(watched: Watched) -> None:
    writer = watched.writer("print('segfault'); raise SystemExit(3)")
    until(lambda: writer.state.restarts >= 2)
    writer.stop()
    assert "WRN Lake writer of here printed: segfault" in watched.lines
    assert "WRN Lake writer of here has ended; it is started again" in watched.lines
    assert not writer.state.running and writer.pid is None


def test_failures_are_told_once_and_when_they_are_over(watched: Watched) -> None:
    turn = '{"streams": [{"stream": "S", "lag": 3, "upto": 7}], "failures": %s}'
    lines = [turn % '{"X": "gone"}'] * 3 + ['{"error": "no server"}'] * 2 + [turn % "{}"]
    writer = watched.writer(f"import sys; print({chr(10).join(lines)!r}, flush=True); sys.stdin.read()")
    until(lambda: any("written again" in line for line in watched.lines))
    state = writer.state
    writer.stop()
    assert watched.lines == [
        "WRN Lake: stream X to here cannot be written: gone",
        "WRN Lake: tables of here cannot be written: no server",
        "INF Lake: tables of here are written again",
    ]
    assert state.running and [(one.stream, one.lag, one.upto, one.failed) for one in state.tables] == [
        ("S", 3, 7, False)
    ]


def test_a_process_that_hangs_is_killed_at_the_stop(watched: Watched) -> None:
    writer = watched.writer("import time; print('[]', flush=True); time.sleep(600)")
    until(lambda: watched.lines)
    pid = writer.pid
    writer.stop()
    assert not is_alive(pid)
