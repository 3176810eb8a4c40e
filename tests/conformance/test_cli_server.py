"""`slipstream server`, `top`, `events`, `rtt` and `latency`, with a user of the system account and without."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slipstream.cli.link import ClientLink
from slipstream.client.options import ClientError
from slipstream.client.wire import WireClient
from support.cli import Cli, steady
from support.jwt import ACCOUNT, USER, Key, token, user_claims
from support.server_process import ServerProcess
from support.servers import Launcher, ServerPool

CONFIG = """\
port: -1
server_name: demo
http: "127.0.0.1:-1"
accounts {
  SYS: { users: [ {user: sys, password: secret} ] }
  APP: { jetstream: enabled, users: [ {user: app, password: pw} ] }
}
system_account: SYS
no_auth_user: app
"""
SYSTEM = ("--user", "sys", "--password", "secret")
NEEDS_SYSTEM = "this needs a user of the system account"

HEALTH = """\
╭───────────────────────────────────────────────────────────╮
│                       Health Report                       │
├────────┬─────────┬────────┬────────────────┬──────┬───────┤
│ Server │ Cluster │ Domain │ Status         │ Type │ Error │
├────────┼─────────┼────────┼────────────────┼──────┼───────┤
│ demo   │         │        │ ok (200)       │      │       │
├────────┼─────────┼────────┼────────────────┼──────┼───────┤
│ 1      │       1 │        │ ok: 1 / err: 0 │      │     0 │
╰────────┴─────────┴────────┴────────────────┴──────┴───────╯
"""

JETSTREAM = """\
╭───────────────────────────────────────────────────────────────────────────────────────────────╮
│                               JetStream Summary for Account APP                               │
├────────┬─────────┬─────────┬───────────┬──────────┬───────┬────────┬──────┬─────────┬─────────┤
│ Server │ Cluster │ Streams │ Consumers │ Messages │ Bytes │ Memory │ File │ API Req │ Pending │
├────────┼─────────┼─────────┼───────────┼──────────┼───────┼────────┼──────┼─────────┼─────────┤
"""


@pytest.fixture(scope="module")
def server(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with a stream of two messages and a consumer."""
    with server_pool.prepared("ours", CONFIG, ("-js", "-sd", str(tmp_path_factory.mktemp("js")))) as server:
        cli = Cli(tmp_path_factory.mktemp("home"), server.url)
        cli.call("stream", "add", "ORDERS", "--subjects", "orders.*", "--defaults")
        cli.call("pub", "orders.new", "body", "--count", "2", "-J", "-q")
        cli.call("consumer", "add", "ORDERS", "worker", "--pull", "--defaults")
        yield server


@pytest.fixture
def cli(server: ServerProcess, tmp_path: Path) -> Cli:
    return Cli(tmp_path, server.url)


def credentials(expiry_s: int) -> str:
    """A file of credentials that expires in so many seconds; 0: never."""
    account, user = Key(ACCOUNT, "app"), Key(USER, "app")
    expiry = {"exp": int(time.time()) + expiry_s} if expiry_s else {}
    signed = token(account, user, user_claims(), **expiry)
    return f"-----BEGIN NATS USER JWT-----\n{signed}\n------END NATS USER JWT------\n"


def cells(screen: str) -> list[list[str]]:
    """The rows of a table, its heading first."""
    lines = [line for line in screen.splitlines() if line.startswith("│")][1:]
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]


def test_info(cli: Cli) -> None:
    screen = cli.screen("server", "info", *SYSTEM)
    for text in ("Server information for demo\nID N", "Max Payload: 1.0 MiB", "Enabled: true", "Slow Consumers: 0"):
        assert text in screen
    greeting = cli.call("server", "info").stdout
    assert "Server information for demo" in greeting and "A user of the system account sees more." in greeting
    assert cli.json("server", "info", "demo", "-j", *SYSTEM)["server_name"] == "demo"
    assert cli.json("server", "info", "-j")["server_name"] == "demo"
    assert NEEDS_SYSTEM in cli.call("server", "info", "demo", status=1).stderr
    assert "no server called 'other'" in cli.call("server", "info", "other", *SYSTEM, status=1).stderr


