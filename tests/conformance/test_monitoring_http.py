"""Monitoring over HTTP: the same load on both servers, every endpoint and parameter compared, values included."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from support.keys import USER_KEY, USER_SEED, nonce_of, signature, url_base64
from support.monitoring import VOLATILE, Load, agree, get, outline, paths_agree
from support.normalise import Json
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Both, Launcher, Pair
from support.transcript import connect_line

HTTP = 'http: "127.0.0.1:-1"\n'
ACCOUNTS = (
    HTTP
    + """
server_tags: ["West", "x"]
server_metadata: {rack: r1}
max_subscriptions: 500
ping_interval: "90s"
write_deadline: "5s"
accounts {
  SYS { users [{user: sys, password: secret-s}] }
  A {
    users [
      {user: a, password: secret-a}
      {user: limited, password: secret-l, permissions {publish: "foo.>", subscribe {allow: ["bar.>", "_INBOX.>"]}}}
    ]
    exports [
      {service: "svc.>", response_type: stream}
      {service: "one.svc", accounts: [B], latency: {sampling: 50, subject: "lat"}}
      {stream: "st.>", accounts: [B]}
      {stream: "free.*"}
    ]
    mappings {
      "m.a": "m.b"
      "m.c.*": [{dest: "m.d.$1", weight: 30%}, {dest: "m.e.$1", weight: 20%}]
    }
  }
  B {
    users [{user: b, password: secret-b}]
    imports [
      {service: {account: A, subject: "svc.x"}, to: "local.x"}
      {stream: {account: A, subject: "st.>"}, prefix: "from.a"}
      {stream: {account: A, subject: "free.*"}, to: "mine.*"}
    ]
  }
}
system_account: SYS
"""
)

SECRETS = ("secret-s", "secret-a", "secret-l", "secret-b")


def by(*keys: str):  # type: ignore[no-untyped-def]
    """Sorts every list of objects by the first of the keys that they have, and every list of texts."""

    def ordered(value: Json) -> Json:
        if isinstance(value, dict):
            return {key: ordered(item) for key, item in value.items()}
        if isinstance(value, list):
            return sorted((ordered(item) for item in value), key=_place)
        return value

    def _place(item: Json) -> str:
        if isinstance(item, dict):
            return json.dumps([item.get(key) for key in keys])
        return str(item)

    return ordered


@pytest.fixture
def busy(both: Both) -> Iterator[Pair]:
    """Both servers with the same clients: three that stay, two that went."""
    pair = both.fresh(ACCOUNTS)
    loads = [_load(server) for server in (pair.real, pair.ours)]
    yield pair
    for load in loads:
        load.close()


def _load(server: ServerProcess) -> Load:
    load = Load(server)
    first = load.client(b"SUB foo.* 1\r\nSUB q work 2\r\n", user="a", **{"pass": "secret-a"}, name="first")
    second = load.client(
        b"SUB bar.> 1\r\nUNSUB 1 10\r\n", user="limited", **{"pass": "secret-l"}, name="second", lang="go"
    )
    third = load.client(
        b"SUB mine.* 9\r\nSUB x 1\r\nSUB y 2\r\n", user="b", **{"pass": "secret-b"}, name="third", version=""
    )
    # Every counter is different, so that every order is decided.
    load.send(first, b"PUB foo.x 5\r\nhello\r\n" * 3 + b"PUB bar.z 2\r\nhi\r\n")
    load.send(second, b"PUB foo.y 3\r\nabc\r\n" * 2)
    load.send(third, b"PUB x 4\r\nabcd\r\n" * 3)
    for name in ("gone", "gone too"):
        gone = load.client(b"SUB gone 1\r\n", user="b", **{"pass": "secret-b"}, name=name)
        gone.close()
        _wait_closed(server, name)
    refused = RawClient(server.port)
    refused.read_until(rb"INFO [^\n]*\r\n")
    refused.send(b'CONNECT {"user":"b","pass":"wrong","name":"refused","lang":"raw"}\r\n')
    refused.read_to_close()
    refused.close()
    _wait_closed(server, "refused")
    return load


def _wait_closed(server: ServerProcess, name: str) -> None:
    """Asks until the server has noticed that a client went."""
    for _ in range(500):
        closed = json.loads(get(server, "/connz?state=closed").body)["connections"]
        if any(connection.get("name") == name for connection in closed):
            return
    raise AssertionError(f"{name} is still there")


# Counters that depend on the server's own listeners, which differ.
OWN = ("subscriptions", "num_subscriptions", "http_req_stats")

PLAIN_PATHS = [
    "/varz",
    "/routez",
    "/routez?subs=1",
    "/routez?subs=detail",
    "/gatewayz",
    "/gatewayz?accs=1&gw_name=x&acc_name=y&subs=detail",
    "/leafz",
    "/leafz?subs=1&acc=A",
    "/jsz",
    "/jsz?acc=A&accounts=1&streams=1&consumers=1&config=1&raft=1&offset=1&limit=2",
    "/healthz",
    "/healthz?details=1",
    "/healthz?js-enabled=1&js-enabled-only=1&js-server-only=1&js-meta-only=1",
    "/healthz?stream=x",
    "/healthz?consumer=x&details=true",
    "/healthz?account=A&stream=S",
    "/raftz",
    "/raftz?acc=x&group=y",
    "/accountz?acc=nope",
    "/accountz?acc=",
]


@pytest.mark.parametrize("path", PLAIN_PATHS)
def test_one_answer(both: Both, path: str) -> None:
    paths_agree(both(ACCOUNTS), path, hide=OWN, order=by())


REFUSED = [
    "/connz?sort=foo",
    "/connz?sort=CID",
    "/connz?sort=stop",
    "/connz?sort=reason&state=open",
    "/connz?auth=x",
    "/connz?auth=yes%0a%22",
    "/connz?subs=2",
    "/connz?limit=abc",
    "/connz?limit=1_000",
    "/connz?limit=0x10",
    "/connz?limit=+5",
    "/connz?limit=99999999999999999999",
    "/connz?offset=1.5",
    "/connz?cid=-1",
    "/connz?cid=18446744073709551616",
    "/connz?state=zip",
    "/connz?state=%3Cscript%3E",
    "/subsz?test=foo.*",
    "/subsz?test=foo..bar",
    "/subsz?test=.",
    "/subsz?subs=maybe",
    "/subsz?limit=x",
    "/subscriptionsz?offset=x",
    "/leafz?subs=z",
    "/routez?subs=z",
    "/gatewayz?accs=z",
    "/gatewayz?subs=z",
    "/accstatz?unused=z",
    "/jsz?accounts=z",
    "/jsz?limit=z",
    "/jsz?leader-only=1",
    "/jsz?stream-leader-only=z",
    "/healthz?details=z",
    "/healthz?js-meta-only=z",
    "/ipqueuesz?all=z",
    "/foo",
    "/varz/",
    "/debug",
    "/connz/x",
]


@pytest.mark.parametrize("path", REFUSED)
def test_what_is_refused(both: Both, path: str) -> None:
    paths_agree(both(ACCOUNTS), path)


CONNZ = [
    "",
    "sort=cid",
    "sort=start",
    "sort=subs",
    "sort=msgs_to",
    "sort=msgs_from",
    "sort=bytes_to",
    "sort=bytes_from",
    "sort=uptime",
    "subs=1",
    "subs=0",
    "subs=detail",
    "subs=DETAIL",
    "auth=1",
    "auth=true&subs=detail",
    "limit=1",
    "limit=2&offset=1",
    "offset=2",
    "offset=3",
    "offset=-5&limit=-7",
    "limit=0",
    "offset=9223372036854775807",
    "limit=9223372036854775807",
    "offset=9223372036854775807&limit=9223372036854775807",
    "offset=1&limit=9223372036854775807",
    "offset=-9223372036854775808&limit=-9223372036854775808",
    "state=open",
    "state=OPEN",
    "cid=18446744073709551615",
    "cid=0",
    "user=a",
    "user=a&auth=1",
    "user=nobody&auth=1",
    "acc=A",
    "acc=B&auth=1",
    "acc=SYS",
    "acc=nope",
    "acc=A&user=limited",
    "mqtt_client=x",
    "unknown=parameter",
    "limit=1&limit=2",
    "limit=5;offset=1",
]


def test_open_connections(busy: Pair) -> None:
    hide = ("last_activity",)
    for query in CONNZ:
        paths_agree(busy, f"/connz?{query}", hide=hide, order=_subscriptions_sorted)


CLOSED = [
    "",
    "&sort=stop",
    "&sort=reason",
    "&sort=cid",
    "&subs=1",
    "&subs=detail",
    "&auth=1",
    "&auth=1&acc=B",
    "&limit=1&offset=1",
    "&user=b&auth=1",
]


@pytest.mark.parametrize("state", ["closed", "Closed", "any", "all"])
def test_closed_connections(busy: Pair, state: str) -> None:
    for query in CLOSED:
        if "sort" in query and "reason" not in query and state.lower() != "closed":
            continue
        paths_agree(busy, f"/connz?state={state}{query}", order=_subscriptions_sorted)


def test_single_connections(busy: Pair) -> None:
    pages = [json.loads(get(server, "/connz?state=any").body)["connections"] for server in (busy.real, busy.ours)]
    for real, ours in zip(*pages, strict=True):
        for query in ("", "&state=any", "&state=closed", "&subs=1&auth=1", "&acc=A", "&acc=B"):
            shown = [
                outline(_page(server, f"/connz?cid={entry['cid']}{query}"), VOLATILE)
                for server, entry in ((busy.real, real), (busy.ours, ours))
            ]
            agree(*shown, what=f"{real.get('name')} {query}")


def _page(server: ServerProcess, path: str) -> Json:
    return _subscriptions_sorted(json.loads(get(server, path).body))


def _subscriptions_sorted(value: Json) -> Json:
    """nats-server lists a client's subscriptions in any order."""
    assert isinstance(value, dict)
    for entry in value.get("connections") or ():
        if "subscriptions_list" in entry:
            entry["subscriptions_list"].sort()
        if "subscriptions_list_detail" in entry:
            entry["subscriptions_list_detail"].sort(key=lambda one: one["sid"])
    return value


