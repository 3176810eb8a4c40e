"""Settings that both servers take: what clients are told, what the log says, what changes while they run."""

from __future__ import annotations

import json
import re
import socket

import pytest

from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Both, Launcher, Pair
from support.transcript import connect_line, hpub

_WARNING = re.compile(r"\[WRN\] (.*)")
_PAYLOAD = re.compile(r"(?:->>|<<-) MSG_PAYLOAD: .*")


def _info(server: ServerProcess) -> dict[str, object]:
    with RawClient(server.port) as client:
        line = client.read_until(rb"\r\n")
    info = json.loads(line.removeprefix(b"INFO "))
    assert isinstance(info, dict)
    return info


def _servers(pair: Pair) -> tuple[ServerProcess, ServerProcess]:
    return pair.real, pair.ours


def _connected(server: ServerProcess, **options: str) -> RawClient:
    client = RawClient(server.port)
    client.send(connect_line(verbose=False, headers=True, no_responders=True, **options) + b"PING\r\n")
    client.read_until(rb"PONG\r\n")
    return client


# --- what INFO says --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("advertise", ["1.2.3.4:5555", "example.org", "[::1]:99", ":99", "here:0", "here:-1"])
def test_client_advertise_is_what_info_says(both: Both, advertise: str) -> None:
    pair = both.fresh(f'client_advertise: "{advertise}"')
    told = [
        (_info(server)["host"], _info(server)["port"] == server.port or _info(server)["port"])
        for server in _servers(pair)
    ]
    assert told[0] == told[1]
    assert told[1][0] != "127.0.0.1"


def test_a_jetstream_cluster_needs_routes(real: Launcher, ours: Launcher) -> None:
    servers = [
        launcher.prepared('server_name: a, jetstream { store_dir: js }, cluster { name: C, listen: "127.0.0.1:-1" }')
        for launcher in (real, ours)
    ]
    said = []
    for server in servers:
        assert server.run_to_end() == 1
        said.append([line.partition("[FTL]")[2] for line in server.log_lines if "[FTL]" in line])
    assert said[0] == said[1] != []


@pytest.mark.parametrize("advertise", ["here:there", "a:b:c"])
def test_a_wrong_client_advertise_keeps_the_server_from_starting(
    real: Launcher, ours: Launcher, advertise: str
) -> None:
    servers = [launcher.prepared(f'client_advertise: "{advertise}"') for launcher in (real, ours)]
    for server in servers:
        assert server.run_to_end() == 1
        assert f"Error setting server INFO with ClientAdvertise value of {advertise}, err=" in "\n".join(
            server.log_lines
        )


def test_a_reload_advertises_another_address(ours: Launcher) -> None:
    server = ours.fresh('client_advertise: "first:1"')
    assert _info(server)["host"] == "first"
    server.reload('client_advertise: "second:2"')
    assert (_info(server)["host"], _info(server)["port"]) == ("second", 2)


@pytest.mark.parametrize(
    ("config", "field"),
    [("jetstream { domain: hub, store_dir: js }", "domain"), ("cluster { name: east }", "cluster")],
)
def test_domain_and_cluster_are_in_info(both: Both, config: str, field: str) -> None:
    told = [_info(server)[field] for server in _servers(both.fresh(config))]
    assert told[0] == told[1]


# --- what the log warns of -------------------------------------------------------------------------------------------

HASH = "$2a$11$W2zko751KUvVy59mUTWmpOdWjpEm5qhcCZRd05GjI/sSOT.xtiHyG"
WARNED = {
    "large payloads": "max_payload: 9MB",
    "not so large payloads": "max_payload: 8MB",
    "password of the only user": "authorization { user: a, password: b }",
    "password of a user": "authorization { users: [{user: a, password: b}] }",
    "user without a password": "authorization { users: [{user: a}] }",
    "password in an account": "accounts { A { users: [{user: a, password: b}] } }",
    "hashed password": f'authorization {{ user: a, password: "{HASH}" }}',
    "token": "authorization { token: t }",
    "default domain": "default_js_domain { A: hub }, accounts { A {} }",
}


