"""A way to an HTTP server that loses answers: what was asked is done, and the connection ends instead of a word."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress
from typing import Self

_CHANGES = (b"PUT ", b"POST ", b"DELETE ")


class LossyHttp:
    """From a port of its own to another one."""

    def __init__(self, target_port: int, seed: int = 1) -> None:
        self.percent = 0  # of requests that change something
        self.lost = 0
        self._target = target_port
        self._chance = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        for one in (near, far):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        doomed = threading.Event()
        back = threading.Thread(target=self._answers, args=(far, near, doomed), daemon=True)
        back.start()
        with suppress(OSError):
            while data := near.recv(1 << 16):
                if data.startswith(_CHANGES) and self._chance.randrange(100) < self.percent:
                    doomed.set()
                far.sendall(data)
        with suppress(OSError):
            far.shutdown(socket.SHUT_WR)
        back.join()
        near.close()
        far.close()

    def _answers(self, far: socket.socket, near: socket.socket, doomed: threading.Event) -> None:
        with suppress(OSError):
            while data := far.recv(1 << 16):
                if doomed.is_set() and not data.startswith(b"HTTP/1.1 100"):
                    self.lost += 1
                    break
                near.sendall(data)
        with suppress(OSError):
            near.shutdown(socket.SHUT_RDWR)
