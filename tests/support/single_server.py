"""A server of a few lines of configuration, its log, and what its ports say first."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from slipstream.server.server import Server
from support.clusters import DEADLINE
from support.config_loading import loaded

__all__ = ["greeted_at", "started"]


async def started(config: str) -> tuple[Server, list[str]]:
    """A server with nothing but this, and its log."""
    lines: list[str] = []
    server = Server(
        loaded(f'listen: "127.0.0.1:-1"\n{config}').options,
        log=lambda level, text: lines.append(f"[{level}] {text}"),
    )
    await server.start()
    return server, lines


async def greeted_at(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, dict[str, Any]]:
    """A socket on a port, and INFO."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    line = await asyncio.wait_for(reader.readline(), DEADLINE)
    return reader, writer, json.loads(line.removeprefix(b"INFO "))
