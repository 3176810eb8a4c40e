"""`slipstream stream`: every verb as a process in a terminal, its screens as they are, its JSON, its questions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import Cli, steady
from support.server_process import ServerProcess
from support.servers import Launcher, ServerPool

LS = """\
╭──────────────────────────────────────────────────────────────────────────────╮
│                                   Streams                                    │
├────────┬─────────────┬─────────────────────┬──────────┬───────┬──────────────┤
│ Name   │ Description │ Created             │ Messages │  Size │ Last Message │
├────────┼─────────────┼─────────────────────┼──────────┼───────┼──────────────┤
│ EMPTY  │ Nothing yet │ TTTTTTTTTTTTTTTTTTT │        0 │   0 B │ never        │
│ ORDERS │             │ TTTTTTTTTTTTTTTTTTT │        3 │ 128 B │ AGE          │
╰────────┴─────────────┴─────────────────────┴──────────┴───────┴──────────────╯
"""

INFO = """\
Information for Stream ORDERS created TTTTTTTTTTTTTTTTTTT

                     Subjects: orders.*
                     Replicas: 1
                      Storage: File

Options:

                    Retention: Limits
              Acknowledgments: true
               Discard Policy: Old
             Duplicate Window: 2m0s
                   Direct Get: true
  Allows Atomic Batch Publish: false
    Allows Fast Batch Publish: false
              Allows Counters: false
            Allows Msg Delete: true
       Allows Per-Message TTL: false
                 Allows Purge: true
             Allows Schedules: false
               Allows Rollups: false

Limits:

             Maximum Messages: unlimited
          Maximum Per Subject: unlimited
                Maximum Bytes: unlimited
                  Maximum Age: unlimited
         Maximum Message Size: unlimited
            Maximum Consumers: unlimited

State:

                     Messages: 3
                        Bytes: 128 B
               First Sequence: 1 @ TTTTTTTTTTTTTTTTTTT
                Last Sequence: 3 @ TTTTTTTTTTTTTTTTTTT
             Active Consumers: 0
           Number of Subjects: 2
