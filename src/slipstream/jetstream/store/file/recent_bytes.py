"""Bytes of a log that are in memory: what is on its way to the files or has just arrived there, and what was read last.

    tail    stretches in the order of the log, the newest last: queued, being written, or written a moment ago
    window  the last stretch that was read from a file, for readers that go on where they were

What this is not: what the writer has not given away yet, nor the files.

Invariant: bytes that no file has yet are in the tail until they are written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container

from slipstream.jetstream.store.indexed import NO_BYTES, Stretch
from slipstream.jetstream.store.limits import STORE_TAIL_CACHE_BYTES

__all__ = ["RecentBytes"]


class RecentBytes:
    """The tail of one log, and its window."""

    __slots__ = ("_size", "_window", "tail")

    def __init__(self) -> None:
        """Nothing yet."""
        self.tail: list[Stretch] = []
        """Always the same list."""
        self._size = 0  # bytes of the tail
        self._window: Stretch = NO_BYTES

    def add(self, segment_id: int, offset: int, data: bytes, salt: int) -> None:
        """These bytes are queued behind all others."""
        self.tail.append((segment_id, offset, data, salt))
        self._size += len(data)

    def find(self, segment_id: int, offset: int, least: int) -> tuple[bytes, int] | None:
        """A stretch with this byte, and where it begins; from the window only if it has `least` of them."""
        at = bisect_left(self.tail, (segment_id, offset + 1)) - 1
        if at >= 0:
            where, base, data, _ = self.tail[at]
            if where == segment_id and offset < base + len(data):
                return data, base
        where, base, data, _ = self._window
        if where == segment_id and base <= offset and offset + least <= base + len(data):
            return data, base
        return None

    def begin_of(self, segment_id: int) -> int | None:
        """Where the first byte of this segment lies that is in the tail."""
        at = bisect_left(self.tail, (segment_id,))
        if at < len(self.tail) and self.tail[at][0] == segment_id:
            return self.tail[at][1]
        return None

    def was_read(self, stretch: Stretch) -> None:
        """This came from a file: whoever reads on begins in it, as a rule."""
        self._window = stretch

    def forget_window(self) -> None:
        """What was read from a file may not be what it says now."""
        self._window = NO_BYTES

    def forget(self, segments: Container[int]) -> None:
        """These segments are gone from the log."""
        self.tail[:] = [stretch for stretch in self.tail if stretch[0] not in segments]
        self._size = sum(len(stretch[2]) for stretch in self.tail)
        self.forget_read(segments)

    def forget_read(self, segments: Container[int]) -> None:
        """Their files are gone; they have been closed for long."""
        if self._window[0] in segments:
            self._window = NO_BYTES

    @property
    def is_too_long(self) -> bool:
        """Whether more is kept than readers who follow the log are worth."""
        return self._size > STORE_TAIL_CACHE_BYTES

    def shorten(self, room: int, unwritten: Container[int]) -> None:
        """Keep the newest `room` bytes, and the objects of these ids, which no file has yet."""
        kept: list[Stretch] = []
        for stretch in reversed(self.tail):
            room -= len(stretch[2])
            if room >= 0 or id(stretch[2]) in unwritten:
                kept.append(stretch)
        self.tail[:] = reversed(kept)
        self._size = sum(len(stretch[2]) for stretch in kept)

    def clear(self) -> None:
        """The log is another one."""
        self.tail.clear()
        self._size = 0
        self._window = NO_BYTES
