"""A server process under test: started on a free port, watched through its log, its memory and time read from /proc.

Works for any program that takes nats-server's flags and writes its log lines.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections import deque
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import IO, Self

__all__ = ["Server", "ServerFailed"]

_START_TIMEOUT_S = 60.0  # a server may have many messages to read
_STOP_TIMEOUT_S = 10.0
_TERMINATE_TIMEOUT_S = 60.0  # a clean stop may write much
_LOG_LINES_MAX = 200  # kept for the error text; a busy server may write many
_CLIENT_ADDRESS = re.compile(r"Listening for client connections on \S+:(\d+)")


class ServerFailed(Exception):
    """The server did not start, or ended; the text holds the end of its log."""


class Server:
    """One running server. Use it as a context manager: it is killed at the end."""

    def __init__(self, binary: Path, directory: Path, flags: tuple[str, ...] = ()) -> None:
        """Start the program and wait until it says that it is ready.

        Args:
            binary: the server program.
            directory: its working directory; flags may name paths in it.
            flags: further command-line flags.

        Raises:
            ServerFailed: it was not ready in time.
        """
        self._binary = binary
        self._directory = directory
        self._command = [str(binary), "-a", "127.0.0.1", "-p", "-1", *flags]
        self._start()

    def _start(self) -> None:
        self._log: deque[str] = deque(maxlen=_LOG_LINES_MAX)
        self._ready = threading.Event()
        self._ready_ns = 0
        self._port = 0
        started_ns = monotonic_ns()
        try:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise ServerFailed(f"cannot start {self._binary.name}: {error}") from error
        assert self._process.stderr is not None
        self._reader = threading.Thread(target=self._read_log, args=(self._process.stderr,), daemon=True)
        self._reader.start()
        if not self._ready.wait(_START_TIMEOUT_S) or not self._port or not self._ready_ns:
            self.stop()
            raise ServerFailed(f"{self._binary.name} is not ready:\n{self.log}")
        self.start_ns = self._ready_ns - started_ns  # from exec to `Server is ready`
        self.start_cpu_ns = int(self._stat("schedstat").split()[0])  # of the first thread until then

    @property
    def url(self) -> str:
        """Where a client connects."""
        return f"nats://127.0.0.1:{self._port}"

    @property
    def binary(self) -> Path:
        """The program."""
        return self._binary

    @property
    def log(self) -> str:
        """The end of its log."""
        return "\n".join(self._log)

    def resident_bytes(self) -> int:
        """Memory of the process that is in RAM now."""
        return int(self._stat("statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_ns(self) -> int:
        """Processor time it has used, in all its threads."""
        fields = self._stat("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")

    def busy_ns(self) -> int:
        """Processor time of the threads that run now, to the nanosecond: for short stretches."""
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def restart(self, *, clean: bool) -> None:
        """End the process, by asking it or by killing it, and start the same program again in the same directory.

        Raises:
            ServerFailed: it did not end, or was not ready in time.
        """
        if clean:
            self._process.terminate()
            try:
                self._process.wait(_TERMINATE_TIMEOUT_S)
            except subprocess.TimeoutExpired as error:
                raise ServerFailed(f"the server does not end:\n{self.log}") from error
        self.stop()
        self._start()

    def stop(self) -> None:
        """Kill the process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(_STOP_TIMEOUT_S)
        self._reader.join(_STOP_TIMEOUT_S)
        if self._process.stderr is not None:
            self._process.stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _stat(self, name: str) -> str:
        try:
            return Path(f"/proc/{self._process.pid}/{name}").read_text()
        except OSError as error:
            raise ServerFailed(f"the server ended:\n{self.log}") from error

    def _read_log(self, pipe: IO[str]) -> None:
        """Read until the end, so that the pipe never fills up."""
        for line in pipe:
            self._log.append(line.rstrip("\n"))
            if found := _CLIENT_ADDRESS.search(line):
                self._port = int(found[1])
            elif "Server is ready" in line and not self._ready_ns:
                self._ready_ns = monotonic_ns()
                self._ready.set()
        self._ready.set()  # it ended: nobody need wait any longer
