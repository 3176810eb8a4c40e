"""Times at which something ends by itself: one timer for all of them, set for the first.

Most of what has an end is over before it: clients leave, tokens are replaced. Such entries are dropped when they have
become the greater part, so that a client that comes and goes costs nothing that stays.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from slipstream.units import SECOND_NS

__all__ = ["Cancellable", "Deadlines", "Timers"]

# Far ends are looked at again now and then: timers count another clock.
_LOOK_AGAIN_NS: Final = 60 * SECOND_NS
# Entries that are kept without a look at whether they still mean anything.
_UNSWEPT_MAX: Final = 1_024


class Cancellable(Protocol):
    """A timer that can be called off."""

    def cancel(self) -> object: ...


class Timers(Protocol):
    """What calls back after a while."""

    def call_later(self, delay_ns: int, callback: Callable[[], object], /) -> Cancellable: ...


class _Deadline(NamedTuple):
    when_ns: int
    number: int  # keeps entries of the same time apart
    is_current: Callable[[], bool]
    reached: Callable[[], None]


class Deadlines:
    """What happens when, by the wall clock."""

    def __init__(self, timers: Timers, now_ns: Callable[[], int]) -> None:
        """Nothing does yet."""
        self._timers = timers
        self._now_ns = now_ns
        self._heap: list[_Deadline] = []
        self._number = 0
        self._sweep_at = _UNSWEPT_MAX  # entries
        self._timer: Cancellable | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, when_ns: int, is_current: Callable[[], bool], reached: Callable[[], None]) -> None:
        """Call `reached` at a time, unless `is_current` says before that it means nothing any more."""
        self._number += 1
        heapq.heappush(self._heap, _Deadline(when_ns, self._number, is_current, reached))
        if len(self._heap) > self._sweep_at:
            self._heap = [entry for entry in self._heap if entry.is_current()]
            heapq.heapify(self._heap)
            self._sweep_at = 2 * len(self._heap) + _UNSWEPT_MAX
            self._set_timer()
        elif self._heap[0].number == self._number:
            self._set_timer()

    def close(self) -> None:
        """Let no timer run on."""
        self._heap.clear()
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            delay_ns = min(max(self._heap[0].when_ns - self._now_ns(), 0), _LOOK_AGAIN_NS)
            self._timer = self._timers.call_later(delay_ns, self._tick)

    def _tick(self) -> None:
        self._timer = None
        while self._heap and self._heap[0].when_ns <= self._now_ns():
            entry = heapq.heappop(self._heap)
            if entry.is_current():
                entry.reached()
        self._set_timer()
