"""Auth callouts at every entrance: WebSocket and TLS ask what nats-server asks, and a reload leaves nobody unasked."""

from __future__ import annotations

import json
import re
import ssl
from functools import partial
from pathlib import Path

import pytest

from conformance.test_auth_callout import (
    CONFIG,
    SEALED,
    SENTINEL,
    allowed,
    asked,
    by,
    connect,
    forbidden,
    let_in,
    operator_config,
    serving,
)
from conformance.test_leaf_logins import by_leaf
from models.wsframes import Frame
from slipstream.auth.callout.keys import ServerKeys
from support.callout_service import STRANGER, XKEYS, Answer, Outcome, Service, normalised, try_login
from support.jwt import token, user_claims
from support.normalise import Json
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Both, Pair
from tlsfiles import Authority
from wsclient import WebSocketClient

WEBSOCKET = """
websocket {
  port: -1, no_tls: true, %s
  user_cookie: u, pass_cookie: p, token_cookie: t
}
"""


def by_websocket(
    server: ServerProcess, service: Service, answer: Answer | None, said: dict[str, Json], cookies: str
) -> tuple[str, bool, bytes]:
    """The request, whether the client came in, and what it was told."""
    with RawClient(server.websocket_port) as socket:
        client = WebSocketClient(socket, Cookie=cookies or None)
        client.send(Frame(2, connect(**said), key=b"mask"))
        asked = ""
        if answer is not None:
            request = service.request()
            asked = normalised(request)
            service.decide(request, answer)
        client.until(rb"PONG\r\n")
        lines = re.sub(rb"INFO [^\r]*\r\n", b"", client.stream)
        return asked, b"PONG\r\n" in lines, lines


@pytest.mark.parametrize(("own", "xkeys"), [("", None), ("authorization { user: w, password: w }", None), ("", XKEYS)])
def test_websockets_are_asked_about(both: Both, own: str, xkeys: ServerKeys | None) -> None:
    # A listener with a user of its own cannot stand beside users of accounts.
    config = CONFIG % (SEALED if xkeys else "") + WEBSOCKET % ""
    if own:
        users = "authorization {\n  users: [{user: auth, password: pwd}]\n"
        config = re.sub(r"accounts \{.*\}\nsystem_account: SYS\nauthorization \{\n", users, config, flags=re.DOTALL)
        config = config.replace(", account: AUTH", "")
    pair = both(config)
    services = [Service(server.port, xkeys=xkeys) for server in (pair.real, pair.ours)]
    account = "$G" if own else "FOO"
    cases: list[tuple[dict[str, Json], str, Answer | None]] = [
        ({"user": "u", "pass": "p"}, "", let_in(account)),
        ({"auth_token": "x", "name": "app"}, "", let_in(account)),
        ({}, "", let_in(account)),
        ({}, "u=cu; p=cp", let_in(account)),
        ({"user": "said"}, "u=cu; p=cp; t=ct", let_in(account)),
        ({"user": "u"}, "", let_in(account, allowed_connection_types=["WEBSOCKET"])),
        ({"user": "u"}, "", lambda request: request.answer(error="NO")),
        ({"user": "auth", "pass": "pwd"}, "", None),
        ({"user": "auth", "pass": "no"}, "", None),
    ]
    for said, cookies, answer in cases:
        outcomes = [
            by_websocket(server, service, answer, said, cookies)
            for server, service in zip((pair.real, pair.ours), services, strict=True)
        ]
        assert outcomes[0] == outcomes[1], (said, cookies)
    for service in services:
        service.close()


def by_socket(server: ServerProcess, service: Service, answer: Answer, said: dict[str, Json]) -> Outcome:
    """The same from a client."""
    with RawClient(server.port) as client:
        client.read_until(rb"\r\n")
        return try_login(client, service, connect(**said), partial(service.decided, answer=answer))


