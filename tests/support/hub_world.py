"""A whole server without sockets or threads: a real hub, a clock and password checks that move when told to.

    world = HubWorld("authorization { user: a, password: b }")
    client = world.open().send(b"PING\\r\\n")
    assert client.take().endswith(b"-ERR 'Authorization Violation'\\r\\n")

Everything a client sends goes through the real parser, in the way of the listener; everything it gets is in its outbox.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Self

from slipstream.config.options import Options
from slipstream.kernels.wire.outbox import FlushQueue
from slipstream.protocol.connection import ClientConnection
from slipstream.protocol.host import State
from slipstream.protocol.peer import Peer
from slipstream.protocol.texts import CloseReason
from slipstream.routing.hub import Hub, ServerIdentity
from slipstream.server.limits import READ_BUFFER_BYTES
from support.config_loading import loaded

START_NS = 1_800_000_000 * 10**9
_INFO = re.compile(rb"INFO \{[^\n]*\r\n")


class StillClock:
    """Moves when told to."""

    def __init__(self) -> None:
        self.now = START_NS

    def now_ns(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return self.now


class FakePeer(Peer):
    """The other end of a connection; a test may say more of it."""


class HubClient:
    """One client of the hub, fed by hand."""

    def __init__(self, world: HubWorld, connection: ClientConnection) -> None:
        self.world = world
        self.connection = connection

    def send(self, data: bytes, *, step: int = READ_BUFFER_BYTES) -> Self:
        """Send bytes, cut into reads of at most `step`; what comes after the end of the connection is dropped."""
        parser, shared = self.connection.parser, self.world.shared
        while data and not parser.dead:
            room = memoryview(parser.lend(shared))
            size = min(len(room), len(data), step)
            assert size, "an empty buffer is the end of a real socket"
            room[:size] = data[:size]
            room.release()
            parser.filled(shared, size)
            data = data[size:]
        return self

    def connect(self, **fields: object) -> Self:
        """Send CONNECT with these fields over quiet defaults."""
        said = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "protocol": 1, **fields}
        return self.send(b"CONNECT " + json.dumps(said).encode() + b"\r\n")

    def take(self) -> bytes:
        """What was sent to it since the last time, without INFO."""
        return _INFO.sub(b"", b"".join(self.connection.outbox.take()))

    @property
    def is_closed(self) -> bool:
        """Whether the server ended the connection."""
        return self.connection.state is State.CLOSED


class HubWorld:
    """A hub and the hands that move it."""

    def __init__(self, config: str | Options = "", *, seed: int = 1) -> None:
        self.options = config if isinstance(config, Options) else loaded(config).options
        self.clock = StillClock()
        self.shared = bytearray(READ_BUFFER_BYTES)
        self.queue = FlushQueue(lambda: None)
        self.lines: list[str] = []
        self.checks: list[tuple[Callable[[], bool], Callable[[bool], None]]] = []  # passwords that wait to be checked
        self.soon: list[Callable[[], object]] = []  # what was left for the next turn
        identity = ServerIdentity("N" + "A" * 55, "unit", "X" + "A" * 55, START_NS)
        self.hub = Hub(self.options, identity, self.clock, random.Random(seed), self, self.queue)

    # What the hub asks of its edge.

    def log(self, level: str, text: str) -> None:
        self.lines.append(f"[{level}] {text}")

    def connected(self, connection: ClientConnection) -> None:
        return None

    def close(self, connection: ClientConnection, reason: CloseReason) -> None:
        return None

    def called_out(self, connection: ClientConnection) -> None:
        return None

    def check_password(
        self, connection: ClientConnection, job: Callable[[], bool], done: Callable[[bool], None]
    ) -> None:
        self.checks.append((job, done))

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.soon.append(callback)

    # Hands.

    def take_turn(self) -> bool:
        """Run what was left for the next turn; False if there was nothing."""
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()
        return bool(soon)

    def open(self, *, ip: str = "192.0.2.7", kind: str = "nats") -> HubClient:
        """A client that has sent nothing and was not greeted."""
        return HubClient(self, self.hub.open_connection(FakePeer(ip, 40_000, kind)))

    def connect(self, **fields: object) -> HubClient:
        """A client that has sent CONNECT."""
        return self.open().connect(**fields)

    def check_passwords(self) -> None:
        """Let the waiting password checks come to their answers."""
        checks, self.checks = self.checks, []
        for job, done in checks:
            done(job())

    def flush(self) -> None:
        """End of a turn: what was written is taken as handed over."""
        for outbox in self.queue.take_dirty():
            outbox.take()
        for outbox in self.queue.take_overflowed():
            outbox.owner.close(CloseReason.SLOW_CONSUMER_PENDING)

    def pass_time(self, seconds: float) -> None:
        """Let the clock go on."""
        self.clock.now += int(seconds * 10**9)
