"""Who leads: `stream cluster`, `consumer cluster`, `server cluster`, over a JetStream cluster of three servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.cli import Cli
from support.clusters import HAS_NATS_SERVER, Node
from support.server_process import ServerProcess

pytestmark = pytest.mark.skipif(not HAS_NATS_SERVER, reason="nats-server is not installed")

ACCOUNTS = """
accounts {
  $SYS { users: [{user: s, password: p}] }
  A { jetstream: enabled, users: [{user: a, password: p}] }
}
no_auth_user: a
"""
SYSTEM = ("--user", "s", "--password", "p")


@asynccontextmanager
async def replicated(kind: str, directory: Path) -> AsyncIterator[list[Node]]:
    """Three servers with JetStream."""
    nodes = [Node(kind, number, directory) for number in range(3)]
    routes = [f"nats://127.0.0.1:{node.route_port}" for node in nodes]
    try:
        for node in nodes:
            more = f"jetstream {{ store_dir: '{directory}/{node.name}' }}\n{ACCOUNTS}"
            await node.start(node.text(routes, "", more))
        yield nodes
    finally:
        for node in nodes:
            await node.stop()


@pytest.mark.parametrize("kind", ["o", pytest.param("n", marks=pytest.mark.long)])
async def test_leaders(kind: str, tmp_path: Path) -> None:
    async with replicated(kind, tmp_path) as nodes:
        cli = Cli(tmp_path, nodes[0].url)

        def run() -> None:
            add = ("stream", "add", "X", "--subjects", "x", "--replicas", "3", "--defaults", "--timeout", "2s")
            deadline = time.monotonic() + 60
            while True:  # until the servers have found each other
                try:
                    cli.call(*add)
                    break
                except AssertionError:
                    assert time.monotonic() < deadline
            cli.call("consumer", "add", "X", "C", "--pull", "--replicas", "3", "--defaults")
            leader = cli.json("stream", "info", "X", "-j")["cluster"]["leader"]
            moved = cli.call("stream", "cluster", "step-down", "X")
            assert f'step down of "{leader}"' in moved.stderr and "Cluster Information" in moved.stdout
            other = cli.json("stream", "info", "X", "-j")["cluster"]["leader"]
            assert other != leader and f'New leader elected "{other}"' in moved.stderr
            cli.call("stream", "cluster", "step-down", "X", "--host", leader)
            assert cli.json("stream", "info", "X", "-j")["cluster"]["leader"] == leader
            cli.call("consumer", "cluster", "step-down", "X", "C")
            assert cli.call("stream", "cluster", "balance").stdout == "Balanced 0 leaders\n"
            refused = cli.call("stream", "cluster", "peer-remove", "X", "nobody", "-f", status=1)
            assert "10040" in refused.stderr
            first = cli.call("server", "report", "jetstream", *SYSTEM).stdout
            assert "RAFT Meta Group Information" in first and "*" in first
            _leaders_are_counted(cli)
            _what_needs_a_higher_level(cli)
            assert "New leader elected" in cli.call("server", "cluster", "step-down", *SYSTEM).stderr
            limits = ("--lag-critical", "100", "--seen-critical", "1m", *SYSTEM)
            checked = cli.call("server", "check", "meta", "--expect", "3", *limits).stdout
            assert checked.startswith("OK JetStream Meta Cluster OK:3 peers led by s")
            missing = cli.call("server", "check", "meta", "--expect", "4", *limits, status=2).stdout
            assert "Crit:3 peers of expected 4" in missing
            stream = ("server", "check", "stream", "--stream", "X")
            peers = ("--peer-lag-critical", "1000", "--peer-seen-critical", "1m", "--peer-expect")
            while True:  # until the others have heard of the new leader
                try:
                    said = "OK X OK:3 peers OK:replicas are current OK:replicas are active OK:0 sources | sources=0\n"
                    assert cli.call(*stream, *peers, "3").stdout == said
                    break
                except AssertionError:
                    assert time.monotonic() < deadline
            assert "Crit:Expected 5 replicas got 3" in cli.call(*stream, *peers, "5", status=2).stdout
            figures = cli.call("server", "check", "jetstream").stdout.split(" | ")[1].split()
            assert "replicas_ok=1" in figures and "replicas_not_seen=0.0000s;;5.0000" in figures
            too_old = cli.call("server", "check", "jetstream", "--replica-seen-critical", "1ns", status=2).stdout
            assert "Crit:1 unhealthy streams" in too_old and "replicas_not_seen=1.0000s;;0.0000" in too_old
            unknown = cli.call("server", "cluster", "peer-remove", "nobody", "-f", *SYSTEM, status=1)
            assert "no server called 'nobody'" in unknown.stderr

        await asyncio.to_thread(run)


def _leaders_are_counted(cli: Cli) -> None:
    leader = cli.json("stream", "info", "X", "-j")["cluster"]["leader"]
    report = cli.call("stream", "report", "--leaders").stdout
    assert [cell.strip() for cell in report.splitlines()[-2].split("│")[1:-1]] == [leader, "C", "1", "*" * 10]
    consumer = cli.json("consumer", "info", "X", "C", "-j")["cluster"]["leader"]
    report = cli.call("consumer", "report", "X", "-l").stdout
    assert [cell.strip() for cell in report.splitlines()[-2].split("│")[1:-1]] == [consumer, "C", "1", "*" * 10]
    report = cli.call("server", "report", "jetstream", "--leaders", *SYSTEM).stdout
    assert "Stream Leaders" in report and "Consumer Leaders" in report
    assert [cell.strip() for cell in report.splitlines()[-2].split("│")[1:-1]] == [consumer, "C", "1", "*" * 10]


def _what_needs_a_higher_level(cli: Cli) -> None:
    cli.call("stream", "add", "T", "--subjects", "t", "--allow-msg-ttl", "--defaults")
    cli.call("consumer", "add", "T", "D", "--pull", "--defaults")
    report = ("server", "report", "downgrade")
    (stream,) = cli.json(*report, "0", "--json", *SYSTEM)["streams"]
    assert stream == {"account": "A", "name": "T", "api_level": 1}
    (consumer,) = cli.json(*report, "0", "--all", "--json", *SYSTEM)["consumers"]
    assert consumer == {"account": "A", "name": "D", "stream": "T*", "api_level": 0}
    shown = cli.call(*report, "0", "--all", *SYSTEM).stdout
    assert "Assets: Streams" in shown and "Assets: Consumers" in shown
    assert cli.call(*report, "9", *SYSTEM).stdout == "All assets are compatible with the specified API level.\n"
    cli.call("stream", "rm", "T", "-f")


def test_what_is_said_without_a_cluster(tmp_path: Path, server: ServerProcess) -> None:
    cli = Cli(tmp_path, server.url)
    assert "this needs a user of the system account" in cli.call("server", "cluster", "step-down", status=1).stderr
