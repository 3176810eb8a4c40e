"""Clients come and go over real sockets: no protocol object, timer, thread or descriptor stays behind."""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
import weakref
from collections.abc import Callable

import pytest
import uvloop

from models.wsframes import Frame
from slipstream.config.account_options import AuthorizationOptions, UserOptions
from slipstream.config.listener_options import TLSOptions, WebsocketOptions
from slipstream.protocol.connection import ClientConnection
from slipstream.server.clients.listener import ClientProtocol
from slipstream.server.server import Server
from support.keys import BCRYPT_OF_OPEN_SESAME
from support.transcript import connect_line, pub
from tlsfiles import Authority
from wsclient import request

TIMEOUT_S = 30
CYCLES = 40
RING = 5
LOGIN = connect_line(user="quick", **{"pass": "x"})
SLOW_LOGIN = connect_line(user="slow", **{"pass": "open sesame"})


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls(authority: Authority) -> TLSOptions:
    pair = authority.issue("localhost")
    return TLSOptions(cert_file=str(pair.cert_file), key_file=str(pair.key_file), handshake_first=True)


class Watch:
    """Weak references to everything that a connection brings with it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.protocols: weakref.WeakSet[ClientProtocol] = weakref.WeakSet()
        self.connections: weakref.WeakSet[ClientConnection] = weakref.WeakSet()
        self.made = 0
        self._follow(monkeypatch, ClientProtocol, self.protocols)
        self._follow(monkeypatch, ClientConnection, self.connections)

    def _follow(self, monkeypatch: pytest.MonkeyPatch, kind: type, known: weakref.WeakSet) -> None:  # type: ignore[type-arg]
        init: Callable[..., None] = kind.__init__  # type: ignore[misc]

        def watched(this: object, *args: object) -> None:
            init(this, *args)
            known.add(this)
            self.made += 1

        monkeypatch.setattr(kind, "__init__", watched)


async def _visit(port: int, how: str, context: ssl.SSLContext | None, data: bytes, *, end: str) -> None:
    """One client that says something and goes, in order or not."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost" if context else None
    )
    if how.startswith("ws"):
        writer.write(request())
        await reader.readuntil(b"\r\n\r\n")
        data = Frame(2, data).encode()
    await reader.readexactly(4)
    writer.write(data)
    if end == "half":
        writer.write(b"PUB foo 100\r\nhalf")
    elif end == "read":
        await reader.readuntil(b"PONG")
    elif end == "garbage":
        writer.write(b"\xff\x00garbage")
        await reader.read()
    writer.transport.abort()
    await asyncio.sleep(0)


async def _until(condition: Callable[[], bool]) -> None:
    """Let the loop run until something has happened."""
    while not condition():
        await asyncio.sleep(0)


def _timers(loop: asyncio.AbstractEventLoop) -> int:
    scheduled: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined]
    return sum(not handle.cancelled() for handle in scheduled)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("how", ["plain", "tls", "ws", "wss"])
def test_nothing_stays_behind(
    how: str, loop: str, tls: TLSOptions, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(monkeypatch)
    secured = how in ("tls", "wss")
    context = authority.client_context() if secured else None

    async def scenario() -> None:
        web = WebsocketOptions(port=-1, no_tls=how != "wss", tls=tls if how == "wss" else None, host="127.0.0.1")
        users = (UserOptions("quick", "x"), UserOptions("slow", BCRYPT_OF_OPEN_SESAME))
        async with (
            asyncio.timeout(TIMEOUT_S),
            Server(
                port=-1,
                host="127.0.0.1",
                tls=tls if how == "tls" else None,
                websocket=web,
                max_closed_clients=RING,
                authorization=AuthorizationOptions(users=users, defined=True),
            ) as server,
        ):
            port = server.hub.websocket_port if how.startswith("ws") else server.port
            running = asyncio.get_running_loop()
            hello = b"SUB foo 1\r\nSUB foo.* q 2\r\n" + pub("foo", b"x" * 1000) + b"PING\r\n"

            async def cycle() -> None:
                for login in (LOGIN, SLOW_LOGIN):
                    for end in ("read", "half", "garbage", "abrupt"):
                        await _visit(port, how, context, login + hello, end=end)
                await _visit(port, how, context, b"PING\r\n", end="garbage")

            def left() -> tuple[int, int]:
                return _timers(running) if loop == "asyncio" else 0, len(os.listdir("/proc/self/fd"))

            def all_gone() -> bool:
                gc.collect()
                return not server.hub.connections and not watch.protocols and not server.edge.password_checks

            await cycle()
            await _until(all_gone)
            before = left()
            for _ in range(CYCLES // 9):
                await cycle()
            # What stays for ever ends the test by its timeout.
            await _until(all_gone)
            await _until(lambda: left() <= before)
            assert watch.made > CYCLES
            assert len(watch.connections) <= RING
            assert server.websocket is not None and not server.websocket.waiting
            assert server.hub.accounts["$G"].interest.match(b"foo") == []

    {"asyncio": asyncio.run, "uvloop": uvloop.run}[loop](scenario())
    gc.collect()
