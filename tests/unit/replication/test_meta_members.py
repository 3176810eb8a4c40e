"""Servers that join the meta group later, lose their files, and are removed."""

from __future__ import annotations

import json

import msgspec
import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream.store.file.replica.votes import Votes
from slipstream.replication.ids import short_id
from slipstream.replication.meta.entries import Assignment
from slipstream.replication.meta.membership import next_change
from support.meta import assignment, node
from support.meta_world import MetaServer, MetaWorld

A, B, C, D = (node(name) for name in "abcd")
NAMES = {one.id: one.name for one in (A, B, C, D)}
NEW_C = msgspec.structs.replace(C, id=77, incarnation=b"2")


def change(
    votes: Votes, *, removed: tuple[int, ...] = (), heard: tuple[object, ...] = (), lags: bool = False
) -> object:
    known = {one.id: msgspec.structs.replace(one, removed=one.id in removed) for one in (A, B, C, D)}
    reached = {one.id: one for one in (B, *heard)}  # type: ignore[attr-defined]
    names = {**NAMES, NEW_C.id: "c"}
    return next_change(votes, A.id, known, reached, lambda *_: not lags, lambda one: names[one])  # type: ignore[arg-type]


def test_one_step_follows_another() -> None:
    three = Votes(voters=[A.id, B.id, C.id])
    assert change(three) is None
    assert change(three, heard=(D,)) == [("learner", D.id)]
    learning = Votes(voters=[A.id, B.id, C.id], learners=[D.id])
    assert change(learning, heard=(D,), lags=True) is None
    assert change(learning, heard=(D,)) == [("voter", D.id)]
    assert change(learning) is None  # it is not there
    again = Votes(voters=[A.id, B.id, C.id], learners=[NEW_C.id])
    assert change(again, heard=(NEW_C,)) == [("voter", NEW_C.id), ("gone", C.id)]
    assert change(Votes(voters=[A.id, B.id, NEW_C.id], outgoing=[A.id, B.id, C.id])) == []
    assert change(three, removed=(C.id,)) == [("gone", C.id)]
    assert change(three, removed=(A.id,)) is None  # a leader hands over first
    assert change(Votes(voters=[A.id, B.id]), removed=(C.id,), heard=(C,)) is None


def settled(world: MetaWorld) -> bool:
    """Whether all servers that are up are the members, as they all see it."""
    everybody = sorted(server.id for server in world.servers.values())
    return all(
        sorted(server.meta.votes.voters) == everybody and not server.meta.votes.learners + server.meta.votes.outgoing
        for server in world.servers.values()
    )


def test_a_server_joins_is_wiped_and_is_removed() -> None:
    world = MetaWorld(members_change=True)
    leader = world.leader()
    joined = world.join("d")
    world.until(lambda: settled(world))
    world.until(lambda: len(joined.meta.state.nodes) == 4)
    before = joined.id
    joined.wipe()
    joined.start()
    world.until(lambda: settled(world))
    assert joined.id != before
    world.until(lambda: leader.meta.state.nodes[before].removed)
    told: list[ApiError | None] = []
    leader.servers.remove(json.dumps({"peer_id": short_id(joined.id)}).encode(), told.append)
    with pytest.raises(ApiError, match="in progress"):
        leader.servers.remove(b'{"peer": "d"}', told.append)
    world.until(lambda: told == [None])
    assert joined.id not in leader.meta.votes.voters
    world.until(lambda: joined.is_removed)
    for _ in range(30):
        world.tick()
    assert sorted(leader.meta.votes.voters) == sorted(world.servers[name].id for name in "abc")  # it stays out
    for body, text in ((b'{"peer": "d"}', "not a member"), (b"", "bad request"), (b'{"peer": 5}', "invalid JSON")):
        with pytest.raises(ApiError, match=text):
            leader.servers.remove(body, told.append)


def wiped_again_and_again(seed: int, *, keeps_id: bool = False) -> None:
    """One server after another loses its files while streams are made: what was said to be done is done."""
    world = MetaWorld(seed, members_change=True)
    rng = world.rng
    done: dict[str, Assignment] = {}
    world.leader()
    for number in range(6):
        for turn in range(3):
            leader = next((one for one in world.servers.values() if one.is_up and one.meta.is_leader), None)
            if leader is not None:
                _make(leader, f"S{number}-{turn}", done)
            for _ in range(rng.randrange(40)):
                world.step()
        victim: MetaServer = rng.choice([*world.servers.values()])
        victim.wipe(keeps_id=keeps_id)
        victim.start()
        if rng.random() < 0.5:
            world.cut_off = {rng.choice([one.name for one in world.servers.values() if one is not victim])}
        for _ in range(rng.randrange(15)):
            world.tick()
        world.cut_off = set()
        if not keeps_id:
            world.until(lambda: settled(world), 300)
    leader = world.leader()
    world.until(lambda: all(one.meta.handed_seq == leader.meta.handed_seq for one in world.servers.values()))
    for server in world.servers.values():
        streams = server.meta.state.account("A").streams
        assert all(streams.get(name) == made for name, made in done.items())


def _make(server: MetaServer, name: str, done: dict[str, Assignment]) -> None:
    made = msgspec.structs.replace(assignment(name), group=server.meta.next_group)

    def told(is_done: bool) -> None:
        if is_done:
            done[name] = made

    server.meta.propose([made], told)


@pytest.mark.parametrize("seed", range(12))
def test_wiped_servers_come_back_as_others(seed: int) -> None:
    wiped_again_and_again(seed)


def test_a_wiped_server_that_votes_as_before_is_caught() -> None:
    caught = 0
    for seed in range(8):
        try:
            wiped_again_and_again(seed, keeps_id=True)
        except (AssertionError, StorageFault):
            caught += 1
    assert caught
