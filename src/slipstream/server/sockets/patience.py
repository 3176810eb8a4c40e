"""A time-out that is set very often and seldom reached.

Setting it later, or calling it off, leaves a timer that is under way alone: when that fires, it looks at what holds
now. So a connection that answers thousands of requests a second makes a timer now and then, and not two a request.
"""

from __future__ import annotations

from collections.abc import Callable

from slipstream.routing.deadlines import Cancellable, Timers

__all__ = ["Patience"]


class Patience:
    """One time-out of one owner."""

    def __init__(self, timers: Timers, now_ns: Callable[[], int], over: Callable[[], object]) -> None:
        """Nothing is awaited yet.

        Args:
            timers: what calls back after a while.
            now_ns: a clock that only goes forward.
            over: called when the time is over.
        """
        self._timers = timers
        self._now_ns = now_ns
        self._over = over
        self._end_ns = 0  # 0: nothing is awaited
        self._fires_ns = 0  # when the timer does
        self._timer: Cancellable | None = None

    def set(self, timeout_ns: int) -> None:
        """Be patient for so long from now on."""
        self._end_ns = self._now_ns() + timeout_ns
        if self._timer is None or self._end_ns < self._fires_ns:
            self._arm(timeout_ns)

    def clear(self) -> None:
        """Nothing is awaited any more."""
        self._end_ns = 0

    def close(self) -> None:
        """Let no timer run on."""
        self._end_ns = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, timeout_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fires_ns = self._end_ns
        self._timer = self._timers.call_later(timeout_ns, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if not self._end_ns:
            return
        left_ns = self._end_ns - self._now_ns()
        if left_ns > 0:
            self._arm(left_ns)
        else:
            self._end_ns = 0
            self._over()