def test_list_and_ping(cli: Cli) -> None:
    heading, row, total = cells(cli.call("server", "list", "1", *SYSTEM).stdout)
    assert heading == [
        "Name",
        "Cluster",
        "Host",
        "Version",
        "JS",
        "Conns",
        "Subs",
        "Routes",
        "GWs",
        "Mem",
        "CPU %",
        "Cores",
        "Slow",
        "Uptime",
        "RTT",
    ]
    assert (row[0], row[2], row[4], row[5], row[7], row[8]) == ("demo", "127.0.0.1", "yes", "1", "0", "0")
    assert (total[1], total[2], total[4], total[5]) == ("0", "1", "1", "1")
    (found,) = cli.json("server", "ls", "1", "--sort", "uptime", "-R", "-j", *SYSTEM)
    assert found["server"]["name"] == "demo"
    assert NEEDS_SYSTEM in cli.call("server", "ls", status=1).stderr
    statistics = r"\n---- ping statistics ----\n1 replies max: [\d.]+ min: [\d.]+ avg: [\d.]+\n"
    assert re.fullmatch(rf"demo {{56}} rtt=[\d.]+(m|µ)s\n{statistics}", cli.screen("server", "ping", "1", *SYSTEM))
    with_id = cli.call("server", "ping", "1", "--id", *SYSTEM).stdout
    assert re.fullmatch(rf"N\w{{55}} demo {{56}} rtt=[\d.]+(m|µ)s\n{statistics}", with_id)
    graph = cli.call("server", "ping", "1", "--graph", *SYSTEM).stdout
    assert re.search(statistics + r"\n +1 ┤ *█\n(?: +┤ *█\n)+ +0 ┤ *█\nResponses per 25ms\n$", graph)
    assert NEEDS_SYSTEM in cli.call("server", "ping", status=1).stderr


