"""Logins that end: who came in by a token is cut when it ends, by every entrance, and not before.

Time is moved by hand: the clock of the server, and with it every timer of twenty seconds or more. What is asked is for
when the server has set its timers, however busy the machine is.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from conformance.test_auth_callout import CONFIG, let_in
from models.wsframes import Frame
from slipstream.clock import SystemClock
from slipstream.server.logins.operators import with_tokens
from slipstream.server.turns import Turns
from slipstream.testing import ServerThread
from slipstream.units import SECOND_NS
from support.callout_service import Service
from support.config_loading import options
from support.jwt import ACCOUNT, OPERATOR, USER, Key, account_claims, token, user_claims
from support.normalise import Json
from support.openid_issuer import Issuer
from support.ports import free_port
from support.raw_client import RawClient
from wsclient import WebSocketClient

LISTENERS = """
listen: "127.0.0.1:-1"
websocket { listen: "127.0.0.1:%d", no_tls: true }
leafnodes { listen: "127.0.0.1:%d", compression: off }
"""
ENTRANCES = ("client", "websocket", "leaf")
LASTS_S = 90  # longer than ends are looked at again, shorter than clients are pinged
MOVED_NS = 20 * SECOND_NS
operator, system, app, user = Key(OPERATOR, "o"), Key(ACCOUNT, "SYS"), Key(ACCOUNT, "APP"), Key(USER, "u")
other = Key(ACCOUNT, "OTHER")


class MovedTime(SystemClock):
    """The clock of a server that is moved on, and its long timers."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead_ns = 0
        self._timers: list[tuple[int, Callable[[], object]]] = []

    def now_ns(self) -> int:
        return super().now_ns() + self._ahead_ns

    def call_later(self, turns: Turns, delay_ns: int, callback: Callable[[], object]) -> object:
        if delay_ns < MOVED_NS:
            return turns.loop.call_later(delay_ns / SECOND_NS, callback)
        timer = (self.now_ns() + delay_ns, callback)
        self._timers.append(timer)
        return _Timer(self._timers, timer)

    def move_to(self, when_ns: int) -> None:
        """Let time pass, and the timers that are due fire in their order, at their time."""
        while self._timers and min(self._timers, key=lambda timer: timer[0])[0] <= when_ns:
            due = min(self._timers, key=lambda timer: timer[0])
            self._timers.remove(due)
            self._ahead_ns += max(due[0] - self.now_ns(), 0)
            due[1]()
        self._ahead_ns += max(when_ns - self.now_ns(), 0)


class _Timer:
    def __init__(self, timers: list[tuple[int, Callable[[], object]]], timer: tuple[int, Callable[[], object]]) -> None:
        self._timers, self._timer = timers, timer

    def cancel(self) -> None:
        if self._timer in self._timers:
            self._timers.remove(self._timer)


class World:
    """A server with moved time, and connections by every entrance."""

    def __init__(self, stack: ExitStack, clock: MovedTime) -> None:
        self._stack = stack
        self._clock = clock
        self.ends_s = int(time.time()) + LASTS_S

    def start(self, config: str) -> None:
        self._websocket_port, self._leaf_port = free_port(), free_port()
        config = LISTENERS % (self._websocket_port, self._leaf_port) + config
        self._thread = self._stack.enter_context(ServerThread(with_tokens(options(config))))
        self.server = self._thread.server

    def move_to(self, when_s: float) -> None:
        """Move the clock on, in the server's thread."""

        async def move() -> None:
            self._clock.move_to(int(when_s * SECOND_NS))

        loop = self._thread._loop
        assert loop is not None
        asyncio.run_coroutine_threadsafe(move(), loop).result(30)

    def open(self, entrance: str, **said: Json) -> Connection:
        """A connection that has said CONNECT."""
        ports = {"client": self.server.port, "websocket": self._websocket_port, "leaf": self._leaf_port}
        made = Connection(RawClient(ports[entrance], timeout_s=30), entrance)
        self._stack.callback(made.close)
        about: dict[str, Json] = {"name": "leaf", "server_id": "LEAF", "cluster": "leaf", "version": "2.15.1"}
        made.send(
            b"CONNECT " + json.dumps({"verbose": False, **(about if entrance == "leaf" else {}), **said}).encode()
        )
        return made


class Connection:
    """One connection, whatever its entrance."""

    def __init__(self, raw: RawClient, entrance: str) -> None:
        self._raw = raw
        self._web = WebSocketClient(raw) if entrance == "websocket" else None
        if self._web is None:
            raw.read_until(rb"INFO [^\n]*\n")

    def send(self, line: bytes) -> None:
        if self._web is None:
            self._raw.send(line + b"\r\n")
        else:
            self._web.send(Frame(2, line + b"\r\n", key=b"mask"))

    def until(self, pattern: bytes) -> bytes:
        if self._web is None:
            return self._raw.read_until(pattern)
        self._web.until(pattern)
        return self._web.stream

    def is_served(self) -> bool:
        """Whether the server answers."""
        self.send(b"PING")
        return b"PONG\r\n" in self.until(rb"(PONG|-ERR [^\r]*)\r\n")

    def close(self) -> None:
        self._raw.close()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    clock = MovedTime()
    monkeypatch.setattr("slipstream.server.server.SystemClock", lambda: clock)
    monkeypatch.setattr(Turns, "call_later", lambda turns, delay_ns, work: clock.call_later(turns, delay_ns, work))
    with ExitStack() as stack:
        yield World(stack, clock)


def tree(**accounts: dict[str, Json]) -> str:
    """Operator mode: claims of accounts, and as `top` what the token of APP says beside them."""
    ends = accounts.pop("top", {})
    claims = {system: account_claims(), app: account_claims(**accounts.get("APP", {}))}
    claims[other] = account_claims(**accounts.get("OTHER", {}))
    preload = "".join(
        f"  {key.public}: {token(operator, key, said, **(ends if key is app else {}))}\n"
        for key, said in claims.items()
    )
    claim = token(operator, operator, {"system_account": system.public})
    return f"operator: {claim}\nresolver: MEMORY\nresolver_preload: {{\n{preload}}}\n"


def assert_ends(world: World, connections: list[Connection], error: bytes) -> None:
    """They are served until the second of their end, and are told and cut then."""
    assert all(connection.is_served() for connection in connections)
    world.move_to(world.ends_s - 1)
    assert all(connection.is_served() for connection in connections)
    world.move_to(world.ends_s + 1)
    for connection in connections:
        assert error in connection.until(rb"-ERR [^\r]*\r\n")


def test_the_token_of_a_user(world: World) -> None:
    world.start(tree())
    text = token(app, user, user_claims(bearer_token=True), exp=world.ends_s)
    came = [world.open(entrance, jwt=text) for entrance in ENTRANCES]
    assert_ends(world, came, b"-ERR 'User Authentication Expired'")


def test_the_token_of_an_account(world: World) -> None:
    world.start(tree(top={"exp": world.ends_s}))
    text = token(app, user, user_claims(bearer_token=True))
    came = [world.open(entrance, jwt=text) for entrance in ENTRANCES]
    assert_ends(world, came, b"-ERR 'Account Authentication Expired'")


def test_an_activation(world: World) -> None:
    """What is imported by it comes until then, and nobody is cut."""
    exported: list[Json] = [{"name": "e", "subject": "news.>", "type": "stream", "token_req": True}]
    activation = token(other, app, {"type": "activation", "subject": "news.>", "kind": "stream"}, exp=world.ends_s)
    entry: Json = {"name": "i", "subject": "news.>", "account": other.public, "type": "stream", "token": activation}
    world.start(tree(APP={"imports": [entry]}, OTHER={"exports": exported}))
    reader = world.open("client", jwt=token(app, user, user_claims(bearer_token=True)))
    writer = world.open("client", jwt=token(other, user, user_claims(bearer_token=True)))
    reader.send(b"SUB > 1")
    assert reader.is_served() and writer.is_served()
    heard = []
    for when_s in (world.ends_s - 1, world.ends_s + 1):
        world.move_to(when_s)
        writer.send(b"PUB news.a 0\r\n")
        assert writer.is_served()
        reader.send(b"PING")
        heard.append(b"MSG news.a" in reader.until(rb"PONG\r\n"))
    assert heard == [True, False]


def test_the_answer_of_a_callout(world: World) -> None:
    world.start(CONFIG % "")
    service = Service(world.server.port)
    answer = let_in("FOO", top={"exp": world.ends_s})
    came = []
    for entrance in ENTRANCES:
        came.append(world.open(entrance, user="u"))
        service.decide(service.request(), answer)
    assert_ends(world, came, b"-ERR 'User Authentication Expired'")
    service.close()


def test_the_token_of_an_openid_issuer(world: World) -> None:
    with Issuer() as issuer:
        rules = "rules: [{ account: APP }]"
        world.start(
            "accounts { APP {} }\n"
            f'authorization {{ oidc {{ issuer: "{issuer.url}", audience: nats, leeway: 0, {rules} }} }}\n'
        )
        text = issuer.token(sub="ann", aud="nats", exp=world.ends_s)
        came = [world.open(entrance, auth_token=text) for entrance in ENTRANCES]
        assert_ends(world, came, b"-ERR 'User Authentication Expired'")
