"""When work for the end of a turn is done: with the read of a client that is alone, else after all reads."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slipstream.kernels.wire.outbox import Outbox
from slipstream.server.limits import LONE_READ_BYTES_MAX
from slipstream.server.process.logs import NullLog
from slipstream.server.turns import Turns


class Loop:
    """Keeps what is to be called at the end of the turn."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


class World:
    def __init__(self) -> None:
        self.turns = Turns(NullLog(), lambda: ())
        self.loop = Loop()
        self.turns.start(cast(Any, self.loop))
        self.done: list[str] = []
        self.sent: list[str] = []
        client = SimpleNamespace(edge=SimpleNamespace(flush=lambda: self.sent.append("flush")))
        self.outbox = Outbox(self.turns.queue, client, 1 << 20)

    def read(self, cid: int, what: str, nbytes: int = 100, *, writes: bool = False) -> None:
        """A read of a client that makes work."""
        self.turns.reading = True
        if writes:
            self.outbox.write(b"PONG\r\n")
        self.turns.at_end_of_turn(lambda: self.done.append(what))
        self.turns.reading = False
        self.turns.end_read(cid, nbytes)

    def write_in_a_read(self, cid: int) -> None:
        """A read of a client that is answered at once."""
        self.turns.reading = True
        self.outbox.write(b"PONG\r\n")
        self.turns.reading = False
        assert self.turns.unsent
        self.turns.end_read(cid, 6)


def test_what_replicas_say_ends_the_turn_and_leaves_a_client_alone() -> None:
    world = World()
    world.read(1, "first")
    world.loop.turn()
    world.read(0, "replica")
    world.read(1, "second")
    assert world.done == ["first", "replica", "second"]  # without another round of the loop


@pytest.fixture
def world() -> World:
    return World()


def test_work_outside_of_a_read_waits_for_the_end_of_the_turn(world: World) -> None:
    for what in ("a", "b"):
        world.turns.at_end_of_turn(lambda what=what: world.done.append(what))  # type: ignore[misc]
    assert world.done == [] and len(world.loop.soon) == 1
    world.loop.turn()
    assert world.done == ["a", "b"]


def test_a_client_that_is_alone_does_not_wait_for_the_end_of_the_turn(world: World) -> None:
    world.read(1, "first")
    assert world.done == []
    world.loop.turn()
    world.read(1, "second")
    assert world.done == ["first", "second"] and world.loop.soon == []


def test_work_of_several_clients_is_done_together(world: World) -> None:
    for what in ("a", "b"):
        world.read(1, what + "1")
        world.read(2, what + "2")
        assert world.done == []
        world.loop.turn()
        assert world.done == [what + "1", what + "2"]
        world.done.clear()


def test_a_large_read_is_not_a_client_that_waits(world: World) -> None:
    for what in ("a", "b"):
        world.read(1, what, LONE_READ_BYTES_MAX + 1)
        assert what not in world.done
        world.loop.turn()
    assert world.done == ["a", "b"]


def test_a_lone_client_takes_along_what_waited(world: World) -> None:
    world.read(1, "a")
    world.loop.turn()
    world.turns.at_end_of_turn(lambda: world.done.append("timer"))
    world.read(1, "b")
    assert world.done == ["a", "timer", "b"]
    world.loop.turn()
    assert world.done == ["a", "timer", "b"]


def test_what_a_read_wrote_is_sent_at_the_end_of_the_turn(world: World) -> None:
    world.write_in_a_read(1)
    assert world.sent == []
    world.loop.turn()
    assert world.sent == ["flush"] and world.loop.soon == []


def test_what_a_read_wrote_is_sent_with_the_answers_to_it(world: World) -> None:
    world.read(1, "pull", writes=True)
    world.loop.turn()
    assert world.done == ["pull"] and world.sent == ["flush"] and world.loop.soon == []
    world.read(1, "next", writes=True)
    assert world.done == ["pull", "next"] and world.sent == ["flush", "flush"] and world.loop.soon == []


def test_clients_that_take_turns_wait_for_the_end_of_the_turn(world: World) -> None:
    for number in range(4):
        world.read(1 + number % 2, f"of {number}")
        assert len(world.done) == number
        world.loop.turn()
        assert world.done[-1] == f"of {number}"


def test_work_that_goes_on_is_done_once_a_turn_however_much_is_read(world: World) -> None:
    def slice_of_much() -> None:
        world.done.append("slice")
        world.turns.at_end_of_turn(slice_of_much)

    world.turns.at_end_of_turn(slice_of_much)
    for _ in range(5):
        for cid in (1, 2, 3):
            world.read(cid, "ack")  # while the next slice waits for its turn
        world.done.clear()
        world.loop.turn()
        assert world.done.count("slice") == 1
        assert len(world.loop.soon) == 1


def test_work_that_raises_does_not_keep_the_rest_of_the_turn(world: World) -> None:
    lines: list[str] = []
    world.turns.log = cast(Any, lambda _level, text: lines.append(text))

    def fail() -> None:
        raise ZeroDivisionError("a mistake")

    world.turns.at_end_of_turn(fail)
    world.turns.at_end_of_turn(lambda: world.done.append("the rest"))
    world.loop.turn()
    assert world.done == ["the rest"]
    assert len(lines) == 1 and "ZeroDivisionError: a mistake" in lines[0] and "fail" in lines[0]


def test_a_client_that_cannot_be_written_to_does_not_keep_the_others(world: World) -> None:
    lines: list[str] = []
    closed: list[object] = []
    world.turns.log = cast(Any, lambda _level, text: lines.append(text))

    def fail() -> None:
        raise ZeroDivisionError("a mistake")

    other = Outbox(world.turns.queue, SimpleNamespace(edge=SimpleNamespace(flush=fail), close=closed.append), 1 << 20)
    other.write(b"PONG\r\n")
    world.outbox.write(b"PONG\r\n")
    world.turns.flush()
    assert world.sent == ["flush"]
    assert len(closed) == 1 and len(lines) == 1
