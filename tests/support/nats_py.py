"""nats-py in synchronous tests: one event loop a test, connections that always close."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import nats
from nats.aio.client import Client

from support.server_process import ServerProcess

CLIENT_TIMEOUT_S = 5.0
SCENARIO_TIMEOUT_S = 30.0

Result = TypeVar("Result")


def run(scenario: Callable[[], Awaitable[Result]]) -> Result:
    """Runs an asynchronous scenario to its end, with a time limit over all of it."""

    async def limited() -> Result:
        async with asyncio.timeout(SCENARIO_TIMEOUT_S):
            return await scenario()

    try:
        return asyncio.run(limited())
    finally:
        # nats-py forgets the sockets of failed attempts; what their end warns about belongs to this test.
        gc.collect()


@asynccontextmanager
async def connected(server: ServerProcess, **options: Any) -> AsyncIterator[Client]:
    """A connected client; closed at the end whatever happens.

    The options are nats-py's own, which it declares without types.
    """
    defaults: dict[str, Any] = {"connect_timeout": CLIENT_TIMEOUT_S, "allow_reconnect": False}
    client = await nats.connect(server.url, **(defaults | options))
    try:
        yield client
    finally:
        await client.close()


async def settle(client: Client) -> None:
    """Waits until the server has processed what the client sent before.

    The client writes the PING of a flush ahead of operations it still buffers, so only a second one is a barrier.
    """
    await client.flush()
    await client.flush()


class Recorder:
    """Collects what callbacks are given and lets a test wait for it."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._changed = asyncio.Condition()

    async def add(self, *arguments: Any) -> None:
        """The callback itself; a message, an error or nothing."""
        async with self._changed:
            self.items.append(arguments[0] if arguments else None)
            self._changed.notify_all()

    async def wait_for(self, count: int) -> list[Any]:
        """The items, once there are so many of them."""
        async with self._changed, asyncio.timeout(CLIENT_TIMEOUT_S):
            await self._changed.wait_for(lambda: len(self.items) >= count)
        return list(self.items)
