"""Assignments of streams that get other servers."""

from __future__ import annotations

import msgspec
import pytest

from slipstream.errors import ApiError
from slipstream.jetstream.config.structs import Placement
from slipstream.replication.meta.entries import Assignment, decode, encode, node_key
from slipstream.replication.meta.moves import (
    Left,
    Settled,
    cancelled,
    changed_assignment,
    moved_off,
    noted,
    wish,
    without_peer,
    without_removed,
)
from slipstream.replication.meta.placement import Surroundings
from slipstream.replication.meta.state import MetaState
from support.meta import assignment, config, node

NODES = [node(name, tags=[f"az:{name}"]) for name in "abcde"]
A, B, C, D, E = (one.id for one in NODES)
AROUND = Surroundings([A, B, C, D, E])


def state(*entries: Assignment) -> MetaState:
    out = MetaState()
    for one in (*NODES, *entries):
        out.put(one)
    return out


def test_more_copies_keep_those_that_are_there_and_fewer_keep_the_leader() -> None:
    old = assignment("S", peers=[A, B, C])
    grown = changed_assignment(old, config("S", num_replicas=5), state(old), AROUND, leader=B)
    assert grown.peers[:3] == [A, B, C] and set(grown.peers) == {A, B, C, D, E}
    assert (grown.moving_from, grown.move, grown.group) == ([A, B, C], 1, old.group)
    there = Surroundings([A, B, C])
    shrunk = changed_assignment(old, config("S", num_replicas=2), state(old), there, leader=C)
    assert (shrunk.peers, shrunk.hosts, shrunk.preferred) == ([C, A], [C, A, B], A)
    same = changed_assignment(old, config("S", num_replicas=3, max_msgs=9), state(old), AROUND, leader=A)
    assert not same.is_moving and same.config.max_msgs == 9


def test_another_place_keeps_who_fits() -> None:
    old = assignment("S", peers=[A, B])
    wanted = config("S", num_replicas=2, placement=Placement(tags=["!az:a"]))
    moved = changed_assignment(old, wanted, state(old), AROUND, leader=A)
    assert moved.peers[0] == B and A not in moved.peers and moved.hosts == [*moved.peers, A]
    nowhere = config("S", num_replicas=2, placement=Placement(tags=["az:a"]))
    with pytest.raises(ApiError) as caught:
        changed_assignment(old, nowhere, state(old), AROUND, leader=A)
    assert caught.value.err_code == 10005


def test_a_server_is_replaced_if_there_is_another() -> None:
    old = assignment("S", peers=[A, B, C])
    replaced = without_peer(old, B, state(old), Surroundings([A, C, D, E]))
    assert replaced.peers[:2] == [A, C] and replaced.peers[2] in (D, E) and replaced.moving_from == [A, B, C]
    five = assignment("S", peers=[A, B, C, D, E])
    with pytest.raises(ApiError) as caught:
        without_peer(five, B, state(five), AROUND)
    assert caught.value.err_code == 10075
    assert without_peer(replaced, B, state(replaced), AROUND) is replaced  # it is on its way out


def test_a_move_goes_back_to_where_it_began() -> None:
    tags = Placement(tags=["!az:e"])
    old = assignment("S", peers=[A, B], placement=tags)
    moved = changed_assignment(
        old, config("S", num_replicas=2, placement=Placement(tags=["!az:a"])), state(old), AROUND, leader=A
    )
    removed = without_peer(moved, B, state(moved), AROUND)
    assert decode(*encode(removed)) == removed
    back = cancelled(removed)
    assert (back.peers, back.config.placement, back.move) == ([A, B], tags, 3) and set(back.hosts) >= set(removed.hosts)
    assert cancelled(back) is back
    done = noted(back, Settled("A", "S", back.group, 3, 7, 40))
    assert done is not None and done.origin is None
    for settled in (old, done):
        with pytest.raises(ApiError) as caught:
            cancelled(settled)
        assert caught.value.err_code == 10129


