"""Peers on the ports of servers that do what no server does: each is ended in time, in bounded memory, and alone."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats
import pytest

from slipstream.jetstream.backup.s2 import IDENTITY
from slipstream.kernels.backup.s2block import encode_chunks
from slipstream.server.server import Server
from slipstream.units import MIB
from support.config_loading import loaded
from support.ports import free_port

PORTS = ("cluster", "leafnodes", "gateway")
CONNECT = {
    "cluster": {"name": "PEER", "cluster": "C", "headers": True},
    "leafnodes": {"name": "PEER", "cluster": "P", "version": "9.99.0", "protocol": 77, "headers": True},
    "gateway": {"name": "PEER", "gateway": "G", "headers": True},
}
INFO = {
    "cluster": {
        "server_id": "PEER",
        "server_name": "peer",
        "cluster": "C",
        "version": "9.99.0",
        "proto": 77,
        "port": 1,
    },
    "gateway": {
        "server_id": "PEER",
        "server_name": "peer",
        "gateway": "G",
        "version": "9.99.0",
        "proto": 77,
        "port": 1,
    },
}


class Ports:
    """A server with all ports for servers, and where they are."""

    def __init__(self, server: Server, ports: dict[str, int], lines: list[str]) -> None:
        self.server = server
        self._ports = ports
        self._lines = lines

    @property
    def log(self) -> str:
        """What the server logged."""
        return "\n".join(self._lines)

    async def peer(self, port: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection that has read the greeting."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._ports[port], limit=1 << 20)
        assert (await reader.readline()).startswith(b"INFO ")
        return reader, writer

    async def is_served(self) -> bool:
        """Whether clients are."""
        client = await nats.connect(self.server.url, allow_reconnect=False)
        await client.flush(timeout=5)
        await client.close()
        return True


@asynccontextmanager
async def ports(more: str = "", cluster: str = "") -> AsyncIterator[Ports]:
    numbers = {name: free_port() for name in PORTS}
    text = f"""
        listen: "127.0.0.1:-1", server_name: s, system_account: "$SYS"
        cluster {{ name: C, listen: "127.0.0.1:{numbers["cluster"]}", authorization {{ timeout: 0.3 }}
                   pool_size: -1, {cluster or "compression: off"} }}
        leafnodes {{ listen: "127.0.0.1:{numbers["leafnodes"]}", authorization {{ timeout: 0.3 }}, compression: off }}
        gateway {{ name: C, listen: "127.0.0.1:{numbers["gateway"]}", authorization {{ timeout: 0.3 }} }}
        {more}
    """
    lines: list[str] = []
    server = Server(loaded(text).options, log=lambda _level, line: lines.append(line))
    await server.start()
    try:
        yield Ports(server, numbers, lines)
    finally:
        await server.stop()


def said(verb: str, fields: dict[str, object]) -> bytes:
    return f"{verb} {json.dumps(fields)}\r\n".encode()


async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ask whether the server lives, and wait for its answer."""
    writer.write(b"PING\r\n")
    async with asyncio.timeout(10):
        while not (line := await reader.readline()).startswith(b"PONG"):
            assert line, "it was closed"


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What the server says until it closes."""
    async with asyncio.timeout(10):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


async def test_who_says_nothing_is_closed_in_time_on_every_port() -> None:
    async with ports() as world:
        peers = [await world.peer(port) for port in PORTS]
        for half in ("cluster", "gateway"):
            # One that begins its handshake and stops in the middle.
            reader, writer = await world.peer(half)
            writer.write(said("CONNECT", CONNECT[half])[:20])
            peers.append((reader, writer))
        for reader, writer in peers:
            await ended(reader)
            writer.close()
        assert await world.is_served()


@pytest.mark.parametrize("port", PORTS)
async def test_a_peer_of_another_version_with_another_clock_is_a_peer(port: str) -> None:
    """A version and a protocol that nobody knows, and fields with them: it is let in and answered."""
    async with ports() as world:
        reader, writer = await world.peer(port)
        later: dict[str, object] = {"time": "1970-01-01T00:00:00Z", "unheard_of": [1, {"a": None}]}
        writer.write(said("CONNECT", {**CONNECT[port], **later}))
        if port in INFO:
            writer.write(said("INFO", {**INFO[port], **later}))
        await answered(reader, writer)
        writer.close()


@pytest.mark.parametrize("port", PORTS)
async def test_a_line_without_an_end_and_an_account_that_is_not_there(port: str) -> None:
    async with ports() as world:
        reader, writer = await world.peer(port)
        writer.write(said("CONNECT", CONNECT[port]))
        if port in INFO:
            writer.write(said("INFO", INFO[port]))
            writer.write(b"RMSG nobody foo 2\r\nhi\r\n")  # passed over
        await answered(reader, writer)
        writer.write((b"LS+ " if port == "leafnodes" else b"RMSG ") + b"x" * 300_000)
        await ended(reader)
        assert "Maximum Control Line Exceeded" in world.log
        assert await world.is_served()


async def test_a_route_that_does_not_read_is_a_slow_consumer_and_others_are_served() -> None:
    async with ports("max_pending: 1MB, write_deadline: 200ms") as world:
        reader, writer = await world.peer("cluster")
        writer.write(said("CONNECT", CONNECT["cluster"]) + said("INFO", INFO["cluster"]) + b"RS+ $G flood\r\n")
        await answered(reader, writer)
        assert world.server.routes is not None and world.server.routes.mesh.roster.routes()
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        client = await nats.connect(world.server.url, allow_reconnect=False)
        async with asyncio.timeout(20):
            while world.server.routes.mesh.roster.routes():
                await client.publish("flood", b"x" * 500_000)
                await client.flush(timeout=10)
        assert client.is_connected and "Slow Consumer" in world.log
        await client.close()
        writer.close()


async def test_a_bomb_on_a_route_costs_neither_memory_nor_others_their_turn() -> None:
    """A gigabyte of a line that has no end, in some megabytes: it is read a piece at a time, and ends its route."""
    async with ports(cluster="compression: s2_fast") as world:
        reader, writer = await world.peer("cluster")
        writer.write(said("CONNECT", CONNECT["cluster"]) + said("INFO", {**INFO["cluster"], "compression": "s2_fast"}))
        async with asyncio.timeout(10):
            await reader.readuntil(IDENTITY)  # from here on the server expects frames
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        writer.write(IDENTITY)
        piece = encode_chunks(b"RMSG $G a " + b"\0" * (4 * MIB))
        closing = asyncio.ensure_future(ended(reader))
        try:
            for _ in range(256):
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        await closing
        assert "Maximum Control Line Exceeded" in world.log
        assert await world.is_served()
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        assert grown < 64 * MIB, "kibibytes of frames may not become gigabytes of memory"
