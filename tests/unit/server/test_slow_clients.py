"""What becomes of a client that takes longer for a write than it may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from slipstream.protocol.texts import CloseReason
from slipstream.server.clients.listener import ClientProtocol
from support.hub_world import HubWorld

SECOND_NS = 10**9


class Transport:
    """A socket that takes as much as the test says."""

    def __init__(self) -> None:
        self.unsent = 0
        self.closed = ""

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 4711) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...
    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Timer:
    def cancel(self) -> None: ...


class Slow:
    """One client of a server with a write deadline of a second, which passes when told to."""

    def __init__(self, policy: str) -> None:
        self.world = HubWorld(f'write_deadline: "1s", write_timeout: {policy}')
        self.hub = self.world.hub
        self.turns = self  # timers
        self.read_buffer = bytearray(1000)
        self.timers: list[Callable[[], object]] = []
        self.transport = Transport()
        self.protocol = ClientProtocol(cast(Any, self))
        self.protocol.connection_made(cast(asyncio.Transport, self.transport))
        self.timers.clear()

    def run_and_flush(self, work: Callable[[], None]) -> None:
        work()
        self.protocol.flush()

    def call_later(self, delay_ns: int, callback: Callable[[], object]) -> Timer:
        assert delay_ns == SECOND_NS or not self.timers
        self.timers.append(callback)
        return Timer()

    def block(self, unsent: int) -> None:
        self.transport.unsent = unsent
        self.protocol.pause_writing()

    def pass_deadline(self, unsent: int) -> None:
        self.transport.unsent = unsent
        self.timers.pop()()

    @property
    def reason(self) -> CloseReason | None:
        return self.protocol.connection.close_reason


@pytest.mark.parametrize("policy", ["default", "close"])
def test_it_is_closed(policy: str) -> None:
    client = Slow(policy)
    client.block(1000)
    client.pass_deadline(10)
    assert client.reason is CloseReason.SLOW_CONSUMER_WRITE_DEADLINE
    assert client.hub.slow_consumers == 1


def test_with_retry_it_stays_as_long_as_it_reads() -> None:
    client = Slow("retry")
    client.block(1000)
    for unsent in (900, 899, 1):
        client.pass_deadline(unsent)
        assert client.reason is None
    assert client.hub.slow_consumers == 3
    client.pass_deadline(1)
    assert client.reason is CloseReason.SLOW_CONSUMER_WRITE_DEADLINE
    said = [
        line.partition(" - cid:1 - ")[2].split(":")[0]
        for line in client.world.lines
        if "Slow Consumer" in line and "closed" not in line
    ]
    assert said == ["Slow Consumer Detected", *["Slow Consumer State"] * 3]


def test_with_retry_it_may_recover() -> None:
    client = Slow("retry")
    client.block(1000)
    client.pass_deadline(500)
    client.protocol.resume_writing()
    assert "Slow Consumer Recovered" in client.world.lines[-1]
    client.block(1000)
    client.pass_deadline(1000)
    assert client.reason is CloseReason.SLOW_CONSUMER_WRITE_DEADLINE
