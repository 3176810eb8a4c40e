"""nats-py over ws:// and wss:// against either server: messages of all sizes, credentials, cookies, errors, endings."""

from __future__ import annotations

import os
from typing import Any

import nats
import nats.errors
import pytest

from models.wsframes import Frame
from support.nats_py import run
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Both, Launcher
from support.transcript import connect_line
from tlsfiles import Authority, Pair
from wsclient import WebSocketClient

# The client leaves the sessions of failed connections open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

PLAIN = "websocket { port: -1, no_tls: true }\n"
COMPRESSED = "websocket { port: -1, no_tls: true, compression: true }\n"
USERS = 'authorization { users: [ { user: ann, password: "open" }, { user: bob, password: "sesame" } ] }\n'
COOKIES = f"{USERS} websocket {{ port: -1, no_tls: true, user_cookie: nats_user, pass_cookie: nats_pass }}\n"
TOKEN_COOKIE = "authorization { token: s3cr3t }\nwebsocket { port: -1, no_tls: true, token_cookie: t }\n"
OWN_USER = 'websocket { port: -1, no_tls: true, authorization { user: web, password: "pw" } }\n'
STANDARD_ONLY = """
authorization { users: [ { user: ann, password: "open", allowed_connection_types: ["STANDARD"] } ] }
websocket { port: -1, no_tls: true }
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("localhost", "127.0.0.1")


async def echoed(server: ServerProcess, payloads: list[bytes], *, scheme: str = "ws", **options: Any) -> bool:
    """Whether all payloads come back."""
    client = await nats.connect(
        f"{scheme}://localhost:{server.websocket_port}", allow_reconnect=False, connect_timeout=5, **options
    )
    try:
        subscription = await client.subscribe("echo")
        for payload in payloads:
            await client.publish("echo", payload)
        return [(await subscription.next_msg(timeout=5)).data for _ in payloads] == payloads
    finally:
        await client.close()


@pytest.mark.parametrize("config", [PLAIN, COMPRESSED], ids=["plain", "compressed"])
def test_messages_of_all_sizes(launcher: Launcher, config: str) -> None:
    payloads = [b"", b"x", b"y" * 64, b"z" * 4096, os.urandom(70_000), b"\0" * 900_000]
    assert run(lambda: echoed(launcher(config), payloads))


def test_many_messages(launcher: Launcher) -> None:
    payloads = [str(number).encode() * (number % 50) for number in range(2000)]
    assert run(lambda: echoed(launcher(PLAIN), payloads))


def test_wss(launcher: Launcher, authority: Authority, pair: Pair) -> None:
    server = launcher(f"websocket {{ port: -1, compression: true, tls {{ {pair.block} }} }}\n")
    payloads = [b"x", os.urandom(300_000)]
    assert run(lambda: echoed(server, payloads, scheme="wss", tls=authority.client_context()))


def test_wss_with_a_certificate_as_the_user(launcher: Launcher, authority: Authority, pair: Pair) -> None:
    config = f"""
    authorization {{ users: [ {{ user: "me@example.com" }} ] }}
    websocket {{ port: -1, tls {{ {pair.block}, ca_file: "{authority.ca_file}", verify_and_map: true }} }}
    """
    server = launcher(config)
    me = authority.issue("me@example.com", name="me")
    other = authority.issue("you@example.com", name="you")
    assert run(lambda: echoed(server, [b"x"], scheme="wss", tls=authority.client_context(me)))
    with pytest.raises((nats.errors.Error, nats.errors.AuthorizationError)):
        run(lambda: echoed(server, [b"x"], scheme="wss", tls=authority.client_context(other)))


def test_passwords(launcher: Launcher) -> None:
    server = launcher(USERS + PLAIN)
    assert run(lambda: echoed(server, [b"x"], user="ann", password="open"))
    with pytest.raises((nats.errors.Error, nats.errors.AuthorizationError)):
        run(lambda: echoed(server, [b"x"], user="ann", password="wrong"))


def test_user_of_the_websocket_block(launcher: Launcher) -> None:
    server = launcher(OWN_USER)
    assert run(lambda: echoed(server, [b"x"], user="web", password="pw"))
    with pytest.raises((nats.errors.Error, nats.errors.AuthorizationError)):
        run(lambda: echoed(server, [b"x"]))


def test_users_who_may_not_come_over_websocket(launcher: Launcher) -> None:
    server = launcher(STANDARD_ONLY)
    with pytest.raises((nats.errors.Error, nats.errors.AuthorizationError)):
        run(lambda: echoed(server, [b"x"], user="ann", password="open"))


def logged_in(server: ServerProcess, cookie: str | None, **connect: Any) -> bool:
    """Whether CONNECT is answered with PONG rather than an error."""
    socket = WebSocketClient(RawClient(server.websocket_port), Cookie=cookie)
    socket.send(connect_line(**connect) + b"PING\r\n")
    socket.until(rb"PONG\r\n|-ERR '[^\n]*\r\n")
    socket.close()
    return b"PONG\r\n" in socket.stream


@pytest.mark.parametrize(
    ("cookie", "connect", "expected"),
    [
        ("nats_user=ann; nats_pass=open", {}, True),
        ("x=1; nats_pass=sesame; nats_user=bob", {}, True),
        ("nats_user=ann; nats_pass=wrong", {}, False),
        ("nats_user=ann", {"pass": "open"}, True),
        ("nats_user=ann; nats_pass=open", {"user": "bob", "pass": "sesame"}, True),
        ("nats_user=ann; nats_pass=open", {"user": "bob", "pass": "no"}, False),
        (None, {}, False),
    ],
)
def test_credentials_in_cookies(
    launcher: Launcher, cookie: str | None, connect: dict[str, str], expected: bool
) -> None:
    assert logged_in(launcher(COOKIES), cookie, **connect) is expected


def test_token_in_a_cookie(launcher: Launcher) -> None:
    assert logged_in(launcher(TOKEN_COOKIE), "t=s3cr3t")
    assert not logged_in(launcher(TOKEN_COOKIE), "t=other")


def test_a_server_that_stops_says_goodbye(ours: Launcher) -> None:
    """As nats-server does, if its connections have not ended before it gets to it."""
    server = ours.fresh(PLAIN)
    socket = WebSocketClient(RawClient(server.websocket_port)).until(rb"INFO [^\n]*\r\n")
    server.stop()
    socket.until(rb"never")
    assert socket.closed
    assert (8, b"\x03\xe9Server Shutdown") in socket.control
    socket.close()


def test_authentication_timeout_of_the_websocket_block(launcher: Launcher) -> None:
    config = 'websocket { port: -1, no_tls: true, authorization { user: web, password: "pw", timeout: 0.2 } }\n'
    socket = WebSocketClient(RawClient(launcher(config).websocket_port)).until(rb"-ERR '[^\n]*\r\n")
    assert b"-ERR 'Authentication Timeout'\r\n" in socket.stream
    socket.close()


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n", b"junk\r\n\r\n", b"\x16\x03\x01\x00\x05xxxxx"],
)
def test_who_does_not_speak_tls_on_a_tls_port(both: Both, pair: Pair, data: bytes) -> None:
    """A plain request is told so in clear; others get an alert at most. The log says who it was."""
    servers = both(f"websocket {{ port: -1, tls {{ {pair.block} }} }}\n")
    answers = []
    for server in (servers.real, servers.ours):
        position = len(server.log_lines)
        with RawClient(server.websocket_port) as client:
            client.send(data)
            answers.append(client.read_to_close())
        assert server.wait_for_log(r"\[ERR\] websocket: TLS handshake error from 127\.0\.0\.1:\d+: .", after=position)
    if answers[0].startswith(b"HTTP"):
        assert answers[1] == answers[0]
    else:
        assert all(answer == b"" or answer[0] == 0x15 for answer in answers)


def test_silence_on_a_tls_port(launcher: Launcher, pair: Pair) -> None:
    server = launcher(f'websocket {{ port: -1, handshake_timeout: "100ms", tls {{ {pair.block} }} }}\n')
    with RawClient(server.websocket_port) as client:
        assert client.read_to_close() == b""
    assert server.wait_for_log(r"\[ERR\] websocket: TLS handshake error from 127\.0\.0\.1:\d+: .*i/o timeout")


def test_forwarded_address_in_the_log(launcher: Launcher) -> None:
    server = launcher.fresh(f"debug: true\n{PLAIN}")
    for address, shown in (("203.0.113.7", "203.0.113.7/"), ("2001:db8::7", r"\[2001:db8::7\]/"), ("a, b", "")):
        socket = WebSocketClient(RawClient(server.websocket_port), X_Forwarded_For=address).until(rb"INFO [^\n]*\r\n")
        socket.send(Frame(3, b"x"))
        socket.until(rb"never")
        socket.close()
        assert server.wait_for_log(rf"\[ERR\] {shown}127\.0\.0\.1:\d+ - wid:\d+ - read error: unknown opcode 3")
