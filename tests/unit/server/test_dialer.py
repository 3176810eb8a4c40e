"""Servers that are dialled: attempts and pauses until one is reached, given up, or not wanted any more."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from slipstream.server.sockets.binding import bind
from slipstream.server.sockets.dialer import Dialer
from slipstream.units import SECOND_NS


class _Protocol(asyncio.Protocol):
    def __init__(self, reached: asyncio.Event) -> None:
        self._reached = reached

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._reached.set()
        transport.close()


class _Call:
    """Goes to these ports in turn; gives up after `most` attempts."""

    timeout_ns = 5 * SECOND_NS
    is_announced = False

    tunnel = None

    def __init__(self, ports: list[int], most: int = 100) -> None:
        self.is_wanted = True
        self.reached = asyncio.Event()
        self.pauses: list[int] = []
        self._ports = ports
        self._most = most

    def next_address(self) -> tuple[str, int]:
        return "127.0.0.1", self._ports.pop(0) if len(self._ports) > 1 else self._ports[0]

    def trying(self) -> str:
        return "trying"

    def failed(self, attempts: int) -> str:
        return f"failed {attempts}"

    def pause_ns(self, attempts: int) -> int | None:
        self.pauses.append(attempts)
        return None if attempts >= self._most else 1

    def protocol(self) -> asyncio.BaseProtocol:
        return _Protocol(self.reached)


def _server(lines: list[str]) -> Any:
    return SimpleNamespace(
        turns=SimpleNamespace(loop=asyncio.get_running_loop()),
        log=lambda level, text: lines.append(f"{level} {text}"),
        options=SimpleNamespace(connect_error_reports=3, reconnect_error_reports=1),
    )


def _closed_port() -> int:
    listening = bind("port", "127.0.0.1", -1)
    port: int = listening.getsockname()[1]
    listening.close()
    return port


async def test_the_next_address_is_tried_until_one_answers_and_every_nth_failure_is_an_error() -> None:
    lines: list[str] = []
    listening = bind("port", "127.0.0.1", -1)
    closed = _closed_port()
    call = _Call([closed, closed, closed, closed, listening.getsockname()[1]])
    dialer = Dialer(_server(lines))
    dialer.dial(call)
    await asyncio.wait_for(call.reached.wait(), 10)
    listening.close()
    failures = [line.partition(":")[0] for line in lines if "failed" in line]
    assert failures == ["ERR failed 1", "DBG failed 2", "ERR failed 3", "DBG failed 4"]
    assert lines.count("DBG trying") == 5


async def test_who_is_given_up_is_not_tried_again() -> None:
    lines: list[str] = []
    call = _Call([_closed_port()], most=2)
    dialer = Dialer(_server(lines))
    dialer.dial(call, again=True)
    async with asyncio.timeout(10):
        while len(call.pauses) < 2:
            await asyncio.sleep(0)
    assert [line.partition(":")[0] for line in lines if "failed" in line] == ["ERR failed 1", "ERR failed 2"]
    assert not call.reached.is_set()


async def test_nobody_is_dialled_who_is_not_wanted_or_after_the_end() -> None:
    lines: list[str] = []
    dialer = Dialer(_server(lines))
    call = _Call([1])
    call.is_wanted = False
    dialer.dial(call)
    waits = _Call([1])
    dialer.dial(waits, delay_ns=3600 * SECOND_NS)
    await asyncio.sleep(0)
    dialer.stop()
    dialer.dial(_Call([1]))
    await asyncio.sleep(0)
    assert lines == []
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task() and not task.done()] == []


class _BusyProtocol(asyncio.Protocol):
    """Knows whether it began, and whether it was told of its end."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


class _BusyCall(_Call):
    timeout_ns = SECOND_NS * 3 // 10

    def __init__(self, ports: list[int]) -> None:
        super().__init__(ports, most=5)
        self.made: list[_BusyProtocol] = []
        self.failed_before: list[int] = []  # a busy machine may not even get so far in one attempt

    def protocol(self) -> asyncio.BaseProtocol:
        self.made.append(_BusyProtocol())
        self.failed_before = list(self.pauses)
        time.sleep(0.4)  # the server was busy for longer than an attempt may take
        return self.made[-1]


def test_a_connection_that_was_made_is_never_taken_away_without_a_word() -> None:
    """The time of an attempt was over between the connection's beginning and the word of it: half of it lived on."""

    async def run() -> None:
        heard: asyncio.Queue[bytes] = asyncio.Queue()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.put_nowait(await reader.readline())
            writer.close()

        listening = await asyncio.start_server(listen, "127.0.0.1", 0)
        lines: list[str] = []
        call = _BusyCall([listening.sockets[0].getsockname()[1]])
        dialer = Dialer(_server(lines))
        dialer.dial(call)
        async with asyncio.timeout(10):
            while not call.made or call.made[0].transport is None or dialer._calls:
                await asyncio.sleep(0.01)
        assert len(call.made) == 1 and not call.made[0].lost and call.pauses == call.failed_before
        call.made[0].transport.write(b"it is there\n")
        async with asyncio.timeout(10):
            assert await heard.get() == b"it is there\n"
        call.made[0].transport.close()
        listening.close()

    uvloop = pytest.importorskip("uvloop")
    uvloop.run(run())
    asyncio.run(run())
