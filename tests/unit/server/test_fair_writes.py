"""A client that gets much gets it a mebibyte a turn, and the others have their turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from slipstream.server.clients.listener import ClientProtocol
from slipstream.server.limits import EARLY_FLUSH_BYTES, TURN_SENT_BYTES
from support.hub_world import HubWorld

MUCH = 5 * TURN_SENT_BYTES // 2


class Transport:
    """A socket that takes everything, or keeps it when told to."""

    def __init__(self) -> None:
        self.protocol: ClientProtocol | None = None
        self.keeps = False
        self.kept = 0
        self.writes: list[int] = []
        self.data = b""
        self.closed = False

    def get_write_buffer_size(self) -> int:
        return self.kept

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 4711) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def write(self, data: bytes | memoryview) -> None:
        self.writelines([data])

    def writelines(self, chunks: list[bytes | memoryview]) -> None:
        whole = b"".join(chunks)
        self.data += whole
        self.writes.append(len(whole))
        if self.keeps:
            self.kept += len(whole)
            assert self.protocol is not None
            self.protocol.pause_writing()

    def send_all(self) -> None:
        self.kept, self.keeps = 0, False
        assert self.protocol is not None
        self.protocol.resume_writing()

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None: ...


class Timer:
    def cancel(self) -> None: ...


class Receiver:
    """One client, with the calls that wait for the next turn."""

    def __init__(self) -> None:
        self.world = HubWorld("")
        self.hub = self.world.hub
        self.turns = self
        self.read_buffer = bytearray(1000)
        self.soon: list[Callable[[], object]] = []
        self.transport = Transport()
        self.protocol = ClientProtocol(cast(Any, self))
        self.transport.protocol = self.protocol
        self.protocol.connection_made(cast(asyncio.Transport, self.transport))
        self.outbox = self.protocol.connection.outbox
        self.protocol.flush()
        self.transport.writes.clear()
        self.transport.data = b""

    def run_and_flush(self, work: Callable[[], None]) -> None:
        work()
        self.protocol.flush()

    def call_later(self, delay_ns: int, callback: Callable[[], object]) -> Timer:
        return Timer()

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        """The loop's next round, with the flush at its end."""
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()
        self.protocol.flush()


def test_much_leaves_in_parts_a_turn_each() -> None:
    client = Receiver()
    data = bytes(range(250)) * (MUCH // 250)
    client.outbox.write(data)
    client.protocol.flush()
    client.protocol.flush()  # another one in the same turn, early or at its end
    assert client.transport.writes == [TURN_SENT_BYTES]
    assert client.outbox.pending == len(data) - TURN_SENT_BYTES
    assert client.outbox.early_at == client.outbox.limit  # what comes now waits, too
    client.turn()
    client.turn()
    assert client.transport.writes == [TURN_SENT_BYTES, TURN_SENT_BYTES, len(data) - 2 * TURN_SENT_BYTES]
    assert client.transport.data == data
    assert client.outbox.pending == 0 and client.soon == [] and client.outbox.early_at == EARLY_FLUSH_BYTES


def test_what_the_transport_keeps_and_what_waits_count_together() -> None:
    client = Receiver()
    client.outbox.write(bytes(MUCH))
    client.transport.keeps = True
    client.protocol.flush()
    client.turn()
    assert client.transport.writes == [TURN_SENT_BYTES] and client.soon == []
    assert client.outbox.pending == MUCH
    client.transport.send_all()
    assert sum(client.transport.writes) == 2 * TURN_SENT_BYTES and client.outbox.pending == MUCH - 2 * TURN_SENT_BYTES
    client.turn()
    assert client.outbox.pending == 0


def test_a_block_while_the_rest_waits_holds_it_back() -> None:
    client = Receiver()
    client.outbox.write(bytes(MUCH))
    client.protocol.flush()
    client.protocol.pause_writing()
    client.turn()
    assert client.transport.writes == [TURN_SENT_BYTES]
    client.transport.send_all()
    client.turn()
    assert sum(client.transport.writes) == MUCH


def test_the_end_of_a_connection_sends_all_that_waits() -> None:
    for keeps in (False, True):
        client = Receiver()
        client.transport.keeps = keeps
        client.outbox.write(bytes(MUCH))
        client.protocol.flush()
        client.protocol.finish()
        assert sum(client.transport.writes) == MUCH and client.transport.closed
        client.turn()