def test_a_report_is_watched_until_it_is_stopped(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def idle(_link: ClientLink, seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(ClientLink, "idle", idle)
    for what in ("cpu", "routes"):
        pauses.clear()
        once = cli.call("server", "report", what, *SYSTEM).stdout.splitlines()[0]
        assert pauses == []
        shown = cli.call("server", "report", what, "--watch", "3", *SYSTEM).stdout
        assert (shown.splitlines().count(once), pauses) == (2, [3, 3])
    cli.call("server", "report", "cpu", "--watch", "0", *SYSTEM, status=2)


def test_report_connections(cli: Cli) -> None:
    with cli.terminal("sub", "orders.>", "--connection-name", "listener") as listener:
        listener.expect("Subscribing")
        cli.call("rtt")
        screen = cli.screen("server", "report", "connections", "--account", "APP", *SYSTEM, columns=160)
        assert "Top 1 Connections out of 1 by subs" in screen
        heading, row = cells(screen)[:2]
        assert heading[:7] == ["CID", "Name", "Server", "Cluster", "IP", "Account", "Uptime"]
        assert (row[1], row[2], row[5], row[-1]) == ("listener", "demo", "APP", "1")
        narrow = cli.screen("server", "report", "conns", "--account", "APP", *SYSTEM, columns=60)
        assert "Account" not in narrow and "listener" in narrow, "what matters least goes first"
        assert max(map(len, narrow.splitlines())) <= 60
        narrow = cli.screen("server", "report", "conns", "--account", "APP", *SYSTEM, columns=40)
        assert "Name: listener\n" in narrow, "what does not fit becomes a block of lines"
        names = [row["name"] for row in cli.json("server", "report", "connz", "--sort", "cid", "-j", *SYSTEM)]
        assert names[0] == "listener" and len(names) == 2
        oldest = cli.json("server", "report", "connz", "1", "--sort", "uptime", "--top", "1", "-R", "-j", *SYSTEM)
        assert [(row["name"], row["server"]["name"]) for row in oldest] == [("listener", "demo")]
        (by_subject,) = cli.json(
            "server", "report", "conn", "--account", "APP", "--subject", "orders.new", "-j", *SYSTEM
        )
        assert by_subject["name"] == "listener"
        (by_user,) = cli.json("server", "report", "conn", "--username", "sys", "-j", *SYSTEM)
        assert by_user["account"] == "SYS"
        wanted = 'conn.name == "listener" && server.name == "demo"'
        (by_expression,) = cli.json("server", "report", "conn", "--filter", wanted, "-j", *SYSTEM)
        assert by_expression["account"] == "APP"
        nobody = cli.call("server", "report", "conn", "--filter", "conn.in_msgs < 0", *SYSTEM, status=1).stderr
        assert "did not get results from any servers" in nobody
        assert (
            "is not an expression" in cli.call("server", "report", "conn", "--filter", "1 +", *SYSTEM, status=1).stderr
        )
        # Everybody sees the connections of the own account.
        own = cli.json("account", "report", "connections", "-j")
        assert {row["account"] for row in own} == {"APP"} and len(own) == 2
        assert "listener" in cli.screen("account", "report", "conns", columns=160)
        accounts = cells(cli.screen("server", "report", "accounts", *SYSTEM))
        assert [row[:2] for row in accounts] == [["Account", "Connections"], ["APP", "1"], ["SYS", "1"]]
        (of_account,) = cli.json("server", "report", "acct", "APP", "-j", *SYSTEM)
        assert (of_account["account"], of_account["connection_info"][0]["name"]) == ("APP", "listener")
        shown = cli.screen("server", "report", "acct", "APP", *SYSTEM, columns=160)
        assert "Top 1 Connections out of 1 by subs" in shown and "listener" in shown
        assert len(cli.json("server", "report", "acct", "--top", "1", "-j", *SYSTEM)) == 1
        listener.interrupt().finish()
    closed = cli.json("server", "report", "conn", "--state", "closed", "--closed-reason", "client", "-j", *SYSTEM)
    assert closed and {row["reason"] for row in closed} == {"Client Closed"}
    for words in (("conn", "--account", "NOPE"), ("accounts", "NOPE"), ("accounts", "NOPE", "-j")):
        said = cli.call("server", "report", *words, *SYSTEM, status=1).stderr
        assert "did not get results from any servers" in said
    assert (
        "no regular expression"
        in cli.call("server", "report", "conn", "--closed-reason", "(", *SYSTEM, status=2).stderr
    )


def test_report_jetstream_health_and_load(cli: Cli) -> None:
    screen = cli.screen("server", "report", "jetstream", "--account", "APP", *SYSTEM)
    assert screen.startswith(JETSTREAM)
    assert cells(screen)[1][:7] == ["demo", "", "1", "1", "2", "88 B", "0 B"]
    assert cells(screen)[2][:7] == ["", "", "1", "1", "2", "88 B", "0 B"]
    assert cells(cli.call("server", "report", "js", *SYSTEM).stdout)[1][:5] == ["demo", "", "1", "1", "2"]
    assert cli.json("server", "report", "jsz", "-j", *SYSTEM)[0]["data"]["streams"] == 1
    assert cli.screen("server", "report", "health", *SYSTEM) == HEALTH
    assert cli.screen("server", "report", "health", "-R", *SYSTEM) == HEALTH, "there is only one"
    assert cli.json("server", "report", "health", "-S", "-j", *SYSTEM)[0]["data"]["status"] == "ok"
    missing = cells(cli.call("server", "report", "health", "--account", "APP", "--stream", "X", *SYSTEM).stdout)
    assert missing[1][3] == "error (404)" and missing[2][4:] == [
        "STREAM",
        'JetStream stream "X" not found on account "APP"',
    ]
    assert (missing[3][3], missing[3][5]) == ("ok: 0 / err: 1", "1")
    assert re.fullmatch(r"CPU Usage\n\n  demo: [█▏]+ \([\d.]+\)\n", cli.screen("server", "report", "cpu", *SYSTEM))
    assert re.fullmatch(r"Memory Usage\n\n  demo: █+ \(\d+ MiB\)\n", cli.screen("server", "report", "mem", *SYSTEM))
    assert cli.json("server", "report", "mem", "-j", *SYSTEM)["demo"] > 0
    assert NEEDS_SYSTEM in cli.call("server", "report", "js", status=1).stderr


def test_request(cli: Cli) -> None:
    def asked(*words: str, columns: int = 80) -> list[Any]:
        lines = cli.screen("server", "request", *words, *SYSTEM, columns=columns).splitlines()
        return [json.loads(line) for line in lines]  # a document a line, however narrow the screen is

    (answer,) = asked("variables")
    assert answer["data"]["server_name"] == "demo"
    (answer,) = asked("connz", "1", "--option", "limit=1", "--option", "acc=SYS")
    assert len(answer["data"]["connections"]) == 1
    (answer,) = asked("conn", "1", "--filter-account", "SYS", "--subscriptions", "--sort", "subs", "--limit", "3")
    assert answer["data"]["limit"] == 3
    (connection,) = answer["data"]["connections"]
    assert connection["account"] == "SYS"
    assert [one["subject"] for one in connection["subscriptions_list_detail"]]
    assert asked("connections", "1", "--filter-user", "nobody", "--filter-empty") == []
    (answer,) = asked("connections", "1", "--filter-state", "closed", "--offset", "1")
    assert answer["data"]["offset"] == 1
    assert {one["reason"] for one in answer["data"]["connections"]} == {"Client Closed"}
    (answer,) = asked("sub", "1", "--detail", "--filter-account", "SYS", "--limit", "2")
    assert {one["account"] for one in answer["data"]["subscriptions_list"]} == {"SYS"}
    (answer,) = asked("js", "1", "--all")
    assert answer["data"]["account_details"][0]["stream_detail"][0]["config"]["name"]
    (answer,) = asked("accounts", "1", "--account", "SYS")
    assert answer["data"]["account_detail"]["account_name"] == "SYS"
    (answer,) = asked("healthz", "--name", "demo", "-S")
    assert answer["data"]["status"] == "ok"
    assert (
        "no server answers"
        in cli.call("server", "req", "varz", "--name", "x", *SYSTEM, "--timeout", "200ms", status=1).stderr
    )
    cli.call("server", "req", "nonsense", *SYSTEM, status=2)
    cli.call("server", "req", "varz", "--filter-cid", "1", *SYSTEM, status=2)


def test_profiles(cli: Cli, tmp_path: Path) -> None:
    shown = cli.call("server", "request", "profile", "goroutine", str(tmp_path), "--name", "demo", *SYSTEM).stdout
    written = re.fullmatch(r'Server "demo" profile written: (\S+/goroutine-\d{8}-\d{6}-N[A-Z0-9]+)\n', shown)
    assert written is not None
    path = Path(written[1])
    assert path.read_text().startswith("thread ") and path.stat().st_mode & 0o777 == 0o600
    refused = cli.call("server", "request", "profile", "heap", str(tmp_path), *SYSTEM, status=1).stderr
    assert 'demo: Profile "heap" is of Go\'s runtime' in refused
    cli.call("server", "request", "profile", "nonsense", *SYSTEM, status=2)


def test_profiles_of_nats_server(cli: Cli, server_pool: ServerPool, tmp_path: Path) -> None:
    config = "accounts { $SYS { users [ {user: s, password: s} ] } }"
    server = server_pool.shared("real", config, ())
    login = ("--server", server.url, "--user", "s", "--password", "s")
    for kind in ("heap", "goroutine", "cpu"):
        cli.call("server", "request", "profile", kind, str(tmp_path), "--timeout", "500ms", *login)
    assert sorted(path.name.partition("-")[0] for path in tmp_path.iterdir()) == ["cpu", "goroutine", "heap"]
    assert all(path.read_bytes().startswith(b"\x1f\x8b") for path in tmp_path.iterdir()), "what pprof reads is gzipped"


def test_kick(cli: Cli) -> None:
    with WireClient(cli.env["NATS_URL"]) as client:
        client.flush()
        cid, server_id = str(client.info.client_id), client.info.server_id
        assert json.loads(cli.call("server", "req", "kick", cid, server_id, *SYSTEM).stdout)["server"]["name"] == "demo"
        with pytest.raises(ClientError):
            client.next_message()
    again = cli.call("server", "req", "kick", cid, server_id, *SYSTEM, status=1).stderr
    assert "no such client" in again
    cli.call("server", "req", "kick", "0", server_id, *SYSTEM, status=2)


def test_checks(cli: Cli) -> None:
    def check(*words: str, status: int = 0) -> str:
        return steady(cli.call("server", "check", *words, status=status).stdout)

    url = re.escape(cli.env["NATS_URL"])
    times = r"connect_time=[\d.]+s;0.5000;1.0000 rtt=[\d.]+s;0.5000;1.0000 request_time=[\d.]+s;0.5000;1.0000"
    said = rf"OK:connected to {url} in [\d.]+.s OK:rtt time [\d.]+.s OK:round trip took [\d.]+s"
    assert re.fullmatch(rf"OK Connection {said} \| {times}\n", cli.call("server", "check", "connection").stdout)
    assert cli.call("server", "check", "js").stdout == (
        "OK JetStream | memory=0B memory_pct=0%;75;90 storage=88B storage_pct=0%;75;90 streams=1 streams_pct=0% "
        "consumers=1 consumers_pct=0% replicas_ok=1 replicas_no_leader=0 replicas_missing_replicas=0 "
        "replicas_lagged=0;;200 replicas_not_seen=0.0000s;;5.0000 replicas_fail=0\n"
    )
    assert "Crit:storage: invalid thresholds" in check("jetstream", "--store-critical", "1", status=2)
    assert "replicas" not in check("jetstream", "--no-replicas")
    assert cli.screen("server", "check", "stream", "--stream", "ORDERS") == "OK ORDERS OK:0 sources | sources=0\n"
    worker = ("consumer", "--stream", "ORDERS", "--consumer", "worker")
    assert cli.screen("server", "check", *worker) == (
        "OK ORDERS_worker | ack_pending=0 pull_waiting=0 pending=2 redelivered=0\n"
    )
    assert re.fullmatch(
        r"OK demo \| uptime=[\d.]+s cpu=[\d.]+% mem=\d+ connections=1 subscriptions=\d+\n",
        cli.call("server", "check", "server", "--name", "demo", *SYSTEM).stdout,
    )
    assert "Crit:rtt time exceeded 1e-09 OK:connected to" in check("connection", "--rtt-critical", "1ns", status=2)
    assert ", connect time exceeded 1e-09 OK:rtt" in check("connection", "--connect-warn", "1ns", status=1)
    assert "Crit:round trip request took 0.0" in check("conn", "--req-critical", "1ns", status=2)
    assert check("stream", "--stream", "ORDERS", "--msgs-warn", "3", status=1) == (
        "WARNING ORDERS Warn:2 messages OK:0 sources | messages=2;3 sources=0\n"
    )
    assert check("stream", "--stream", "ORDERS", "--subjects-critical", "1", status=2) == (
        "CRITICAL ORDERS Crit:1 subjects OK:0 sources | subjects=1;;1 sources=0\n"
    )
    assert "Crit:2 messages" in check("stream", "--stream", "ORDERS", "--msgs-critical", "3", status=2)
    assert check("stream", "--stream", "ORDERS", "--min-sources", "1", status=2) == (
        "CRITICAL ORDERS Crit:0 sources | sources=0;1\n"
    )
    assert check("stream", "--stream", "NOPE", status=2) == (
        "CRITICAL NOPE Crit:could not load info: stream not found (10059)\n"
    )
    assert check(*worker, "--unprocessed-critical", "2", "--last-ack-critical", "1s", status=2) == (
        "CRITICAL ORDERS_worker Crit:Unprocessed Messages: 2 Crit:No acks | "
        "ack_pending=0 pull_waiting=0 pending=2;;2 redelivered=0\n"
    )


def test_checks_of_a_server(cli: Cli) -> None:
    def check(*words: str, status: int = 0) -> str:
        return str(cli.call("server", "check", "server", *words, *SYSTEM, status=status).stdout)

    assert "CRITICAL demo Crit:TLS not required | uptime=" in check("--tls-required", status=2)
    assert "OK demo OK:JetStream enabled OK:Authentication required | " in check("--js-required", "--auth-required")
    assert "Crit:Memory invalid thresholds" in check("--mem-warn", "5", "--mem-critical", "1", status=2)
    assert "Crit:Connections 1.00 | " in check("--conn-critical", "1", status=2)
    too_few = check("--conn-warn", "10", "--conn-critical", "5", status=2)
    assert "Crit:Connections 1.00 | " in too_few and "connections=1;10;5" in too_few
    assert "Warn:Connections 1.00 | " in check("--conn-warn", "10", status=1)
    assert "OK:Subscriptions " in check("--subs-warn", "5000", "--subs-critical", "9000")
    assert "Warn:Up " in check("--uptime-warn", "24h", status=1)
    assert "Crit:Up invalid thresholds" in check("--uptime-warn", "1s", "--uptime-critical", "24h", status=2)
    assert "CRITICAL nope Crit:varz failed: " in check("--name", "nope", status=2)
    assert NEEDS_SYSTEM in cli.call("server", "check", "server", status=2).stdout


def test_checks_of_a_bucket(cli: Cli) -> None:
    def check(*words: str, status: int = 0) -> str:
        return str(cli.call("server", "check", "kv", "--bucket", "CHECKED", *words, status=status).stdout)

    assert check(status=2) == "CRITICAL CHECKED Crit:bucket CHECKED not found\n"
    cli.call("kv", "add", "CHECKED")
    for key in "ac":
        cli.call("kv", "put", "CHECKED", key, "b")
    assert check("--key", "a").startswith("OK CHECKED OK:bucket CHECKED OK:key a found | values=2 bytes=")
    assert check("--key", "b", status=2).startswith(
        "CRITICAL CHECKED Crit:key b not found OK:bucket CHECKED | values=2"
    )
    for words, status, said in (
        (("--values-critical", "2"), 2, "CRITICAL CHECKED Crit:2 values OK:bucket CHECKED | values=2;;2 "),
        (("--values-critical", "5"), 0, "OK CHECKED OK:bucket CHECKED OK:2 values | values=2;;5 "),
        (("--values-warn", "5"), 1, "WARNING CHECKED Warn:2 values OK:bucket CHECKED | values=2;5 "),
        (("--values-warn", "1", "--values-critical", "5"), 1, "WARNING CHECKED Warn:2 values OK:bucket "),
        (("--values-warn", "5", "--values-critical", "3"), 2, "CRITICAL CHECKED Crit:2 values OK:bucket "),
        (("--values-warn", "5", "--values-critical", "1"), 1, "WARNING CHECKED Warn:2 values OK:bucket "),
        (("--values-warn", "5", "--values-critical", "5"), 0, "OK CHECKED OK:bucket CHECKED OK:2 values "),
    ):
        assert check(*words, status=status).startswith(said), words
    assert check().endswith("B replicas=1\n")
    cli.call("kv", "del", "CHECKED", "-f")


def test_a_check_without_a_server(cli: Cli) -> None:
    def check(*words: str, status: int = 0) -> str:
        return str(cli.call("server", "check", *words, status=status).stdout)

    cli.env["NATS_URL"] = "nats://127.0.0.1:1"
    assert check("connection", status=2).startswith("CRITICAL Connection Crit:connection failed: ")
    assert check("kv", "--bucket", "X", status=2).startswith("CRITICAL X Crit:connection failed: ")


def test_what_a_check_is_written_for(cli: Cli, tmp_path: Path) -> None:
    found = cli.json("server", "check", "stream", "--stream", "ORDERS", "--format", "json")
    assert (found["status"], found["check_suite"], found["check_name"]) == ("OK", "stream", "ORDERS")
    assert found["perf_data"] == [{"name": "sources", "value": 0, "warning": 0, "critical": 0}]
    place = tmp_path / "check.prom"
    words = ("--format", "prometheus", "--namespace", "mine", "--outfile", str(place))
    cli.call("server", "check", "stream", "--stream", "ORDERS", "--msgs-critical", "3", *words, status=2)
    assert 'mine_stream_messages{item="ORDERS"} 2\n' in place.read_text()
    assert 'mine_stream_status_code{item="ORDERS",status="CRITICAL"} 2\n' in place.read_text()
    assert "│ OK     │ connected to nats://" in cli.screen("server", "check", "--format", "text", "connection")
    refused = cli.call("server", "check", "connection", "--format", "text", "--outfile", "x", status=2)
    assert "--outfile needs another" in refused.stderr


def test_checks_of_contents(cli: Cli, tmp_path: Path) -> None:
    def check(*words: str, status: int = 0) -> str:
        return cli.call("server", "check", *words, status=status).stdout

    newest = ("message", "--stream", "ORDERS", "--subject", "orders.>")
    assert check(*newest, "--content", "^.*$").startswith("OK Stream Message OK:Valid message on ORDERS > orders.>")
    assert "Crit:does not match regex: nope" in check(*newest, "--content", "nope", status=2)
    assert "Crit:age" in check(*newest, "--age-critical", "1ns", status=2)
    assert "no time in seconds" in check(*newest, "--body-timestamp", status=2)
    assert "no message found" in check("message", "--stream", "ORDERS", "--subject", "none", status=2)
    assert check("request", "--subject", "$SYS.REQ.USER.INFO", "--match-payload", "user").startswith(
        "OK $SYS.REQ.USER.INFO OK:Valid response | time="
    )
    assert "does not match regex" in check(
        "request", "--subject", "$SYS.REQ.USER.INFO", "--match-payload", "#", status=2
    )
    assert check("request", "--subject", "nobody", status=2).startswith("CRITICAL nobody Crit:")
    place = tmp_path / "user.creds"
    assert "not accessible" in check("credential", "--credential", str(place), status=2)
    place.write_text("nothing")
    assert "no user token" in check("credential", "--credential", str(place), status=2)
    for expiry_s, words, status in ((0, "never expires", 2), (3600, "Crit:validity", 2), (-1, "Crit:expired", 2)):
        place.write_text(credentials(expiry_s))
        wanted = ("--validity-critical", "2h") if expiry_s > 0 else ()
        assert words in check("credential", "--credential", str(place), *wanted, status=status)
    place.write_text(credentials(3600))
    assert check("credential", "--credential", str(place), "--validity-warn", "1m").startswith(
        "OK Credential OK:expires"
    )


def test_config_reload(cli: Cli, server: ServerProcess) -> None:
    with cli.terminal("server", "config", "reload", *SYSTEM) as terminal:
        terminal.answer("Really reload the configuration of server demo?", "y").expect("was told to reload").finish()
    server.wait_for_log("Reloaded server configuration")
    assert "give --force" in cli.call("server", "config", "reload", *SYSTEM, status=1).stderr


def test_run_and_config_check(cli: Cli, tmp_path: Path) -> None:
    with cli.terminal("server", "run", "-p", "-1", "-a", "127.0.0.1") as terminal:
        terminal.expect("Server is ready")
        terminal.interrupt().finish()
    good, bad = tmp_path / "good.conf", tmp_path / "bad.conf"
    good.write_text("port: 4222\n")
    bad.write_text("port: 4222\nnonsense: 1\n")
    assert "configuration file good.conf is valid" in cli.screen("server", "config", "check", str(good)).replace(
        f"{tmp_path}/", ""
    )
    said = cli.run("server", "config", "check", str(bad), status=1).stderr.decode()
    assert said.startswith("slipstream: error: ") and 'bad.conf:2:1: unknown field "nonsense"' in said
    assert cli.screen("server", "run", "--help", columns=80).startswith("Usage: slipstream server run [flags]\n")
    cli.call("server", "config", "check", str(tmp_path / "missing"), status=2)


def test_passwd(cli: Cli) -> None:
    import bcrypt

    password = "a-long-password-nobody-guesses"
    with cli.terminal("server", "passwd", "--cost", "4") as terminal:
        terminal.answer("Enter password:", password).answer("Repeat for confirmation:", password)
        hashed = terminal.finish().split()[-1]
    assert hashed.startswith("$2a$04$") and bcrypt.checkpw(password.encode(), hashed.encode())
    generated, hashed = cli.call("server", "pass", "--generate", "--cost", "4").stdout.split()
    assert bcrypt.checkpw(generated.encode(), hashed.encode())
    assert "too short" in cli.call("server", "passwd", "-p", "short", status=1).stderr
    assert "no terminal to ask" in cli.call("auth", "passwd", status=1).stderr


def test_top(cli: Cli, server: ServerProcess) -> None:
    with cli.terminal("top", "--delay", "200ms", "--conns", "5", *SYSTEM) as terminal:
        terminal.expect("NATS server version").expect("Connections Polled: 1").expect("slipstream CLI")
        cli.call("pub", "nowhere", "x", "-q")
        terminal.expect("Msgs/Sec").interrupt().finish()
    screen = cli.screen("top", "--count", "1", "--sort", "msgs_to", *SYSTEM, columns=80)
    assert "BYTES_FROM" in screen and "HOST" not in screen and max(map(len, screen.splitlines())) <= 80
    plain = cli.run("top", "--count", "2", "--delay", "10ms", *SYSTEM).stdout.decode()
    assert plain.count("NATS server version") == 2 and "\x1b" not in plain
    assert re.match(
        r"NATS server version \S+ \(uptime: \w+\)\s*\nServer: demo\s*\n  ID:   N\w{55}\s*\n  Load: CPU: ", plain
    )
    (heading, *_) = [line.split() for line in plain.splitlines() if "BYTES_FROM" in line]
    assert " ".join(heading) == (
        "HOST CID NAME SUBS PENDING MSGS_TO MSGS_FROM BYTES_TO BYTES_FROM LANG VERSION UPTIME LAST_ACTIVITY"
    )
    over_http = cli.call("top", "--http", f"http://127.0.0.1:{server.monitor_port}").stdout
    assert "Connections Polled: 0" in over_http
    assert "does not answer as a monitoring port" in cli.call("top", "--http", "http://127.0.0.1:1", status=1).stderr
    assert NEEDS_SYSTEM in cli.call("top", status=1).stderr
    assert "longer than nothing" in cli.call("top", "--delay", "0", *SYSTEM, status=1).stderr
    with_subs = cli.call("top", "--subs", "--raw", "--lookup", *SYSTEM).stdout.splitlines()
    assert with_subs[-2].split()[-1] == "SUBSCRIPTIONS" and "_INBOX." in with_subs[-1]
    assert "KiB" not in with_subs[-1]
    place = server.directory / "top.csv"
    cli.call("top", "--output", str(place), "--delimiter", ";", *SYSTEM)
    lines = [line.split(";") for line in place.read_text().splitlines()]
    assert lines[1] == ["Server:", "demo"] and lines[-2][:3] == ["HOST", "CID", "NAME"] and len(lines[-1]) == 13
    cli.call("top", "--output", str(place), *SYSTEM)
    assert re.search(r"\nHOST +CID +NAME ", place.read_text())
    assert "--delimiter is for --output" in cli.call("top", "--delimiter", ";", *SYSTEM, status=2).stderr
    assert "cannot be written" in cli.call("top", "-o", "/nowhere/top.csv", *SYSTEM, status=1).stderr


def test_events(cli: Cli) -> None:
    with cli.terminal("events") as terminal:
        terminal.expect("Listening on $JS.EVENT.ADVISORY.>, $JS.EVENT.METRIC.>")
        cli.call("stream", "add", "NEW", "--subjects", "new", "--defaults")
        terminal.expect("] stream action $JS.EVENT.ADVISORY.STREAM.CREATED.NEW\n")
        terminal.expect("              stream: NEW\n              action: create\n")
        screen = terminal.interrupt().finish()
    assert max(map(len, screen.splitlines())) <= 120, "long requests are cut to a line"
    with cli.terminal("events", "--filter", "delete", "--no-js-metric", "--short", "--count", "1") as terminal:
        terminal.expect("Listening on $JS.EVENT.ADVISORY.>\n")
        cli.call("stream", "rm", "NEW", "-f")
        terminal.finish()
        assert terminal.screen.count("\n") == 2
    with cli.terminal("events", "--srv-advisory", "--no-js-advisory", "--json", *SYSTEM) as terminal:
        terminal.expect("Listening on")
        cli.call("pub", "a", "b", "-q")
        terminal.expect('"type":"io.nats.server.advisory.v1.client_connect"')
        terminal.expect('"type":"io.nats.server.advisory.v1.client_disconnect"').interrupt().finish()
    nothing = ("--no-js-advisory", "--no-js-metric")
    assert "Nothing to listen to" in cli.call("events", *nothing, status=2).stderr
    with cli.terminal("events", *nothing, "--subjects", "mine", "--count", "2") as terminal:
        terminal.expect("Listening on mine")
        cli.call("pub", "mine", '{"type": "a.b_c", "timestamp": "nonsense", "x": {"y": 1}}', "-q")
        cli.call("pub", "mine", "no \x1b[31mJSON", "-q")
        terminal.expect("b c mine").expect('x: {"y": 1}').expect("mine no \\x1b[31mJSON").finish()


def test_rtt_and_latency(cli: Cli, server: ServerProcess) -> None:
    url = re.escape(server.url)
    assert re.fullmatch(rf"{url}:\n\n   {url}: \d+(µ|m)s\n\n", cli.screen("rtt"))
    (row,) = cli.json("rtt", "2", "--json", "-s", server.url.replace("://", "://app:pw@"))
    (result,) = row["results"]
    assert row["url"] == result["url"] == result["address"] == server.url and result["rtt"] > 0
    refused = cli.call("rtt", "-s", f"nats://127.0.0.1:1,{server.url}")
    assert "Failed to compute rtt for nats://127.0.0.1:1: " in refused.stderr
    assert re.match(r"nats://127.0.0.1:1:\n\n +nats://127.0.0.1:1: failed\n\nnats://", refused.stdout)
    name = server.url.replace("127.0.0.1", "localhost")
    (row,) = cli.json("rtt", "--json", "-s", name)
    assert row["url"] == name and server.url in [one["address"] for one in row["results"]]
    with cli.terminal("latency", "--duration", "200ms", "--rate", "100") as terminal:
        terminal.expect("Measuring").expect("messages of 8 bytes, at most 100 a second").expect("P99.9:").finish()
    figures = cli.json("lat", "--duration", "50ms", "--server-b", server.url, "--json")
    assert 0 < figures["min"] <= figures["p50"] <= figures["p99"] <= figures["max"]


def test_without_a_server(cli: Cli) -> None:
    cli.env["NATS_URL"] = "nats://127.0.0.1:1"
    for words in (("server", "info"), ("account", "info"), ("top",), ("latency",), ("kv", "ls"), ("object", "ls")):
        assert "127.0.0.1:1" in cli.call(*words, status=1).stderr


def test_account_info(cli: Cli, ours: Launcher) -> None:
    screen = cli.screen("account", "info")
    for line in ("User: app", "Account: APP", "Streams: 1 of unlimited", "Server: demo"):
        assert line in screen
    assert "not available to this account" in cli.call("account", "nfo", *SYSTEM).stdout
    found = cli.json("a", "info", "-j")
    assert (found["user"]["account"], found["jetstream"]["streams"]) == ("APP", 1)
    rules = '{publish: {allow: ["a.>", "$SYS.REQ.USER.INFO", "$JS.API.INFO"], deny: "a.b"}, subscribe: "_INBOX.>"}'
    url = ours(f"port: -1\nauthorization {{ users: [ {{user: joe, password: x, permissions: {rules}}} ] }}\n").url
    screen = cli.call("account", "info", "-s", url, "--user", "joe", "--password", "x").stdout
    assert "User: joe" in screen and "Permissions to publish:" in screen and "Denied: a.b" in screen
    assert "Permissions to subscribe:\n\n" in screen and "Allowed: _INBOX.>" in screen


def test_account_reports(cli: Cli) -> None:
    heading, row = cells(cli.screen("account", "report", "statistics"))
    assert heading[:4] == ["Server", "Account", "Conns", "Leafs"] and row[:3] == ["demo", "APP", "1"]
    assert cli.json("account", "report", "stats", "-j")[0]["data"]["account_statz"][0]["acc"] == "APP"
    assert cells(cli.screen("account", "report", "jetstream")) == [
        ["Stream", "Storage", "Messages", "Bytes", "Subjects", "Consumers"],
        ["ORDERS", "File", "2", "88 B", "1", "1"],
    ]
    assert len(cli.json("account", "report", "js", "-j")) == 1