def test_accounts(busy: Pair) -> None:
    for path in ("/accountz", "/accountz?acc=A", "/accountz?acc=B", "/accountz?acc=$G"):
        paths_agree(busy, path, hide=OWN, order=by("type", "subject", "to"))
    for path in ("/accstatz", "/accstatz?unused=0", "/accstatz?unused=1"):
        paths_agree(busy, path, hide=OWN, order=by("acc"))


def test_the_system_account_has_its_own_exports(busy: Pair) -> None:
    details = [json.loads(get(server, "/accountz?acc=SYS").body)["account_detail"] for server in (busy.real, busy.ours)]
    hidden = ("subscriptions", "num_subscriptions", "update_time", "num_inserts", "num_removes", "num_matches")
    hidden += ("num_cache", "cache_hit_rate", "max_fanout", "avg_fanout")
    real, ours = (outline(by("subject")(detail), hidden) for detail in details)
    agree(real, ours, "the system account")


def test_subscriptions(busy: Pair) -> None:
    for query in ("acc=A", "acc=A&subs=1&test=foo.x", "subs=1&test=q&acc=A", "acc=A&subs=1&test=nobody.there"):
        paths_agree(busy, f"/subsz?{query}", hide=(*OWN, "total"), order=_clients_only)
        paths_agree(busy, f"/subscriptionsz?{query}", hide=(*OWN, "total"), order=_clients_only)
    for query in ("subs=1&limit=0", "subs=1&offset=9223372036854775807&limit=9223372036854775807", "acc=nope&subs=1"):
        paths_agree(busy, f"/subsz?{query}", hide=(*OWN, "total"), order=_clients_only)


def _clients_only(value: Json) -> Json:
    """Without the servers' own listeners, and imported streams, which nats-server lists in both accounts."""
    assert isinstance(value, dict)
    if "subscriptions_list" in value:
        shown = [
            one for one in value["subscriptions_list"] if not one["subject"].startswith(("$SYS", "local.x", "free."))
        ]
        value["subscriptions_list"] = sorted(shown, key=lambda one: (one["account"], one["subject"]))
        if not shown:
            del value["subscriptions_list"]
    return value


def test_requests_are_counted(both: Both) -> None:
    pair = both.fresh(HTTP)
    paths = ["/", "/varz", "/connz", "/connz?auth=x", "/connz?sort=x", "/routez", "/routez?subs=z", "/subsz?subs=z"]
    paths += ["/subscriptionsz", "/gatewayz?subs=z", "/leafz?subs=z", "/accountz?acc=z", "/accstatz?unused=z"]
    paths += ["/jsz?limit=z", "/healthz?details=z", "/ipqueuesz", "/raftz", "/stacksz", "/debug/vars", "/foo", "/varz"]
    for server in (pair.real, pair.ours):
        for path in paths:
            get(server, path)
    real, ours = (json.loads(get(server, "/varz").body)["http_req_stats"] for server in (pair.real, pair.ours))
    assert real == ours
    assert list(real) == list(ours)