@pytest.mark.parametrize("config", WARNED.values(), ids=WARNED.keys())
def test_doubtful_settings_are_warned_of(both: Both, config: str) -> None:
    real, ours = (_WARNING.findall("\n".join(server.log_lines)) for server in _servers(both.fresh(config)))
    assert ours == real


FLAGS = [
    "feature_flags { js_raft_delete_range: true, js_snapshot_sources: true }",
    "feature_flags { js_raft_delete_range: false, js_snapshot_sources: false, js_ack_fc_v2: false }",
    "feature_flags { no_such_thing: true }",
]


@pytest.mark.parametrize("config", FLAGS)
def test_feature_flags_are_listed(both: Both, config: str) -> None:
    found = []
    for server in _servers(both.fresh(f"http_port: -1\n{config}")):
        lines = [line.partition("[INF]")[2] for line in server.log_lines]
        start = lines.index("   Feature flags:")
        found.append(lines[start : start + 2 + ("no_such" in config)])
    assert found[0] == found[1]


def test_a_flag_that_cannot_be_turned_on_is_told_as_such(ours: Launcher) -> None:
    server = ours.fresh("feature_flags { js_ack_fc_v2: true }")
    assert server.wait_for_log("Unsupported:   js_ack_fc_v2")


@pytest.mark.parametrize(
    ("domains", "message"),
    [
        ("{ X: hub }", "in non operator mode, `default_js_domain` references non existing account"),
        ("{ A: hub }", 'default_js_domain contains account name "A" with enabled JetStream'),
        ("{ B: hub, SYS: hub }", 'system account "SYS" can not be in default_js_domain'),
        ('{ B: "a b" }', 'default_js_domain contains account "B" with invalid domain name "a b"'),
    ],
)
def test_default_domains_that_cannot_be(real: Launcher, ours: Launcher, domains: str, message: str) -> None:
    config = (
        f"system_account: SYS, accounts {{ A {{ jetstream: true }}, B {{}}, SYS {{}} }}, default_js_domain {domains}"
    )
    for launcher in (real, ours):
        server = launcher.prepared(config)
        assert server.run_to_end() == 1
        assert message in "\n".join(server.log_lines)


def test_a_default_domain_leads_to_the_jetstream_of_another_account(both: Both) -> None:
    """Requests go out under the name of the domain, which is what the account imports."""
    config = """
    jetstream { store_dir: js, domain: hub }
    accounts {
      JS { jetstream: true, users: [{user: j, password: p}], exports: [{service: "$JS.hub.API.>"}] }
      B { users: [{user: b, password: p}], imports: [{service: {account: JS, subject: "$JS.hub.API.>"}}] }
    }
    default_js_domain { B: hub }
    """
    pair = both.fresh(config)
    for server in _servers(pair):
        with _connected(server, user="b", **{"pass": "p"}) as client:
            client.send(b"SUB in 1\r\nPUB $JS.API.STREAM.CREATE.S in 13\r\n" + b'{"name": "S"}\r\n')
            assert client.read_until(rb'"config":\{"name":"S"')
        with _connected(server, user="j", **{"pass": "p"}) as client:
            client.send(b"SUB in 1\r\nPUB $JS.API.STREAM.NAMES in 0\r\n\r\n")
            assert client.read_until(rb'"streams":\["S"\]')


# --- traces ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", ["trace_headers: true", "trace: true", "trace_headers: true, max_traced_msg_len: 5"])
def test_trace_headers_shows_no_payload(both: Both, config: str) -> None:
    found = []
    for server in _servers(both.fresh(config)):
        with _connected(server) as client:
            message = hpub("x", b"NATS/1.0\r\nA: bc\r\n\r\n", b"secret")
            client.send(b"SUB x 1\r\nPUB x 6\r\nsecret\r\n" + message + b"UNSUB 1\r\nPING\r\n")
            client.read_until(rb"PONG\r\n")
            server.wait_for_log(r"<<- \[UNSUB")
        found.append(_PAYLOAD.findall("\n".join(server.log_lines)))
    assert found[0] == found[1]
    assert ("secret" in str(found[1])) == (config == "trace: true")


