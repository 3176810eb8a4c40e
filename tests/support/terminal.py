"""Programs in a real terminal: a pseudo terminal of a fixed size, read and typed into as a person would.

`Terminal` runs one program. `expect` waits until a text has appeared, so a test never sleeps; `finish` waits for the
end. Colours are taken out of `screen`; `raw` has everything the program wrote.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

TIMEOUT_S = 20.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[=>()][A-Z0-9]?")


def program(name: str = "slipstream") -> str:
    """The path of an installed script."""
    return str(Path(sys.executable).parent / name)


class Terminal:
    """A program in a terminal of its own."""

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None, columns: int = 120, rows: int = 50
    ) -> None:
        """Start it."""
        self.command = list(command)
        self.raw = ""
        self._expected_to = 0  # what is in front of this position of the screen was expected before
        self._master, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self._process = subprocess.Popen(
            self.command,
            stdin=child,
            stdout=child,
            stderr=child,
            env={**inherited, "TERM": "xterm-256color", **(env or {})},
            start_new_session=True,
            close_fds=True,
        )
        os.close(child)

    @property
    def screen(self) -> str:
        """What was written so far, without colours."""
        return _ESCAPES.sub("", self.raw).replace("\r\n", "\n").replace("\r", "")

    def expect(self, text: str, timeout_s: float = TIMEOUT_S) -> Self:
        """Wait until a text appears behind what was expected before."""
        deadline = time.monotonic() + timeout_s
        while (at := self.screen.find(text, self._expected_to)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} did not appear after {self.command}:\n{self.screen}")
        self._expected_to = at + len(text)
        return self

    def shows(self, text: str) -> bool:
        """Whether a text has appeared, or does in a moment; nothing is expected behind it."""
        deadline = time.monotonic() + 0.1
        while text not in self.screen:
            if time.monotonic() >= deadline or not self._read(deadline):
                return text in self.screen
        return True

    def type(self, line: str) -> Self:
        """Type a line and press return."""
        os.write(self._master, f"{line}\n".encode())
        return self

    def answer(self, question: str, line: str = "") -> Self:
        """Wait for a question and answer it."""
        return self.expect(question).type(line)

    def interrupt(self) -> Self:
        """Press Ctrl-C."""
        os.killpg(self._process.pid, signal.SIGINT)
        return self

    def finish(self, status: int = 0, timeout_s: float = TIMEOUT_S) -> str:
        """Wait for the end with this exit status; the screen."""
        deadline = time.monotonic() + timeout_s
        while self._read(deadline):
            pass
        found = self._process.wait(max(deadline - time.monotonic(), 0.1))
        assert found == status, f"{self.command} ended with {found}:\n{self.screen}"
        return self.screen

    def close(self) -> None:
        """End the program if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, deadline: float) -> bool:
        """Take in what the program writes; False when it ended or the time is up."""
        poll = select.poll()  # `select` takes no descriptor above 1,023, and a process of tests may have that many
        poll.register(self._master, select.POLLIN)
        if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # the other side of a pseudo terminal is closed
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)
