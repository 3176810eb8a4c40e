"""TLS and WebSocket servers inside the test process, on asyncio's own loop and on uvloop: the same on both."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from models.wsframes import Frame
from slipstream.config.listener_options import TLSOptions, WebsocketOptions
from slipstream.server.server import Server
from support.transcript import connect_line, pub
from tlsfiles import Authority, Pair
from wsclient import request

LOOPS: dict[str, Callable[[Awaitable[Any]], Any]] = {"asyncio": asyncio.run, "uvloop": uvloop.run}
TIMEOUT_S = 10


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("localhost")


@pytest.fixture
def tls(pair: Pair) -> TLSOptions:
    return TLSOptions(cert_file=str(pair.cert_file), key_file=str(pair.key_file))


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    """Runs a scenario on one kind of loop, with a time limit."""

    async def limited(scenario: Callable[[], Awaitable[None]]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await scenario()

    return lambda scenario: LOOPS[request.param](limited(scenario))


Runner = Callable[[Callable[[], Awaitable[None]]], None]


async def connect(port: int, context: ssl.SSLContext | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    name = "localhost" if context is not None else None
    return await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name, limit=8_000_000)


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until the end; a reset is an end too."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def close(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    await asyncio.sleep(0)


def test_large_messages_both_ways(run: Runner, tls: TLSOptions, authority: Authority) -> None:
    """More than the sockets hold: the server has to wait for the reader, and loses nothing."""
    payload = os.urandom(1_000_000)

    async def scenario() -> None:
        async with Server(port=-1, host="127.0.0.1", tls=replace(tls, handshake_first=True)) as server:
            reader, writer = await connect(server.port, authority.client_context())
            await reader.readuntil(b"\r\n")
            writer.write(connect_line() + b"SUB foo 1\r\n")
            for _ in range(6):
                writer.write(pub("foo", payload))
            await writer.drain()
            for _ in range(6):
                assert await reader.readuntil(b"\r\n") == b"MSG foo 1 1000000\r\n"
                assert await reader.readexactly(1_000_002) == payload + b"\r\n"
            await close(writer)

    run(scenario)


def test_fallback_after_silence(run: Runner, tls: TLSOptions) -> None:
    async def scenario() -> None:
        options = replace(tls, handshake_first=True, handshake_first_fallback_ns=20_000_000)
        async with Server(port=-1, host="127.0.0.1", tls=options, allow_non_tls=True) as server:
            reader, writer = await connect(server.port, None)
            info = await reader.readuntil(b"\r\n")
            assert b'"tls_available":true' in info and b'"tls_required"' not in info
            writer.write(connect_line() + b"PING\r\n")
            assert await reader.readuntil(b"\r\n") == b"PONG\r\n"
            await close(writer)

    run(scenario)


def test_server_stops_in_the_middle_of_handshakes(run: Runner, tls: TLSOptions) -> None:
    """Nothing is sent in clear to those who are half in, and nobody keeps the server from ending."""

    async def scenario() -> None:
        websocket = WebsocketOptions(host="127.0.0.1", port=-1, tls=tls)
        server = Server(port=-1, host="127.0.0.1", tls=tls, websocket=websocket)
        await server.start()
        assert server.websocket is not None
        half = await connect(server.port, None)
        await half[0].readuntil(b"\r\n")
        half[1].write(b"\x16\x03\x01")
        silent = await connect(server.websocket.port, None)
        silent[1].write(b"\x16\x03\x01")
        await half[1].drain()
        await server.stop()
        assert await half[0].read() == b""
        assert await rest_of(silent[0]) == b""
        await close(half[1])
        await close(silent[1])

    run(scenario)


def test_peer_vanishes_in_every_step(run: Runner, tls: TLSOptions) -> None:
    """The hub forgets everybody; the reason tells where they were."""

    async def scenario() -> None:
        closed: asyncio.Queue[str] = asyncio.Queue()
        async with Server(port=-1, host="127.0.0.1", tls=tls, proxy_protocol=True) as server:
            server.hub.on_closed.append(lambda record: closed.put_nowait(record.reason.value))
            for early in (b"", b"PROXY TCP4", b"PROXY UNKNOWN\r\n\x16\x03\x01"):
                reader, writer = await connect(server.port, None)
                await reader.readuntil(b"\r\n")
                writer.write(early)
                await writer.drain()
                # Half a close lets the server read what was sent before it sees the end.
                writer.write_eof()
                assert await reader.read() == b""
                await close(writer)
            reasons = [await closed.get() for _ in range(3)]
            assert reasons == ["Client Closed", "Client Closed", "TLS Handshake Failure"]
            assert server.hub.connections == {}

    run(scenario)


def test_sockets_that_are_no_clients_yet_are_limited(run: Runner) -> None:
    async def scenario() -> None:
        websocket = WebsocketOptions(host="127.0.0.1", port=-1, no_tls=True)
        async with Server(port=-1, host="127.0.0.1", websocket=websocket, max_connections=2) as server:
            assert server.websocket is not None
            first, second = [await connect(server.websocket.port, None) for _ in range(2)]
            first[1].write(b"GET")
            second[1].write(b"GET")
            third = await connect(server.websocket.port, None)
            assert await rest_of(third[0]) == b""
            first[1].write(request()[3:])
            assert b" 101 " in await first[0].readuntil(b"\r\n\r\n")
            await first[0].readuntil(b"INFO")
            assert len(server.websocket.waiting) == 1
            for _, writer in (first, second, third):
                await close(writer)

    run(scenario)


def test_websocket_pings_while_the_client_does_not_read(run: Runner) -> None:
    """Pongs of a peer that never reads are bounded; data still arrives once it does."""

    async def scenario() -> None:
        websocket = WebsocketOptions(host="127.0.0.1", port=-1, no_tls=True)
        async with Server(port=-1, host="127.0.0.1", websocket=websocket) as server:
            assert server.websocket is not None
            reader, writer = await connect(server.websocket.port, None)
            writer.write(request())
            await reader.readuntil(b"\r\n\r\n")
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # a read transport
            flood = Frame(9, b"p" * 125).encode() * 1000
            for _ in range(100):
                writer.write(flood)
                await writer.drain()
            writer.write(Frame(2, b"PING\r\n").encode())
            await writer.drain()
            [edge] = [connection.edge for connection in server.hub.connections.values()]
            assert edge.transport.get_write_buffer_size() < 1_000_000  # type: ignore[attr-defined]
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            await reader.readuntil(b"\x82\x06PONG\r\n")
            await close(writer)

    run(scenario)


def test_client_that_says_goodbye(run: Runner, tls: TLSOptions, authority: Authority) -> None:
    """After close_notify the connection ends, and what was sent before it counts."""

    async def scenario() -> None:
        left = asyncio.Event()
        async with Server(port=-1, host="127.0.0.1", tls=replace(tls, handshake_first=True)) as server:
            server.hub.on_closed.append(lambda _: left.set())
            watcher = await connect(server.port, authority.client_context())
            await watcher[0].readuntil(b"\r\n")
            watcher[1].write(connect_line() + b"SUB foo 1\r\nPING\r\n")
            assert await watcher[0].readuntil(b"\r\n") == b"PONG\r\n"
            leaver = await connect(server.port, authority.client_context())
            leaver[1].write(connect_line() + pub("foo", b"last"))
            leaver[1].close()
            await leaver[1].wait_closed()
            received = await watcher[0].readuntil(b"last\r\n")
            assert received.endswith(b"MSG foo 1 4\r\nlast\r\n")
            await left.wait()
            assert len(server.hub.connections) == 1
            await close(watcher[1])

    run(scenario)
