"""A crowd that comes at once: nobody's connection attempt is dropped because the loop was busy for a moment."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
import uvloop

from slipstream.config.listener_options import WebsocketOptions
from slipstream.server.server import Server

CROWD = 300


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("listener", ["clients", "websocket", "monitoring"])
def test_connections_wait_in_the_kernel(listener: str, loop: str) -> None:
    """The loop does not run while they connect, so all of them have to fit into the queue of the listening socket.

    A dropped attempt is repeated by the client's kernel after a second: a thousand clients took ten to come back.
    """

    async def scenario() -> None:
        web = WebsocketOptions(port=-1, no_tls=True, host="127.0.0.1")
        async with Server(port=-1, host="127.0.0.1", http_port=-1, http_host="127.0.0.1", websocket=web) as server:
            assert server.monitoring is not None and server.websocket is not None
            port = {
                "clients": server.port,
                "websocket": server.websocket.port,
                "monitoring": int(server.monitoring.url.rsplit(":", 1)[1]),
            }[listener]
            with contextlib.ExitStack() as held:
                for _ in range(CROWD):
                    held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=0.5))

    {"asyncio": asyncio.run, "uvloop": uvloop.run}[loop](scenario())
