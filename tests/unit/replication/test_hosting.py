"""Streams that a server is to keep: thousands at once after a start, and the loop has its turns in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.jetstream.config.structs import StreamConfig
from slipstream.replication.hosting import Hosting
from slipstream.replication.meta.entries import Assignment

NODE = 7


class Place:
    """In the place of an account, a disk and ports."""

    def __init__(self) -> None:
        self.name = "A"
        self.streams: dict[str, object] = {}
        self.placed: list[str] = []
        self.dropped: list[str] = []
        self.turn: list[Callable[[], None]] = []

    def list_dir(self, directory: str) -> list[str]:
        return []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.turn.append(callback)

    def place_stream(self, config: StreamConfig, created_ns: int, done: object) -> None:
        self.placed.append(config.name)

    def drop_found(self, name: str, created_ns: int) -> None:
        self.dropped.append(name)

    def end_turn(self) -> None:
        turn, self.turn = self.turn, []
        for callback in turn:
            callback()


def hosting(place: Place) -> Hosting:
    stub = cast(Any, place)

    def ignore(*_: object) -> None:
        pass

    return Hosting(
        NODE, stub, "d", cast(Any, ignore), stub, stub, lambda _: stub, ignore, ignore, ignore, cast(Any, ignore)
    )


def lone(name: str, number: int) -> Assignment:
    return Assignment(
        account="A",
        config=StreamConfig(name=name),
        uid=number.to_bytes(16, "big"),
        group=number,
        peers=[NODE],
        preferred=NODE,
        cluster="c",
        created_ns=1,
    )


def test_one_stream_is_made_at_once() -> None:
    place = Place()
    host = hosting(place)
    host.assigned(None, lone("S", 1))
    assert place.placed == ["S"]
    host.assigned(None, lone("T", 2))
    assert place.placed == ["S", "T"]


def test_many_are_made_in_turns_each_once_and_in_order() -> None:
    place = Place()
    host = hosting(place)
    names = [f"S{number}" for number in range(150)]
    for number, name in enumerate(names):
        host.assigned(None, lone(name, number + 1))
    assert 0 < len(place.placed) < 100
    host.assigned(lone("S120", 121), lone("S120", 121))  # said again while it waits
    turns = 0
    while place.turn:
        before = len(place.placed)
        place.end_turn()
        assert len(place.placed) - before < 100
        turns += 1
    assert place.placed == names
    assert turns > 1


def test_who_goes_while_it_waits_is_not_made() -> None:
    place = Place()
    host = hosting(place)
    for number in range(150):
        host.assigned(None, lone(f"S{number}", number + 1))
    host.assigned(lone("S149", 150), None)
    while place.turn:
        place.end_turn()
    assert "S149" not in place.placed
    assert place.dropped == ["S149"]
    assert len(place.placed) == 149


def test_a_server_that_ends_makes_none_of_those_that_wait() -> None:
    place = Place()
    host = hosting(place)
    for number in range(150):
        host.assigned(None, lone(f"S{number}", number + 1))
    made = len(place.placed)
    host.close()
    while place.turn:
        place.end_turn()
    assert len(place.placed) == made
