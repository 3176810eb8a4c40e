"""What the log says of a client: where it comes from, what it runs, and who it is in which account."""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.keys import USER_KEY, USER_SEED, nonce_of, signature, url_base64
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Both
from support.transcript import connect_line

OPEN = ""
USERS = f'accounts {{ A {{ users [{{user: "a", password: "p"}}, {{nkey: "{USER_KEY}"}}] }} }}'
TOKEN = 'authorization { token: "t" }'
_WHO = re.compile(r"127\.0\.0\.1:\d+ - cid:\d+(?P<rest>.*)")

CLIENTS: list[tuple[str, str, dict[str, Any]]] = [
    ("nothing said", OPEN, {}),
    ("a name", OPEN, {"name": 'quo"ted'}),
    ("program and name", OPEN, {"lang": "py", "version": "1.2", "name": "n"}),
    ("no version", OPEN, {"lang": "py", "name": "n"}),
    ("a user nobody asked for", OPEN, {"user": "me", "version": "1"}),
    ("a user", USERS, {"user": "a", "pass": "p"}),
    ("a user with a program", USERS, {"user": "a", "pass": "p", "lang": "py", "version": "1"}),
    ("a wrong password", USERS, {"user": "a", "pass": "wrong", "lang": "py"}),
    ("nobody", USERS, {}),
    ("a token", TOKEN, {"auth_token": "t"}),
    ("a wrong token", TOKEN, {"auth_token": "wrong"}),
    ("an nkey", USERS, {"nkey": USER_KEY}),
]


@pytest.mark.parametrize(("config", "connect"), [case[1:] for case in CLIENTS], ids=[case[0] for case in CLIENTS])
def test_a_client_in_the_log(both: Both, config: str, connect: dict[str, Any]) -> None:
    pair = both(config, "-D")
    real, ours = (_said(server, connect) for server in (pair.real, pair.ours))
    assert real[-1].endswith("Client Closed") or real[-1].endswith("Authentication Failure")
    # Ours adds why.
    assert [re.sub(r"(authentication error(?: - \w+ \"[^\"]*\")?).*", r"\1", line) for line in ours] == real


def _said(server: ServerProcess, connect: dict[str, Any]) -> list[str]:
    """What the log says of one client after its CONNECT."""
    before = len(server.log_lines)
    client = RawClient(server.port)
    info = client.read_until(rb"INFO [^\n]*\r\n")
    if "nkey" in connect:
        connect = {**connect, "sig": url_base64(signature(USER_SEED, nonce_of(info)))}
    client.send(connect_line(**connect) + b"PING\r\n")
    client.read_until(rb"PONG\r\n|-ERR")
    client.close()
    server.wait_for_log("Client connection closed", after=before)
    found = [_WHO.search(line) for line in server.log_lines[before:]]
    return [match["rest"] for match in found if match is not None and "created" not in match["rest"]]
