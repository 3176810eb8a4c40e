"""The pace of bulk work: a share of the machine beside other clients, all of it otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from slipstream.jetstream.bulk.pace import Pace
from slipstream.limits import BULK_HEARD_NS, BULK_SPAN_NS


class World:
    """A machine whose clock and loop do as they are told."""

    def __init__(self, cores: int = 2) -> None:
        self.now = 10**18
        self.ports: Any = SimpleNamespace(cores=cores, reads=0, now_ns=lambda: self.now)
        self.pace = Pace(self.ports)

    def begun(self) -> int:
        """How many chunks may be begun now, up to 100."""
        return sum(self.pace.may_begin() for _ in range(100))


def test_alone() -> None:
    world = World()
    assert world.begun() == 100 and not world.pace.beside_others


@pytest.mark.parametrize(("cores", "share"), [(1, 1), (2, 1), (8, 4)])
def test_beside_others(cores: int, share: int) -> None:
    world = World(cores)
    for _ in range(3):
        world.ports.reads += 1
        assert world.begun() == share and world.pace.beside_others
        world.now += BULK_SPAN_NS - 1
        assert world.begun() == 0
        world.now += 1
    world.now += BULK_HEARD_NS - BULK_SPAN_NS - 1
    assert world.begun() == share, "somebody may be waiting for an answer before he goes on"
    world.now += 1
    assert world.begun() == 100 and not world.pace.beside_others


def test_bulk_calls_are_not_others() -> None:
    world = World()
    for _ in range(3):
        world.ports.reads += 1
        world.pace.bulk_call()
        world.pace.bulk_call()  # several came with one read
        assert world.begun() == 100
    world.now += BULK_HEARD_NS
    world.ports.reads += 2
    world.pace.bulk_call()
    assert world.begun() == 1, "one of the two was somebody else"


def test_a_clock_that_jumps_back() -> None:
    world = World()
    world.ports.reads += 1
    assert world.begun() == 1
    world.now -= 10**12
    assert world.begun() == 100
