"""The end of a turn: callbacks run together, then what they wrote is sent."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from slipstream.server.jetstream.ports import AccountPorts


class FakeServer:
    def __init__(self) -> None:
        self.events: list[str] = []
        self.failures: list[Exception] = []
        self.hub = SimpleNamespace(rng=None)
        self.clock = SimpleNamespace(now_ns=lambda: 1)
        self.turns = self
        self.reads = 0

    def log(self, level: str, text: str) -> None:
        self.events.append(text)

    def report(self, what: str, error: Exception) -> None:
        self.failures.append(error)

    def at_end_of_turn(self, work: Any) -> None:
        asyncio.get_running_loop().call_soon(self.run_and_flush, work)

    def run_and_flush(self, work: Any) -> None:
        work()
        self.flush()

    def flush(self) -> None:
        self.events.append("flush")


def ports_of(server: FakeServer) -> AccountPorts:
    delivery = None
    account = SimpleNamespace(has_interest=lambda _: False, is_bound=lambda _: False, interest=None, delivery=delivery)
    threads = SimpleNamespace(run=None, when_free=None)
    files = SimpleNamespace(commits=threads, rest=threads)
    return AccountPorts(cast(Any, server), cast(Any, account), asyncio.get_running_loop(), cast(Any, files))


def test_callbacks_of_a_turn_are_flushed_together() -> None:
    async def run() -> list[str]:
        server = FakeServer()
        ports = ports_of(server)
        ports.call_soon(lambda: (server.events.append("a"), ports.call_soon(lambda: server.events.append("later")))[0])
        ports.call_soon(lambda: server.events.append("b"))
        assert server.events == []
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return server.events

    assert asyncio.run(run()) == ["a", "b", "flush", "later", "flush"]


def test_a_failing_callback_does_not_keep_the_others() -> None:
    async def run() -> tuple[list[str], list[Exception]]:
        server = FakeServer()
        ports = ports_of(server)
        ports.call_soon(lambda: cast(None, 1 // 0))
        ports.call_soon(lambda: server.events.append("b"))
        await asyncio.sleep(0)
        return server.events, server.failures

    events, failures = asyncio.run(run())
    assert events == ["b", "flush"]
    assert [type(error) for error in failures] == [ZeroDivisionError]
