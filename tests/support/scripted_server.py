"""A server that follows a script: it sends what it is told and checks what it reads, for one connection."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

INFO = b'INFO {"server_id":"S","version":"2.14.5","max_payload":1048576,"headers":true} \r\n'
TIMEOUT_S = 5.0


class Peer:
    """The server's end of the connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._unread = b""

    def send(self, data: bytes) -> None:
        """Sends."""
        self.connection.sendall(data)

    def read_line(self) -> bytes:
        """One line without its end; empty when the client has closed."""
        while b"\r\n" not in self._unread:
            data = self.connection.recv(65536)
            if not data:
                return b""
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\r\n")
        return line

    def greet(self) -> bytes:
        """The usual beginning; returns the CONNECT line."""
        self.send(INFO)
        connect = self.read_line()
        assert self.read_line() == b"PING"
        self.send(b"PONG\r\n")
        return connect


class ScriptedServer:
    """Accepts one connection and runs the script on it. Leaving the context raises what the script raised."""

    def __init__(self, script: Callable[[Peer], None]) -> None:
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(TIMEOUT_S)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self.url = f"nats://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self._thread.join(TIMEOUT_S)
        self._listener.close()
        if self._failure is not None and e is None:
            raise self._failure

    def _run(self) -> None:
        try:
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(TIMEOUT_S)
                self._script(Peer(connection))
        except BaseException as error:
            self._failure = error
