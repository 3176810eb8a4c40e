"""Clients that say nothing about themselves: they are the `no_auth_user` with all its limits, or nobody."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from slipstream.server.server import Server
from support.config_loading import loaded
from support.hub_world import HubWorld
from support.transcript import pub

GUEST = """
no_auth_user: guest
authorization { users = [
  { user: guest, password: g, permissions: { publish: "open.>", subscribe: "open.>" } TYPES }
  { user: boss, password: b }
] }
"""
FIRST = {
    "PING": (b"PING\r\n", b"PONG\r\n"),
    "SUB": (b"SUB open.x 1\r\n", b"+OK\r\n"),
    "PUB": (pub("open.x", b"x"), b"+OK\r\n"),
    "UNSUB": (b"UNSUB 1\r\n", b"+OK\r\n"),
    "PONG": (b"PONG\r\n", b""),
}


@pytest.mark.parametrize("kind", ["nats", "websocket"])
@pytest.mark.parametrize("first", FIRST)
def test_the_first_operation_is_done_as_the_guest(first: str, kind: str) -> None:
    """Advisory 2026-16: who began without CONNECT had more rights than the user it stood for."""
    world = HubWorld(GUEST.replace("TYPES", ""))
    data, answer = FIRST[first]
    client = world.open(kind=kind).send(data)
    assert client.take() == answer
    identity = client.connection.identity
    assert identity is not None and (identity.user, identity.means) == ("guest", "anonymous")
    client.send(pub("shut", b"x") + b"SUB shut 2\r\nSUB > 3\r\n")
    assert client.take().count(b"-ERR 'Permissions Violation") == 3
    assert [s.subject for s in client.connection.subscriptions.values()] in ([], [b"open.x"])


@pytest.mark.parametrize("first", FIRST)
def test_connection_types_hold_without_connect(first: str) -> None:
    """Advisories 2026-16 and 2026-24: the shortest way in asks for the connection type as all others do."""
    world = HubWorld(GUEST.replace("TYPES", ", allowed_connection_types: [WEBSOCKET]"))
    client = world.open().send(FIRST[first][0])
    assert client.is_closed and client.take() == b"-ERR 'Authorization Violation'\r\n"
    client = world.open(kind="websocket").send(FIRST[first][0])
    assert not client.is_closed and client.take() == FIRST[first][1]


def test_a_proxy_that_is_required_is_required_of_guests_too() -> None:
    """Advisory 2026-24: every restriction on every way in."""
    world = HubWorld(GUEST.replace("TYPES", ", proxy_required: true"))
    assert world.open().send(b"PING\r\n").is_closed
    assert world.connect().is_closed


def test_operations_of_servers_are_nothing_to_guests() -> None:
    """Advisory 2026-16: routes and leaf nodes speak other operations; no client has them, whoever it is."""
    for data in (
        b"RS+ $G foo\r\n",
        b"LS+ foo\r\n",
        b"A+ X\r\n",
        b"RMSG $G foo 1\r\nx\r\n",
        b"LMSG foo 1\r\nx\r\n",
        b"HMSG a 1 0 0\r\n",
    ):
        world = HubWorld(GUEST.replace("TYPES", ""))
        client = world.open().send(data)
        assert client.is_closed and client.take() == b"-ERR 'Unknown Protocol Operation'\r\n"


def test_a_second_connect_is_another_login() -> None:
    """S6: it kept the subscriptions of the first."""
    world = HubWorld(GUEST.replace("TYPES", ""))
    client = world.connect(user="boss", **{"pass": "b"}).send(b"SUB shut 1\r\nSUB open.x 2\r\n")
    client.connect()
    assert client.connection.identity is not None and client.connection.identity.user == "guest"
    assert client.connection.subscriptions == {}
    world.connect(user="boss", **{"pass": "b"}).send(pub("shut", b"x") + pub("open.x", b"x"))
    assert client.take() == b""
    client.send(b"SUB shut 1\r\n")
    assert b"Permissions Violation" in client.take()


def test_a_second_connect_with_wrong_credentials_is_the_end() -> None:
    """S6: nor does the first login stay behind a second that failed."""
    world = HubWorld(GUEST.replace("TYPES", ""))
    client = world.connect(user="boss", **{"pass": "b"}).send(b"SUB shut 1\r\n")
    client.connect(user="boss", **{"pass": "wrong"})
    assert client.is_closed and client.take() == b"-ERR 'Authorization Violation'\r\n"
    assert world.hub.accounts["$G"].interest.match(b"shut") == []


@pytest.mark.parametrize("kind", ["nats", "websocket"])
def test_control_lines_are_limited_on_every_listener(kind: str) -> None:
    """S7: max_control_line was not enforced for other connections than clients."""
    world = HubWorld("max_control_line: 256")
    client = world.open(kind=kind).connect().send(b"SUB " + b"a" * 300 + b" 1\r\n")
    assert client.is_closed and client.take() == b"-ERR 'maximum control line exceeded'\r\n"


def test_the_leaf_node_port_lets_nobody_in_without_a_password() -> None:
    """CVE-2026-29785, CVE-2026-33218, advisories 2026-16 and 2026-19: whatever is said before CONNECT is refused."""

    async def scenario() -> None:
        config = 'leafnodes { host: "127.0.0.1", port: -1, authorization { user: u, password: p, timeout: 0.3 } }'
        options = loaded(config, port=-1, host="127.0.0.1").options
        async with asyncio.timeout(10), Server(options) as server:
            assert server.leafnodes is not None and server.leafs is not None
            for data in (b"", b"CONNECT {}\r\nPING\r\n", b"INFO {}\r\nINFO {}\r\n", b"LS+ foo\r\n", b"\xff" * 100_000):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.leafnodes.port)
                assert (await reader.readline()).startswith(b"INFO {")
                writer.write(data)
                try:
                    answer = await reader.read()
                except ConnectionError:
                    answer = b"-ERR"
                assert answer.startswith(b"-ERR")
                writer.close()
            assert not server.hub.connections and not server.leafs.links

    uvloop.run(scenario())
