"""Connections are accepted some at a time: not one, which turns clients away, and not all, which holds up everybody."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Self

import pytest

import slipstream
from slipstream.server.sockets.acceptor import ACCEPTED_A_TURN, CROWD_MIN, OPENED_A_TURN, Acceptor
from slipstream.server.sockets.binding import bind


class _Protocol(asyncio.BufferedProtocol):
    """Counts those that were made."""

    made = 0
    peers: ClassVar[list[int]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        type(self).made += 1
        self.peers.append(transport.get_extra_info("peername")[1])
        transport.close()


class _Turns:
    """What an acceptor needs of a server."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.waiting: list[Any] = []
        self.soon: list[Any] = []

    def log(self, _level: str, text: str) -> None:
        self.lines.append(text)

    def report(self, what: str, error: Exception) -> None:
        raise AssertionError(what) from error

    def call_soon(self, callback: Any) -> None:
        self.soon.append(callback)

    def take_turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()

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
    listening = bind("port", "127.0.0.1", -1)
    acceptor = Acceptor(turns, listening, lambda _: Protocol())  # type: ignore[arg-type]
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


async def test_some_are_let_in_each_turn() -> None:
    turns = _Turns()
    async with _accepting(turns) as (acceptor, port):
        clients = _connect(port, 2 * OPENED_A_TURN + 5)
        acceptor.accept()
        await _settle()
        assert protocol.made == OPENED_A_TURN
        turns.take_turn()
        await _settle()
        assert protocol.made == 2 * OPENED_A_TURN
        turns.take_turn()
        await _settle()
        assert protocol.made == 2 * OPENED_A_TURN + 5
        assert not turns.soon
        acceptor.accept()  # nobody is there
        for client in clients:
            client.close()


async def test_those_who_gave_up_while_they_waited_are_passed_over() -> None:
    turns = _Turns()
    async with _accepting(turns) as (acceptor, port):
        clients = _connect(port, OPENED_A_TURN)
        for gone in _connect(port, 3):
            gone.close()
        clients += _connect(port, 1)
        clients[-1].send(b"early")
        acceptor.accept()
        turns.take_turn()
        await _settle()
        assert protocol.made == OPENED_A_TURN + 1
        for client in clients:
            client.close()


async def test_in_a_crowd_the_last_come_first() -> None:
    """Those at the front of a long queue are about to give up."""
    turns = _Turns()
    async with _accepting(turns) as (acceptor, port):
        protocol.peers = []
        clients = _connect(port, CROWD_MIN + ACCEPTED_A_TURN)
        ports = [client.getsockname()[1] for client in clients]
        acceptor.accept()
        acceptor.accept()
        turns.take_turn()
        await _settle()
        assert protocol.peers[:OPENED_A_TURN] == ports[:OPENED_A_TURN]  # the others were not there yet
        assert protocol.peers[OPENED_A_TURN:] == ports[: -OPENED_A_TURN - 1 : -1]
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
        crowd = _connect(int(server.url.rpartition(":")[2]), 3 * OPENED_A_TURN)
        loop = asyncio.get_running_loop()
        for client in crowd:
            client.setblocking(False)
            assert (await loop.sock_recv(client, 4)) == b"INFO"
        for client in crowd:
            client.close()


async def test_those_who_come_alone_are_not_asked_for_twice_each(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, asked = _Turns(), 0
    accept = socket.socket.accept

    def count(listening: socket.socket) -> Any:
        nonlocal asked
        asked += 1
        return accept(listening)

    async with _accepting(turns) as (acceptor, port):
        monkeypatch.setattr(socket.socket, "accept", count)
        for _ in range(4):
            (client,) = _connect(port, 1)
            acceptor.accept()
            client.close()
        assert asked == 6
        clients = _connect(port, 5)
        acceptor.accept()
        assert asked == 12  # all who are there
        await _settle()
        for client in clients:
            client.close()
