"""A connection without a socket: a client inside the server, for what translates another protocol.

To the server it is a client like any other, with the same login, rights, limits, pings and deadlines. What the server
writes is handed over as it comes; while the other side cannot take it, it is kept here, and the server sees a client
that reads slowly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from slipstream.server.clients.listener import ClientProtocol

__all__ = ["Pipe"]


class Pipe(asyncio.Transport):
    """The transport of a client of this server, and the client's own end of it.

    Args:
        protocol: the server's side, not yet connected.
        address: IP address and port that the client is known by.
        received: takes what the server says.
        lost: called once when the server has closed.
    """

    def __init__(
        self,
        protocol: ClientProtocol,
        address: tuple[str, int],
        received: Callable[[bytes | bytearray | memoryview], None],
        lost: Callable[[], None],
    ) -> None:
        super().__init__({"peername": address})
        self._protocol = protocol
        self._received = received
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._input = bytearray()  # for the server, which does not read just now
        self._kept: list[bytes] = []  # of the server, while the client's end is blocked
        self._kept_bytes = 0
        self._paused = False  # the server does not read
        self._blocked = False  # the client's end takes nothing
        self._closing = False

    # --- the client's end ---------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Begin: the server greets."""
        self._protocol.connection_made(self)

    def send(self, data: bytes) -> None:
        """Give the server bytes; it may take them later."""
        if not (self._input or self._paused or self._closing):
            buffer = self._protocol.get_buffer(-1)
            count = len(data)
            if count <= len(buffer):
                buffer[:count] = data
                self._protocol.buffer_updated(count)
                return
        self._input += data
        self._feed()

    def offer(self, data: bytes) -> bool:
        """Give the server bytes; whether it took all of them and has nothing to say to them.

        If not, what it says is kept until `unblock`.
        """
        self._blocked = True
        self.send(data)
        if self._kept or self._input or self._paused or self._closing or self._protocol.connection.outbox.waiting:
            return False
        self._blocked = False
        return True

    def block(self) -> None:
        """Take nothing until `unblock`."""
        self._blocked = True

    def unblock(self) -> None:
        """Take what was kept, and more."""
        self._blocked = False
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        for data in kept:
            self._received(data)
        if kept and not self._closing:
            self._protocol.resume_writing()

    def hang_up(self) -> None:
        """The client leaves."""
        if not self._closing:
            self._closing = True
            self._lost = _nothing
            self._protocol.connection_lost(None)

    def _feed(self) -> None:
        while self._input and not self._paused and not self._closing:
            buffer = self._protocol.get_buffer(-1)
            count = min(len(buffer), len(self._input))
            buffer[:count] = self._input[:count]
            del self._input[:count]
            self._protocol.buffer_updated(count)

    # --- the server's end -----------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """The server says something."""
        if self._blocked:
            self._kept.append(bytes(data))
            self._kept_bytes += len(data)
            self._protocol.pause_writing()
        else:
            self._received(data)

    def writelines(self, list_of_data: Any) -> None:
        """The server says several things."""
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        """The server is busy with what it has."""
        self._paused = True

    def resume_reading(self) -> None:
        """The server reads on."""
        self._paused = False
        if self._input:
            self._loop.call_soon(self._feed)

    def is_closing(self) -> bool:
        """Whether either side has ended it."""
        return self._closing

    def close(self) -> None:
        """The server ends it."""
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._finish)

    def abort(self) -> None:
        """The server ends it at once; nothing here waits for the other side anyway."""
        self.close()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing to set: one byte that is kept makes the server wait."""

    def get_write_buffer_size(self) -> int:
        """Bytes the client's end has not taken."""
        return self._kept_bytes

    def _finish(self) -> None:
        self._protocol.connection_lost(None)
        lost, self._lost = self._lost, _nothing
        lost()


def _nothing() -> None:
    """Nobody is left to tell."""