@pytest.mark.parametrize("method", ["HEAD", "POST", "OPTIONS", "DELETE", "FOO"])
@pytest.mark.parametrize("path", ["/healthz", "/foo"])
def test_methods(both: Both, method: str, path: str) -> None:
    pair = both(ACCOUNTS)
    real, ours = (get(server, path, method) for server in (pair.real, pair.ours))
    assert (real.status, real.body) == (ours.status, ours.body)
    for header in ("content-type", "access-control-allow-origin", "content-length", "x-content-type-options"):
        assert real.headers.get(header) == ours.headers.get(header)


@pytest.mark.parametrize("path", ["//healthz", "/x/../healthz", "/./healthz", "/%76arz", "/healthz?%zz=1&details=%zz"])
def test_odd_paths(both: Both, path: str) -> None:
    pair = both(ACCOUNTS)
    real, ours = (get(server, path) for server in (pair.real, pair.ours))
    assert (real.status, real.headers.get("location")) == (ours.status, ours.headers.get("location"))


def test_index_links_to_what_is_there(launcher: Launcher) -> None:
    server = launcher(HTTP + "http_base_path: mon/")
    page = get(server, "/mon")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for name in ("varz", "connz", "jsz", "accountz", "accstatz", "subsz", "routez", "leafz", "gatewayz", "healthz"):
        assert name in page.body.decode()
        assert get(server, f"/mon/{name}").status == 200
    assert [get(server, path).status for path in ("/", "/varz", "/mon/", "/monvarz", "/mon/mon/varz")] == [404] * 5


def test_process_variables_hide_secrets(launcher: Launcher) -> None:
    server = launcher.fresh("", "-m", "-1", "--user", "hush-me", "--pass=hush-hush")
    answer = get(server, "/debug/vars")
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    variables = json.loads(answer.body)
    assert {"cmdline", "memstats"} <= variables.keys()
    assert "hush" not in answer.body.decode()
    assert [word for word in variables["cmdline"] if "REDACTED" in word] == ["[REDACTED]", "--pass=[REDACTED]"]


def test_no_answer_holds_a_secret(busy: Pair) -> None:
    server = busy.ours
    paths = [f"/{name}" for name in ("varz", "jsz", "accountz", "accstatz?unused=1", "routez", "leafz", "gatewayz")]
    paths += [f"/accountz?acc={name}" for name in ("A", "B", "SYS", "$G")]
    paths += ["/connz?state=any&auth=1&subs=detail", "/subsz?subs=1", "/healthz?details=1", "/metrics", "/debug/vars"]
    for path in paths:
        body = get(server, path).body.decode()
        assert body
        assert not [secret for secret in SECRETS if secret in body], path


def test_token_is_not_shown(both: Both) -> None:
    pair = both.fresh(HTTP + "authorization { token: hush-token }")
    loads = [Load(server) for server in (pair.real, pair.ours)]
    for load in loads:
        load.client(auth_token="hush-token")
    paths_agree(pair, "/connz?auth=1")
    assert "hush" not in get(pair.ours, "/connz?auth=1").body.decode()
    for load in loads:
        load.close()


def test_nkey_users(both: Both) -> None:
    pair = both.fresh(HTTP + f"accounts {{ A {{ users [{{nkey: {USER_KEY}}}] }} }}")
    clients = []
    for server in (pair.real, pair.ours):
        client = RawClient(server.port)
        nonce = nonce_of(client.read_until(rb"INFO [^\n]*\r\n"))
        proof = url_base64(signature(USER_SEED, nonce))
        client.send(connect_line(nkey=USER_KEY, sig=proof) + b"PING\r\n")
        client.read_until(rb"PONG\r\n")
        clients.append(client)
    paths_agree(pair, "/connz?auth=1")
    assert json.loads(get(pair.ours, f"/connz?user={USER_KEY}").body)["num_connections"] == 1
    for client in clients:
        client.close()