"""

SUBJECTS = """\
╭───────────────────────────────────────╮
│      2 Subjects in stream ORDERS      │
├───────────┬───────┬───────────┬───────┤
│ Subject   │ Count │ Subject   │ Count │
├───────────┼───────┼───────────┼───────┤
│ orders.eu │     1 │ orders.us │     2 │
╰───────────┴───────┴───────────┴───────╯
"""


@pytest.fixture
def cli(server: ServerProcess, tmp_path: Path) -> Iterator[Cli]:
    """A command line with two streams, which are removed again with all others."""
    cli = Cli(tmp_path, server.url)
    cli.call("stream", "add", "ORDERS", "--subjects", "orders.*", "--defaults")
    cli.call("stream", "add", "EMPTY", "--subjects", "e", "--defaults", "--description", "Nothing yet")
    for subject, body in (("us", "one"), ("eu", "two"), ("us", "three")):
        cli.call("pub", f"orders.{subject}", body, "-J", "-q")
    yield cli
    for name in cli.json("stream", "ls", "--all", "--names", "--json"):
        cli.call("stream", "rm", name, "-f")


def test_ls(cli: Cli) -> None:
    assert steady(cli.screen("stream", "ls")) == LS
    assert cli.screen("str", "list", "-n").split() == ["EMPTY", "ORDERS"]
    assert [info["config"]["name"] for info in cli.json("s", "ls", "--json")] == ["EMPTY", "ORDERS"]
    assert "Streams matching orders.us" in cli.call("s", "ls", "--subject", "orders.us").stdout


NARROW_LS = """\
╭────────────────────────────────────────────────────────────────────────────╮
│                                  Streams                                   │
├────────────────────────────┬───────────────────┬────────┬─────┬────────────┤
│Name                        │Created            │Messages│ Size│Last Message│
├────────────────────────────┼───────────────────┼────────┼─────┼────────────┤
│EMPTY                       │TTTTTTTTTTTTTTTTTTT│       0│  0 B│never       │
│SHIPMENTS_EUROPE_AND_BRITAIN│TTTTTTTTTTTTTTTTTTT│       0│  0 B│never       │
│ORDERS                      │TTTTTTTTTTTTTTTTTTT│       3│128 B│AGE         │
╰────────────────────────────┴───────────────────┴────────┴─────┴────────────╯
"""


def test_ls_in_a_narrow_terminal(cli: Cli) -> None:
    cli.call("s", "add", "SHIPMENTS_EUROPE_AND_BRITAIN", "--subjects", "x", "--defaults", "--description", "Goes first")
    assert steady(cli.screen("stream", "ls", columns=80)) == NARROW_LS


LONG_NAME = "SHIPMENTS_TO_ALL_COUNTRIES_OF_EUROPE_AND_BRITAIN"


def test_long_names_stay_whole_in_a_narrow_terminal(cli: Cli) -> None:
    cli.call("s", "add", LONG_NAME, "--subjects", "x", "--defaults")
    cli.call("consumer", "add", LONG_NAME, f"{LONG_NAME}_WORKER", "--pull", "--defaults")
    cli.call("pub", "x", "one", "-J", "-q")
    assert f"│{LONG_NAME}│" in cli.screen("stream", "ls", columns=80).replace(" ", "")
    assert f"│{LONG_NAME}│" in cli.screen("account", "report", "jetstream", columns=80).replace(" ", "")
    assert f"│{LONG_NAME}_WORKER│" in cli.screen("consumer", "ls", LONG_NAME, columns=90).replace(" ", "")
    info = steady(cli.screen("stream", "info", LONG_NAME, columns=80)).splitlines()
    assert info[:2] == [f"Information for Stream {LONG_NAME} created", "TTTTTTTTTTTTTTTTTTT"]
    deleted = cli.screen("consumer", "rm", LONG_NAME, f"{LONG_NAME}_WORKER", "-f", columns=80)
    assert deleted.splitlines() == [f"Consumer {LONG_NAME} >", f"{LONG_NAME}_WORKER was deleted"]
    subjects = cli.screen("stream", "subjects", LONG_NAME, columns=80)
    assert f"1 Subject in stream {LONG_NAME}" in subjects


def test_streams_of_buckets_are_hidden(cli: Cli) -> None:
    cli.call("s", "add", "KV_b", "--subjects", "$KV.b.>", "--defaults", "--max-msgs-per-subject", "1")
    assert "KV_b" not in cli.call("s", "ls").stdout
    assert "KV_b" in cli.call("s", "ls", "-a").stdout
    assert "KV_b" in cli.call("s", "-a", "ls").stdout


def test_report(cli: Cli) -> None:
    lines = cli.screen("stream", "report").splitlines()
    assert lines[1].strip("│ ") == "Stream Report"
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")][1:]
    assert cells == [
        [
            "Stream",
            "Storage",
            "Placement",
            "Consumers",
            "Messages",
            "Bytes",
            "Lost",
            "Deleted",
            "API Level",
            "Replicas",
        ],
        ["EMPTY", "File", "", "0", "0", "0 B", "0", "0", "0", ""],
        ["ORDERS", "File", "", "0", "3", "128 B", "0", "0", "0", ""],
    ]
    # A narrow terminal gets the columns in which something stands.
    narrow = cli.screen("stream", "report", columns=90)
    assert "Placement" not in narrow and max(map(len, narrow.splitlines())) <= 90
    assert len(cli.json("stream", "report", "--json")) == 2


def test_info_and_state(cli: Cli) -> None:
    assert steady(cli.screen("stream", "info", "ORDERS")) == INFO
    state = cli.screen("stream", "state", "ORDERS")
    assert "Options" not in state and "Messages: 3" in state
    found = cli.json("s", "i", "ORDERS", "-j")
    assert (found["config"]["name"], found["state"]["messages"]) == ("ORDERS", 3)
    with cli.terminal("stream", "info") as terminal:
        terminal.answer("Select a Stream (EMPTY, ORDERS)", "EMP").expect("Nothing yet").finish()


def test_subjects(cli: Cli) -> None:
    assert cli.screen("stream", "subjects", "ORDERS") == SUBJECTS
    assert cli.json("s", "subj", "ORDERS", "--json") == {"orders.eu": 1, "orders.us": 2}
    assert cli.call("s", "subjects", "ORDERS", "orders.u*", "--names").stdout == ""
    assert cli.call("s", "subjects", "ORDERS", "orders.us", "--names").stdout == "orders.us\n"


def test_add_asks_question_by_question(cli: Cli) -> None:
    with cli.terminal("stream", "add") as terminal:
        terminal.answer("Stream Name", "no good").answer("cannot be the name of a stream\n? Stream Name", "ASKED")
        terminal.answer("Subjects", "asked.a, asked.b").answer("Storage (file, memory) [file]", "m")
        terminal.answer("Replication [1]", "?").answer(
            "Copies of the messages in a cluster (--replicas).\n? Replication"
        )
        terminal.answer("Retention Policy (Limits, Interest, Work Queue) [Limits]", "work")
        terminal.answer("Discard Policy (New, Old) [Old]", "New").answer("Stream Messages Limit [-1]", "1000")
        terminal.answer("Per Subject Messages Limit [-1]").answer("Total Stream Size [-1]", "1.5GB")
        terminal.answer("Message TTL [-1]", "1m").answer("Max Message Size [-1]", "64k")
        terminal.answer("Duplicate tracking time window [1m0s]").answer("Roll-ups? (y/N)", "y")
        terminal.answer("deletion? (Y/n)", "n").answer("purging subjects or the entire stream? (Y/n)")
        terminal.expect("Stream ASKED was created").finish()
    config = cli.json("stream", "info", "ASKED", "--json")["config"]
    wanted = {
        "subjects": ["asked.a", "asked.b"],
        "storage": "memory",
        "retention": "workqueue",
        "discard": "new",
        "max_msgs": 1000,
        "max_msgs_per_subject": -1,
        "max_bytes": 1_610_612_736,
        "max_age": 60 * 10**9,
        "max_msg_size": 65_536,
        "duplicate_window": 60 * 10**9,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "deny_purge": False,
        "allow_direct": True,
    }
    assert {field: config.get(field) for field in wanted} == wanted


def test_a_wrong_name_is_said_before_any_question(cli: Cli) -> None:
    screen = cli.screen("stream", "add", "bad.name", status=1)
    assert screen == "slipstream: error: 'bad.name' cannot be the name of a stream\n"


def test_add_from_flags_needs_no_terminal(cli: Cli) -> None:
    flags = ["--subjects", "f.a,f.b", "--storage", "memory", "--retention", "interest", "--discard", "new"]
    flags += ["--max-age", "7d", "--max-bytes", "1GB", "--max-msgs", "5", "--no-ack", "--allow-msg-ttl"]
    flags += ["--metadata", "team=a", "--republish-source", "f.>", "--republish-destination", "r.>"]
    done = cli.run("stream", "add", "FLAGS", *flags)
    assert done.stdout.startswith(b"Stream FLAGS was created\n\nInformation for Stream FLAGS")
    config = cli.json("s", "info", "FLAGS", "-j")["config"]
    assert (config["subjects"], config["retention"], config["no_ack"]) == (["f.a", "f.b"], "interest", True)
    assert (config["max_age"], config["max_bytes"], config["max_msgs"]) == (7 * 86_400 * 10**9, 1 << 30, 5)
    assert config["republish"] == {"src": "f.>", "dest": "r.>"}
    assert config["metadata"]["team"] == "a"
    screen = cli.call("s", "info", "FLAGS").stdout
    assert "Republishing: f.> to r.>" in screen and "Metadata:" in screen and "_nats" not in screen
    assert "--subjects is needed" in cli.run("stream", "add", "NOSUBJECT", status=1).stderr.decode()
    assert "STREAM is needed" in cli.run("stream", "add", status=1).stderr.decode()


def test_add_from_a_file(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "stream.json"
    cli.run("stream", "add", "SAVED", "--subjects", "saved", "--defaults", "--output", str(file))
    assert json.loads(file.read_text())["subjects"] == ["saved"]
    assert "valid" in cli.call("stream", "add", "--config", str(file), "--validate").stdout
    assert cli.json("stream", "add", "--config", str(file), "--json")["config"]["name"] == "SAVED"
    file.write_text('{"name": "x", "subjects": ["a..b"]}')
    assert "not valid" in cli.call("stream", "add", "--config", str(file), "--validate", status=1).stderr
    file.write_text("{")
    assert "is not JSON" in cli.call("stream", "add", "--config", str(file), status=1).stderr


def test_edit_shows_differences_first(cli: Cli) -> None:
    with cli.terminal("stream", "edit", "ORDERS", "--max-msgs", "10", "--description", "new") as terminal:
        terminal.expect('Differences (-old +new):\n  + description: "new"\n  - max_msgs: -1\n  + max_msgs: 10\n')
        terminal.answer("Really edit Stream ORDERS?", "y").expect("Stream ORDERS was updated").finish()
    assert "No difference" in cli.call("stream", "edit", "ORDERS", "--max-msgs", "10", "-f").stdout
    cli.call("stream", "edit", "ORDERS", "--max-msgs", "99", "--dry-run")
    assert cli.json("stream", "info", "ORDERS", "-j")["config"]["max_msgs"] == 10
    assert "give --force" in cli.call("stream", "edit", "ORDERS", "--max-msgs", "9", status=1).stderr


def test_edit_in_an_editor(cli: Cli, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i \'s/"max_msgs": -1/"max_msgs": 7/\' "$1"\n')
    editor.chmod(0o755)
    cli.env["EDITOR"] = str(editor)
    assert "+ max_msgs: 7" in cli.screen("stream", "edit", "ORDERS", "-i", "-f")
    assert cli.json("stream", "info", "ORDERS", "-j")["config"]["max_msgs"] == 7


def test_copy(cli: Cli) -> None:
    assert "Stream COPY was created" in cli.screen("stream", "copy", "ORDERS", "COPY", "--subjects", "copy")
    assert "same stream" in cli.call("stream", "cp", "ORDERS", "ORDERS", status=1).stderr


def test_get(cli: Cli) -> None:
    cli.call("pub", "orders.us", "with header", "-J", "-q", "-H", "A:b")
    screen = steady(cli.screen("stream", "get", "ORDERS", "4"))
    assert screen.startswith("Item: ORDERS#4 received TTTT")
    assert screen.endswith(") on Subject orders.us\n\nHeaders:\n  A: b\n\nwith header\n")
    assert cli.json("s", "get", "ORDERS", "-S", "orders.eu", "--json")["seq"] == 2
    assert cli.call("s", "get", "ORDERS", "2", "--translate", "tr a-z A-Z").stdout.endswith("\nTWO\n")
    assert "no message found (10037)" in cli.call("s", "get", "ORDERS", "99", status=1).stderr


def test_view_page_by_page(cli: Cli) -> None:
    with cli.terminal("stream", "view", "ORDERS", "2") as terminal:
        terminal.expect("[1] Subject: orders.us Received:").expect("one").expect("[2]").answer("Next Page? (Y/n)")
        terminal.expect("[3]").expect("Reached apparent end of data").finish()
    assert cli.call("s", "view", "ORDERS", "--raw", "--subject", "orders.us").stdout == "one\nthree\n"
    assert cli.call("s", "view", "ORDERS", "1", "--raw", "--id", "2").stdout == "two\n"
    assert "no such messages" in cli.call("s", "view", "EMPTY", status=1).stderr


def test_find(cli: Cli) -> None:
    assert "ORDERS" in cli.screen(
        "stream", "find", "--expression", 'state.messages > 2 && "orders.*" in config.subjects'
    )
    assert cli.call("s", "find", "--empty", "-n").stdout == "EMPTY\n"
    assert cli.call("s", "find", "--empty", "--invert", "-n").stdout == "ORDERS\n"
    assert cli.call("s", "query", "--idle", "1h", "--created", "1h", "-n").stdout == ""
    for wrong in ("state.messages >", "print(1)", "nothing > 1", "config.name > 1", "[].append(1)"):
        assert "slipstream: error:" in cli.call("s", "find", "--expression", wrong, status=1).stderr


def test_deletions_ask(cli: Cli) -> None:
    with cli.terminal("stream", "rm", "EMPTY") as terminal:
        terminal.answer("Really delete Stream EMPTY? (y/N)", "n").expect("nothing was changed").finish(1)
    with cli.terminal("stream", "rm", "EMPTY") as terminal:
        terminal.answer("Really delete Stream EMPTY? (y/N)", "y").expect("Stream EMPTY was deleted").finish()
    with cli.terminal("stream", "rmm", "ORDERS", "1") as terminal:
        terminal.answer("Really remove message 1 from Stream ORDERS?", "y").expect("Removed message 1").finish()
    with cli.terminal("stream", "purge", "ORDERS", "--keep", "1") as terminal:
        terminal.answer("Really purge Stream ORDERS", "y").expect("Purged 1 message from ORDERS").finish()
    assert cli.json("s", "purge", "ORDERS", "-f", "--json")["state"]["messages"] == 0
    assert "stream not found (10059): EMPTY\n" in cli.call("s", "rm", "EMPTY", "-f", status=1).stderr
    assert "give --force" in cli.call("s", "purge", "ORDERS", status=1).stderr


def test_seal(cli: Cli) -> None:
    with cli.terminal("stream", "seal", "ORDERS") as terminal:
        terminal.answer("Really seal Stream ORDERS", "y").expect("Sealed: true").finish()
    assert "sealed already" in cli.call("s", "seal", "ORDERS", "-f", status=1).stderr


def test_backup_and_restore(launcher: Launcher, tmp_path: Path) -> None:
    server = launcher.fresh("", "-js", "-sd", str(tmp_path / "js"))
    cli, target = Cli(tmp_path, server.url), tmp_path / "saved"
    cli.call("stream", "add", "ORDERS", "--subjects", "orders.*", "--defaults")
    cli.call("consumer", "add", "ORDERS", "worker", "--pull", "--defaults")
    cli.call("pub", "orders.us", "{{Count}} {{Random 500 500}}", "--count", "1000", "-q")
    before = cli.json("stream", "info", "ORDERS", "--json")
    screen = cli.screen("stream", "backup", "ORDERS", str(target))
    assert "Starting backup of Stream ORDERS" in screen and "Received" in screen
    assert "100%" in screen, "a bar ends full, however well the server compressed"
    assert sorted(path.name for path in target.iterdir()) == ["backup.json", "stream.tar.s2"]
    assert "exists already" in cli.call("stream", "restore", str(target), status=1).stderr
    cli.call("stream", "rm", "ORDERS", "-f")
    assert "Restored Stream ORDERS" in cli.screen("stream", "restore", str(target))
    after = cli.json("stream", "info", "ORDERS", "--json")
    assert after["state"] == before["state"]
    assert cli.json("consumer", "ls", "ORDERS", "--names", "--json") == ["worker"]
    (target / "backup.json").write_text("{}")
    assert "not the description of a backup" in cli.call("stream", "restore", str(target), status=1).stderr


def test_names_cannot_reach_other_subjects(cli: Cli) -> None:
    for name in ("A.B", "*", "a b", ">"):
        assert "cannot be the name" in cli.call("s", "info", name, status=1).stderr


def test_trace_shows_the_api(cli: Cli) -> None:
    trace = cli.call("--trace", "s", "info", "ORDERS").stderr
    assert trace.startswith(">>> $JS.API.STREAM.INFO.ORDERS \n<<< {")


def test_servers_without_jetstream_say_so(cli: Cli, server_pool: ServerPool) -> None:
    with server_pool.prepared("ours", "", ()) as server:
        assert "JetStream is not available" in cli.call("s", "ls", "-s", server.url, status=1).stderr


def test_truncate(cli: Cli) -> None:
    with cli.terminal("stream", "truncate", "ORDERS", "--newest", "1") as terminal:
        terminal.answer("Really drop the newest messages of Stream ORDERS? (y/N)", "yes")
        terminal.expect("Dropped 1 message of Stream ORDERS; it goes on behind sequence 3").finish()
    assert "One of --after" in cli.call("s", "truncate", "ORDERS", "-f", status=2).stderr
    cli.call("consumer", "add", "ORDERS", "c", "--pull", "--defaults")
    cli.call("consumer", "next", "ORDERS", "c", "--ack")
    refused = cli.call("s", "truncate", "ORDERS", "--after", "0", "-f", status=1).stderr
    assert "messages that were delivered: by c (30103)" in refused
    dropped = cli.json("s", "truncate", "ORDERS", "--after", "0", "-f", "--even-delivered", "--json")
    assert (dropped["truncated"], dropped["first_seq"], dropped["last_seq"]) == (2, 1, 3)
    assert cli.json("s", "truncate", "ORDERS", "--after-time", "2100-01-01", "-f", "--json")["truncated"] == 0
