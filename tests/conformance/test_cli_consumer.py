"""`slipstream consumer`: every verb as a process in a terminal, its screens as they are, its JSON, its questions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import Cli, steady
from support.server_process import ServerProcess

LS = """\
╭────────────────────────────────────────────────────────────────────────────────────────╮
│                                       Consumers                                        │
├────────┬─────────────┬─────────────────────┬─────────────┬─────────────┬───────────────┤
│ Name   │ Description │ Created             │ Ack Pending │ Unprocessed │ Last Delivery │
├────────┼─────────────┼─────────────────────┼─────────────┼─────────────┼───────────────┤
│ pushed │             │ TTTTTTTTTTTTTTTTTTT │           0 │           3 │ never         │
│ worker │ Does it all │ TTTTTTTTTTTTTTTTTTT │           0 │           3 │ never         │
╰────────┴─────────────┴─────────────────────┴─────────────┴─────────────┴───────────────╯
"""

INFO = """\
Information for Consumer ORDERS > worker created TTTTTTTTTTTTTTTTTTT

Configuration:

                    Name: worker
             Description: Does it all
               Pull Mode: true
          Deliver Policy: All
              Ack Policy: Explicit
                Ack Wait: AGE
           Replay Policy: Instant
         Max Ack Pending: 1,000
       Max Waiting Pulls: 512

State:

  Last Delivered Message: Consumer sequence: 0 Stream sequence: 0
    Acknowledgment Floor: Consumer sequence: 0 Stream sequence: 0
        Outstanding Acks: 0 out of maximum 1,000
    Redelivered Messages: 0
    Unprocessed Messages: 3
           Waiting Pulls: 0 of maximum 512
