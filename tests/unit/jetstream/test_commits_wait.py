"""A commit that waits with beginning, because very many others are under way: what comes meanwhile is in it."""

from __future__ import annotations

import json

import pytest

from slipstream.errors import StorageFault
from support.jetstream_world import World


def waiting_world() -> World:
    """A stream with a message, whose commit has not begun."""
    world = World(disk_like=True)
    world.create(subjects=["s.>"])
    world.ports.commits_held = True
    send(world, 1)
    return world


def send(world: World, number: int) -> None:
    world.ports.route(b"s.a", b"_INBOX.p.%d" % number, None, b"%d" % number)
    world.ports.settle()


def acks(world: World) -> list[tuple[bytes, int]]:
    found = [(sent[0], json.loads(sent[3])) for sent in world.ports.sent if sent[0].startswith(b"_INBOX.p.")]
    return [(reply, answer["error"]["err_code"] if "error" in answer else answer["seq"]) for reply, answer in found]


def go_on(world: World) -> None:
    world.ports.commits_held = False
    world.ports.begin_commits()
    world.ports.settle()


def test_what_comes_meanwhile_joins_the_commit() -> None:
    world = waiting_world()
    send(world, 2)
    send(world, 3)
    assert acks(world) == []
    assert len(world.ports.commits) == 1
    world.ports.jobs_held = True
    go_on(world)
    assert len(world.ports.jobs) == 1 and acks(world) == []
    world.ports.run_jobs()
    assert acks(world) == [(b"_INBOX.p.1", 1), (b"_INBOX.p.2", 2), (b"_INBOX.p.3", 3)]
    world.ports.jobs_held = False
    world.ports.settle()
    world.account.streams["S"].check_invariants()


def test_a_commit_behind_one_in_flight_waits_as_well() -> None:
    world = waiting_world()
    world.ports.jobs_held = True
    waiting, world.ports.commits = world.ports.commits, []
    waiting[0]()
    send(world, 2)
    assert world.ports.commits == []  # the first is in flight
    world.ports.run_jobs()
    assert acks(world) == [(b"_INBOX.p.1", 1)]
    assert len(world.ports.commits) == 1
    send(world, 3)
    world.ports.jobs_held = False
    go_on(world)
    assert [seq for _, seq in acks(world)] == [1, 2, 3]


def test_a_reader_waits_for_what_was_received() -> None:
    world = waiting_world()
    world.ports.route(b"$JS.API.STREAM.MSG.GET.S", b"_INBOX.get", None, b'{"last_by_subj":"s.a"}')
    world.ports.settle()
    assert not [sent for sent in world.ports.sent if sent[0] == b"_INBOX.get"]
    go_on(world)
    (answer,) = [json.loads(sent[3]) for sent in world.ports.sent if sent[0] == b"_INBOX.get"]
    assert answer["message"]["seq"] == 1


@pytest.mark.parametrize("how", ["failed", "deleted"])
def test_a_commit_that_comes_to_nothing(how: str) -> None:
    world = waiting_world()
    stream = world.account.streams["S"]
    if how == "failed":
        world.stores.made["S"].fail_next = StorageFault("disk on fire")
    else:
        world.ports.route(b"$JS.API.STREAM.DELETE.S", b"_INBOX.delete", None, b"")
        world.ports.settle()
    go_on(world)
    if how == "failed":
        assert acks(world) == [(b"_INBOX.p.1", 10077)]
        assert stream.store.last_seq == 0
    else:
        assert acks(world) == [(b"_INBOX.p.1", 1)]  # it was received before
        assert "S" not in world.account.streams
