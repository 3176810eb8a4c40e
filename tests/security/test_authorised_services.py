"""Every service of the server, asked from an account that has no right to it."""

from __future__ import annotations

import json

import pytest

from slipstream.monitoring.system.requests import OWN_SUBJECTS
from slipstream.monitoring.system.services import ACCOUNT_SERVICES, COMMANDS, SERVER_SERVICES
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Launcher
from support.transcript import connect_line, pub

CONFIG = """
accounts {
  A: { users = [{ user: a, password: a }] }
  B: { users = [{ user: b, password: b }] }
  SYS: { users = [{ user: s, password: s }] }
}
system_account: SYS
"""
NOBODY = b"NATS/1.0 503"


@pytest.fixture
def server(ours: Launcher) -> ServerProcess:
    return ours(CONFIG)


def _client(server: ServerProcess, user: str) -> RawClient:
    client = RawClient(server.port)
    client.send(connect_line(user=user, name=f"client of {user}", **{"pass": user}) + b"SUB in.* 1\r\nPING\r\n")
    client.read_until(b"PONG\r\n")
    return client


def _ask(client: RawClient, subject: str, body: bytes = b"") -> bytes:
    """The first answer to a request."""
    client.send(pub(subject, body, "in.x"))
    head = client.read_until(rb"H?MSG in\.x 1 [^\r]*\r\n")
    return client.read_exactly(int(head.split()[-1]) + 2)


def test_services_of_the_system_account_are_nobody_s_elsewhere(server: ServerProcess) -> None:
    """CVE-2025-30215: administration was open to other accounts. Here every service and command is tried."""
    with _client(server, "s") as system:
        name = json.loads(_ask(system, "$SYS.REQ.SERVER.PING.VARZ"))["server"]["id"]
    subjects = [f"$SYS.REQ.SERVER.{who}.{what}" for who in ("PING", name) for what in (*SERVER_SERVICES, *COMMANDS)]
    subjects += [
        f"$SYS.REQ.ACCOUNT.{who}.{what}" for who in ("PING", "A", "B", "SYS", "$G") for what in ACCOUNT_SERVICES
    ]
    subjects += [
        "$SYS.REQ.SERVER.PING",
        "$SYS.REQ.SERVER.PING.STATSZ",
        "$SYS.REQ.CLAIMS.LIST",
        "$SYS.DEBUG.SUBSCRIBERS",
    ]
    allowed = {subject.decode() for subject in OWN_SUBJECTS}
    with _client(server, "a") as client:
        for subject in subjects:
            if subject not in allowed:
                assert NOBODY in _ask(client, subject), subject
        assert NOBODY not in _ask(client, "$SYS.REQ.SERVER.PING.CONNZ")


@pytest.mark.parametrize("subject", ["$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.ACCOUNT.PING.CONNZ"])
@pytest.mark.parametrize(
    "options", [{}, {"acc": "B"}, {"acc": "SYS"}, {"ACC": "B"}, {"acc": ""}, {"acc": "B", "auth": True, "state": 2}]
)
def test_an_account_sees_itself_only(server: ServerProcess, subject: str, options: dict[str, object]) -> None:
    """CVE-2025-30215: what the request says about the account is not believed."""
    with _client(server, "b"), _client(server, "s"), _client(server, "a") as client:
        answer = _ask(client, subject, json.dumps({"auth": True, **options}).encode())
        connections = json.loads(answer)["data"]["connections"]
        assert connections and {entry["name"] for entry in connections} == {"client of a"}


def test_events_of_the_system_account_stay_there(server: ServerProcess) -> None:
    """CVE-2025-30215: nobody else hears who comes and goes, whatever it subscribes to."""
    with _client(server, "a") as client:
        client.send(b"SUB > 9\r\nSUB $SYS.> 8\r\nSUB $SYS.ACCOUNT.*.CONNECT 7\r\nPING\r\n")
        client.read_until(b"PONG\r\n")
        _client(server, "b").close()
        client.send(pub("done", b"") + b"PING\r\n")
        heard = client.read_until(b"PONG\r\n")
        assert b"$SYS" not in heard and b"MSG done 9" in heard


@pytest.mark.parametrize("subject", ["$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.ACCOUNT.PING.STATZ"])
def test_requests_are_short(server: ServerProcess, subject: str) -> None:
    """Everybody may ask, so nobody may make the server read a megabyte of JSON: it takes a tenth of a second."""
    keys = b'"a":1,' * 20_000
    with _client(server, "a") as client:
        answer = json.loads(_ask(client, subject, b"{" + keys + b'"b":1}'))
        assert "too large" in answer["error"]["description"]
        assert "data" in json.loads(_ask(client, subject, b"{" + keys[:6000] + b'"b":1}'))
