"""A read that reaches many receivers is short, and others have their turn before the next one."""

from __future__ import annotations

import asyncio

import pytest

import slipstream
from slipstream.server.clients.listener import ClientProtocol
from slipstream.server.sockets.read_pace import READ_BYTES_FIRST, READ_BYTES_MIN, TURN_WRITE_BYTES

RECEIVERS = 200
MESSAGE = b"PUB f 1000\r\n" + bytes(1000) + b"\r\n"
MESSAGES = 1500
DELIVERY = len(b"MSG f 1 1000\r\n") + 1002


async def connected(server: slipstream.Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = server.url.removeprefix("nats://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b'CONNECT {"verbose":false}\r\nPING\r\n')
    await reader.readuntil(b"PONG\r\n")
    return reader, writer


async def test_one_read_does_not_fill_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs: list[int] = []
    honest = ClientProtocol.buffer_updated

    def counted(self: ClientProtocol, nbytes: int) -> None:
        before = self._turns.queue.written
        honest(self, nbytes)
        outputs.append(self._turns.queue.written - before)

    monkeypatch.setattr(ClientProtocol, "buffer_updated", counted)
    async with slipstream.Server(port=0) as server:
        receivers = [await connected(server) for _ in range(RECEIVERS)]
        for reader, writer in receivers:
            writer.write(b"SUB f 1\r\nPING\r\n")
            await reader.readuntil(b"PONG\r\n")
        _, publisher = await connected(server)
        outputs.clear()
        publisher.write(MESSAGE * MESSAGES)

        async def all_of(reader: asyncio.StreamReader) -> None:
            await reader.readexactly(DELIVERY * MESSAGES)

        await asyncio.gather(*(all_of(reader) for reader, _ in receivers))
        for _, writer in (*receivers, (None, publisher)):
            writer.close()
    first, *others = [output for output in outputs if output > READ_BYTES_MIN]
    one = (READ_BYTES_MIN + len(MESSAGE)) * RECEIVERS  # what the shortest read can become, with an end of one before
    assert first <= (READ_BYTES_FIRST + len(MESSAGE)) * RECEIVERS * 1.1
    assert max(others) <= max(TURN_WRITE_BYTES * 1.5, one)