TLS = """
tls {{
  cert_file: "{folder}/server.pem"
  key_file: "{folder}/server.key"
  ca_file: "{folder}/ca.pem"
  verify: true
  timeout: 4
}}
"""


def test_tls_clients(both: Both, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    server_certificate = authority.issue_cert("localhost")
    server_certificate.private_key_pem.write_to_path(tmp_path / "server.key")
    server_certificate.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    authority.issue_cert("me@example.com", common_name="me").configure_cert(context)
    pair = both.fresh(HTTP + TLS.format(folder=tmp_path))
    clients = []
    for server in (pair.real, pair.ours):
        plain = socket.create_connection(("127.0.0.1", server.port))
        while b"\r\n" not in plain.recv(4096, socket.MSG_PEEK):
            pass
        plain.recv(4096)
        secure = context.wrap_socket(plain, server_hostname="localhost")
        secure.sendall(connect_line(tls_required=True) + b"PING\r\n")
        while b"PONG" not in secure.recv(4096):
            pass
        clients.append(secure)
    # The two TLS libraries prefer different suites.
    paths_agree(pair, "/connz", hide=("tls_cipher_suite",))
    paths_agree(pair, "/connz?auth=1", hide=("tls_cipher_suite",), order=_first_certificate)
    paths_agree(pair, "/varz", hide=OWN)
    assert len(json.loads(get(pair.ours, "/connz?auth=1").body)["connections"][0]["tls_peer_certs"]) == 1
    for client in clients:
        client.close()


def _first_certificate(value: Json) -> Json:
    """Python before 3.13 tells only the certificate of the client itself, not what else it sent."""
    assert isinstance(value, dict)
    for entry in value["connections"]:
        del entry["tls_peer_certs"][1:]
    return value


def test_https(both: Both, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate = authority.issue_cert("localhost")
    certificate.private_key_pem.write_to_path(tmp_path / "server.key")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    pair = both.fresh('https: "127.0.0.1:-1"\n' + TLS.format(folder=tmp_path))
    shown = []
    for server in (pair.real, pair.ours):
        # Clients of the client port must show a certificate; whoever monitors need not.
        connection = http.client.HTTPSConnection("localhost", server.monitor_port, context=context, timeout=5)
        connection.request("GET", "/varz")
        shown.append(outline(json.loads(connection.getresponse().read()), VOLATILE | set(OWN)))
        connection.close()
    agree(*shown, what="/varz over TLS")


def test_options_show_in_varz(both: Both) -> None:
    config = (
        HTTP
        + """
        leafnodes { listen: "127.0.0.1:-1" }
        websocket { listen: "127.0.0.1:-1", no_tls: true, compression: true, allowed_origins: ["http://a"] }
        authorization { user: me, password: "hush", timeout: 1.5 }
        max_connections: 77
        max_payload: 4096
        max_pending: 1000000
        max_control_line: 2048
        ping_max: 5
        write_timeout: close
        """
    )
    pair = both(config)
    paths_agree(pair, "/varz", hide=OWN)
    varz = json.loads(get(pair.ours, "/varz").body)
    assert varz["websocket"]["port"] == pair.ours.websocket_port
    assert varz["leaf"]["port"] > 0


def test_metrics_are_prometheus_text(ours: Launcher) -> None:
    server = ours(ACCOUNTS)
    load = Load(server)
    load.client(b"SUB foo 1\r\nPUB foo 3\r\nabc\r\n", user="a", **{"pass": "secret-a"})
    answer = get(server, "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = {}
    kinds = {}
    for line in answer.body.decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            kinds[name] = kind
        elif not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            samples[name] = float(value)
            assert kinds[name.partition("{")[0]] in ("counter", "gauge")
    assert samples['slipstream_account_connections{account="A"}'] >= 1
    assert samples["slipstream_received_bytes_total"] >= 3
    assert samples["slipstream_connections"] >= 1
    own = {name: kind for name, kind in kinds.items() if name.startswith("slipstream_")}
    assert all(kind == "counter" for name, kind in own.items() if name.endswith("_total"))
    load.close()


def test_port_file_names_the_monitoring_url(ours: Launcher, tmp_path: Path) -> None:
    server = ours.fresh(HTTP + f'ports_file_dir: "{tmp_path}"')
    ports = json.loads(next(tmp_path.glob("*.ports")).read_text())
    assert ports["monitoring"] == [f"http://127.0.0.1:{server.monitor_port}"]
