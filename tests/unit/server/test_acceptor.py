"""Connections are accepted some at a time: not one, which turns clients away, and not all, which holds up everybody."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import pytest

import slipstream
from slipstream.server.acceptor import ACCEPTS_A_TURN, Acceptor
from slipstream.server.listener import bind


class _Protocol(asyncio.BufferedProtocol):
    """Counts those that were made."""

    made = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        type(self).made += 1
        transport.close()


class _Turns:
    """What an acceptor needs of a server."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.waiting: list[Any] = []

    def log(self, _level: str, text: str) -> None:
        self.lines.append(text)

    def report(self, what: str, error: Exception) -> None:
        raise AssertionError(what) from error

    def call_later(self, _delay_ns: int, callback: Any) -> Self:
        self.waiting.append(callback)
        return self

    def cancel(self) -> None:
        self.waiting.clear()


@asynccontextmanager
async def _accepting(turns: _Turns) -> AsyncIterator[tuple[Acceptor, int]]:
    class Protocol(_Protocol):
        pass

    global protocol
    protocol = Protocol
    listening = bind("127.0.0.1", -1)
    acceptor = Acceptor(turns, listening, Protocol)  # type: ignore[arg-type]
    asyncio.get_running_loop().remove_reader(listening)  # events come from the test
    try:
        yield acceptor, listening.getsockname()[1]
    finally:
        acceptor.close()


protocol: type[_Protocol] = _Protocol


def _connect(port: int, count: int) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_some_are_accepted_in_one_event() -> None:
    async with _accepting(_Turns()) as (acceptor, port):
        clients = _connect(port, ACCEPTS_A_TURN + 5)
        acceptor.accept()
        await _settle()
        assert protocol.made == ACCEPTS_A_TURN
        acceptor.accept()
        await _settle()
        assert protocol.made == ACCEPTS_A_TURN + 5
        acceptor.accept()  # nobody is there
        for client in clients:
            client.close()


async def test_those_who_gave_up_while_they_waited_are_passed_over() -> None:
    async with _accepting(_Turns()) as (acceptor, port):
        clients = _connect(port, ACCEPTS_A_TURN)
        for gone in _connect(port, 3):
            gone.close()
        clients += _connect(port, 1)
        clients[-1].send(b"early")
        acceptor.accept()
        await _settle()
        acceptor.accept()
        await _settle()
        assert protocol.made == ACCEPTS_A_TURN + 1
        for client in clients:
            client.close()


async def test_too_few_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = _Turns()
    async with _accepting(turns) as (acceptor, port):
        clients = _connect(port, 1)

        def refuse(_listening: socket.socket) -> Any:
            raise OSError(errno.EMFILE, "full")

        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "accept", refuse)
            acceptor.accept()
        assert turns.lines == ["Temporary Client Accept Error (accept: too many open files), sleeping 1000ms"]
        (again,) = turns.waiting
        again()
        acceptor.accept()
        await _settle()
        assert protocol.made == 1
        clients[0].close()


async def test_a_closed_one_accepts_nobody() -> None:
    async with _accepting(_Turns()) as (acceptor, port):
        clients = _connect(port, 1)
        acceptor.accept()
        acceptor.close()
        acceptor.close()
        await _settle()
        assert protocol.made == 0
        with pytest.raises(ConnectionRefusedError):
            _connect(port, 1)
        clients[0].close()


async def test_a_server_lets_a_crowd_in() -> None:
    async with slipstream.Server(port=0) as server:
        crowd = _connect(int(server.url.rpartition(":")[2]), 3 * ACCEPTS_A_TURN)
        loop = asyncio.get_running_loop()
        for client in crowd:
            client.setblocking(False)
            assert (await loop.sock_recv(client, 4)) == b"INFO"
        for client in crowd:
            client.close()
