"""Three servers that agree on streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.replication.meta.entries import Assignment, stream_key
from support.meta import assignment, node
from support.meta_world import MetaServer, MetaWorld


class History:
    """What was proposed, in its order, and what of it was said to be done."""

    def __init__(self) -> None:
        self._of: dict[str, list[tuple[Assignment | None, list[bool]]]] = {}

    def proposed(self, name: str, made: Assignment | None) -> Callable[[bool], None]:
        """Note it; the callback notes what became of it."""
        told: list[bool] = []
        self._of.setdefault(name, []).append((made, told))
        return told.append

    def check(self, streams: dict[str, Assignment]) -> None:
        """What counts is the last that was done, or one proposed later of which nobody knows."""
        for name, proposals in self._of.items():
            possible: list[Assignment | None] = [None]
            for made, told in proposals:
                possible = [made] if told == [True] else [*possible, made]
            assert streams.get(name) in possible


def make(server: MetaServer, name: str, **fields: Any) -> tuple[Assignment, list[bool]]:
    """Propose a stream."""
    made = msgspec.structs.replace(assignment(name, **fields), group=server.meta.next_group)
    done: list[bool] = []
    server.meta.propose([made], done.append)
    return made, done


def test_what_the_leader_proposes_gets_to_all() -> None:
    world = MetaWorld()
    leader = world.leader()
    made, done = make(leader, "S")
    assert leader.meta.draft is not None and leader.meta.draft.find("A", "S") == made
    assert leader.meta.state.find("A", "S") is None  # not yet
    world.settle()
    assert done == [True]
    changed = msgspec.structs.replace(made, config=assignment("S", max_msgs=5).config)
    leader.meta.propose([changed, node("a")], done.append)
    world.settle()
    world.tick()
    world.tick()
    for server in world.servers.values():
        assert server.meta.state.find("A", "S") == changed and len(server.meta.state.nodes) == 1
    leader.meta.propose([stream_key("A", "S")], done.append)
    world.until(lambda: all(server.meta.state.find("A", "S") is None for server in world.servers.values()))
    world.agree()
    assert done == [True] * 3


def test_groups_are_numbered_once() -> None:
    world = MetaWorld()
    leader = world.leader()
    numbers = []
    for turn in range(5):
        numbers.append(make(leader, "S")[0].group)
        leader.meta.propose([stream_key("A", "S")], lambda _: None)
        if turn == 2:
            world.settle()
            leader.kill()
            leader.start()
            leader = world.leader()
    assert sorted(set(numbers)) == numbers and numbers[0] > 1


def test_a_leader_dies_and_another_goes_on() -> None:
    world = MetaWorld()
    leader = world.leader()
    for number in range(20):
        make(leader, f"S{number}")
    world.settle()
    leader.kill()
    second = world.leader()
    assert second is not leader and len(second.meta.state.account("A").streams) == 20
    _, done = make(second, "T")
    world.until(lambda: done == [True])
    leader.start()
    world.until(lambda: leader.meta.state.find("A", "T") is not None)
    world.agree()


def test_a_start_knows_what_was_agreed_on() -> None:
    world = MetaWorld()
    leader = world.leader()
    for number in range(20):
        make(leader, f"S{number % 7}", max_msgs=number + 1)
        if number % 7 == 3:
            leader.meta.propose([stream_key("A", "S3")], lambda _: None)
        world.settle()
    for server in world.servers.values():
        server.lose_power()
    for server in world.servers.values():
        server.start()
    world.leader()
    world.tick()
    world.agree()
    assert sorted(world.leader().meta.state.account("A").streams) == ["S0", "S1", "S2", "S4", "S5", "S6"]


def test_a_deposed_leader_forgets_what_nobody_else_has() -> None:
    world = MetaWorld()
    leader = world.leader()
    make(leader, "S")
    world.settle()
    world.cut_off = {leader.name}
    lost, told = make(leader, "LOST")
    leader.meta.propose([stream_key("A", "S")], told.append)
    world.settle()
    second = world.leader()
    other, done = make(second, "OTHER")
    world.until(lambda: done == [True])
    world.cut_off = set()
    world.until(lambda: leader.meta.state.find("A", "OTHER") is not None)
    assert told == [False, False] and not leader.meta.is_leader
    world.agree()
    assert sorted(leader.meta.state.account("A").streams) == ["OTHER", "S"]
    assert other.group == lost.group  # which never was


def test_a_leader_hands_over() -> None:
    world = MetaWorld()
    leader = world.leader()
    other = next(server for server in world.servers.values() if server is not leader)
    leader.meta.transfer(other.id)
    world.until(lambda: other.meta.is_leader and not leader.meta.is_leader)
    _, done = make(other, "S")
    world.until(lambda: done == [True])


def test_one_server_alone_knows_that_nobody_leads() -> None:
    world = MetaWorld()
    leader = world.leader()
    assert not leader.meta.is_leaderless
    for server in world.servers.values():
        if server is not leader:
            server.kill()
    world.until(lambda: leader.meta.is_leaderless)
    assert not leader.meta.is_leader


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_they_agree(seed: int) -> None:
    """Streams are made, changed and removed; servers die and come back, messages get lost; what was done stays done."""
    world = MetaWorld(seed)
    rng = world.rng
    history = History()
    world.leader()
    for _ in range(80):
        world.loss = rng.choice((0.0, 0.0, 0.1))
        leader = next((server for server in world.servers.values() if server.is_up and server.meta.is_leader), None)
        if leader is not None:
            for _ in range(rng.randrange(3)):
                name = f"S{rng.randrange(6)}"
                existing = leader.meta.draft is not None and leader.meta.draft.find("A", name)
                if existing and rng.random() < 0.4:
                    leader.meta.propose([stream_key("A", name)], history.proposed(name, None))
                else:
                    made = msgspec.structs.replace(assignment(name), group=leader.meta.next_group)
                    leader.meta.propose([made], history.proposed(name, made))
        for _ in range(rng.randrange(30)):
            world.step()
        chance, victim = rng.random(), rng.choice([*world.servers.values()])
        if chance < 0.06 and all(server.is_up for server in world.servers.values()):
            (victim.kill if chance < 0.03 else victim.lose_power)()
        for server in world.servers.values():
            if not server.is_up and rng.random() < 0.1:
                server.start()
        world.tick(settle=False)
    world.loss = 0.0
    for server in world.servers.values():
        if not server.is_up:
            server.start()
    leader = world.leader()
    _, done = make(leader, "LAST")
    world.until(lambda: done == [True])
    world.until(lambda: all(server.meta.state.find("A", "LAST") for server in world.servers.values()))
    world.agree()
    assert not any(line.startswith("ERR") for server in world.servers.values() for line in server.lines)
    history.check(leader.meta.state.account("A").streams)