@pytest.mark.parametrize("xkey", ["", XKEYS.xkey])
def test_operator_mode_lets_nothing_pass_before_connect(both: Both, xkey: str) -> None:
    pair = both(operator_config(xkey) + WEBSOCKET % "" + 'leafnodes { listen: "127.0.0.1:-1", compression: off }')
    for early in (b"PING\r\n", b"SUB > 1\r\n", b"PUB a 0\r\n\r\n"):
        told = []
        for server in (pair.real, pair.ours):
            with RawClient(server.port) as client, RawClient(server.websocket_port) as socket:
                client.read_until(rb"\r\n")
                client.send(early + b"PING\r\n")
                web = WebSocketClient(socket)
                web.send(Frame(2, early + b"PING\r\n", key=b"mask"))
                web.until(rb"-ERR [^\r]*\r\n")
                told.append((client.read_to_close(), re.sub(rb"INFO [^\r]*\r\n", b"", web.stream)))
        assert told[0] == told[1]
        assert all(b"-ERR 'Authorization Violation'" in lines for lines in told[1])


class SecureClient(RawClient):
    """The same over TLS, after INFO."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(port)
        self.read_until(rb"INFO [^\n]*\n")
        self._socket = context.wrap_socket(self._socket, server_hostname="localhost")


def _tls_facts(request: str) -> tuple[Json, str]:
    """The TLS session of a request, and everything else."""
    claims = json.loads(request)
    session = claims["nats"].pop("client_tls", None)
    return session, json.dumps(claims)


@pytest.mark.parametrize("asks", ["", "verify: true", "verify_and_map: true"])
def test_tls_sessions_are_part_of_the_question(both: Both, tmp_path: Path, asks: str) -> None:
    authority = Authority(tmp_path)
    server, client = authority.issue("localhost", "127.0.0.1"), authority.issue("foo@example.com", name="client")
    tls = f'tls {{ {server.block}, ca_file: "{authority.ca_file}", {asks} }}\n'
    config = (CONFIG % "").replace("user: foo, password: foo", 'user: "foo@example.com"') + tls
    if asks == "verify_and_map: true":
        # Whoever serves comes by certificate, too.
        config = config.replace("user: auth, password: pwd", 'user: "auth@example.com"').replace(
            "auth_users: [auth]", 'auth_users: ["auth@example.com"]'
        )
    pair = both.fresh(config)
    serving = authority.issue("auth@example.com", name="service")
    context = authority.client_context(client if asks else None)
    # Servers choose among the suites of a client, each in an order of its own: let there be one.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    login: dict[str, Json] = {} if asks == "verify_and_map: true" else {"user": "auth", "pass": "pwd"}
    showing = authority.client_context(serving)
    services = [_SecureService(one.port, showing, login) for one in (pair.real, pair.ours)]
    outcomes = []
    for one, service in zip((pair.real, pair.ours), services, strict=True):
        with SecureClient(one.port, context) as secure:
            outcomes.append(try_login(secure, service, connect(user="dlc"), let_in("BAR")))  # type: ignore[arg-type]
    real, ours = outcomes
    assert (ours.came, ours.lines) == (real.came, real.lines)
    assert ours.came
    assert _tls_facts(ours.request)[1] == _tls_facts(real.request)[1]
    assert _tls_facts(ours.request)[0] == _tls_facts(real.request)[0]
    for service in services:
        service.close()


class _SecureService(Service):
    """A service that comes over TLS."""

    def __init__(self, port: int, context: ssl.SSLContext, login: dict[str, Json]) -> None:
        self.client, self.xkeys = SecureClient(port, context), None
        said = {"verbose": False, "headers": True} | login
        self.client.send(b"CONNECT " + json.dumps(said).encode() + b"\r\n")
        self.client.send(b"SUB $SYS.REQ.USER.AUTH 1\r\nPING\r\n")
        self.client.read_until(rb"PONG\r\n")


def _reloaded(pair: Pair, config: str) -> list[str]:
    """What the logs say of a reload."""
    found = []
    for server in (pair.real, pair.ours):
        position = len(server.log_lines)
        server.reload(config)
        lines = server.log_lines[position:]
        words = [re.sub(r"^.*\[(INF|ERR)\] ", "", line) for line in lines]
        found.append(next(line for line in words if line.startswith(("Reloaded server", "Failed"))))
    return found


def test_a_reload_of_the_block_is_refused_and_changes_nothing(both: Both) -> None:
    config = CONFIG % ""
    pair = both.fresh(config)
    services = [Service(server.port) for server in (pair.real, pair.ours)]
    clients = [RawClient(server.port) for server in (pair.real, pair.ours)]
    for client, service in zip(clients, services, strict=True):
        client.read_until(rb"\r\n")
        assert try_login(client, service, connect(user="stays"), let_in("FOO")).came
    changes = {
        "gone": re.sub(r"  auth_callout \{.*\}\n", "", config),
        "other accounts": config.replace("auth_users: [auth]", "auth_users: [auth], allowed_accounts: [FOO]"),
        "other users": config.replace("auth_users: [auth]", "auth_users: [auth, foo]"),
    }
    for what, changed in changes.items():
        real, ours = _reloaded(pair, changed)
        assert real.startswith("Failed to reload server configuration: config reload not supported for AuthCallout"), (
            what
        )
        assert ours.startswith("Failed to reload server configuration: config reload not supported for AuthCallout"), (
            what
        )
        for server, service, client in zip((pair.real, pair.ours), services, clients, strict=True):
            client.send(b"PING\r\n")
            client.read_until(rb"PONG\r\n")
            with RawClient(server.port) as late:
                late.read_until(rb"\r\n")
                assert try_login(late, service, connect(user="late"), let_in("FOO")).came
    # What the block is not about may change. Who was let in stays; nats-server asks its service again, which has left.
    services[0].close()
    both_said = _reloaded(
        pair, config.replace('publish: "d.>"', 'publish: "e.>"').replace("timeout: 1", "timeout: 1.5")
    )
    assert all(line.startswith("Reloaded") for line in both_said)
    clients[1].send(b"PING\r\n")
    clients[1].read_until(rb"PONG\r\n")
    for closing in (*clients, *services):
        closing.close()


@pytest.mark.parametrize("xkeys", [None, XKEYS])
def test_operator_mode_asks_at_every_entrance(both: Both, xkeys: ServerKeys | None) -> None:
    """A sentinel's token from a client, over a WebSocket and from a leaf node: the service decides there as well."""
    config = operator_config("" if xkeys is None else xkeys.xkey)
    pair = both(config + WEBSOCKET % "" + 'leafnodes { listen: "127.0.0.1:-1", compression: off }')
    creds = (serving, token(asked, serving, user_claims()))
    services = [Service(server.port, creds=creds, xkeys=xkeys) for server in (pair.real, pair.ours)]
    servers = list(zip((pair.real, pair.ours), services, strict=True))
    said: dict[str, Json] = {"jwt": SENTINEL, "user": "u", "pass": "p"}
    cases: list[tuple[Answer, bool, Json]] = [
        (by(allowed), True, None),
        (by(allowed, pub={"allow": ["p.>"]}), True, {"allow": ["p.>"]}),
        (by(forbidden), False, None),
        (by(STRANGER), False, None),
        (lambda request: request.answer(asked, error="NO"), False, None),
    ]
    for answer, comes, told in cases:
        client, our_client = (by_socket(server, service, answer, said) for server, service in servers)
        assert our_client == client
        assert our_client.came == comes
        real, ours = (by_websocket(server, service, answer, said, "") for server, service in servers)
        assert ours == real
        assert ours[1] == comes
        real_leaf, our_leaf = (by_leaf(server, service, answer, said) for server, service in servers)
        # The leaf is told the rights that the service gave; nats-server tells it those of the sentinel.
        assert our_leaf[:3] == real_leaf[:3]
        assert our_leaf[1] == comes
        assert not comes or our_leaf[3] == {"remote_account": allowed.public, "import": None, "export": told}
    for service in services:
        service.close()
