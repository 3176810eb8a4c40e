"""What ends by itself: in time, once, and nothing stays of what ended before."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.routing.deadlines import Deadlines
from slipstream.units import SECOND_NS


class Clock:
    """A clock with one timer."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.set: list[tuple[int, Callable[[], object]]] = []

    def call_later(self, delay_ns: int, callback: Callable[[], object]) -> Handle:
        self.set.append((self.now_ns + delay_ns, callback))
        return Handle(self, self.set[-1])

    def pass_to(self, now_ns: int) -> None:
        """Let time pass, and timers fire."""
        while self.set and min(self.set)[0] <= now_ns:
            due = min(self.set, key=lambda timer: timer[0])
            self.set.remove(due)
            self.now_ns = due[0]
            due[1]()
        self.now_ns = now_ns


def _fail() -> None:
    raise AssertionError("reached")


class Handle:
    def __init__(self, clock: Clock, timer: tuple[int, Callable[[], object]]) -> None:
        self._clock = clock
        self._timer = timer

    def cancel(self) -> None:
        if self._timer in self._clock.set:
            self._clock.set.remove(self._timer)


def test_each_is_reached_in_time_and_in_order() -> None:
    clock = Clock()
    deadlines = Deadlines(clock, lambda: clock.now_ns)
    reached: list[tuple[str, int]] = []
    for name, when_s in (("c", 90), ("a", 1), ("b", 2), ("b too", 2)):
        deadlines.add(when_s * SECOND_NS, lambda: True, lambda name=name: reached.append((name, clock.now_ns)))  # type: ignore[misc]
    clock.pass_to(200 * SECOND_NS)
    assert reached == [(name, s * SECOND_NS) for name, s in (("a", 1), ("b", 2), ("b too", 2), ("c", 90))]
    assert not clock.set and len(deadlines) == 0


def test_what_means_nothing_any_more_is_not_reached() -> None:
    clock = Clock()
    deadlines = Deadlines(clock, lambda: clock.now_ns)
    deadlines.add(SECOND_NS, lambda: False, _fail)
    clock.pass_to(2 * SECOND_NS)
    assert len(deadlines) == 0


def test_clients_that_come_and_go_leave_nothing_behind() -> None:
    clock = Clock()
    deadlines = Deadlines(clock, lambda: clock.now_ns)
    here: set[int] = set()
    reached: list[int] = []
    for cid in range(20_000):
        deadlines.add(1_000 * SECOND_NS, lambda cid=cid: cid in here, lambda cid=cid: reached.append(cid))  # type: ignore[misc]
        here.add(cid)
        here.discard(cid - 10)
    assert len(deadlines) < 2_000
    clock.pass_to(2_000 * SECOND_NS)
    assert reached == sorted(here) and len(deadlines) == 0


def test_no_timer_runs_on() -> None:
    clock = Clock()
    deadlines = Deadlines(clock, lambda: clock.now_ns)
    deadlines.add(SECOND_NS, lambda: True, lambda: None)
    deadlines.close()
    assert not clock.set
