"""A time-out that costs no timer when it is set again."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.server.sockets.patience import Patience


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now_ns = 1000
        self.timers: list[tuple[int, Callable[[], object]]] = []
        self.made = 0

    def call_later(self, delay_ns: int, callback: Callable[[], object]) -> Timer:
        self.made += 1
        entry = (self.now_ns + delay_ns, callback)
        self.timers.append(entry)
        return Timer(self, entry)

    def to(self, now_ns: int) -> None:
        """Go there, timer by timer."""
        while self.timers and min(self.timers, key=lambda one: one[0])[0] <= now_ns:
            first = min(self.timers, key=lambda one: one[0])
            self.timers.remove(first)
            self.now_ns = first[0]
            first[1]()
        self.now_ns = now_ns


class Timer:
    """One that can be called off."""

    def __init__(self, clock: Clock, entry: tuple[int, Callable[[], object]]) -> None:
        self._clock, self._entry = clock, entry

    def cancel(self) -> None:
        self._clock.timers.remove(self._entry)


def test_it_ends_when_it_is_not_set_again() -> None:
    clock, over = Clock(), list[int]()
    patience = Patience(clock, lambda: clock.now_ns, lambda: over.append(clock.now_ns))
    patience.set(100)
    clock.to(1050)
    patience.set(100)
    patience.set(90)
    assert clock.made == 1  # the later ends cost nothing
    clock.to(2000)
    assert over == [1140]


def test_an_earlier_end_holds() -> None:
    clock, over = Clock(), list[int]()
    patience = Patience(clock, lambda: clock.now_ns, lambda: over.append(clock.now_ns))
    patience.set(100)
    patience.set(10)
    clock.to(2000)
    assert over == [1010]


def test_called_off_it_does_nothing() -> None:
    clock, over = Clock(), list[int]()
    patience = Patience(clock, lambda: clock.now_ns, lambda: over.append(clock.now_ns))
    patience.set(100)
    patience.clear()
    clock.to(1200)
    assert not over and not clock.timers
    patience.set(50)
    patience.close()
    assert not clock.timers
