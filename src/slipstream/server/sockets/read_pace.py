"""How much of one connection is read at once, so that nobody's input holds up the others.

A read is measured by what it made: bytes for receivers, and time. One that was more than a turn's share is followed by
shorter ones, with a turn of the others in between; while reads make little, they grow again.
"""

from __future__ import annotations

from typing import Final

from slipstream.server.limits import READ_BUFFER_BYTES
from slipstream.units import KIB, MIB

__all__ = ["READ_BYTES_FIRST", "READ_BYTES_MIN", "TURN_WRITE_BYTES", "ReadPace"]

TURN_WRITE_BYTES: Final = 4 * MIB  # output of one read after which others have their turn: some 5 ms of work
TURN_WORK_NS: Final = 5_000_000  # a read that took longer is followed by shorter ones: control lines make no output
READ_BYTES_FIRST: Final = 32 * KIB  # of a connection whose receivers nobody has counted yet: 1,000 are 32 MiB
READ_BYTES_MIN: Final = 4 * KIB  # shorter ones would not make a turn shorter: each costs some µs by itself


class ReadPace:
    """The pace of one connection."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = READ_BUFFER_BYTES  # of the next read, at most; nobody receives what comes before CONNECT

    def begin(self) -> None:
        """The other end was let in: what it sends has receivers from now on."""
        self._bytes = READ_BYTES_FIRST

    def cut(self, lent: bytearray | memoryview) -> bytearray | memoryview:
        """As much of a buffer as the next read may fill."""
        return lent if self._bytes >= READ_BUFFER_BYTES else memoryview(lent)[: self._bytes]

    def was_long(self, nbytes: int, written: int, took_ns: int) -> bool:
        """Whether a read of `nbytes` was more than its share of a turn: then the others are next."""
        if nbytes < READ_BYTES_MIN and written < READ_BYTES_MIN and took_ns <= TURN_WORK_NS:
            return False  # of most clients; `_bytes` is never less
        share, took = written / TURN_WRITE_BYTES, took_ns / TURN_WORK_NS
        if took > share:
            share = took
        if share > 1.0:
            self._bytes = max(int(nbytes / share), READ_BYTES_MIN)
            return True
        if share <= 0.5 and nbytes == self._bytes < READ_BUFFER_BYTES:
            self._bytes *= 2
        return False
