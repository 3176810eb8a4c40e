"""INFO leaves before the loop has the socket, and what happens to the client until it has."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import cast

import pytest

import slipstream
from slipstream.protocol.texts import CloseReason
from slipstream.server.clients.listener import ClientProtocol


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client's socket, and the one that was accepted for it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
    client.settimeout(5)
    accepted.setblocking(False)
    with client, accepted:
        yield client, accepted


async def _attach(protocol: ClientProtocol, accepted: socket.socket) -> None:
    await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, accepted)


def _read_all(client: socket.socket) -> bytes:
    text = b""
    while data := client.recv(65536):
        text += data
    return text


async def test_a_client_reads_info_while_the_loop_does_not_know_its_socket(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    client, accepted = pair
    async with slipstream.Server(port=0) as server:
        protocol = ClientProtocol(server)
        protocol.greet_on(accepted)
        assert client.recv(65536).startswith(b"INFO {")
        assert protocol.connection.peer.port == client.getsockname()[1]
        await _attach(protocol, accepted)
        client.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
        assert await asyncio.to_thread(client.recv, 65536) == b"PONG\r\n"  # and no second INFO


async def test_what_is_written_meanwhile_is_not_lost(pair: tuple[socket.socket, socket.socket]) -> None:
    client, accepted = pair
    async with slipstream.Server(port=0) as server:
        protocol = ClientProtocol(server)
        protocol.greet_on(accepted)
        client.recv(65536)
        protocol.connection.send_ping()
        server.turns.flush()
        await _attach(protocol, accepted)
        assert await asyncio.to_thread(client.recv, 65536) == b"PING\r\n"


async def test_a_socket_that_takes_nothing_gets_info_later(pair: tuple[socket.socket, socket.socket]) -> None:
    class Full:
        def getpeername(self) -> tuple[str, int]:
            return "127.0.0.1", 4711

        def send(self, data: bytes) -> int:
            raise BlockingIOError

    client, accepted = pair
    async with slipstream.Server(port=0) as server:
        protocol = ClientProtocol(server)
        protocol.greet_on(cast(socket.socket, Full()))
        await _attach(protocol, accepted)
        assert (await asyncio.to_thread(client.recv, 65536)).startswith(b"INFO {")


async def test_a_connection_that_is_closed_meanwhile_ends(pair: tuple[socket.socket, socket.socket]) -> None:
    client, accepted = pair
    async with slipstream.Server(port=0) as server:
        protocol = ClientProtocol(server)
        protocol.greet_on(accepted)
        protocol.connection.close(CloseReason.SERVER_SHUTDOWN, "bye")
        await _attach(protocol, accepted)
        text = await asyncio.to_thread(_read_all, client)
        assert text.startswith(b"INFO {")
        assert text.endswith(b"-ERR 'bye'\r\n")


async def test_one_too_many_is_told_so(pair: tuple[socket.socket, socket.socket]) -> None:
    client, accepted = pair
    async with slipstream.Server(port=0, max_connections=0) as server:
        protocol = ClientProtocol(server)
        protocol.greet_on(accepted)
        await _attach(protocol, accepted)
        text = await asyncio.to_thread(_read_all, client)
        assert text.startswith(b"INFO {")
        assert text.endswith(b"-ERR 'maximum connections exceeded'\r\n")


async def test_who_is_gone_at_once_leaves_nothing_behind(pair: tuple[socket.socket, socket.socket]) -> None:
    client, accepted = pair
    client.close()
    async with slipstream.Server(port=0) as server:
        protocol = ClientProtocol(server)
        protocol.greet_on(accepted)
        assert len(server.hub.connections) == 1
        await _attach(protocol, accepted)
        while server.hub.connections:
            await asyncio.sleep(0)
