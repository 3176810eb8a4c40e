"""A whole server without sockets for monitoring tests: a real hub, a clock that stands still, clients fed by hand."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from slipstream.config.account_options import AccountOptions, UserOptions
from slipstream.config.options import Options
from slipstream.kernels.wire.outbox import FlushQueue
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.lake_facts import LakeState
from slipstream.protocol.connection import ClientConnection
from slipstream.protocol.texts import CloseReason
from slipstream.routing.hub import Hub, ServerIdentity
from support.hub_world import FakePeer

START_NS = 1_800_000_000 * 10**9


class Clock:
    """Moves when told to."""

    def __init__(self) -> None:
        self.now = START_NS

    def now_ns(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return self.now


class Timer:
    """A timer that a test fires."""

    def __init__(self, delay_ns: int, callback: Callable[[], object]) -> None:
        self.delay_ns, self.callback = delay_ns, callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class World:
    """The server as monitoring sees it, and hands to move it."""

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options(server_name="unit")
        self.clock = Clock()
        self.identity = ServerIdentity("N" + "A" * 55, self.options.server_name, "X" + "A" * 55, START_NS)
        self.hub = Hub(self.options, self.identity, self.clock, random.Random(1), self, FlushQueue(lambda: None))
        self.turns = self  # timers
        self.mesh = None
        self.supercluster = None
        self.lake_states: list[LakeState] = []
        self.leafs = None
        self.running = True
        self.on_reload_request: Callable[[], None] | None = None
        self.timers: list[Timer] = []
        self.lines: list[str] = []
        self.facts = Facts(self)

    # What monitoring asks of a server.

    auth_timeout_ns = 2 * 10**9

    def log(self, level: str, text: str) -> None:
        self.lines.append(f"[{level}] {text}")

    def call_later(self, delay_ns: int, callback: Callable[[], object]) -> Timer:
        self.timers.append(Timer(delay_ns, callback))
        return self.timers[-1]

    def bind(self, what: str, host: str, port: int) -> Any:
        raise AssertionError(f"no {what} sockets here: {host}:{port}")

    # What the hub asks of its edge.

    def connected(self, connection: ClientConnection) -> None:
        return None

    def close(self, connection: ClientConnection, reason: CloseReason) -> None:
        return None

    def called_out(self, connection: ClientConnection) -> None:
        return None

    def check_password(
        self, connection: ClientConnection, job: Callable[[], bool], done: Callable[[bool], None]
    ) -> None:
        done(job())

    def call_soon(self, callback: Callable[[], object]) -> None:
        callback()

    # Hands.

    def connect(self, *, feed: bytes = b"", kind: str = "nats", **connect: object) -> ClientConnection:
        """A client that said CONNECT with these fields, and whatever follows."""
        connection = self.hub.open_connection(FakePeer("192.0.2.7", 40_000 + self.hub.total_connections, kind))
        said = {"verbose": False, "headers": True, "no_responders": True, "protocol": 1, **connect}
        connection.parser.feed(b"CONNECT " + json.dumps(said).encode() + b"\r\n" + feed)
        return connection

    def pass_time(self, seconds: float) -> None:
        """Let the clock go on."""
        self.clock.now += int(seconds * 10**9)

    def sent_to(self, connection: ClientConnection) -> bytes:
        """What waits for a client, which is then taken as sent."""
        return b"".join(connection.outbox.take())


def two_accounts(**more: object) -> Options:
    """A server with accounts A and B of one user each, and a system account SYS."""
    accounts = tuple(
        AccountOptions(name, users=(UserOptions(name.lower(), f"{name.lower()}-secret"),)) for name in ("A", "B", "SYS")
    )
    return Options(server_name="unit", accounts=accounts, system_account="SYS", **more)  # type: ignore[arg-type]


def login(name: str) -> dict[str, str]:
    """CONNECT fields of the user of one of the `two_accounts`."""
    return {"user": name, "pass": f"{name}-secret"}
