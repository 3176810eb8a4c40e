"""Time as the core sees it: a value that is passed in, so that tests decide what time it is."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock", "rfc3339"]


class Clock(Protocol):
    """Where the time comes from."""

    def now_ns(self) -> int:
        """Wall clock, nanoseconds since 1970, for what people and other machines read."""
        ...

    def monotonic_ns(self) -> int:
        """Never goes back; for deadlines and intervals."""
        ...


class SystemClock:
    """The machine's clocks."""

    now_ns = staticmethod(time.time_ns)
    monotonic_ns = staticmethod(time.monotonic_ns)


def rfc3339(timestamp_ns: int) -> str:
    """UTC time with nanoseconds, trailing zeros cut, as Go prints RFC3339Nano."""
    seconds, nanos = divmod(timestamp_ns, 1_000_000_000)
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    fraction = f".{nanos:09d}".rstrip("0").rstrip(".")
    return f"{text}{fraction}Z"