"""


@pytest.fixture
def cli(server: ServerProcess, tmp_path: Path) -> Iterator[Cli]:
    """A command line with a stream of three messages and two consumers."""
    cli = Cli(tmp_path, server.url)
    cli.call("stream", "add", "ORDERS", "--subjects", "orders.*", "--defaults")
    for number in "123":
        cli.call("pub", f"orders.{number}", f"body {number}", "-J", "-q")
    cli.call("consumer", "add", "ORDERS", "worker", "--pull", "--defaults", "--description", "Does it all")
    cli.call("consumer", "add", "ORDERS", "pushed", "--target", "d.pushed", "--defaults")
    yield cli
    cli.call("stream", "rm", "ORDERS", "-f")


def test_ls(cli: Cli) -> None:
    assert steady(cli.screen("consumer", "ls", "ORDERS")) == LS
    assert cli.screen("con", "list", "ORDERS", "--names").split() == ["pushed", "worker"]
    assert [info["name"] for info in cli.json("c", "ls", "ORDERS", "--json")] == ["pushed", "worker"]


def test_info_and_state(cli: Cli) -> None:
    assert steady(cli.screen("consumer", "info", "ORDERS", "worker")) == INFO
    assert "Configuration" not in cli.screen("consumer", "state", "ORDERS", "worker")
    assert cli.json("c", "info", "ORDERS", "worker", "-j")["num_pending"] == 3
    with cli.terminal("consumer", "info") as terminal:
        terminal.answer("Select a Stream", "ORDERS").answer("Select a Consumer (pushed, worker)", "p")
        terminal.expect("Delivery Subject: d.pushed").expect("Active Interest: No interest").finish()
    assert "consumer not found (10014)" in cli.call("c", "info", "ORDERS", "nope", status=1).stderr


def test_state_in_a_narrow_terminal(cli: Cli) -> None:
    cli.call("c", "next", "ORDERS", "worker", "--no-ack")
    lines = cli.screen("consumer", "state", "ORDERS", "worker", columns=80).splitlines()
    assert lines[4] == "  Last Delivered Message: Consumer sequence: 1 Stream sequence: 1"
    assert re.fullmatch(r" {26}Last delivery: \S+ ago", lines[5])


def test_report(cli: Cli) -> None:
    cli.call("c", "next", "ORDERS", "worker", "--no-ack")
    lines = cli.screen("consumer", "report", "ORDERS").splitlines()
    assert lines[1].strip("│ ") == "Consumer report for ORDERS with 2 consumers"
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")][2:]
    assert cells == [
        ["pushed", "Push", "None", "", "0", "0", "3 / 100%", "0", "0", ""],
        ["worker", "Pull", "Explicit", "30.00s", "1", "0", "2 / 66%", "0", "0", ""],
    ]
    assert len(cli.json("c", "report", "ORDERS", "--json")) == 2


def test_add_asks_question_by_question(cli: Cli) -> None:
    with cli.terminal("consumer", "add") as terminal:
        terminal.answer("Select a Stream", "ORDERS").answer("Consumer name", "asked")
        terminal.answer("Delivery target (empty for Pull Consumers)")
        terminal.answer("Start policy (all, new, last, subject, 1h, msg sequence) [all]", "sometime")
        terminal.answer("is none of all, new, last, subject, a duration, a sequence\n? Start policy", "2")
        terminal.answer("Acknowledgment policy (explicit, all, none) [explicit]").answer("Replay policy", "ori")
        terminal.answer("Filter Stream by subjects (blank for all)", "orders.2 orders.3")
        terminal.answer("Maximum Allowed Deliveries [-1]", "5").answer("Maximum Acknowledgments Pending [0]", "10")
        terminal.answer("Deliver headers only without bodies? (y/N)").answer("Add a Retry Backoff Policy? (y/N)", "y")
        terminal.answer("Number of retry steps [10]", "3").answer("Minimum retry time [1m]", "1s")
        terminal.answer("Maximum retry time [20m]", "3s").expect("Information for Consumer ORDERS > asked").finish()
    config = cli.json("c", "info", "ORDERS", "asked", "-j")["config"]
    wanted = {
        "durable_name": "asked",
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": 2,
        "ack_policy": "explicit",
        "replay_policy": "original",
        "filter_subjects": ["orders.2", "orders.3"],
        "max_deliver": 5,
        "max_ack_pending": 10,
        "backoff": [10**9, 2 * 10**9, 3 * 10**9],
    }
    assert {field: config.get(field) for field in wanted} == wanted


def test_a_stream_that_is_not_there_is_said_before_any_question(cli: Cli) -> None:
    assert cli.screen("consumer", "add", "NOPE", status=1) == "slipstream: error: stream not found (10059): NOPE\n"


def test_add_asks_about_pushing(cli: Cli) -> None:
    with cli.terminal("consumer", "add", "ORDERS", "p2", "--deliver", "new", "--filter", "orders.1") as terminal:
        terminal.answer("Delivery target", "d.p2").answer("Delivery Queue Group", "group")
        terminal.answer("Acknowledgment policy (explicit, all, none) [none]").answer("Replay policy")
        terminal.answer("Idle Heartbeat [0s]", "5s").answer("Enable Flow Control", "y").answer("headers only").finish()
    config = cli.json("c", "info", "ORDERS", "p2", "-j")["config"]
    assert (config["deliver_group"], config["idle_heartbeat"], config["flow_control"]) == ("group", 5 * 10**9, True)


def test_add_from_flags_and_files(cli: Cli, tmp_path: Path) -> None:
    flags = ["--pull", "--ack", "all", "--wait", "10s", "--max-pending", "7", "--deliver", "last", "--sample", "50"]
    cli.run("consumer", "add", "ORDERS", "flags", *flags, "--backoff", "linear", "--backoff-steps", "2")
    config = cli.json("c", "info", "ORDERS", "flags", "-j")["config"]
    assert (config["ack_policy"], config["max_ack_pending"], config["sample_freq"]) == ("all", 7, "50")
    assert config["max_deliver"] == 3
    file = tmp_path / "consumer.json"
    cli.call("c", "add", "ORDERS", "saved", "--pull", "--defaults", "--output", str(file))
    assert json.loads(file.read_text())["durable_name"] == "saved"
    assert cli.json("c", "add", "ORDERS", "--config", str(file), "--json")["name"] == "saved"
    ephemeral = cli.json("c", "add", "ORDERS", "--ephemeral", "--pull", "--defaults", "--json")
    assert "durable_name" not in ephemeral["config"]
    for wrong in (("--pull", "--target", "x"), ("--pinned-groups", "a", "--overflow-groups", "b")):
        cli.call("c", "add", "ORDERS", "wrong", "--defaults", *wrong, status=2)
    assert "is none of" in cli.call("c", "add", "ORDERS", "w", "--defaults", "--deliver", "x", status=1).stderr
    assert "CONSUMER is needed" in cli.call("c", "add", "ORDERS", status=1).stderr


def test_edit_and_copy(cli: Cli) -> None:
    with cli.terminal("consumer", "edit", "ORDERS", "worker", "--max-deliver", "9") as terminal:
        terminal.expect("- max_deliver: -1\n  + max_deliver: 9").answer("Really edit Consumer ORDERS > worker?", "y")
        terminal.expect("Maximum Deliveries: 9").finish()
    assert "No difference" in cli.call("c", "edit", "ORDERS", "worker", "--max-deliver", "9", "-f").stdout
    assert "ORDERS > other" in cli.screen("consumer", "copy", "ORDERS", "worker", "other", "--max-deliver", "8")
    config = cli.json("c", "info", "ORDERS", "other", "-j")["config"]
    assert (config["durable_name"], config["max_deliver"], config["description"]) == ("other", 8, "Does it all")


def test_next(cli: Cli) -> None:
    screen = steady(cli.screen("consumer", "next", "ORDERS", "worker"))
    assert screen == (
        "[HH:MM:SS] subj: orders.1 / tries: 1 / cons seq: 1 / str seq: 1 / pending: 2\n\nbody 1\n\n"
        "Acknowledged message\n\n"
    )
    assert "Negative Acknowledged message" in cli.call("c", "next", "ORDERS", "worker", "--nak").stdout
    assert cli.call("c", "next", "ORDERS", "worker", "--raw", "--count", "2").stdout == "body 2\nbody 3\n"
    assert cli.json("c", "info", "ORDERS", "worker", "-j")["ack_floor"]["stream_seq"] == 3
    empty = cli.call("c", "next", "ORDERS", "worker", "--timeout", "100ms", status=1)
    assert "no message came in time" in empty.stderr
    assert "is not a Pull consumer" in cli.call("c", "next", "ORDERS", "pushed", status=1).stderr
    cli.call("c", "next", "ORDERS", "worker", "--nak", "--term", status=2)


def test_sub(cli: Cli) -> None:
    with cli.terminal("consumer", "sub", "ORDERS", "worker", "--raw") as terminal:
        terminal.expect("body 1").expect("body 2").expect("body 3")
        cli.call("pub", "orders.4", "body 4", "-J", "-q")
        terminal.expect("body 4")
        while cli.json("c", "info", "ORDERS", "worker", "-j")["ack_floor"]["stream_seq"] < 4:
            pass  # it is shown before it is acknowledged
        terminal.interrupt().finish()
    assert cli.json("c", "info", "ORDERS", "worker", "-j")["num_ack_pending"] == 0
    assert cli.call("c", "sub", "ORDERS", "pushed", "--count", "2", "--raw").stdout == "body 1\nbody 2\n"


def test_pause_and_resume(cli: Cli) -> None:
    with cli.terminal("consumer", "pause", "ORDERS", "worker", "1h") as terminal:
        terminal.answer("Really pause Consumer ORDERS > worker until", "y").expect("(59m59s)").finish()
    assert "remaining" in cli.call("c", "info", "ORDERS", "worker").stdout
    with cli.terminal("consumer", "resume", "ORDERS", "worker") as terminal:
        terminal.answer("Really resume Consumer ORDERS > worker?", "y").expect("was resumed").finish()
    assert "is not paused" in cli.call("c", "resume", "ORDERS", "worker", "-f", status=1).stderr
    assert "neither a time nor a duration" in cli.call("c", "pause", "ORDERS", "worker", "x", "-f", status=1).stderr
    assert "not paused" in cli.call("c", "pause", "ORDERS", "worker", "2020-01-01 00:00:00", "-f", status=1).stderr


def test_unpin(cli: Cli) -> None:
    cli.call("c", "add", "ORDERS", "pins", "--pull", "--defaults", "--pinned-groups", "g", "--pinned-ttl", "1m")
    assert "no priority group has a pinned client" in cli.call("c", "unpin", "ORDERS", "pins", status=1).stderr
    pull = json.dumps({"batch": 1, "group": "g"})
    cli.call("req", "$JS.API.CONSUMER.MSG.NEXT.ORDERS.pins", pull, "--raw")
    with cli.terminal("consumer", "unpin", "ORDERS", "pins") as terminal:
        terminal.answer("Select a Group (g)", "g").answer("Really unpin client from group ORDERS > pins > g?", "y")
        terminal.expect("Unpinned client").finish()
    assert "does not pin clients" in cli.call("c", "unpin", "ORDERS", "worker", status=1).stderr


def test_find(cli: Cli) -> None:
    assert "worker" in cli.screen("consumer", "find", "ORDERS", "--pull")
    assert cli.call("c", "find", "ORDERS", "--push", "-n").stdout == "pushed\n"
    assert cli.call("c", "find", "ORDERS", "--expression", "config.ack_policy == 'explicit'", "-n").stdout == "worker\n"
    assert cli.call("c", "find", "ORDERS", "--pending", "3", "--invert", "-n").stdout == "pushed\nworker\n"


def test_rm_asks(cli: Cli) -> None:
    with cli.terminal("consumer", "rm", "ORDERS", "worker") as terminal:
        terminal.answer("Really delete Consumer ORDERS > worker? (y/N)").expect("nothing was changed").finish(1)
    with cli.terminal("consumer", "rm", "ORDERS", "worker") as terminal:
        terminal.answer("Really delete Consumer ORDERS > worker? (y/N)", "yes").finish()
    assert cli.json("c", "ls", "ORDERS", "-n", "-j") == ["pushed"]
    assert "give --force" in cli.call("c", "rm", "ORDERS", "pushed", status=1).stderr


def test_why(cli: Cli) -> None:
    assert "stuck: No client asks: 3 messages could be delivered" in cli.screen("consumer", "why", "ORDERS", "worker")
    assert "Nobody is subscribed to d.pushed." in cli.screen("consumer", "why", "ORDERS", "pushed")
    assert [cause["cause"] for cause in cli.json("c", "why", "ORDERS", "worker", "--json")["causes"]] == ["no_pull"]
    cli.call("consumer", "next", "ORDERS", "worker", "--count", "3", "--ack")
    assert "idle: All that it wants was delivered" in cli.screen("consumer", "why", "ORDERS", "worker")
    assert "consumer not found (10014)" in cli.call("c", "why", "ORDERS", "nope", status=1).stderr
