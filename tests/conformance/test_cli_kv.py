"""`slipstream kv`: every verb as a process in a terminal, its screens, its JSON; and what nats-py makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats.js.errors import KeyWrongLastSequenceError

from support.cli import Cli, steady
from support.nats_py import connected, run
from support.server_process import ServerProcess

INFO = """\
Information for Key-Value Store Bucket CONFIG created TTTTTTTTTTTTTTTTTTT

Configuration:

          Bucket Name: CONFIG
          Description: Settings
         History Kept: 5
        Values Stored: 3
         Storage Kind: File
          Bucket Size: 148 B
  Maximum Bucket Size: unlimited
   Maximum Value Size: unlimited
          Maximum Age: unlimited
           Compressed: false
     JetStream Stream: KV_CONFIG
"""

LS = """\
╭───────────────────────────────────────────────────────────────────────────────────╮
│                                 Key-Value Buckets                                 │
├────────┬─────────────┬─────────────────────┬───────┬────────┬─────────────────────┤
│ Bucket │ Description │ Created             │  Size │ Values │ Last Update         │
├────────┼─────────────┼─────────────────────┼───────┼────────┼─────────────────────┤
│ CONFIG │ Settings    │ TTTTTTTTTTTTTTTTTTT │ 148 B │      3 │ TTTTTTTTTTTTTTTTTTT │
╰────────┴─────────────┴─────────────────────┴───────┴────────┴─────────────────────╯
"""

KEYS = """\
╭────────────────────────────────────────────────╮
│          Contents for bucket 'CONFIG'          │
├───────┬─────────────────────┬──────────┬───────┤
│ Key   │ Created             │ Revision │ Value │
├───────┼─────────────────────┼──────────┼───────┤
│ theme │ TTTTTTTTTTTTTTTTTTT │        2 │ light │
│ size  │ TTTTTTTTTTTTTTTTTTT │        3 │ 12    │
╰───────┴─────────────────────┴──────────┴───────╯
"""

HISTORY = """\
╭───────────────────────────────────────────────────────────────╮
│                   History for CONFIG > theme                  │
├───────┬──────────┬─────┬─────────────────────┬────────┬───────┤
│ Key   │ Revision │ Op  │ Created             │ Length │ Value │
├───────┼──────────┼─────┼─────────────────────┼────────┼───────┤
│ theme │        1 │ PUT │ TTTTTTTTTTTTTTTTTTT │      4 │ dark  │
│ theme │        2 │ PUT │ TTTTTTTTTTTTTTTTTTT │      5 │ light │
│ theme │        4 │ DEL │ TTTTTTTTTTTTTTTTTTT │      0 │       │
╰───────┴──────────┴─────┴─────────────────────┴────────┴───────╯
"""


@pytest.fixture
def cli(server: ServerProcess, tmp_path: Path) -> Iterator[Cli]:
    """A command line with a bucket of two keys; all buckets are removed again."""
    cli = Cli(tmp_path, server.url)
    cli.call("kv", "add", "CONFIG", "--history", "5", "--description", "Settings")
    for key, value in (("theme", "dark"), ("theme", "light"), ("size", "12")):
        cli.call("kv", "put", "CONFIG", key, value)
    yield cli
    for name in cli.call("kv", "ls", "-n").stdout.split():
        cli.call("kv", "del", name, "-f")


def test_add(cli: Cli) -> None:
    flags = ("--history", "3", "--ttl", "1h", "--storage", "memory", "--max-value-size", "1KB", "--compress")
    more = ("--max-bucket-size", "1MB", "--marker-ttl", "1m", "--metadata", "team=blue")
    screen = cli.screen("kv", "add", "ALL", *flags, *more)
    for line in ("Maximum Age: 1h0m0s", "Storage Kind: Memory", "Maximum Value Size: 1.0 KiB", "Compressed: true"):
        assert line in screen
    assert "Limit Marker TTL: 1m0s" in screen and "Metadata team: blue" in screen
    config = cli.json("kv", "info", "ALL", "--json")["config"]
    assert (config["max_msgs_per_subject"], config["max_bytes"], config["discard"]) == (3, 2**20, "new")
    assert config["allow_rollup_hdrs"] and config["deny_delete"] and config["allow_direct"]
    assert "'a.b' is no name of a bucket" in cli.call("kv", "add", "a.b", status=1).stderr
    cli.call("kv", "add", "X", "--history", "65", status=2)
    assert "--republish-destination" in cli.call("kv", "add", "X", "--republish-source", "a", status=2).stderr
    wrong = cli.call("kv", "add", "CONFIG", "--history", "9", status=1)
    assert "(10058)" in wrong.stderr


def test_add_with_sources_and_republish(cli: Cli) -> None:
    cli.call("kv", "add", "COPY", "--source", "CONFIG", "--republish-destination", "copied.>")
    with cli.terminal("kv", "watch", "COPY", "--count", "3") as terminal:
        terminal.expect("COPY > theme: light").expect("COPY > size: 12")
        cli.call("kv", "put", "CONFIG", "theme", "blue")
        terminal.expect("COPY > theme: blue").finish()
    assert cli.call("kv", "get", "COPY", "theme", "--raw").stdout == "blue"
    screen = cli.call("kv", "info", "COPY").stdout
    assert "Sources: CONFIG" in screen and "Republishing: > to copied.>" in screen


def test_edit(cli: Cli) -> None:
    with cli.terminal("kv", "edit", "CONFIG", "--history", "7") as terminal:
        terminal.expect("- max_msgs_per_subject: 5").expect("+ max_msgs_per_subject: 7")
        terminal.answer("Really edit bucket CONFIG?", "y").expect("History Kept: 7").finish()
    assert "No difference" in cli.call("kv", "edit", "CONFIG", "--history", "7", "-f").stdout
    assert "give --force" in cli.call("kv", "edit", "CONFIG", "--ttl", "1h", status=1).stderr
    edited = cli.json("kv", "edit", "CONFIG", "--ttl", "1m", "--json", "-f")["config"]
    assert (edited["max_age"], edited["duplicate_window"], edited["description"]) == (
        60 * 10**9,
        60 * 10**9,
        "Settings",
    )


def test_info_and_ls(cli: Cli) -> None:
    assert steady(cli.screen("kv", "info", "CONFIG")) == INFO
    assert steady(cli.screen("kv", "ls")) == LS
    assert steady(cli.screen("kv", "ls", "CONFIG", "-v", "--display-value")) == KEYS
    assert cli.call("kv", "ls", "CONFIG").stdout == "theme\nsize\n"
    assert cli.call("kv", "ls", "CONFIG", "s*").stdout == ""
    assert cli.call("kv", "ls", "CONFIG", "size").stdout == "size\n"
    assert [entry["value"] for entry in cli.json("kv", "ls", "CONFIG", "--json")] == ["light", "12"]
    assert [info["config"]["name"] for info in cli.json("kv", "ls", "--json")] == ["KV_CONFIG"]
    assert "there is no bucket 'NOPE'" in cli.call("kv", "ls", "NOPE", status=1).stderr
    assert "there is no bucket 'NOPE'" in cli.call("kv", "info", "NOPE", status=1).stderr
    assert "selects no keys" in cli.call("kv", "ls", "CONFIG", "a b", status=1).stderr


def test_a_bucket_without_keys_says_so(cli: Cli) -> None:
    cli.call("kv", "add", "NEW")
    for words in (("NEW",), ("NEW", "-v")):
        found = cli.call("kv", "ls", *words)
        assert (found.stdout, found.stderr) == ("", "No keys in bucket NEW\n")
    assert cli.call("kv", "ls", "CONFIG", "x.*").stderr == "No keys in bucket CONFIG that match 'x.*'\n"
    assert cli.json("kv", "ls", "NEW", "-j") == []


def test_reading_leaves_no_consumers_behind(cli: Cli) -> None:
    cli.call("kv", "ls", "CONFIG")
    cli.call("kv", "history", "CONFIG", "theme")
    cli.call("kv", "watch", "CONFIG", "--count", "1")
    with cli.terminal("kv", "watch", "CONFIG") as terminal:
        terminal.expect("size: 12").interrupt().finish()
    assert cli.json("kv", "info", "CONFIG", "-j")["state"]["consumer_count"] == 0


def test_put_and_get(cli: Cli) -> None:
    assert cli.screen("kv", "put", "CONFIG", "a/b.c=d_e-f", "value") == "value\n"
    screen = steady(cli.screen("kv", "get", "CONFIG", "a/b.c=d_e-f"))
    assert screen == "CONFIG > a/b.c=d_e-f revision: 4 created @ TTTTTTTTTTTTTTTTTTT\n\nvalue\n"
    cli.run("kv", "put", "CONFIG", "bytes", stdin=bytes(range(256)))
    assert cli.run("kv", "get", "CONFIG", "bytes", "--raw").stdout == bytes(range(256))
    assert "\x1b" not in cli.call("kv", "get", "CONFIG", "bytes").stdout, "values do not steer the terminal"
    found = cli.json("kv", "get", "CONFIG", "theme", "--revision", "1", "--json")
    assert (found["value"], found["revision"], found["operation"]) == ("dark", 1, "PUT")
    for key in ("nope", "theme --revision 3"):
        assert "has no value" in cli.call("kv", "get", "CONFIG", *key.split(), status=1).stderr
    for key in (".a", "a..b", "a b", "a*", ""):
        assert "is no key" in cli.call("kv", "put", "CONFIG", key, "x", status=1).stderr
    assert "there is no bucket 'NOPE'" in cli.call("kv", "put", "NOPE", "a", "b", status=1).stderr
    with cli.terminal("kv", "put", "CONFIG", "a") as terminal:
        terminal.expect("VALUE is needed").finish(1)


def test_create_and_update(cli: Cli) -> None:
    assert cli.screen("kv", "create", "CONFIG", "lock", "me") == "me\n"
    assert "has a value already" in cli.call("kv", "create", "CONFIG", "lock", "you", status=1).stderr
    cli.call("kv", "del", "CONFIG", "lock", "-f")
    cli.call("kv", "create", "CONFIG", "lock", "you")
    assert cli.screen("kv", "update", "CONFIG", "theme", "blue", "2") == "blue\n"
    refused = cli.call("kv", "update", "CONFIG", "theme", "red", "2", status=1).stderr
    assert refused == "slipstream: error: CONFIG > theme is at revision 7, not 2\n"
    assert "whole seconds" in cli.call("kv", "create", "CONFIG", "x", "y", "--ttl", "1500ms", status=1).stderr
    cli.call("kv", "add", "SHORT", "--marker-ttl", "1m")
    cli.call("kv", "put", "SHORT", "first", "1")
    with cli.terminal("kv", "watch", "SHORT") as terminal:
        terminal.expect("PUT SHORT > first: 1")
        cli.call("kv", "create", "SHORT", "lock", "me", "--ttl", "1s")
        terminal.expect("PUT SHORT > lock: me").expect("PURGE SHORT > lock").interrupt().finish()


def test_delete_history_and_revert(cli: Cli) -> None:
    with cli.terminal("kv", "del", "CONFIG", "theme") as terminal:
        terminal.answer("Delete key CONFIG > theme? (y/N)", "n").expect("nothing was changed").finish(1)
    with cli.terminal("kv", "del", "CONFIG", "theme") as terminal:
        terminal.answer("Delete key CONFIG > theme? (y/N)", "y").finish()
    assert steady(cli.screen("kv", "history", "CONFIG", "theme")) == HISTORY
    assert [entry["operation"] for entry in cli.json("kv", "history", "CONFIG", "theme", "-j")] == ["PUT", "PUT", "DEL"]
    assert "has no value" in cli.call("kv", "history", "CONFIG", "nope", status=1).stderr
    assert "of one key" in cli.call("kv", "history", "CONFIG", "*", status=1).stderr
    with cli.terminal("kv", "revert", "CONFIG", "theme", "1") as terminal:
        terminal.answer("Set CONFIG > theme to 'dark'?", "y").finish()
    assert cli.call("kv", "get", "CONFIG", "theme", "--raw").stdout == "dark"
    assert "was deleted by revision 4" in cli.call("kv", "revert", "CONFIG", "theme", "4", "-f", status=1).stderr
    assert "give --force" in cli.call("kv", "del", "CONFIG", status=1).stderr


def test_purge_and_compact(cli: Cli) -> None:
    with cli.terminal("kv", "purge", "CONFIG", "theme") as terminal:
        terminal.answer("Purge key CONFIG > theme? (y/N)", "y").finish()
    assert [entry["operation"] for entry in cli.json("kv", "history", "CONFIG", "theme", "-j")] == ["PURGE"]
    with cli.terminal("kv", "compact", "CONFIG") as terminal:
        terminal.answer("Drop all deleted keys of bucket CONFIG?", "y").expect("Dropped 1 deleted key\n").finish()
    assert cli.json("kv", "info", "CONFIG", "-j")["state"]["messages"] == 1
    assert "Dropped 0 deleted keys" in cli.call("kv", "compact", "CONFIG", "-f").stdout


def test_watch(cli: Cli) -> None:
    with cli.terminal("kv", "watch", "CONFIG") as terminal:
        terminal.expect("PUT CONFIG > theme: light").expect("PUT CONFIG > size: 12")
        cli.call("kv", "put", "CONFIG", "size", "13")
        cli.call("kv", "del", "CONFIG", "theme", "-f")
        terminal.expect("PUT CONFIG > size: 13").expect("DEL CONFIG > theme").interrupt().finish()
    lines = cli.call("kv", "watch", "CONFIG", "--history", "--no-deletes", "--count", "4", "--json").stdout.splitlines()
    assert [json.loads(line)["value"] for line in lines] == ["dark", "light", "12", "13"]
    assert steady(cli.call("kv", "watch", "CONFIG", "theme", "--count", "1").stdout) == (
        "[TTTTTTTTTTTTTTTTTTT] DEL CONFIG > theme\n"
    )
    assert "size: 12" in cli.call("kv", "watch", "CONFIG", "--revision", "3", "--count", "1").stdout
    cli.call("kv", "watch", "CONFIG", "--revision", "3", "--updates", status=2)


def test_nats_py_reads_what_this_writes_and_the_other_way_round(cli: Cli, server: ServerProcess) -> None:
    async def scenario() -> None:
        async with connected(server) as client:
            bucket = await client.jetstream().key_value("CONFIG")
            entry = await bucket.get("theme")
            assert (entry.value, entry.revision) == (b"light", 2)
            assert sorted(await bucket.keys()) == ["size", "theme"]
            assert [old.value for old in await bucket.history("theme")] == [b"dark", b"light"]
            await bucket.update("theme", b"blue", last=2)
            with pytest.raises(KeyWrongLastSequenceError):
                await bucket.create("size", b"1")
            await bucket.delete("size")
            made = await client.jetstream().create_key_value(bucket="THEIRS", history=2, description="By nats-py")
            await made.put("greeting", b"hello")

    run(scenario)
    assert cli.call("kv", "get", "CONFIG", "theme", "--raw").stdout == "blue"
    assert cli.call("kv", "ls", "CONFIG").stdout == "theme\n"
    assert "By nats-py" in cli.call("kv", "ls").stdout
    assert cli.call("kv", "get", "THEIRS", "greeting", "--raw").stdout == "hello"
    assert cli.json("kv", "info", "THEIRS", "-j")["config"]["max_msgs_per_subject"] == 2
    # What nats-py asks of a bucket is what ours has.
    ours = cli.json("kv", "info", "CONFIG", "-j")["config"]
    theirs = cli.json("kv", "info", "THEIRS", "-j")["config"]
    fields = ("discard", "allow_rollup_hdrs", "deny_delete", "duplicate_window", "max_consumers")
    assert [ours[field] for field in fields] == [theirs[field] for field in fields]
