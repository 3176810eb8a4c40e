"""The monitoring port under clients that do not behave: slow, silent, greedy, many."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trustme

from slipstream.monitoring import http
from slipstream.monitoring.http import MonitoringListener
from slipstream.monitoring.limits import MONITOR_STEP_ENTRIES
from slipstream.monitoring.worker import Worker
from slipstream.server.server import Server
from slipstream.server.sockets.binding import bind

GET = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
MILLISECOND = 1_000_000

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@asynccontextmanager
async def monitored(**options: object) -> AsyncIterator[tuple[Server, Connect]]:
    async with Server(host="127.0.0.1", port=-1, http_port=-1, **options) as server:
        assert server.monitoring is not None
        assert server.monitoring.listener is not None
        port = server.monitoring.listener.port
        writers: list[asyncio.StreamWriter] = []

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            return reader, writer

        yield server, connect
        for writer in writers:
            writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of one answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    return head, await reader.readexactly(size)


async def test_many_requests_on_one_connection() -> None:
    async with monitored() as (_, connect):
        reader, writer = await connect()
        for _ in range(3):
            writer.write(GET)
            head, body = await answer(reader)
            assert head.startswith(b"HTTP/1.1 200 OK")
            assert body == b'{"status":"ok"}'
        writer.write(GET * 20)
        for _ in range(20):
            assert (await answer(reader))[1] == b'{"status":"ok"}'


async def test_request_in_single_bytes() -> None:
    async with monitored() as (_, connect):
        reader, writer = await connect()
        for byte in GET:
            writer.write(bytes([byte]))
            await writer.drain()
        assert (await answer(reader))[0].startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab"])
async def test_unfinished_requests_are_not_waited_for(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(http, "MONITOR_READ_TIMEOUT_NS", 20 * MILLISECOND)
    async with monitored() as (_, connect):
        reader, writer = await connect()
        writer.write(sent)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)


async def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MONITOR_IDLE_TIMEOUT_NS", 20 * MILLISECOND)
    async with monitored() as (_, connect):
        reader, writer = await connect()
        writer.write(GET)
        await answer(reader)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)


async def test_client_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MONITOR_WRITE_TIMEOUT_NS", 50 * MILLISECOND)
    async with monitored() as (server, connect):
        assert server.monitoring is not None
        listener = server.monitoring.listener
        assert listener is not None
        _, writer = await connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport reads
        for _ in range(20_000):
            if writer.transport.is_closing() or writer.transport.get_write_buffer_size() > 1 << 20:
                break
            writer.write(b"GET /stacksz HTTP/1.1\r\nHost: h\r\n\r\n" * 10)
            await asyncio.sleep(0)
        # The server neither reads on nor keeps more than little of what it could not send, and in the end it lets go.
        while listener.connections:
            await asyncio.sleep(0)


async def test_too_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MONITOR_CONNECTIONS_MAX", 2)
    async with monitored() as (_, connect):
        first, second = await connect(), await connect()
        for reader, writer in (first, second):
            writer.write(GET)
            await answer(reader)
        reader, writer = await connect()
        writer.write(GET)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        # One that leaves makes room.
        first[1].close()
        await first[1].wait_closed()
        second[1].write(GET)
        await answer(second[0])
        reader, writer = await connect()
        writer.write(GET)
        assert (await answer(reader))[0].startswith(b"HTTP/1.1 200 OK")


async def test_bug_in_an_endpoint_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from slipstream.monitoring.endpoints import table as endpoints

    def broken(*_: object) -> object:
        raise RuntimeError("a bug")

    broken_varz = endpoints.ENDPOINTS["/varz"]._replace(answer=broken)
    monkeypatch.setitem(endpoints.ENDPOINTS, "/varz", broken_varz)
    lines: list[str] = []

    class Log:
        def __call__(self, level: str, text: str) -> None:
            lines.append(f"{level} {text}")

        def reopen(self) -> None: ...
        def close(self) -> None: ...

    async with monitored(log=Log()) as (_, connect):
        reader, writer = await connect()
        writer.write(GET.replace(b"healthz", b"varz"))
        assert (await answer(reader))[0].startswith(b"HTTP/1.1 500 Internal Server Error")
        writer.write(GET)
        assert (await answer(reader))[0].startswith(b"HTTP/1.1 200 OK")
    assert "ERR Monitoring request failed: RuntimeError: a bug" in lines


async def test_page_that_is_made_in_several_steps() -> None:
    async with monitored() as (server, connect):
        clients = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(MONITOR_STEP_ENTRIES + 10)]
        for reader, _ in clients:
            await reader.readline()
        page_reader, page_writer = await connect()
        page_writer.write(b"GET /connz?limit=100000 HTTP/1.1\r\nHost: h\r\n\r\n" + GET)
        _, body = await answer(page_reader)
        assert json.loads(body)["num_connections"] == len(clients)
        # What was asked after it on the same connection is answered after it.
        assert (await answer(page_reader))[1] == b'{"status":"ok"}'
        for _, writer in clients:
            writer.close()


async def test_https() -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with monitored() as (server, _):
        assert server.monitoring is not None
        listener = MonitoringListener(server.monitoring.facts, Worker(server))
        await listener.start(bind("port", "127.0.0.1", -1), context)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", listener.port, ssl=trusting, server_hostname="localhost"
        )
        writer.write(GET)
        assert (await answer(reader))[1] == b'{"status":"ok"}'
        writer.close()
        # Plain text on the TLS port gets nothing.
        reader, plain = await asyncio.open_connection("127.0.0.1", listener.port)
        plain.write(GET)
        assert not (await reader.read()).startswith(b"HTTP/1.1 200")
        plain.close()
        await listener.stop()


async def test_stop_closes_everything() -> None:
    async with monitored() as (server, connect):
        reader, writer = await connect()
        writer.write(GET)
        await answer(reader)
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    assert server.monitoring is not None
    assert server.monitoring.url == ""
