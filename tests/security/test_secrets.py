"""Secrets stay where they belong: no answer of any endpoint or service, and no log line, holds one."""

from __future__ import annotations

import json

import pytest

from slipstream.monitoring.endpoints.table import ENDPOINTS
from slipstream.monitoring.system.requests import OWN_SUBJECTS
from slipstream.monitoring.system.services import ACCOUNT_SERVICES, SERVER_SERVICES
from support.keys import USER_KEY, USER_SEED, nonce_of, signature, url_base64
from support.monitoring import get
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Launcher
from support.transcript import connect_line, pub
from tlsfiles import Authority
from wsclient import WebSocketClient

# Every secret begins with this word.
MARK = "hush"
USERS = f"""
accounts {{
  A: {{
    users = [
      {{ user: ann, password: {MARK}-ann }}
      {{ nkey: {USER_KEY} }}
    ]
    mappings = {{ old: new }}
    exports = [{{ service: svc, latency: lat }}]
  }}
  B: {{
    users = [{{ user: bob, password: {MARK}-bob }}]
    imports = [{{ service: {{ account: A, subject: svc }}, share: true }}]
  }}
  SYS: {{ users = [{{ user: sys, password: {MARK}-sys }}] }}
}}
system_account: SYS
"""


def _config(authority: Authority) -> str:
    return f"""
    http: "127.0.0.1:-1"
    {USERS}
    tls: {{ {authority.issue("localhost").block} }}
    allow_non_tls: true
    websocket {{
      host: "127.0.0.1", port: -1, no_tls: true
      user_cookie: user_c, pass_cookie: pass_c, token_cookie: token_c
    }}
    """


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def server(ours: Launcher, authority: Authority) -> ServerProcess:
    return ours(_config(authority), "-DV")


def _speak(client: RawClient, **connect: str) -> bytes:
    client.send(connect_line(**connect) + b"SUB a.> 1\r\n" + pub("a.b", b"x", "in") + b"PING\r\n")
    return client.read_until_or_close(b"PONG\r\n")[0]


def _crowd(server: ServerProcess) -> list[RawClient]:
    """Clients that came in on every way, and others that did not."""
    open_ones = []
    for user in ("ann", "bob"):
        client = RawClient(server.port)
        assert b"PONG" in _speak(client, user=user, **{"pass": f"{MARK}-{user}"})
        open_ones.append(client)
    client = RawClient(server.port)
    nonce = nonce_of(client.read_until(b"\r\n"))
    proof = url_base64(signature(USER_SEED, nonce))
    assert b"PONG" in _speak(client, nkey=USER_KEY, sig=proof)
    open_ones.append(client)
    web = RawClient(server.websocket_port)
    socket = WebSocketClient(web, Cookie=f"user_c=ann; pass_c={MARK}-ann; token_c={MARK}-token; other={MARK}-other")
    socket.send(connect_line() + b"PING\r\n")
    socket.until(rb"PONG\r\n")
    assert not socket.closed
    open_ones.append(web)
    wrong: list[dict[str, str]] = [
        {"user": "ann", "pass": f"{MARK}-wrong"},
        {"auth_token": f"{MARK}-token"},
        {"jwt": f"{MARK}-jwt", "sig": f"{MARK}-sig"},
        {"user": "nobody", "pass": f"{MARK}-nobody", "account": "A"},
    ]
    for fields in wrong:
        with RawClient(server.port) as client:
            assert b"Authorization Violation" in _speak(client, **fields)
    for data in (
        f'CONNECT {{"user":"ann","pass":"{MARK}-open'.encode() + b"x" * 5000,
        f'CONNECT {{"user":"ann","pass":["{MARK}"]}}\r\n'.encode(),
        f'CONNECT {{"user":"ann","p\\u0061ss":"{MARK}-ann","name":"escaped"}}\r\nFOO\r\n'.encode(),
    ):
        with RawClient(server.port) as client:
            client.send(data)
            client.read_to_close()
    return open_ones


def test_no_answer_and_no_log_line_holds_a_secret(server: ServerProcess) -> None:
    """CVE-2026-33216: passwords were shown in monitoring. All endpoints, all services, the log with everything on."""
    position = len(server.log_lines)
    clients = _crowd(server)
    answers = {}
    details = "auth=1&subs=detail&state=any&acc=A&accounts=1&config=1&streams=1&consumers=1&unused=1&limit=1000"
    for path in ENDPOINTS:
        for query in ("", details, "state=closed&auth=1", "acc=B", "acc=SYS", "acc=$G"):
            answers[f"{path}?{query}"] = get(server, f"{path}?{query}").body
    with RawClient(server.port, timeout_s=10) as asker:
        asker.send(connect_line(user="sys", **{"pass": f"{MARK}-sys"}) + b"SUB in.> 1\r\nSUB $SYS.> 2\r\n")
        subjects = [f"$SYS.REQ.SERVER.PING.{name}" for name in SERVER_SERVICES if name != "PROFILEZ"]
        subjects += [f"$SYS.REQ.ACCOUNT.{account}.{name}" for account in "AB" for name in ACCOUNT_SERVICES]
        subjects += [subject.decode() for subject in OWN_SUBJECTS]
        body = json.dumps({"auth": True, "subscriptions_detail": True, "state": 2}).encode()
        for number, subject in enumerate(subjects):
            asker.send(pub(subject, body, f"in.{number}"))
        last = len(subjects) - 1
        answers["$SYS"] = asker.read_until(rb"MSG in\.%d 1 .*?\r\n.*?\r\n" % last)
        with RawClient(server.port) as late:
            _speak(late, user="ann", **{"pass": f"{MARK}-ann"})
        answers["events"] = asker.read_until(rb"\.DISCONNECT .*?\r\n.*?\r\n")
    for client in clients:
        client.close()
    server.wait_for_log("Client connection closed", after=position)
    assert [name for name, body in answers.items() if MARK.encode() in body] == []
    assert [line for line in server.log_lines if MARK in line] == []
    assert any("[TRC]" in line and "CONNECT" in line for line in server.log_lines), "the trace was on"
    assert any(b'"authorized_user": "ann"' in body for body in answers.values()), "the users were shown"


def test_secrets_of_the_command_line_are_not_shown(ours: Launcher) -> None:
    """CVE-2026-33247: arguments were shown in /debug/vars."""
    server = ours.fresh("", "-m", "-1", "-DV", "--user", f"{MARK}-user", "--pass", f"{MARK}-pass")
    for path in ENDPOINTS:
        assert MARK.encode() not in get(server, path).body, path
    assert [line for line in server.log_lines if MARK in line] == []


def test_secrets_of_a_configuration_are_not_in_its_errors(ours: Launcher) -> None:
    """A mistake beside a password is reported without it."""
    for text in (
        f"authorization {{ user: a, password: {MARK}-x, nonsense: 1 }}",
        f"authorization {{ users = [{{ user: a, password: {MARK}-x }}, {{ user: a, password: {MARK}-y }}] }}",
        f"authorization {{ user: a, password: {MARK}-x, token: {MARK}-y }}",
        f"accounts {{ A: {{ users = [{{ user: a, password: {MARK}-x, permissions: {{ publish: 'a..b' }} }}] }} }}",
    ):
        server = ours.prepared(text)
        assert server.run_to_end() != 0
        assert server.log_lines and not [line for line in server.log_lines if MARK in line], server.log_lines
