"""Log lines to a syslog daemon, in the format of Go's writer, which nats-server uses.

    here       <29>Nov 16 10:41:02 nats-server[4711]: text
    elsewhere  <5>2026-11-16T10:41:02Z host nats-server[4711]: text     (udp://host:port, tcp://host:port, unix:///path)

A daemon that does not keep up, or is gone, costs lines, never time of the event loop: sockets do not block, and a lost
one is opened again once a line.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress
from urllib.parse import urlsplit

from slipstream.protocol.texts import escaped

__all__ = ["SyslogLog"]

_PORT = 514
_CONNECT_TIMEOUT_S = 5.0  # at the start; nothing else waits
_UNSENT_BYTES_MAX = 64 * 1024  # of a stream that is full; further lines are dropped
_LOCAL_SOCKETS = ("/dev/log", "/var/run/syslog", "/var/run/log")
_FACILITY_DAEMON, _FACILITY_REMOTE = 3 << 3, 0
_SEVERITY = {"FTL": 2, "ERR": 3, "WRN": 4, "INF": 5, "TRC": 5, "DBG": 7}


class SyslogLog:
    """Lines to the system's log daemon, here or on another machine."""

    def __init__(self, remote: str = "", *, debug: bool = False, trace: bool = False) -> None:
        """Connect.

        Raises:
            OSError: nobody is there.
            ValueError: the address is none.
        """
        self.debug = debug
        self.trace = trace
        self._remote = remote
        self._tag = f"{os.path.basename(sys.argv[0]) or 'nats-server'}[{os.getpid()}]"
        self._host = socket.gethostname()
        self._unsent = b""  # the end of a line that a stream has not taken yet
        self._socket = self._connect()

    def __call__(self, level: str, text: str) -> None:
        """Send one line, unless its level is off."""
        if (level == "DBG" and not self.debug) or (level == "TRC" and not self.trace):
            return
        line = self._line(level, text)
        try:
            self._send(line)
        except OSError:
            with suppress(OSError):  # there is nowhere left to say so
                self._socket.close()
                self._unsent = b""
                self._socket = self._connect(waits=False)
                self._send(line)

    def reopen(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _line(self, level: str, text: str) -> bytes:
        now = time.time()
        if self._remote:
            zone = time.strftime("%z", time.localtime(now))
            zone = "Z" if zone in ("+0000", "") else f"{zone[:3]}:{zone[3:]}"
            stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(now))}{zone} {self._host}"
            priority = _FACILITY_REMOTE | _SEVERITY[level]
        else:
            local = time.localtime(now)
            stamp = f"{time.strftime('%b', local)} {local.tm_mday:2d} {time.strftime('%H:%M:%S', local)}"
            priority = _FACILITY_DAEMON | _SEVERITY[level]
        return f"<{priority}>{stamp} {self._tag}: {escaped(text)}\n".encode("utf-8", "surrogateescape")

    def _send(self, line: bytes) -> None:
        data = self._unsent + line
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        if self._socket.type == socket.SOCK_STREAM:
            rest = data[sent:]
            # A line that was begun has to be ended; whole lines that do not fit are dropped.
            self._unsent = rest if len(rest) <= _UNSENT_BYTES_MAX else self._unsent[sent:]

    def _connect(self, *, waits: bool = True) -> socket.socket:
        if not self._remote:
            return _local_daemon()
        url = urlsplit(self._remote)
        if url.scheme == "unix":
            return _opened(socket.AF_UNIX, socket.SOCK_DGRAM, url.path, waits=waits)
        if url.scheme not in ("udp", "tcp"):
            raise ValueError(f'error invalid network type: "{url.scheme}"')
        kind = socket.SOCK_STREAM if url.scheme == "tcp" else socket.SOCK_DGRAM
        found = socket.getaddrinfo(url.hostname or "127.0.0.1", url.port or _PORT, type=kind)
        return _opened(found[0][0], kind, found[0][4], waits=waits)


def _local_daemon() -> socket.socket:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        for path in _LOCAL_SOCKETS:
            with suppress(OSError):
                return _opened(socket.AF_UNIX, kind, path, waits=True)
    raise OSError("Unix syslog delivery error")


def _opened(family: int, kind: int, address: object, *, waits: bool) -> socket.socket:
    opened = socket.socket(family, kind)
    try:
        opened.settimeout(_CONNECT_TIMEOUT_S if waits else 0)
        with suppress(BlockingIOError):  # a connection under way takes no lines yet
            opened.connect(address)  # type: ignore[arg-type]  # as the family wants it
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened
