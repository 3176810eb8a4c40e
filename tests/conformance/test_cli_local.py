"""What needs no server: `errors`, `schema`, `nkey`, `auth`, and `cheat`, whose every line is tried."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from slipstream.cli.cheat import SECTIONS
from slipstream.cli.connection import Session
from slipstream.cli.main import cli as root
from support.cli import Cli
from support.servers import Launcher, ServerPool

ERROR = """\
NATS Error Code: 10058

  Description: stream name already in use with a different configuration
    HTTP Code: 400
     Constant: STREAM_NAME_EXIST
"""

ERRORS = """\
╭─────────────────────────────────────────────────────────────────╮
│                        2 JetStream Errors                       │
├───────┬──────┬───────────────────────┬──────────────────────────┤
│ Code  │ HTTP │ Constant              │ Description              │
├───────┼──────┼───────────────────────┼──────────────────────────┤
│ 10118 │  500 │ STREAM_OFFLINE        │ stream is offline        │
│ 10194 │  500 │ STREAM_OFFLINE_REASON │ stream is offline: {err} │
╰───────┴──────┴───────────────────────┴──────────────────────────╯
"""


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path)


def test_errors(cli: Cli) -> None:
    assert cli.screen("errors", "lookup", "10058") == ERROR
    assert cli.screen("errors", "ls", "stream.*offline") == ERRORS
    assert cli.json("err", "show", "10059", "-j")["description"] == "stream not found"
    assert len(cli.json("error", "list", "--json")) > 150
    assert "1 JetStream Error " in cli.call("errors", "ls", "10058").stdout
    assert "no error has the code 1" in cli.call("errors", "lookup", "1", status=1).stderr
    assert "no error matches 'xyzzy'" in cli.call("errors", "ls", "xyzzy", status=1).stderr
    assert "no regular expression" in cli.call("errors", "ls", "(", status=1).stderr
    cli.call("errors", "lookup", "many", status=2)


def test_errors_break_between_words(cli: Cli) -> None:
    usage = cli.screen("server", "request", "connections", "--filter-state", "shut", status=2, columns=60)
    assert max(map(len, usage.splitlines())) <= 60 and "Error: Invalid value for '--filter-state': 'shut'" in usage
    assert usage.startswith("Usage: slipstream server request connections")
    failure = cli.screen("-s", "nats://127.0.0.1:1", "stream", "ls", status=1, columns=60)
    assert failure == "slipstream: error: cannot connect to 127.0.0.1:1: Connection\n  refused\n"
    assert cli.screen("stream", status=2, columns=80).startswith(
        "Usage: slipstream stream [OPTIONS] COMMAND [ARGS]...\n"
    )


def test_schema(cli: Cli) -> None:
    names = cli.screen("schema", "ls", "stream_").split()
    assert "io.nats.jetstream.api.v1.stream_configuration" in names
    assert cli.json("schema", "search", "consumer", "-j") == ["io.nats.jetstream.api.v1.consumer_configuration"]
    assert '"title": "stream_configuration"' in cli.screen("schema", "info", "stream_configuration")
    properties = cli.json("schema", "show", "consumer_configuration")["properties"]
    assert {"none", "all", "explicit"} <= set(properties["ack_policy"]["enum"])
    assert properties["ack_wait"]["description"] == "nanoseconds"
    Path("good.json").write_text('{"name": "ORDERS", "subjects": ["orders.>"]}')
    Path("bad.json").write_text('{"name": 5}')
    good = cli.screen("schema", "validate", "stream_configuration", "good.json")
    assert good == "good.json validates using schema stream_configuration\n"
    assert cli.call("schema", "check", "stream_configuration", "bad.json", status=1).stderr == (
        "slipstream: error: bad.json is no stream_configuration: name is a number, which does not fit the type string\n"
    )
    for document, words in (
        ("[]", "the document is an array, which does not fit"),
        ('{"subjects": [7]}', "subjects.0 is a number, which does not fit the type string"),
        ('{"retention": "for ever"}', 'retention is "for ever"; it may be limits, interest, workqueue\n'),
        ('{"mirror": {"name": "A"}, "discard": 5}', "discard is 5; it may be old, new\n"),
        ("{", "unexpected EOF"),
    ):
        Path("bad.json").write_text(document)
        assert words in cli.call("schema", "check", "stream_configuration", "bad.json", status=1).stderr
    said = cli.run("schema", "validate", "stream_configuration", stdin=b"{}").stdout
    assert said.startswith(b"standard input validates")
    assert "there is no document type 'x'" in cli.call("schema", "info", "x", status=1).stderr
    assert "No such file" in cli.call("schema", "validate", "stream_configuration", "missing", status=1).stderr


def test_nkeys(cli: Cli, ours: Launcher) -> None:
    seed, public = cli.screen("nkey", "gen").split()
    assert seed.startswith("SU") and public.startswith("U")
    made = cli.call("nkey", "gen", "account", "-o", "account.nk").stdout.strip()
    assert made.startswith("A") and Path("account.nk").stat().st_mode & 0o777 == 0o600
    assert "is there already" in cli.call("nkey", "gen", "-o", "account.nk", status=1).stderr
    assert cli.screen("nkey", "show", "account.nk") == f"{made}\n"
    Path("text").write_text("signed")
    signature = cli.screen("auth", "nkey", "sign", "text", "account.nk").strip()
    Path("signature").write_text(f"{signature}\n")
    assert cli.screen("nkey", "check", "text", signature, made) == "Signature OK\n"
    assert cli.call("nk", "verify", "text", "signature", made).stdout == "Signature OK\n"
    assert "does not fit" in cli.call("nkey", "check", "text", signature, public, status=1).stderr
    assert "that is a seed" in cli.call("nkey", "check", "text", signature, "account.nk", status=1).stderr
    assert cli.call("nkey", "show", "text", status=1).stderr.startswith("slipstream: error: ")
    cli.call("nkey", "gen", "nonsense", status=2)
    # A server lets the key in.
    Path("user.nk").write_text(seed)
    url = ours.fresh(f"port: -1\nauthorization {{ users: [ {{nkey: {public}}} ] }}\n").url
    cli.call("pub", "subject", "message", "-s", url, "--nkey", "user.nk")


def test_cheat(cli: Cli) -> None:
    assert "slipstream kv add CONFIG --history 5\n" in cli.screen("cheat", "kv")
    assert cli.screen("cheat", "--sections").split() == list(SECTIONS)
    assert cli.json("cheat", "--json") == SECTIONS
    assert cli.call("cheat").stdout.count("## ") == len(SECTIONS)
    assert "there is no section 'x': pub, sub" in cli.call("cheat", "x", status=1).stderr


def lines_of(section: str) -> list[str]:
    return [line for line in SECTIONS[section].splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("line", [line for section in SECTIONS for line in lines_of(section)])
def test_every_line_of_the_cheat_sheet_parses(line: str) -> None:
    words = shlex.split(line.rpartition("| ")[2])
    assert words.pop(0) == "slipstream"
    command: click.Command | None = root
    context = click.Context(root, obj=Session())
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, words)
        assert command is not None
        context = command.make_context(name, list(words), parent=context)
        words = [*context._protected_args, *context.args] if isinstance(command, click.Group) else []


@pytest.fixture(scope="module")
def url(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server_pool.prepared("ours", "", ("-js", "-sd", str(tmp_path_factory.mktemp("js")))) as server:
        yield server.url


# Without end, or with questions, or about servers that are somewhere else.
ENDLESS = (
    "--count=-1",
    "slipstream sub",
    "slipstream reply",
    "consumer sub",
    "kv watch",
    "events",
    "graph",
    "run",
    "bench s",
)
ELSEWHERE = ("slipstream req", "--user sys", "stream add ORDERS\n")
ASKS = ("stream rm ", "kv rm benchbucket", "stream rmm ", "stream purge ", "consumer pause ", "consumer resume ")


@pytest.mark.parametrize(
    "section", ["pub", "stream", "consumer", "kv", "object", "account", "context", "server", "bench"]
)
def test_the_cheat_sheet_runs(cli: Cli, url: str, section: str) -> None:
    cli.env["NATS_URL"] = url
    Path("message.txt").write_text("from a file")
    Path("cat.png").write_bytes(b"miaow")
    if section != "stream":
        cli.call("stream", "add", "ORDERS", "--subjects", "orders.>", "--defaults")
    ran = 0
    for line in lines_of(section):
        if any(word in f"{line}\n" for word in (*ENDLESS, *ELSEWHERE)):
            continue
        source, _, command = line.rpartition("| ")
        words = shlex.split(command)[1:]
        if words[:2] == ["kv", "update"]:
            words[-1] = str(cli.json("kv", "get", "CONFIG", "theme", "-j")["revision"])
        if "ORDERS" in words and words[1] not in ("add", "rm"):
            cli.call("pub", "orders.us", "x", "--count", "20", "-J", "-q")
        if command.startswith(tuple(f"slipstream {words}" for words in ASKS)):
            words.append("--force")
        cli.call(*words, stdin=source)
        ran += 1
    assert ran
    cli.call("context", "unselect")
    for name in cli.json("stream", "ls", "--all", "--names", "--json"):
        cli.call("stream", "rm", name, "-f")
