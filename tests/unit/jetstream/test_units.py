"""A unit that is written over several turns, beside everything else that happens to its stream."""

from __future__ import annotations

import json
import random

from slipstream.testing.sim_disk import SimDisk
from support.disk_world import disk_world
from support.jetstream_world import World


def answers(world: World, reply: bytes) -> list[dict[str, object]]:
    return [json.loads(sent[3]) for sent in world.ports.sent if sent[0] == reply]


def test_what_a_unit_does_not_cover_is_answered_after_it() -> None:
    disk = SimDisk()
    world = disk_world(disk)
    world.create(subjects=["s.>"])
    for _ in range(3):
        world.publish("s.a")
    stream = world.account.streams["S"]
    ports = world.ports
    ports.route(b"s.a", b"_INBOX.before", None, b"decided before the unit")
    stream.store.begin_atomic()
    stream.ingest.hold_back()
    for seq in range(5, 50):
        stream.store.append_atomic(seq, seq, b"s.u", b"", bytes(3000))
        stream.committer.wake()
        ports.settle()
    assert answers(world, b"_INBOX.before") == [{"stream": "S", "seq": 4}], "committed with a part of the unit"
    ports.route(b"$JS.API.STREAM.MSG.DELETE.S", b"_INBOX.delete", None, b'{"seq":2,"no_erase":true}')
    ports.route(b"s.a", b"_INBOX.publish", None, b"waits its turn")
    ports.settle()
    assert answers(world, b"_INBOX.delete") == [] and answers(world, b"_INBOX.publish") == []
    store = world.account.streams["S"].store
    assert (store.assigned.messages, store.messages) == (3, 4), (
        "writers see the removal, readers neither it nor the unit"
    )
    # Without its end, a crash takes the unit and the removal that was not answered, and nothing else.
    torn = disk_world(disk.crash(random.Random(1), keep=1.0, torn=False))
    assert torn.seqs() == [1, 2, 3, 4]
    stream.store.end_atomic({b"fence": b"1"})
    stream.appends.unit_stored(49, 49, b"", {})
    stream.ingest.let_go()
    stream.committer.wake()
    ports.settle()
    assert answers(world, b"_INBOX.delete")[0]["success"] is True
    assert answers(world, b"_INBOX.publish") == [{"stream": "S", "seq": 50}]
    whole = disk_world(disk.crash(random.Random(1), keep=0.0, torn=False))
    assert whole.seqs() == [1, *range(3, 51)]
    assert whole.account.streams["S"].store.notes() == {b"fence": b"1"}


def test_other_streams_do_not_notice() -> None:
    world = disk_world(SimDisk())
    world.create(subjects=["s.>"])
    world.create("T", subjects=["t.>"])
    stream = world.account.streams["S"]
    stream.store.begin_atomic()
    stream.ingest.hold_back()
    stream.store.append_atomic(1, 1, b"s.u", b"", b"x")
    assert world.publish("t.a") == {"stream": "T", "seq": 1}
    assert world.publish("s.a") is None
    stream.store.abort_atomic()
    stream.ingest.let_go()
    world.ports.settle()
    assert world.publish("s.a") == {"stream": "S", "seq": 2}, "the one that waited was the first"
