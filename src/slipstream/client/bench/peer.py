"""One connection of a bench client: sends without waiting, and keeps what comes until the client takes it.

Nothing here waits but `receive_waiting`; the loop knows when a socket is ready. Receivers that only count do so in the
kernel (`counts`), the others get messages. Invariant: an -ERR from the server and a lost connection are raised, never
counted.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import struct
from collections.abc import Iterable

from slipstream.client.options import ClientError, ConnectionLost, ServerRefused
from slipstream.client.wire import Message, WireClient
from slipstream.kernels.client.serverdecode import Decoder
from slipstream.kernels.client.serverscan import Scanner
from slipstream.units import KIB, MICROSECOND_NS, SECOND_NS

__all__ = ["BenchPeer"]

_RECEIVE_BYTES = 256 * KIB
_BUFFER = bytearray(_RECEIVE_BYTES)  # one for all: what comes is decoded before the next one receives


class BenchPeer:
    """One connection."""

    def __init__(self, client: WireClient, *, counts: bool = False) -> None:
        """Take over the connection of a client."""
        self.done = 0  # messages of the course so far, for the bar
        self.inbox = f"{client.options.inbox_prefix}.{secrets.token_hex(11)}"
        self.scanner = Scanner() if counts else None
        self._decoder = Decoder()
        self._came: list[Message] = []
        self._unsent = bytearray()
        self._pings_answered = 0
        self._next_sid = 1
        self._socket, before = client.detach()
        self.can_wait = not isinstance(self._socket, ssl.SSLSocket)  # in the system call that receives
        self._at_once = socket.MSG_DONTWAIT if self.can_wait else 0
        self._timeout_ns = 0  # of `receive_waiting`, as the system knows it
        self._socket.setblocking(self.can_wait)
        self._take(before, len(before))

    def fileno(self) -> int:
        """The descriptor, for epoll."""
        return self._socket.fileno()

    @property
    def unsent(self) -> bool:
        """Whether the socket has not taken everything yet."""
        return bool(self._unsent)

    @property
    def pongs(self) -> int:
        """PONGs that came."""
        return self.scanner.pongs if self.scanner is not None else self._decoder.pongs

    def subscribe(self, subjects: Iterable[str], queue: str = "") -> None:
        """Subscribe to subjects."""
        words = f" {queue} " if queue else " "
        for subject in subjects:
            self.send(f"SUB {subject}{words}{self._next_sid}\r\n".encode())
            self._next_sid += 1

    def send(self, frames: bytes | memoryview) -> None:
        """Send, or keep for later what the socket does not take.

        Raises:
            ConnectionLost: the connection is gone.
        """
        sent = 0 if self._unsent else self._send_some(frames)
        if sent < len(frames):
            self._unsent += frames[sent:]

    def send_rest(self) -> None:
        """Go on with what is left."""
        if self._unsent:
            sent = self._send_some(self._unsent)
            del self._unsent[:sent]

    def receive(self) -> None:
        """Take in what is there.

        Raises:
            ServerRefused: the server said -ERR.
            ConnectionLost: the connection is gone.
        """
        while self._receive(self._at_once):
            if not (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
                return

    def receive_waiting(self, timeout_ns: int) -> bool:
        """Wait for something and take it in, if the peer `can_wait`; False if nothing came in time.

        Raises:
            ServerRefused: the server said -ERR.
            ConnectionLost: the connection is gone.
        """
        if timeout_ns != self._timeout_ns:
            seconds, rest_ns = divmod(timeout_ns, SECOND_NS)
            timeout = struct.pack("ll", seconds, rest_ns // MICROSECOND_NS)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
            self._timeout_ns = timeout_ns
        return self._receive(0)

    def take(self) -> list[Message]:
        """The messages that came since the last call."""
        came = self._came
        if came:
            self._came = []
        return came

    def put_back(self, messages: list[Message]) -> None:
        """Keep messages for later that `take` gave too early."""
        self._came = messages + self._came

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _send_some(self, frames: bytes | bytearray | memoryview) -> int:
        try:
            return self._socket.send(frames, self._at_once)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return 0
        except OSError as error:
            raise self._why_lost(error) from error

    def _receive(self, flags: int) -> bool:
        try:
            size = self._socket.recv_into(_BUFFER, _RECEIVE_BYTES, flags)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            raise ConnectionLost(f"connection lost: {error}") from error
        if not size:
            raise ConnectionLost("the server closed the connection")
        self._take(_BUFFER, size)
        return True

    def _take(self, buffer: bytes | bytearray, size: int) -> None:
        try:
            if self.scanner is not None:
                self.scanner.feed(buffer, size)
                pings, refusal = self.scanner.pings, self.scanner.first_error
            else:
                self._came += self._decoder.feed(buffer, size)
                pings, refusal = self._decoder.pings, next(iter(self._decoder.errors), None)
        except ValueError as error:
            raise ConnectionLost(str(error)) from error
        if refusal is not None:
            raise ServerRefused(refusal)
        if pings > self._pings_answered:
            owed, self._pings_answered = pings - self._pings_answered, pings
            self.send(b"PONG\r\n" * owed)

    def _why_lost(self, error: OSError) -> ClientError:
        """The server's last words, if they can still be read."""
        try:
            self.receive()
        except ServerRefused as refusal:
            return refusal
        except ClientError:
            pass
        return ConnectionLost(f"connection lost: {error}")
