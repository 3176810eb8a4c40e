"""A raw connection for load: a socket and a scanner, with nothing between them.

The greeting is `WireClient`'s; afterwards the bytes are only counted. Timeouts are the kernel's own (SO_RCVTIMEO), so
a blocking call costs one system call. Plain TCP only: under TLS the cipher would be what is measured.

Invariant: an -ERR from the server, a lost connection and bytes that are not the protocol are raised, never counted.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterable
from time import monotonic_ns

from slipstream.client.options import ClientError, ClientTimeout, ConnectionLost, ServerRefused
from slipstream.client.wire import WireClient
from slipstream.kernels.client.serverscan import Scanner
from slipstream.units import MICROSECOND_NS, SECOND_NS

__all__ = ["Line"]


class Line:
    """One connection. Its socket blocks."""

    def __init__(self, url: str, scanner: Scanner, timeout_ns: int) -> None:
        """Connect.

        Raises:
            ClientError: the server cannot be reached, says no, or insists on TLS.
        """
        self.scanner = scanner
        self.timeout_ns = timeout_ns
        self._pings_answered = 0
        self._pings_sent = 0
        self._socket, before = WireClient(url).detach()
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.close()
            raise ClientError("load generation over TLS is not supported")
        seconds, rest_ns = divmod(timeout_ns, SECOND_NS)
        timeout = struct.pack("ll", seconds, rest_ns // MICROSECOND_NS)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        self._socket.setblocking(True)
        self._take(before, len(before))

    def fileno(self) -> int:
        """The descriptor, for epoll."""
        return self._socket.fileno()

    def subscribe(self, subjects: Iterable[str], queue: str, buffer: bytearray) -> None:
        """Subscribe with sids from 1, and wait until the server knows."""
        words = f" {queue} " if queue else " "
        self.send("".join(f"SUB {subject}{words}{sid}\r\n" for sid, subject in enumerate(subjects, 1)).encode())
        self.flush(buffer)

    def flush(self, buffer: bytearray) -> None:
        """Wait until the server has processed everything sent so far.

        Raises:
            ClientTimeout: it did not in time.
        """
        self._pings_sent += 1
        self.send(b"PING\r\n")
        deadline = monotonic_ns() + self.timeout_ns
        while self.scanner.pongs < self._pings_sent:
            self.receive(buffer)
            if monotonic_ns() > deadline:
                raise ClientTimeout("the server did not answer PING in time")

    def receive(self, buffer: bytearray, now_ns: int = 0) -> int:
        """Take in some bytes, waiting for them; return how many messages they completed.

        Raises:
            ClientTimeout: none came in time.
        """
        before = self.scanner.messages
        self.receive_bytes(buffer, now_ns)
        return self.scanner.messages - before

    def receive_bytes(self, buffer: bytearray, now_ns: int = 0) -> int:
        """The same; return how many bytes came, for those who look into the buffer themselves."""
        try:
            size = self._socket.recv_into(buffer)
        except BlockingIOError as error:
            raise ClientTimeout(f"the server sent nothing for {self.timeout_ns / 1e9:g} s") from error
        except OSError as error:
            raise ConnectionLost(f"connection lost: {error}") from error
        if not size:
            self._end()
        self._take(buffer, size, now_ns)
        return size

    def receive_ready(self, buffer: bytearray, now_ns: int = 0) -> int:
        """Take in bytes if there are any; return how many messages they completed."""
        try:
            size = self._socket.recv_into(buffer, 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ConnectionLost(f"connection lost: {error}") from error
        return self._take(buffer, size, now_ns) if size else self._end()

    def send(self, frames: bytes | bytearray | memoryview) -> None:
        """Send all of it.

        Raises:
            ClientTimeout: the server does not read.
        """
        try:
            self._socket.sendall(frames)
        except BlockingIOError as error:
            raise ClientTimeout(f"the server took nothing for {self.timeout_ns / 1e9:g} s") from error
        except OSError as error:
            raise self._why_lost(error) from error

    def send_some(self, frames: memoryview) -> int:
        """Send what fits now; return how many bytes that was."""
        try:
            return self._socket.send(frames, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._why_lost(error) from error

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _take(self, buffer: bytes | bytearray, size: int, now_ns: int = 0) -> int:
        scanner = self.scanner
        try:
            completed = scanner.feed(buffer, size, now_ns)
        except ValueError as error:
            raise ConnectionLost(str(error)) from error
        if scanner.errors:
            raise ServerRefused(scanner.first_error or "")
        if scanner.pings > self._pings_answered:
            owed = scanner.pings - self._pings_answered
            self._pings_answered = scanner.pings
            self.send(b"PONG\r\n" * owed)
        return completed

    def _end(self) -> int:
        raise ConnectionLost("the server closed the connection")

    def _why_lost(self, error: OSError) -> ClientError:
        """The server's last words, if they can still be read."""
        buffer = bytearray(4096)
        try:
            while self.receive_ready(buffer):
                pass
        except ServerRefused as refusal:
            return refusal
        except ClientError:
            pass
        return ConnectionLost(f"connection lost: {error}")
