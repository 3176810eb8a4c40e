"""The state machine before a client is known: what it may say, what is kept of it, and what it never gets."""

from __future__ import annotations

import pytest

from slipstream.protocol.host import State
from slipstream.protocol.limits import PRE_AUTH_BYTES
from slipstream.protocol.texts import CloseReason
from slipstream.protocol.ws_handshake import Cookies
from slipstream.units import KIB
from support.hub_world import FakePeer, HubClient, HubWorld
from support.keys import BCRYPT_OF_OPEN_SESAME

HASHED = f"""
authorization {{ users = [
  {{ user: slow, password: "{BCRYPT_OF_OPEN_SESAME}" }}
  {{ user: quick, password: "open" }}
] }}
"""
REFUSED = b"-ERR 'Authorization Violation'\r\n"
SLOW = {"user": "slow", "pass": "open sesame"}

FIRST_OPERATIONS = [
    b"PING\r\n",
    b"PONG\r\n",
    b"SUB foo 1\r\n",
    b"UNSUB 1\r\n",
    b"PUB foo 2\r\nhi\r\n",
    b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    b"INFO {}\r\n",
    b"+OK\r\n",
    b"-ERR 'x'\r\n",
    b"MSG foo 1 2\r\nhi\r\n",
    b"RS+ A foo\r\n",
    b"LS+ foo\r\n",
    b"GET / HTTP/1.1\r\n",
    b"\x16\x03\x01\x00\x05",
    b"\x00",
    b"\r\n",
    b" ",
]


@pytest.mark.parametrize("kind", ["nats", "websocket"])
@pytest.mark.parametrize("data", FIRST_OPERATIONS)
def test_nothing_but_connect_is_heard_from_a_stranger(data: bytes, kind: str) -> None:
    """CVE-2026-29785, CVE-2026-33218, advisory 2026-19: operations before the login ended servers."""
    for step in (1, 1000):
        world = HubWorld("authorization { user: a, password: b }")
        witness = world.connect(user="a", **{"pass": "b"}).send(b"SUB > 1\r\n")
        client = world.open(kind=kind).send(data + b"PING\r\n", step=step)
        assert client.is_closed and client.connection.account is None
        assert client.take() == REFUSED
        assert witness.take() == b"", "nothing it sent was published"


