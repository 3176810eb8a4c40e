"""Log lines as nats-server prints them: `[pid] 2026/11/15 00:01:02.345678 [INF] text`.

Tools and test harnesses parse these lines, so neither the standard library's formatting nor its levels would do. A line
is one write, so that it is seen at once. `reopen` follows a log file that was moved away.

What a line tells may come from a peer, so it is printed as one line of printable characters. Only the text of a fatal
error may have several lines; it is about the configuration.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import IO, Protocol

from slipstream.protocol.texts import escaped

__all__ = ["FileLog", "Log", "NullLog", "open_log"]


class Log(Protocol):
    """Where log lines go."""

    debug: bool
    trace: bool

    def __call__(self, level: str, text: str) -> None: ...
    def reopen(self) -> None: ...
    def close(self) -> None: ...


class NullLog:
    """Says nothing; for servers inside other programs."""

    debug = False
    trace = False

    def __call__(self, level: str, text: str) -> None:
        """Drop the line."""

    def reopen(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


class FileLog:
    """Lines to stderr or to a file that is renamed away when it has grown too large."""

    def __init__(
        self,
        path: str = "",
        *,
        debug: bool = False,
        trace: bool = False,
        timestamps: bool = True,
        utc: bool = False,
        size_limit: int = 0,
        max_files: int = 0,
    ) -> None:
        self.debug = debug
        self.trace = trace
        self._path = path
        self._timestamps = timestamps
        self._clock: Callable[[float], time.struct_time] = time.gmtime if utc else time.localtime
        self._size_limit = size_limit
        self._max_files = max_files
        self._pid = os.getpid()
        self._second = -1  # the second `_stamp` is made for
        self._stamp = ""
        self._size = 0
        self._file: IO[bytes] = sys.stderr.buffer
        if path:
            self._open()

    def __call__(self, level: str, text: str) -> None:
        """Write one line, unless its level is off."""
        if (level == "DBG" and not self.debug) or (level == "TRC" and not self.trace):
            return
        when = f"{self._now()} " if self._timestamps else ""
        shown = text if level == "FTL" else escaped(text)
        line = f"[{self._pid}] {when}[{level}] {shown}\n".encode("utf-8", "surrogateescape")
        try:
            self._file.write(line)
            self._file.flush()
        except OSError:
            # A full disk or a closed pipe must not take the server down; there is nowhere left to say so.
            return
        if self._path:
            self._size += len(line)
            if 0 < self._size_limit < self._size:
                self._rotate()

    def reopen(self) -> None:
        """Open the file anew, after somebody moved it."""
        if self._path:
            self._file.close()
            self._open()

    def close(self) -> None:
        """Close a log file; stderr stays open."""
        if self._path:
            self._file.close()

    def _now(self) -> str:
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second = second
            self._stamp = time.strftime("%Y/%m/%d %H:%M:%S", self._clock(second))
        return f"{self._stamp}.{int((now - second) * 1_000_000):06d}"

    def _open(self) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        self._file = os.fdopen(descriptor, "ab", buffering=0)
        self._size = os.fstat(descriptor).st_size

    def _rotate(self) -> None:
        self._file.close()
        suffix = time.strftime("%Y.%m.%d.%H.%M.%S", self._clock(time.time())) + f".{time.time_ns() % 1_000_000_000:09d}"
        os.rename(self._path, f"{self._path}.{suffix}")
        self._open()
        if self._max_files > 0:
            folder, name = os.path.split(self._path)
            backups = sorted(entry for entry in os.listdir(folder or ".") if entry.startswith(name + "."))
            for old in backups[: max(0, len(backups) - (self._max_files - 1))]:
                os.unlink(os.path.join(folder, old))


def open_log(
    *,
    path: str = "",
    debug: bool = False,
    trace: bool = False,
    timestamps: bool = True,
    utc: bool = False,
    size_limit: int = 0,
    max_files: int = 0,
    syslog: bool = False,
    remote_syslog: str = "",
) -> Log:
    """The log that the options ask for.

    Raises:
        OSError: the file or the daemon cannot be had; the text says which.
        ValueError: the address of a daemon is none.
    """
    if syslog or remote_syslog:
        from slipstream.server.process.syslog import SyslogLog

        return SyslogLog(remote_syslog, debug=debug, trace=trace)
    return FileLog(
        path, debug=debug, trace=trace, timestamps=timestamps, utc=utc, size_limit=size_limit, max_files=max_files
    )
