"""`account backup` and `restore`, and what streams and consumers show of themselves: gaps, graphs, resets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import Cli
from support.server_process import ServerProcess

GAPS = """\
╭─────────────────────────────────────────╮
│   3 deleted messages in stream ORDERS   │
├───────────────┬──────────────┬──────────┤
│ First Message │ Last Message │ Messages │
├───────────────┼──────────────┼──────────┤
│ 3             │            4 │        2 │
│ 6             │            6 │        1 │
╰───────────────┴──────────────┴──────────╯
"""


@pytest.fixture
def cli(server: ServerProcess, tmp_path: Path) -> Iterator[Cli]:
    """A command line with a stream of nine messages and a consumer; all streams are removed again."""
    cli = Cli(tmp_path, server.url)
    cli.call("stream", "add", "ORDERS", "--subjects", "orders.*", "--defaults")
    cli.call("pub", "orders.new", "body {{Count}}", "--count", "9", "-J", "-q")
    cli.call("consumer", "add", "ORDERS", "worker", "--pull", "--defaults")
    yield cli
    for name in cli.json("stream", "ls", "--all", "--names", "--json"):
        cli.call("stream", "rm", name, "-f")


def test_backup_and_restore(cli: Cli, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    cli.call("kv", "add", "CONFIG")
    cli.call("kv", "put", "CONFIG", "theme", "dark")
    with cli.terminal("account", "backup", str(saved)) as terminal:
        terminal.answer("Save 2 streams with", "y").expect("Starting backup of Stream KV_CONFIG")
        terminal.expect("Receiving").expect("Starting backup of Stream ORDERS").expect("2 streams saved").finish()
    assert "is not empty" in cli.call("account", "backup", str(saved), "-f", status=1).stderr
    for name in ("KV_CONFIG", "ORDERS"):
        assert json.loads((saved / name / "backup.json").read_text())["config"]["name"] == name
    cli.call("stream", "rm", "ORDERS", "-f")
    cli.call("kv", "del", "CONFIG", "-f")
    assert "no streams are defined" in cli.call("account", "backup", str(tmp_path / "x"), "-f", status=1).stderr
    with cli.terminal("account", "restore", str(saved)) as terminal:
        terminal.expect("Starting restore of Stream KV_CONFIG").expect("Sending").expect("2 streams restored").finish()
    assert cli.call("kv", "get", "CONFIG", "theme", "--raw").stdout == "dark"
    assert cli.json("stream", "info", "ORDERS", "-j")["state"]["messages"] == 9
    assert cli.json("consumer", "info", "ORDERS", "worker", "-j")["num_pending"] == 9
    # What is there stays as it is.
    cli.call("kv", "put", "CONFIG", "theme", "light")
    cli.call("stream", "rm", "ORDERS", "-f")
    again = cli.call("account", "restore", str(saved), "--no-progress", status=1)
    assert "KV_CONFIG was not restored: stream KV_CONFIG exists already" in again.stderr
    assert "1 stream restored" in again.stdout and "1 stream could not be restored" in again.stderr
    assert cli.call("kv", "get", "CONFIG", "theme", "--raw").stdout == "light"
    assert "holds no backups" in cli.call("account", "restore", str(saved / "ORDERS"), status=1).stderr
    assert "give --force" in cli.call("account", "backup", str(tmp_path / "y"), status=1).stderr


def test_stream_gaps(cli: Cli) -> None:
    assert cli.call("stream", "gaps", "ORDERS").stdout == "No deleted messages in ORDERS\n"
    for sequence in ("3", "4", "6"):
        cli.call("stream", "rmm", "ORDERS", sequence, "-f")
    assert cli.screen("stream", "gaps", "ORDERS") == GAPS
    assert cli.json("s", "gaps", "ORDERS", "-j") == {"stream": "ORDERS", "deleted": 3, "gaps": [[3, 4], [6, 6]]}


def test_graphs(cli: Cli) -> None:
    with cli.terminal("stream", "graph", "ORDERS", "--interval", "200ms") as terminal:
        terminal.expect("Messages Stored: 9 ").expect("Messages Published / second")
        cli.call("pub", "orders.new", "x", "-J", "-q")
        terminal.expect("Messages Stored: 10 ").interrupt().finish()
    plain = cli.call("consumer", "graph", "ORDERS", "worker", "--count", "2", "--interval", "1ms").stdout
    assert plain.count("Consumer ORDERS > worker") == 2 and "Messages Pending: 10" in plain
    with cli.terminal("consumer", "graph", "ORDERS", "worker", "--count", "1") as terminal:
        terminal.expect("Messages Waiting for Ack: 0").finish()
    assert "give --count" in cli.call("stream", "graph", "ORDERS", status=1).stderr
    assert "longer than nothing" in cli.call("s", "graph", "ORDERS", "--count", "1", "--interval", "0", status=1).stderr


def test_consumer_reset(cli: Cli) -> None:
    assert cli.call("c", "next", "ORDERS", "worker", "--raw", "--count", "3").stdout == "body 1\nbody 2\nbody 3\n"
    with cli.terminal("consumer", "reset", "ORDERS", "worker", "--sequence", "2") as terminal:
        terminal.answer("Really reset Consumer ORDERS > worker to sequence 2?", "y")
        terminal.expect("Consumer ORDERS > worker was reset to sequence 2").finish()
    assert cli.call("c", "next", "ORDERS", "worker", "--raw").stdout == "body 2\n"
    assert "to sequence 3\n" in cli.call("c", "reset", "ORDERS", "worker", "-f").stdout
    assert "give --force" in cli.call("c", "reset", "ORDERS", "worker", status=1).stderr
    assert "consumer not found" in cli.call("c", "reset", "ORDERS", "nope", "-f", status=1).stderr
