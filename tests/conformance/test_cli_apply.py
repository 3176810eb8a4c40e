"""`slipstream apply` on nats-server and this server alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import slipstream
from slipstream.sync import JetStream
from support.cli import Cli
from support.servers import Launcher

FILE = """
streams:
  COPY:
    mirror: {name: ORDERS}
  ORDERS:
    subjects: [orders.>]
    max_age: 7d
    max_msgs: -1
    num_replicas: 1
    compression: s2
    metadata: {owner: sales}
    consumers:
      billing: {ack_wait: 30s, filter_subject: orders.us, max_deliver: 5}
      audit: {filter_subjects: [orders.us, orders.eu], inactive_threshold: 0}
kv:
  config: {history: 5, ttl: 1h, description: settings}
objects:
  files: {max_bucket_size: 1MiB}
"""


@pytest.fixture
def cli(launcher: Launcher, tmp_path: Path) -> Cli:
    return Cli(tmp_path, launcher.fresh('jetstream { store_dir: "js" }').url)


def _write(cli: Cli, text: str) -> str:
    path = cli.home / "streams.yaml"
    path.write_text(text)
    return str(path)


@pytest.fixture
def jetstream(cli: Cli) -> Iterator[JetStream]:
    with slipstream.connect(cli.env["NATS_URL"]) as client:
        yield client.jetstream()


def test_plan_apply_and_nothing_left_to_do(cli: Cli, jetstream: JetStream) -> None:
    path = _write(cli, FILE)
    shown = cli.call("apply", "-f", path, "--plan", status=3).output
    assert shown.index("+ create stream ORDERS") < shown.index("+ create stream COPY")  # what it copies comes first
    assert list(jetstream.streams()) == []
    assert "6 steps done" in cli.call("apply", "-f", path).output
    assert cli.call("apply", "-f", path, "--plan").output == "Everything is as declared\n"
    assert cli.call("apply", "-f", path).output == "Everything is as declared\n"
    orders = jetstream.stream("ORDERS").info()["config"]
    assert (orders["max_age"], orders["compression"]) == (7 * 86400 * 10**9, "s2")
    assert jetstream.stream("ORDERS").consumer("billing").info()["config"]["max_deliver"] == 5
    jetstream.kv("config").put("a", b"1")
    assert jetstream.kv("config").status()["config"]["max_msgs_per_subject"] == 5
    jetstream.objects("files").put("a", b"content")


def test_changes_are_shown_and_made_and_the_rest_stays(cli: Cli, jetstream: JetStream) -> None:
    cli.call("apply", "-f", _write(cli, FILE))
    jetstream.publish("orders.us", b"kept")
    jetstream.update_stream("ORDERS", description="by hand")
    path = _write(
        cli,
        FILE.replace("7d", "1d").replace("orders.us, max_deliver: 5", "orders.eu").replace("history: 5", "history: 9"),
    )
    plan = json.loads(cli.call("apply", "-f", path, "--plan", "--json", status=3).output)
    assert [(step["action"], step["what"]) for step in plan] == [
        ("update", "stream ORDERS"),
        ("update", "consumer ORDERS > billing"),
        ("update", "bucket config"),
    ]
    assert plan[0]["changes"] == ["- max_age: 7d", "+ max_age: 1d"]
    cli.call("apply", "-f", path)
    config = jetstream.stream("ORDERS").info()["config"]
    assert (config["max_age"], config["description"], config["metadata"]["owner"]) == (
        86400 * 10**9,
        "by hand",
        "sales",
    )
    billing = jetstream.stream("ORDERS").consumer("billing").info()["config"]
    assert (billing["filter_subject"], billing["max_deliver"]) == ("orders.eu", 5)
    assert len(jetstream.stream("ORDERS")) == 1
    assert cli.call("apply", "-f", path, "--plan").exit_code == 0


def test_nothing_is_deleted_unasked(cli: Cli, jetstream: JetStream) -> None:
    cli.call("apply", "-f", _write(cli, FILE))
    jetstream.create_stream("EXTRA", subjects=["extra"])
    path = _write(cli, "streams:\n  ORDERS:\n    consumers:\n      billing: {}\n")
    assert cli.call("apply", "-f", path, "--plan").output == "Everything is as declared\n"
    shown = cli.call("apply", "-f", path, "--plan", "--prune", status=3).output
    for what in ("consumer ORDERS > audit", "stream COPY", "stream EXTRA", "bucket config", "object store files"):
        assert f"- delete {what}" in shown
    cli.call("apply", "-f", path, "--prune", status=1)  # nobody is there to say yes
    assert len(list(jetstream.streams())) == 5
    cli.call("apply", "-f", path, "--prune", "--force")
    assert [stream.name for stream in jetstream.streams()] == ["ORDERS"]
    assert [consumer.name for consumer in jetstream.stream("ORDERS").consumers()] == ["billing"]


def test_what_the_server_refuses_is_said_with_its_line_and_the_rest_is_done(cli: Cli, jetstream: JetStream) -> None:
    cli.call("apply", "-f", _write(cli, "streams:\n  A: {subjects: [a], storage: file}"))
    path = _write(cli, "streams:\n  A: {subjects: [a], storage: memory}\n  B: {subjects: [b]}")
    said = cli.call("apply", "-f", path, status=1)
    assert f"{path}:2: stream A was not updated:" in said.stderr
    assert "1 of 2 steps failed" in said.stderr
    assert jetstream.stream("B").info()["config"]["subjects"] == ["b"]


def test_what_cannot_be_read_changes_nothing(cli: Cli) -> None:
    said = cli.call("apply", "-f", _write(cli, "streams:\n  A: {subjects: [a]}\n  B: {subject: [b]}"), status=1)
    assert "3: stream B: unknown key 'subject'; did you mean 'subjects'?" in said.stderr.replace("\n  ", " ")
    assert cli.json("stream", "ls", "--names", "--json") in ([], None)
    assert cli.call("apply", "-f", str(cli.home / "missing.yaml"), status=1).stderr
    cli.call("apply", "-f", "-", stdin="streams: {A: {subjects: [a]}}")
    assert cli.call("stream", "ls", "--names").output.split() == ["A"]
