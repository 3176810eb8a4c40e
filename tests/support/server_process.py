"""A server program as a child process: started on a free port, watched through its log, stopped or signalled.

Works for any program that takes nats-server's flags and writes its log lines. It never sleeps: readiness and every
other event is a line on the child's standard error, read by one thread so that the pipe never fills up.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

# No event may hold the loop of our server longer than this; in processor time, so that a busy machine does not count. A
# machine with slow processors says what it takes in the variable itself. The aim is 50: what is imported at its first
# use, and the last long lists (`test_worst_cases`), stand between.
SLOW_EVENT_VARIABLE = "SLIPSTREAM_SLOW_EVENT_MS"
SLOW_EVENT_MS = "1000"
# When to give up, not what a server may take: a busy machine starts ten of them at once.
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
LOG_TIMEOUT_S = 5.0

_READY = re.compile(r"Server is ready")
_CLIENT_PORT = re.compile(r"Listening for client connections on \S+:(\d+)")
_MONITOR_PORT = re.compile(r"Starting https? monitor on \S+:(\d+)")
_WEBSOCKET_PORT = re.compile(r"Listening for websocket clients on wss?://\S+:(\d+)")
_FLAG_SETS_PORT = {"-p", "--port", "-port"}


class ServerStartError(Exception):
    """The child ended, or stayed silent, before it said that it was ready."""


class ServerProcess:
    """One server child process.

    Invariant: `port` is the port of the last successful start; `restart` listens on it again.
    """

    def __init__(self, binary: Path, directory: Path, *, config: str = "", flags: Sequence[str] = ()) -> None:
        """Prepares a server; `start` runs it.

        Args:
            binary: The server program.
            directory: An existing directory of its own for the configuration and whatever the server writes.
            config: Text of the configuration file; empty for none.
            flags: Further command-line flags. Without a port among them the server picks a free one.
        """
        self.binary = binary
        self.directory = directory
        self.config_path = directory / "server.conf"
        self.flags = list(flags)
        self.start_timeout_s = START_TIMEOUT_S
        self.environment: dict[str, str] = {}  # besides ours
        self.port = 0
        self.monitor_port = 0
        self.websocket_port = 0
        self.log_lines: list[str] = []
        self._config = config
        self._log_changed = threading.Condition()
        self._log_ended = False
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where a client connects."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Process id of the running child."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether the child was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Starts the child and waits until it is ready.

        Raises:
            ServerStartError: It was not ready in time; the message holds its log.
        """
        self.launch()
        return self.ready()

    def ready(self) -> Self:
        """Waits until the child that was launched is ready.

        Raises:
            ServerStartError: It was not ready in time; the message holds its log.
        """
        try:
            self.wait_for_log(_READY, timeout_s=self.start_timeout_s)
        except TimeoutError as error:
            self.kill()
            log = "\n".join(self.log_lines)
            raise ServerStartError(f"{self.binary.name} {self._arguments()} is not ready:\n{log}") from error
        self.port = self._logged_number(_CLIENT_PORT)
        self.monitor_port = self._logged_number(_MONITOR_PORT)
        self.websocket_port = self._logged_number(_WEBSOCKET_PORT)
        return self

    def launch(self) -> None:
        """Starts the child and does not wait for it; its log may go elsewhere."""
        if self._config:
            self.config_path.write_text(self._config)
        self.log_lines = []
        self._log_ended = False
        self._process = subprocess.Popen(
            [str(self.binary), *self._arguments()],
            cwd=self.directory,
            env={SLOW_EVENT_VARIABLE: SLOW_EVENT_MS, **os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        assert self._process.stderr is not None
        self._reader = threading.Thread(target=self._drain, args=(self._process.stderr,), daemon=True)
        self._reader.start()

    def slow_events(self, since: int = 0) -> list[str]:
        """What the server said about events that held its loop, in the lines from this number on."""
        return [line for line in self.log_lines[since:] if "held the event loop for" in line]

    def run_to_end(self, timeout_s: float = START_TIMEOUT_S) -> int:
        """Runs the child for a start that is expected to fail or to finish; returns its exit status."""
        if self._config:
            self.config_path.write_text(self._config)
        done = subprocess.run(
            [str(self.binary), *self._arguments()],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        self.log_lines = (done.stdout + done.stderr).splitlines()
        return done.returncode

    def stop(self) -> int:
        """Asks the child to end and waits for it; returns its exit status."""
        return self._end_with(signal.SIGTERM)

    def kill(self) -> int:
        """Ends the child without asking; returns its exit status."""
        return self._end_with(signal.SIGKILL)

    def end(self) -> None:
        """Ends the child if there is one."""
        if self._process is not None:
            self.kill()

    def restart(self) -> Self:
        """Starts the stopped server again on the port it had."""
        if self._process is not None:
            self.stop()
        return self.start()

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal to the child."""
        os.kill(self.pid, number)

    def reload(self, config: str) -> None:
        """Replaces the configuration file, signals the child and waits until it has taken it."""
        self._config = config
        self.config_path.write_text(config)
        position = len(self.log_lines)
        self.send_signal(signal.SIGHUP)
        self.wait_for_log(r"Reloaded server configuration|Failed to reload", after=position)

    def lame_duck(self) -> None:
        """Tells the child to enter lame duck mode."""
        self.send_signal(signal.SIGUSR2)

    def wait_for_exit(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Waits for a child that ends by itself; returns its exit status."""
        status = self._running().wait(timeout_s)
        self._forget()
        return status

    def wait_for_log(self, pattern: str | re.Pattern[str], *, after: int = 0, timeout_s: float = LOG_TIMEOUT_S) -> str:
        """The first log line at or past index `after` that matches.

        Raises:
            TimeoutError: No such line came in time, or the log ended.
        """
        expression = re.compile(pattern)

        def found() -> str | None:
            return next((line for line in self.log_lines[after:] if expression.search(line)), None)

        with self._log_changed:
            self._log_changed.wait_for(lambda: found() is not None or self._log_ended, timeout_s)
            line = found()
        if line is None:
            raise TimeoutError(f"no log line matches {expression.pattern!r}")
        return line

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def _arguments(self) -> list[str]:
        arguments = list(self.flags)
        if self.port or not _FLAG_SETS_PORT & set(self.flags):
            arguments += ["-p", str(self.port or -1)]
        if "-a" not in arguments:
            arguments += ["-a", "127.0.0.1"]
        return arguments + (["-c", str(self.config_path)] if self._config else [])

    def _drain(self, pipe: IO[str]) -> None:
        for line in pipe:
            with self._log_changed:
                self.log_lines.append(line.rstrip("\n"))
                self._log_changed.notify_all()
        with self._log_changed:
            self._log_ended = True
            self._log_changed.notify_all()

    def _logged_number(self, pattern: re.Pattern[str]) -> int:
        found = [match for line in self.log_lines if (match := pattern.search(line))]
        return int(found[0][1]) if found else 0

    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "the server is not running"
        return self._process

    def _end_with(self, number: signal.Signals) -> int:
        process = self._running()
        process.send_signal(number)
        try:
            status = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self._forget()
            raise
        self._forget()
        return status

    def _forget(self) -> None:
        if self._reader is not None:
            self._reader.join(STOP_TIMEOUT_S)
        if self._process is not None and self._process.stderr is not None:
            self._process.stderr.close()
        self._process = None
