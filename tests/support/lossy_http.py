"""A way to an HTTP server that loses answers: what was asked is done, and the connection ends instead of a word.

It is a process of its own: libraries may hold the interpreter's lock while they wait for an answer.
"""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Self

_CHANGES = (b"PUT ", b"POST ", b"DELETE ")


class LossyHttp:
    """The process, for a test."""

    def __init__(self, target_port: int, seed: int = 1) -> None:
        words = [sys.executable, __file__, str(target_port), str(seed)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = self._ask("0")[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        with self._process:
            self._process.kill()

    def lose(self, percent: int) -> None:
        """How many of a hundred requests that change something lose their answer from now on."""
        self._ask(str(percent))

    @property
    def lost(self) -> int:
        """How many have."""
        return self._ask("")[1]

    def _ask(self, word: str) -> tuple[int, int]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        port, lost = self._process.stdout.readline().split()
        return int(port), int(lost)


class _Way:
    """From a port of its own to another one."""

    def __init__(self, target_port: int, seed: int) -> None:
        self.percent = 0  # of requests that change something
        self.lost = 0
        self._target = target_port
        self._chance = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

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


if __name__ == "__main__":
    way = _Way(int(sys.argv[1]), int(sys.argv[2]))
    for line in sys.stdin:
        way.percent = int(line.strip() or way.percent)
        print(way.port, way.lost, flush=True)
