"""The watchdog sees events that hold the loop, by processor time, wherever they come from."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slipstream.server.process.watchdog import LIMIT_VARIABLE, SLOW_EVENT, Watchdog, limit_ns_of, watched_event_loop
from support.server_process import ServerProcess
from support.servers import server_binary

LIMIT_NS = 20_000_000


def _burn() -> None:
    """Work for twice the limit."""
    until = time.thread_time_ns() + 2 * LIMIT_NS
    while time.thread_time_ns() < until:
        pass


def _rest() -> None:
    """Keep the loop waiting without work, as a busy machine does."""
    time.sleep(2 * LIMIT_NS / 1e9)


class _Echo(asyncio.Protocol):
    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._work()
        self._transport.write(data)


async def _soon(work: Callable[[], None]) -> None:
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.call_soon(work)
    loop.call_soon(done.set)
    await done.wait()


async def _later(work: Callable[[], None]) -> None:
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.call_later(0.001, partial(work))
    loop.call_later(0.002, done.set)
    await done.wait()


async def _from_thread(work: Callable[[], None]) -> None:
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def call() -> None:
        loop.call_soon_threadsafe(work)
        loop.call_soon_threadsafe(done.set)

    await loop.run_in_executor(None, call)
    await done.wait()


async def _reader(work: Callable[[], None]) -> None:
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    inside, outside = os.pipe()

    def ready() -> None:
        os.read(inside, 1)
        work()
        done.set()

    loop.add_reader(inside, ready)
    os.write(outside, b"x")
    await done.wait()
    loop.remove_reader(inside)
    os.close(inside)
    os.close(outside)


async def _task(work: Callable[[], None]) -> None:
    async def step() -> None:
        work()

    await asyncio.get_running_loop().create_task(step())


async def _protocol(work: Callable[[], None]) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    server = await asyncio.get_running_loop().create_server(partial(_Echo, work), sock=listening)
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    writer.write(b"x")
    assert await reader.readexactly(1) == b"x"
    writer.close()
    server.close()


EVENTS = [_soon, _later, _from_thread, _reader, _task, _protocol]


@pytest.mark.parametrize("event", EVENTS, ids=[event.__name__ for event in EVENTS])
def test_work_is_reported_and_waiting_is_not(event: Callable[[Callable[[], None]], object]) -> None:
    found: list[str] = []
    watchdog = Watchdog(LIMIT_NS)
    watchdog.begin(found.append)

    async def run(work: Callable[[], None]) -> None:
        await event(work)  # type: ignore[misc]

    with asyncio.Runner(loop_factory=lambda: watched_event_loop(watchdog)) as runner:
        runner.run(run(_rest))
        assert found == []
        runner.run(run(_burn))
    assert len(found) == 1
    assert SLOW_EVENT in found[0]


@pytest.mark.parametrize(("text", "limit_ns"), [("50", 50_000_000), ("0.5", 500_000), ("", 0), ("x", 0), ("-1", 0)])
def test_limits(text: str, limit_ns: int) -> None:
    assert limit_ns_of(text) == limit_ns


def test_a_server_warns_of_slow_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit below what anything takes, connecting is one."""
    monkeypatch.setenv(LIMIT_VARIABLE, "0.000001")
    server = ServerProcess(server_binary("ours"), tmp_path).start()
    try:
        with socket.create_connection(("127.0.0.1", server.port)):
            server.wait_for_log(re.compile(rf"\.connection_made {SLOW_EVENT}"))
        assert server.slow_events()
    finally:
        server.kill()
