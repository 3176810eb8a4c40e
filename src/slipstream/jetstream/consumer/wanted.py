"""Which consumers want a subject, answered once and remembered.

A stream may have thousands of consumers with filters of their own, and asks for every message. Literal filters are
found by a lookup; patterns are tried when a subject is new. The memory is bounded: it begins anew when it is full, or
when consumers change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.consumer.limits import INTEREST_CACHE_MAX

__all__ = ["ConsumerWants"]


class ConsumerWants:
    """The wishes of all consumers of one stream."""

    def __init__(self, consumers: Callable[[], Iterable[Consumer]]) -> None:
        """Ask the given consumers."""
        self._consumers = consumers
        self._known: dict[bytes, tuple[Consumer, ...]] = {}
        self._literal: dict[bytes, list[Consumer]] | None = None  # None: to be made from the consumers
        self._other: list[Consumer] = []  # without filters, or with patterns

    def forget(self) -> None:
        """Consumers came, went or changed their filters, or the stream its subjects."""
        self._known.clear()
        self._literal = None

    def by(self, subject: bytes) -> tuple[Consumer, ...]:
        """The consumers that want messages on this subject."""
        found = self._known.get(subject)
        if found is None:
            if self._literal is None:
                self._divide()
            assert self._literal is not None
            if len(self._known) >= INTEREST_CACHE_MAX:
                self._known.clear()
            matching = (consumer for consumer in self._other if consumer.filters.match(subject))
            found = self._known[subject] = (*self._literal.get(subject, ()), *matching)
        return found

    def _divide(self) -> None:
        self._literal, self._other = {}, []
        for consumer in self._consumers():
            subjects = consumer.filters.literals
            if subjects is None:
                self._other.append(consumer)
                continue
            for subject in subjects:
                self._literal.setdefault(subject, []).append(consumer)