def test_operations_that_come_with_connect_wait_for_the_answer() -> None:
    world = HubWorld(HASHED)
    client = world.connect(**SLOW).send(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\nPING\r\n")
    assert client.connection.state is State.AUTHENTICATING and client.take() == b""
    world.check_passwords()
    assert client.take() == b"MSG foo 1 2\r\nhi\r\nPONG\r\n"


def test_a_wrong_password_undoes_what_came_with_it() -> None:
    world = HubWorld(HASHED)
    witness = world.connect(user="quick", **{"pass": "open"}).send(b"SUB > 1\r\n")
    client = world.connect(user="slow", **{"pass": "x"}).send(b"PUB foo 2\r\nhi\r\n")
    world.check_passwords()
    assert client.is_closed and client.take() == REFUSED and witness.take() == b""


@pytest.mark.parametrize("step", [1000, 5000, 262_144])
def test_who_waits_for_its_password_may_not_flood(step: int) -> None:
    """CVE-2026-33219, advisory 2026-25: what strangers send was kept without limit."""
    world = HubWorld(HASHED)
    client = world.connect(**SLOW)
    client.send(b"PUB foo 1000\r\n" + b"x" * 1000 + b"\r\n", step=step)
    assert not client.is_closed
    client.send((b"PUB foo 1000\r\n" + b"x" * 1000 + b"\r\n") * 200, step=step)
    assert client.is_closed and client.connection.close_reason is CloseReason.AUTHENTICATION_VIOLATION
    assert client.take() == REFUSED
    assert client.connection.parser.unparsed.held == 0
    world.check_passwords()
    assert client.is_closed and not world.hub.connections


def test_flood_in_one_read_with_connect() -> None:
    """CVE-2026-33219: also when CONNECT and the flood are one piece."""
    world = HubWorld(HASHED)
    line = b'CONNECT {"user":"slow","pass":"open sesame"}\r\n'
    client = world.open().send(line + b"PING\r\n" * (PRE_AUTH_BYTES // 6 + 1))
    assert client.is_closed and client.take() == REFUSED


def test_as_much_as_is_allowed_is_kept_and_done() -> None:
    world = HubWorld(HASHED)
    pings = PRE_AUTH_BYTES // 6
    client = world.connect(**SLOW).send(b"PING\r\n" * pings)
    assert client.connection.parser.unparsed.held == pings * 6
    world.check_passwords()
    assert client.take() == b"PONG\r\n" * pings


def test_a_configured_control_line_may_be_longer_than_that() -> None:
    """An operator who allows large CONNECTs (tokens in them) gets them; the limit before the login follows."""
    world = HubWorld(HASHED + f"max_control_line: {128 * KIB}")
    name = "x" * 100 * KIB
    client = world.connect(name=name, **SLOW).send(b"PING\r\n")
    world.check_passwords()
    assert client.take() == b"PONG\r\n" and client.connection.name == name
    client = world.connect(**SLOW).send(b"PING\r\n" * (128 * KIB // 6 + 1))
    assert client.is_closed


def test_half_a_connect_is_bounded() -> None:
    """CVE-2026-33219, advisory 2026-25: a CONNECT that never ends is cut at the control line."""
    world = HubWorld(HASHED)
    client = world.open().send(b'CONNECT {"name":"' + b"x" * 10_000)
    assert client.is_closed and client.take() == b"-ERR 'maximum control line exceeded'\r\n"


def _with_cookies(world: HubWorld) -> HubClient:
    peer = FakePeer("192.0.2.8", 1, "websocket")
    peer.cookies = Cookies(user="slow", password="open sesame")
    return HubClient(world, world.hub.open_connection(peer))


def test_a_first_operation_waits_for_the_password_too() -> None:
    """S2: PING as the first operation went around the way that logins take.

    The credentials are in the cookies of a WebSocket, so there is a password to check although there was no CONNECT.
    """
    world = HubWorld(HASHED)
    client = _with_cookies(world).send(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\nPING\r\n")
    assert client.take() == b"" and client.connection.account is None
    world.check_passwords()
    assert client.take() == b"+OK\r\n+OK\r\nMSG foo 1 2\r\nhi\r\nPONG\r\n"


def test_a_first_operation_of_somebody_with_a_wrong_cookie() -> None:
    """S2: nothing is done before the answer."""
    world = HubWorld(HASHED.replace(BCRYPT_OF_OPEN_SESAME, BCRYPT_OF_OPEN_SESAME[:-1] + "z"))
    client = _with_cookies(world).send(b"PING\r\n")
    world.check_passwords()
    assert client.is_closed and client.take() == REFUSED


def test_the_end_of_a_connection_ends_its_password_check() -> None:
    """A flood of logins that are given up at once must not keep the threads busy."""
    world = HubWorld(HASHED)
    client = world.connect(**SLOW)
    client.connection.close(CloseReason.CLIENT_CLOSED)
    [(job, done)] = world.checks
    assert job() is False, "the password is right, but nobody asks any more"
    done(True)
    assert client.is_closed and not world.hub.connections


def test_a_user_that_goes_while_its_password_is_checked_does_not_come_in() -> None:
    """CVE-2020-26892: what was taken away counts at once, also for logins under way."""
    world = HubWorld(HASHED)
    client = world.connect(**SLOW)
    world.hub.reload(HubWorld("authorization { user: somebody, password: else }").options)
    world.check_passwords()
    assert client.is_closed and client.take() == REFUSED


def test_a_user_that_changes_while_its_password_is_checked_comes_in_as_it_is_now() -> None:
    world = HubWorld(HASHED)
    client = world.connect(**SLOW)
    narrowed = HASHED.replace('sesame" }', "").replace(
        f'password: "{BCRYPT_OF_OPEN_SESAME}" }}',
        f'password: "{BCRYPT_OF_OPEN_SESAME}", permissions: {{ publish: only.this }} }}',
    )
    world.hub.reload(HubWorld(narrowed).options)
    world.check_passwords()
    client.send(b"PUB other 0\r\n\r\n")
    assert client.take() == b"-ERR 'Permissions Violation for Publish to \"other\"'\r\n"
