"""`slipstream pub`, `sub`, `req` and `reply`, each as a process in a terminal, and what only pipes can show."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

from support.cli import Cli, steady
from support.server_process import ServerProcess
from support.servers import ServerPool


@pytest.fixture
def cli(server: ServerProcess, tmp_path: Path) -> Cli:
    return Cli(tmp_path, server.url)


@pytest.fixture(scope="module")
def stream(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A stream with three messages."""
    cli = Cli(tmp_path_factory.mktemp("home"), server.url)
    cli.call("stream", "add", "STORED", "--subjects", "stored.*", "--defaults")
    for name in ("a", "b", "a"):
        cli.call("pub", f"stored.{name}", "-J", f"body of {name}", "-q")
    return "STORED"


def test_pub_and_sub_in_terminals(cli: Cli) -> None:
    with cli.terminal("sub", "live.>", "--count", "2") as listener:
        listener.expect("Subscribing on live.>")
        screen = cli.screen("pub", "live.{{Count}}", "number {{Count}}", "--count", "2", "-H", "A:{{Count}}")
        assert steady(screen) == ('HH:MM:SS Published 8 bytes to "live.1"\nHH:MM:SS Published 8 bytes to "live.2"\n')
        assert listener.finish().partition("live.>\n")[2] == (
            '[#1] Received on "live.1"\nA: 1\n\nnumber 1\n\n[#2] Received on "live.2"\nA: 2\n\nnumber 2\n\n'
        )


def test_colours_are_for_terminals_alone(cli: Cli) -> None:
    with cli.terminal("sub", "colour", "--count", "1") as listener:
        listener.expect("Subscribing")
        assert b"\x1b" not in cli.run("pub", "colour", "x").stderr
        listener.finish()
        assert "\x1b[36m[#1]\x1b[0m" in listener.raw
    cli.env["NO_COLOR"] = "1"
    with cli.terminal("pub", "colour", "x") as terminal:
        terminal.finish()
        assert "\x1b" not in terminal.raw
    with cli.terminal("--context", "nope", "pub", "colour", "x") as terminal:
        terminal.expect("unknown context").finish(1)
        assert "\x1b" not in terminal.raw


