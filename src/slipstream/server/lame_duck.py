"""Lame duck mode: leave slowly, so that clients move to other servers one after the other.

    hand over streams ──► announce (INFO ldm) ── grace period ──► close client, wait, close client, ... ──► shut down

The clients are closed in random order, spread over the duration that is left after the grace period, never more than a
second apart; a server without clients leaves at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from slipstream.protocol.texts import CloseReason
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.server.server import Server

__all__ = ["leave", "pauses"]


def pauses(clients: int, duration_ns: int) -> tuple[int, int]:
    """How to spread the closing of `clients` over a duration: (clients at a time, nanoseconds between)."""
    if clients == 0:
        return 1, 0
    duration_ns = max(duration_ns, SECOND_NS)
    gap_ns = duration_ns // clients
    if gap_ns < 1_000_000:
        # Timers finer than a millisecond mean nothing; close several at once instead.
        steps = duration_ns // 1_000_000
        return -(-clients // steps), 1_000_000
    return 1, min(gap_ns, SECOND_NS)


async def leave(server: Server) -> None:
    """Run lame duck mode to its end, which is the end of the server."""
    hub, options = server.hub, server.options
    server.log("INF", "Entering lame duck mode, stop accepting new clients")
    server.stop_accepting()
    if server.jetstream is not None and server.jetstream.cluster is not None:
        await server.jetstream.cluster.hand_over()
    if server.routes is not None:
        hub.lame_duck = True
        server.routes.mesh.say_goodbye()
    if hub.connections:
        hub.lame_duck = True
        if server.monitoring is not None:
            server.monitoring.announce_lame_duck()
        for connection in list(hub.connections.values()):
            connection.send_info()
        await asyncio.sleep(options.lame_duck_grace_period_ns / SECOND_NS)
        connections = list(hub.connections.values())
        hub.rng.shuffle(connections)
        at_a_time, gap_ns = pauses(len(connections), options.lame_duck_duration_ns - options.lame_duck_grace_period_ns)
        server.log("INF", "Closing existing clients")
        while connections and server.running:
            for connection in connections[:at_a_time]:
                connection.close(CloseReason.SERVER_SHUTDOWN)
            del connections[:at_a_time]
            if connections:
                await asyncio.sleep(hub.rng.random() * gap_ns / SECOND_NS)
    await server.stop()
