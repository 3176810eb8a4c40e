"""How fast this machine is right now, for limits of processor time: the same work takes two to four times as long where
a core is slow, or shared with busy neighbours.

What this is not: a benchmark. Limits are meant for a calm core of a few years ago and grow with what a loop of plain
Python takes here.
"""

from __future__ import annotations

import time

__all__ = ["slowness"]

_ROUNDS = 200_000
_CALM_NS = 14_000_000  # of processor time for that loop


def slowness() -> float:
    """How many times as long as on a calm core plain Python takes at the moment; 1 at least."""
    took = []
    for _ in range(3):
        began, total = time.thread_time_ns(), 0
        for number in range(_ROUNDS):
            total += number
        took.append(time.thread_time_ns() - began)
    return max(max(took) / _CALM_NS, 1.0)