def test_bodies_from_pipes_and_files(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(b"from a file")
    with cli.terminal("sub", "bodies", "--count", "5", "--raw") as listener:
        listener.expect("Subscribing")
        cli.run("pub", "bodies", stdin=b"from a pipe")
        cli.run("pub", "bodies", "--send-on", "newline", stdin=b"line one\nline two\n")
        cli.run("pub", "bodies", "--file", str(file))
        cli.run("pub", "bodies", "--no-templates", "{{Nope}}")
        lines = listener.finish().splitlines()[-5:]
    assert lines == ["from a pipe", "line one", "line two", "from a file", "{{Nope}}"]


def test_terminals_are_not_steered_and_pipes_get_bytes(cli: Cli, stream: str) -> None:
    body = bytes(range(256))
    cli.run("pub", "stored.binary", "-J", "-H", "A:\x1b[2J", stdin=body)
    with cli.terminal("sub", "--stream", stream, "stored.binary", "--all", "-T") as terminal:
        terminal.finish()
        assert "A\x1b[0m: \\x1b[2J\r\n" in terminal.raw and "\\x00\\x01" in terminal.raw
        assert "\x07" not in terminal.raw and "\x1b[2J" not in terminal.raw
    assert cli.run("sub", "--stream", stream, "stored.binary", "--all", "-T", "--raw").stdout == body + b"\n"
    cli.call("stream", "purge", stream, "--subject", "stored.binary", "-f")


def test_many_messages_show_a_bar_in_a_terminal(cli: Cli) -> None:
    screen = cli.screen("pub", "many", "x", "--count", "5000")
    assert "5,000/5,000 msgs" in screen and "Published 5,000 messages" in screen
    assert b"Publishing" not in cli.run("pub", "many", "x", "--count", "5000").stderr


def test_a_pub_without_end_stops_by_ctrl_c(cli: Cli) -> None:
    with cli.terminal("pub", "endless", "--count=-1", "--sleep=1ms", "{{Count}}") as terminal:
        terminal.expect("Published").expect("Published").interrupt().finish()


def test_what_goes_wrong_is_one_line(cli: Cli, tmp_path: Path) -> None:
    for arguments, words in (
        (("pub", "x", "{{Nope}}"), "unknown template function 'Nope'"),
        (("pub", "nowhere", "-J", "x"), "no stream listens on 'nowhere'"),
        (("pub", "x", "--file", str(tmp_path / "missing")), "missing: No such file or directory"),
        (("req", "nobody", "x"), "no responders on 'nobody'"),
        (("pub", "a b", "x"), "too long or has blanks: 'a b'"),
        (("pub", "a b", "x", "--count", "100"), "has blanks"),
        (("sub", "a b"), "with blanks"),
        (("stream", "info", "a\udcff"), "can't encode"),
        (("-s", "nats://127.0.0.1:1", "pub", "x", "y"), "cannot connect to 127.0.0.1:1: Connection refused"),
        (("-s", "http://x", "pub", "x", "y"), "not a server URL"),
        (("--context", "nope", "pub", "x", "y"), "unknown context 'nope'"),
    ):
        result = cli.call(*arguments, status=1)
        assert re.fullmatch(rf"(.*\n)?slipstream: error: .*{re.escape(words)}.*\n", result.stderr), result.stderr
        assert "Traceback" not in result.output


def test_usage_errors_have_status_2(cli: Cli) -> None:
    for arguments in (("pub",), ("pub", "x", "--sleep", "soon"), ("pub", "x", "-H", "nocolon"), ("sub",), ("nope",)):
        assert "Error:" in cli.call(*arguments, status=2).stderr


def test_atomic_batches(cli: Cli) -> None:
    cli.call("stream", "add", "BATCH", "--subjects", "batch.*", "--allow-batch", "--defaults")
    screen = steady(cli.screen("pub", "batch.a", "{{Count}}", "--atomic", "--count", "3"))
    assert re.fullmatch(r"HH:MM:SS Wrote batch ID: \w+ Messages: 3 Stored in Stream: BATCH Sequence: 3\n", screen), (
        screen
    )
    cli.run("pub", "batch.b", "--atomic", "--send-on", "newline", stdin=b"one\ntwo\n")
    assert cli.json("stream", "subjects", "BATCH", "--json") == {"batch.a": 3, "batch.b": 2}
    assert "between 1 and 1,000" in cli.call("pub", "batch.a", "x", "--atomic", "--count=-1", status=1).stderr
    assert "no stream listens" in cli.call("pub", "nowhere", "x", "--atomic", status=1).stderr
    cli.call("stream", "add", "PLAIN", "--subjects", "plain", "--defaults")
    assert "slipstream: error:" in cli.call("pub", "plain", "x", "--atomic", "--count", "2", status=1).stderr


def test_schedules(cli: Cli) -> None:
    flags = ("--allow-schedules", "--allow-msg-ttl", "--defaults")
    cli.call("stream", "add", "LATER", "--subjects", "later.*", *flags)
    with cli.terminal("sub", "--stream", "LATER", "later.out", "--new", "--count", "1", "--raw") as listener:
        listener.expect("for new messages")
        screen = cli.screen("pub", "later.in", "on time", "--schedule-after", "100ms", "--schedule-dest", "later.out")
        assert "Stored in Stream: LATER" in screen
        listener.expect("on time").finish()
    for wrong in (("--schedule-after", "1s"), ("--schedule-dest", "x"), ("--schedule-cron", "x", "--schedule-at", "y")):
        cli.call("pub", "later.in", "x", *wrong, status=2)
    wrong_time = ("--schedule-at", "noon", "--schedule-dest", "later.out")
    assert "is not a time" in cli.call("pub", "later.in", "x", *wrong_time, status=1).stderr


def test_req_and_reply(cli: Cli) -> None:
    with cli.terminal("reply", "svc.*", "hello {{Request}} # {{Count}}", "--count", "2") as service:
        service.expect("Listening on")
        screen = cli.screen("req", "svc.a", "joe", "-H", "A:b")
        assert re.fullmatch(
            r'HH:MM:SS Sending request on "svc.a"\nHH:MM:SS Received with rtt AGE *\nhello joe # 1\n\n', steady(screen)
        )
        assert cli.run("req", "svc.b", "ann", "--raw").stdout == b"hello ann # 2\n"
        shown = steady(service.finish())
    assert '[#1] Received on subject "svc.a":\nA: b\n\njoe\n' in shown


def test_reply_echoes_and_runs_commands(cli: Cli) -> None:
    with cli.terminal("reply", "echo", "--count", "1") as service:
        service.expect("echoing requests").expect("Listening")
        assert cli.call("req", "echo", "back", "--raw").stdout == "back\n"
        service.finish()
    command = "sh -c 'echo $NATS_REQUEST_SUBJECT $0; cat' {{1}}"
    with cli.terminal("reply", "run.*", "--command", command, "--count", "1") as service:
        service.expect("Listening")
        assert cli.call("req", "run.$(reboot)", "piped", "--raw").stdout == "run.$(reboot) $(reboot)\npiped\n"
        service.finish()


def test_req_takes_several_answers(cli: Cli) -> None:
    with (
        cli.terminal("reply", "all", "one", "-q", "one", "--count", "1") as first,
        cli.terminal("reply", "all", "two", "-q", "two", "--count", "1") as second,
    ):
        first.expect("Listening")
        second.expect("Listening")
        answers = cli.call("req", "all", "x", "--replies", "2", "--raw").stdout.split()
        assert sorted(answers) == ["one", "two"]
        first.finish()
        second.finish()


@pytest.mark.parametrize(
    ("flags", "bodies"),
    [
        (("--all", "-T"), ["body of a", "body of b", "body of a"]),
        (("--last", "-T"), ["body of a"]),
        (("--last-per-subject", "-T"), ["body of b", "body of a"]),
        (("--start-sequence", "2", "-T"), ["body of b", "body of a"]),
        (("--since", "1h", "-T"), ["body of a", "body of b", "body of a"]),
    ],
)
def test_sub_reads_streams(cli: Cli, stream: str, flags: tuple[str, ...], bodies: list[str]) -> None:
    assert cli.call("sub", "--stream", stream, "--raw", *flags).stdout.splitlines() == bodies


def test_sub_shows_where_messages_are_stored(cli: Cli, stream: str) -> None:
    screen = steady(cli.screen("sub", "stored.b", "--all", "--count", "1"))
    assert "[#1] Received JetStream message: stream: STORED seq 2 / subject: stored.b / time: TTTT" in screen
    assert cli.json("consumer", "ls", stream, "--names", "--json") == []  # it deletes what it made


def test_sub_waits_for_new_messages(cli: Cli, stream: str) -> None:
    with cli.terminal("sub", "--stream", stream, "--new", "--count", "1", "--raw") as listener:
        listener.expect("for new messages")
        cli.call("pub", "stored.new", "-J", "fresh", "-q")
        assert "fresh" in listener.finish()
    cli.call("stream", "purge", stream, "--subject", "stored.new", "-f")


def test_sub_as_a_durable_goes_on_where_it_stopped(cli: Cli, stream: str) -> None:
    for body in ("body of a", "body of b"):
        assert cli.call("sub", "--stream", stream, "--durable", "d", "--raw", "--count", "1").stdout == f"{body}\n"
    assert cli.json("consumer", "info", stream, "d", "--json")["ack_floor"]["stream_seq"] == 2
    cli.call("consumer", "rm", stream, "d", "-f")


def test_sub_writes_files_and_counts(cli: Cli, stream: str, tmp_path: Path) -> None:
    cli.call("sub", "--stream", stream, "--all", "-T", "--dump", str(tmp_path / "dump"))
    files = sorted((tmp_path / "dump").iterdir())
    assert [json.loads(file.read_text())["Subject"] for file in files] == ["stored.a", "stored.b", "stored.a"]
    assert base64.b64decode(json.loads(files[0].read_text())["Data"]) == b"body of a"
    piped = cli.call("sub", "--stream", stream, "--all", "-T", "--dump", "-").stdout.split("\0")
    assert len(piped) == 4 and piped[-1] == ""
    report = cli.call("sub", "--stream", stream, "--all", "-T", "--report-subjects").stdout
    assert re.search(r"│ stored\.a +│ +2 ", report) and "2 Subjects" in report
    counts = cli.json("sub", "--stream", stream, "--all", "-T", "--report-subjects", "--json")
    assert counts == {"stored.a": 2, "stored.b": 1}
    lines = cli.call("sub", "--stream", stream, "--all", "-T", "--json").stdout.splitlines()
    assert [json.loads(line)["Subject"] for line in lines] == ["stored.a", "stored.b", "stored.a"]
    assert (
        cli.call("sub", "--stream", stream, "--all", "-T", "--subjects-only", "-I", "stored.a").stdout == "stored.b\n"
    )


def test_sub_matches_answers_with_requests(cli: Cli) -> None:
    with (
        cli.terminal("reply", "matched", "pong", "--count", "1") as service,
        cli.terminal("sub", "matched", "--match-replies", "--count", "1") as listener,
    ):
        service.expect("Listening")
        listener.expect("Subscribing")
        cli.call("req", "matched", "ping", "--raw")
        service.finish()
        assert re.search(
            r"\[#1\] Received on \"matched\"(?s:.*)ping(?s:.*)Matched reply:(?s:.*)pong", listener.finish()
        )


def test_an_endless_pub_connects_again(server_pool: ServerPool, tmp_path: Path) -> None:
    with server_pool.prepared("ours", "", ()) as server:
        own = Cli(tmp_path, server.url)
        with own.terminal("pub", "steady", "--count=-1", "--sleep=5ms", "{{Count}}") as publisher:
            publisher.expect("Published")
            server.restart()
            publisher.expect("Disconnected").expect("Reconnected").expect("Published").interrupt().finish()


def test_sub_connects_again(server_pool: ServerPool, tmp_path: Path) -> None:
    with server_pool.prepared("ours", "", ()) as server:
        own = Cli(tmp_path, server.url)
        with own.terminal("sub", "again", "--count", "2", "--raw") as listener:
            listener.expect("Subscribing")
            own.call("pub", "again", "before", "-q")
            listener.expect("before")
            server.restart()
            listener.expect("Disconnected").expect("Reconnected")
            own.call("pub", "again", "after", "-q")
            listener.expect("after").finish()
