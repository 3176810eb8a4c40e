"""The pace of bulk work: a share of the machine beside other clients, all of it otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from slipstream.jetstream.bulk.limits import BULK_HEARD_NS, BULK_HEARD_READS, BULK_SPAN_NS
from slipstream.jetstream.bulk.pace import Pace
from slipstream.limits import BULK_PAUSE_NS, BULK_PAUSE_NS_MAX


class World:
    """A machine whose clock and loop do as they are told."""

    def __init__(self, cores: int = 2) -> None:
        self.now = 10**18
        self.ports: Any = SimpleNamespace(cores=cores, reads=0, now_ns=lambda: self.now)
        self.pace = Pace(self.ports)
        self.pace.may_begin()
        self.now += BULK_SPAN_NS

    def begun(self) -> int:
        """How many chunks may be begun now, up to 100."""
        return sum(self.pace.may_begin() for _ in range(100))


def test_alone() -> None:
    world = World()
    assert world.begun() == 100 and not world.pace.beside_others


@pytest.mark.parametrize(("cores", "share"), [(1, 1), (2, 1), (8, 4)])
def test_beside_others(cores: int, share: int) -> None:
    world = World(cores)
    world.ports.reads += BULK_HEARD_READS
    for _ in range(3):
        assert world.begun() == share and world.pace.beside_others
        world.now += BULK_SPAN_NS - 1
        assert world.begun() == 0
        world.now += 1
    for _ in range(2):
        world.now += BULK_HEARD_NS
        last = world.begun()
    assert last == 100 and not world.pace.beside_others, "nobody was heard for two windows"


@pytest.mark.parametrize(("cores", "readers", "times"), [(1, 1, 1), (2, 3, 3), (8, 1, 1), (8, 8, 2), (2, 10**6, None)])
def test_pauses_of_those_who_read_files(cores: int, readers: int, times: int | None) -> None:
    """All together read as much as one chunk for every second processor would be."""
    world = World(cores)
    assert world.pace.pause_ns(readers) == 0
    world.ports.reads += BULK_HEARD_READS
    world.pace.may_begin()
    assert world.pace.pause_ns(readers) == (BULK_PAUSE_NS_MAX if times is None else times * BULK_PAUSE_NS)


def test_a_slow_publisher_stays_heard() -> None:
    """Who waits for an answer before he goes on is heard rarely when things are slow; then they must not get slower."""
    world = World()
    world.ports.reads += BULK_HEARD_READS
    assert world.begun() == 1
    for _ in range(50):
        world.now += BULK_HEARD_NS // BULK_HEARD_READS
        world.ports.reads += 1
        assert world.begun() == 1


def test_a_few_questions_are_nobody() -> None:
    world = World()
    for _ in range(10):
        world.ports.reads += BULK_HEARD_READS - 1
        assert world.begun() == 100
        world.now += 2 * BULK_HEARD_NS


def test_after_a_long_time() -> None:
    world = World()
    world.ports.reads += 1000
    world.now += 100 * BULK_HEARD_NS
    assert world.begun() == 100, "that was before"


def test_bulk_calls_are_not_others() -> None:
    world = World()
    for _ in range(50):
        world.ports.reads += 1
        world.pace.bulk_call()
        world.pace.bulk_call()  # several came with one read
        assert world.begun() == 100
    world.now += BULK_SPAN_NS
    for _ in range(BULK_HEARD_READS):
        world.ports.reads += 2
        world.pace.bulk_call()
    assert world.begun() == 1, "one of two was somebody else"


def test_a_clock_that_jumps_back() -> None:
    world = World()
    world.ports.reads += BULK_HEARD_READS
    assert world.begun() == 1
    world.now -= 10**12
    assert world.begun() == 100