def test_a_stream_is_moved_off_a_server_that_is_named() -> None:
    old = assignment("S", peers=[A, B], placement=Placement(tags=["!az:e"]))
    moved = moved_off(old, A, ["az:d"], state(old), AROUND)
    assert (moved.peers, moved.config) == ([B, D], old.config) and cancelled(moved).peers == [A, B]
    for tags, around in ((["az:e"], AROUND), (["az:b"], AROUND), ([], Surroundings([A, B]))):
        with pytest.raises(ApiError) as caught:
            moved_off(old, A, tags, state(old), around)
        assert caught.value.err_code == 10005
    grown = changed_assignment(old, config("S", num_replicas=3), state(old), AROUND, leader=A)
    for moving, code in ((moved, 10124), (grown, 10226), (wish(old, [A, C]), 10124)):
        with pytest.raises(ApiError) as caught:
            moved_off(moving, moving.peers[0], [], state(moving), AROUND)
        assert caught.value.err_code == code


def test_a_stream_is_moved_to_another_cluster_if_its_own_has_nobody() -> None:
    far = [msgspec.structs.replace(node(name), cluster="FAR") for name in ("x", "y")]
    old = assignment("S", peers=[A, B])
    agreed = state(old)
    for one in far:
        agreed.put(one)
    around = Surroundings([A, B, *(one.id for one in far)])
    moved = moved_off(old, A, ["!az:c", "!az:d", "!az:e"], agreed, around)
    assert (set(moved.peers), moved.cluster) == ({one.id for one in far}, "FAR")
    assert (cancelled(moved).peers, cancelled(moved).cluster) == ([A, B], old.cluster)
    pinned = assignment("S", peers=[A, B], placement=Placement(cluster=old.cluster))
    with pytest.raises(ApiError):
        moved_off(pinned, A, ["!az:c", "!az:d", "!az:e"], agreed, around)


def test_what_is_said_counts_for_the_wish_it_names() -> None:
    moving = wish(wish(assignment("S", peers=[A, B, C]), [A, B, D]), [A, D, E])
    assert set(moving.hosts) == {A, B, C, D, E} and moving.move == 2
    said = Settled("A", "S", moving.group, 2, 7, 40)
    assert noted(moving, Settled("A", "S", moving.group, 1, 7, 40)) is None
    assert noted(moving, Settled("A", "S", moving.group + 1, 2, 7, 40)) is None and noted(None, said) is None
    done = noted(moving, said)
    assert done is not None and not done.is_moving and (done.floor_term, done.floor_index) == (7, 40)
    assert sorted(done.gone) == sorted([(B, 2), (C, 2)]) and done.left_at(B) == 2 and not done.left_at(A)
    assert noted(done, said) is None
    assert noted(done, Left("A", "S", done.group, B, 1)) is None
    left = noted(done, Left("A", "S", done.group, B, 2))
    assert left is not None and left.gone == [(C, 2)]


def test_all_of_it_is_kept_and_older_entries_are_read() -> None:
    done = noted(wish(assignment("S", peers=[A, B, C]), [A, B, D]), Settled("A", "S", 2, 1, 7, 40))
    assert done is not None and decode(*encode(done)) == done
    subject, payload = encode(assignment("S", peers=[A, B, C]))
    before = msgspec.msgpack.encode(msgspec.msgpack.decode(payload)[:7])
    assert decode(subject, before) == assignment("S", peers=[A, B, C])


def test_removed_servers_are_replaced_by_who_has_their_name_or_by_others() -> None:
    agreed = MetaState()
    nodes = {name: node(name) for name in "abcd"}
    for one in nodes.values():
        agreed.put(one)
    around = Surroundings({one.id for one in nodes.values()})
    ids = {name: one.id for name, one in nodes.items()}
    three = assignment("S", peers=[ids["a"], ids["b"], ids["c"]])
    assert without_removed(three, agreed, around) is None
    agreed.put(msgspec.structs.replace(nodes["c"], removed=True))
    moved = without_removed(three, agreed, around)
    assert moved is not None and moved.peers == [ids["a"], ids["b"], ids["d"]] and moved.moving_from == three.peers
    again = msgspec.structs.replace(nodes["c"], id=77, incarnation=b"2")
    agreed.put(again)
    back = without_removed(three, agreed, around)
    assert back is not None and back.peers == [ids["a"], ids["b"], 77] and back.is_moving
    alone = assignment("T", peers=[ids["c"]])
    kept = without_removed(alone, agreed, around)
    assert kept is not None and kept.peers == [77] == [kept.preferred] and not kept.is_moving
    agreed.remove(node_key(77))
    assert without_removed(alone, agreed, around) is None  # its only copy is on that server's disk
    agreed.put(msgspec.structs.replace(nodes["d"], removed=True))
    assert without_removed(three, agreed, around) is None  # nobody is free
