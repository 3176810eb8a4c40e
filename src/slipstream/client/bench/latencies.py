"""How long operations took, in bounded memory: all of them up to a limit, a fair sample of more."""

from __future__ import annotations

import random
from array import array

__all__ = ["Latencies"]

_KEPT_MAX = 1_000_000  # of one client: 8 MB


class Latencies:
    """Durations in nanoseconds. Invariant: the shortest and the longest are always among them."""

    def __init__(self, kept_max: int = _KEPT_MAX) -> None:
        """Nothing was measured yet."""
        self._kept = array("q")
        self._kept_max = kept_max
        self._count = 0
        self._least = 2**63 - 1
        self._most = 0

    def add(self, duration_ns: int) -> None:
        """Remember one; from the limit on each of all is kept with the same chance."""
        self._count += 1
        self._least = min(duration_ns, self._least)
        self._most = max(duration_ns, self._most)
        if len(self._kept) < self._kept_max:
            self._kept.append(duration_ns)
        elif (at := random.randrange(self._count)) < self._kept_max:
            self._kept[at] = duration_ns

    def all(self) -> tuple[int, ...]:
        """What is kept, in order of duration."""
        kept = sorted(self._kept)
        if kept:
            kept[0], kept[-1] = self._least, self._most
        return tuple(kept)
