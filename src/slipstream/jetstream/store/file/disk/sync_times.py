"""How long the device takes to sync what commits wrote: counted, for those who watch the server."""

from __future__ import annotations

__all__ = ["SyncTimes"]


class SyncTimes:
    """Syncs of one disk since it was opened.

    Threads add to it without a lock: a count may be lost now and then, and nothing depends on it.
    """

    __slots__ = ("count", "last_s", "total_s")

    def __init__(self) -> None:
        """None yet."""
        self.count = 0
        self.total_s = 0.0
        self.last_s = 0.0

    def add(self, took_s: float) -> None:
        """One more."""
        self.count += 1
        self.total_s += took_s
        self.last_s = took_s