@pytest.mark.parametrize("setting", ["trace: true", "trace_verbose: true"])
def test_trace_verbose_shows_what_the_server_itself_sends(both: Both, setting: str) -> None:
    users = "A { users: [{user: a, password: p}] }, SYS { users: [{user: s, password: p}] }"
    config = f"{setting}, system_account: SYS, accounts {{ {users} }}"
    for server in _servers(both.fresh(config)):
        with _connected(server, user="s", **{"pass": "p"}) as listener:
            listener.send(b"SUB $SYS.ACCOUNT.A.CONNECT 1\r\nPING\r\n")
            listener.read_until(rb"PONG\r\n")
            with _connected(server, user="a", **{"pass": "p"}):
                listener.read_until(rb"MSG \$SYS\.ACCOUNT\.A\.CONNECT")
                if "verbose" in setting:
                    server.wait_for_log(r"SYSTEM - <<- \[PUB \$SYS\.ACCOUNT\.A\.CONNECT")
                else:
                    assert "SYSTEM" not in "\n".join(server.log_lines)


# --- syslog ----------------------------------------------------------------------------------------------------------

_RECORD = re.compile(rb"^<5>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d) (\S+) [\w.-]+\[(\d+)\]: (.*)\n$")


def test_syslog_lines_have_time_and_host(real: Launcher, ours: Launcher) -> None:
    for launcher in (real, ours):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
            daemon.bind(("127.0.0.1", 0))
            daemon.settimeout(10)
            server = launcher.prepared("", "-r", f"udp://127.0.0.1:{daemon.getsockname()[1]}")
            server.launch()
            record = _RECORD.match(daemon.recv(1000))
            assert record is not None
            assert record[1].decode() == socket.gethostname()
            assert (int(record[2]), record[3]) == (server.pid, b"Starting nats-server")


def test_a_syslog_that_is_not_there_keeps_the_server_from_starting(real: Launcher, ours: Launcher) -> None:
    for launcher in (real, ours):
        server = launcher.prepared("", "-r", "tcp://127.0.0.1:1")
        assert server.run_to_end() == 1
        assert "error connecting to syslog" in "\n".join(server.log_lines)


# --- where streams are kept ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", ["jetstream { store_dir: a }", "jetstream { store: a }", "store_dir: a"])
def test_a_store_directory_is_given_once(real: Launcher, ours: Launcher, config: str) -> None:
    said = []
    for launcher in (real, ours):
        server = launcher.prepared(config, "-sd", "b")
        assert server.run_to_end() == 1
        said.append(re.sub(r"\S+(?=server\.conf)", "", "\n".join(server.log_lines)).strip())
    assert said[0] == said[1]
    assert "Duplicate 'store_dir' configuration" in said[1]


# --- reload ----------------------------------------------------------------------------------------------------------

LIMITS = """
max_connections: {server}
accounts {{ A {{ users: [{{user: a, password: p}}], limits: {{ max_connections: {account} }} }} }}
"""


@pytest.mark.parametrize("limits", [{"server": 2, "account": 10}, {"server": 10, "account": 2}], ids=str)
def test_a_reload_that_allows_fewer_connections_closes_the_rest(both: Both, limits: dict[str, int]) -> None:
    pair = both.fresh(LIMITS.format(server=10, account=10))
    for server in _servers(pair):
        clients = [_connected(server, user="a", **{"pass": "p"}) for _ in range(5)]
        server.reload(LIMITS.format(**limits))
        closed = [client for client in clients if client.is_closed_by_peer(0.5)]
        said = {client.read_to_close()[-60:].partition(b"-ERR")[2] for client in closed}
        for client in clients:
            client.close()
        assert len(closed) == 3, server.binary.name
        expected = (
            b"maximum account active connections exceeded"
            if limits["account"] == 2
            else b"maximum connections exceeded"
        )
        assert said == {b" '" + expected + b"'\r\n"}, server.binary.name
