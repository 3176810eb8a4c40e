"""A client that is only a socket: what is sent and what came back, byte for byte, with a time limit on every wait."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from types import TracebackType
from typing import Self

IO_TIMEOUT_S = 5.0
_CHUNK = 65536


class RawClient:
    """A TCP connection to a server. It understands nothing of the protocol."""

    def __init__(self, port: int, *, host: str = "127.0.0.1", timeout_s: float = IO_TIMEOUT_S) -> None:
        """Connects; the server's first bytes are not read yet."""
        self.timeout_s = timeout_s
        self._socket = socket.create_connection((host, port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = bytearray()
        self._ended = False

    def send(self, data: bytes) -> None:
        """Sends bytes; a server that has already closed is not an error, the next read tells."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def read_until(self, pattern: bytes, timeout_s: float | None = None) -> bytes:
        """Bytes up to and including the first match of a regular expression.

        Raises:
            ConnectionError: The server closed before the match; the message holds what was read.
            TimeoutError: No match in time; the message holds what was read.
        """
        expression = re.compile(pattern, re.DOTALL)
        deadline = time.monotonic() + (timeout_s or self.timeout_s)
        while not (match := expression.search(self._unread)):
            if self._ended:
                raise ConnectionError(f"closed before {pattern!r}: {bytes(self._unread)!r}")
            if not self._receive(deadline):
                raise TimeoutError(f"no {pattern!r} in {bytes(self._unread[-2000:])!r}")
        return self._take(match.end())

    def read_until_or_close(self, pattern: bytes, timeout_s: float | None = None) -> tuple[bytes, bool]:
        """Bytes up to the match, or all bytes up to the server's close; and whether it closed."""
        try:
            return self.read_until(pattern, timeout_s), False
        except ConnectionError:
            return self._take(len(self._unread)), True

    def read_to_close(self, timeout_s: float | None = None) -> bytes:
        """Every byte until the server closes.

        Raises:
            TimeoutError: It did not close in time.
        """
        deadline = time.monotonic() + (timeout_s or self.timeout_s)
        while not self._ended:
            if not self._receive(deadline):
                raise TimeoutError(f"not closed: {bytes(self._unread[-2000:])!r}")
        return self._take(len(self._unread))

    def read_exactly(self, count: int, timeout_s: float | None = None) -> bytes:
        """The next `count` bytes.

        Raises:
            ConnectionError: The server closed before.
            TimeoutError: They did not come in time.
        """
        deadline = time.monotonic() + (timeout_s or self.timeout_s)
        while len(self._unread) < count:
            if self._ended:
                raise ConnectionError(f"closed after {len(self._unread)} of {count} bytes")
            if not self._receive(deadline):
                raise TimeoutError(f"{len(self._unread)} of {count} bytes")
        return self._take(count)

    def is_closed_by_peer(self, timeout_s: float = 0.0) -> bool:
        """Whether the server has closed, looking at most that long; what arrives stays readable."""
        deadline = time.monotonic() + timeout_s
        while not self._ended:
            if not self._receive(deadline):
                return False
        return True

    def shut_down_writing(self) -> None:
        """Ends the sending half of the connection; one that is closed already stays so."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _receive(self, deadline: float) -> bool:
        """Reads once; False when the deadline passed first."""
        self._socket.settimeout(max(deadline - time.monotonic(), 0.0001))
        try:
            chunk = self._socket.recv(_CHUNK)
        except TimeoutError:
            return False
        except ConnectionResetError:
            chunk = b""
        self._unread += chunk
        self._ended = self._ended or not chunk
        return True

    def _take(self, count: int) -> bytes:
        taken = bytes(self._unread[:count])
        del self._unread[:count]
        return taken
