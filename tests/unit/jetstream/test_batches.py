"""Batches: what ends them besides their commit, what they cost, and that a commit is all or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.ports import BatchLimits
from slipstream.jetstream.store.values import StoreUnavailable
from slipstream.jetstream.stream import reads
from slipstream.jetstream.stream.retention.interest import NoConsumers
from slipstream.units import SECOND_NS
from support.jetstream_world import World


def world_with(*, disk_like: bool = False, limits: BatchLimits | None = None, **config: Any) -> World:
    world = World(disk_like=disk_like, batches=limits or BatchLimits())
    world.create(**{"subjects": ["s.>"], "allow_atomic": True, "allow_batched": True, **config})
    return world


def part(world: World, seq: int, subject: str = "s.a", payload: bytes = b"x", batch: str = "b", **more: str) -> Any:
    """One message of a batch; its answer, None for the empty ack."""
    lines = {"Nats_Batch_Id": batch, "Nats_Batch_Sequence": str(seq), **more}
    block = "NATS/1.0\r\n" + "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in lines.items()) + "\r\n"
    answer = world.request(subject, payload, block.encode())
    assert answer is not None
    return json.loads(answer[1]) if answer[1] else None


def fast(world: World, seq: int, operation: int, batch: str = "f", gap: str = "fail", flow: int = 10) -> list[Any]:
    answers = world.request_all("s.a", b"x", None, f"{batch}.{flow}.{gap}.{seq}.{operation}.$FI")
    return [json.loads(body) for _, body in answers]


def error_of(answer: Any) -> int:
    code: int = answer["error"]["err_code"]
    return code


def abandoned(world: World) -> list[tuple[str, str]]:
    found = [json.loads(sent[3]) for sent in world.ports.sent if b"BATCH_ABANDONED" in sent[0]]
    return [(advisory["batch"], advisory["reason"]) for advisory in found]


def test_silence_ends_a_batch() -> None:
    world = world_with()
    world.ports.subscribe(b"$JS.EVENT.ADVISORY.>", lambda *_: None)
    part(world, 1)
    for seq in range(2, 5):
        world.ports.advance(9 * SECOND_NS)
        part(world, seq)
    assert abandoned(world) == []
    world.ports.advance(10 * SECOND_NS)
    assert abandoned(world) == [("b", "timeout")]
    assert error_of(part(world, 5, Nats_Batch_Commit="1")) == 10176
    assert world.facts.batches.atomic_open == 0 and world.facts.batches.staged_bytes == 0
    assert world.state()["messages"] == 0


def test_silence_ends_a_fast_batch() -> None:
    world = world_with()
    assert fast(world, 1, 0) == [{"type": "ack", "seq": 0, "msgs": 10}]
    world.ports.advance(9 * SECOND_NS)
    assert fast(world, 2, 1) == []
    world.ports.advance(11 * SECOND_NS)
    assert error_of(fast(world, 3, 1)[0]) == 10208
    assert world.facts.batches.fast_open == 0 and world.state()["messages"] == 2


def test_the_server_has_limits_too() -> None:
    limits = BatchLimits(atomic_max=2, fast_max=2)
    world = world_with(limits=limits)
    world.create("T", subjects=["t.>"], allow_atomic=True)
    part(world, 1)
    part(world, 1, "t.a", batch="c")
    assert error_of(part(world, 1, batch="d")) == 10210
    world.api("STREAM.DELETE.T")
    assert part(world, 1, batch="d") is None
    fast(world, 1, 0, "f")
    fast(world, 1, 0, "g")
    assert error_of(fast(world, 1, 0, "h")[0]) == 10211
    fast(world, 2, 3, "g")
    assert fast(world, 1, 0, "h")[0]["type"] == "ack"


def test_what_waits_in_memory_is_bounded() -> None:
    world = world_with(limits=BatchLimits(staged_bytes_max=1000))
    part(world, 1, payload=bytes(400), batch="one")
    part(world, 1, payload=bytes(300), batch="two")
    assert error_of(part(world, 2, payload=bytes(400), batch="two")) == 10023
    assert part(world, 2, payload=bytes(100), batch="one", Nats_Batch_Commit="1")["count"] == 2
    assert world.facts.batches.staged_bytes == 0


@pytest.mark.parametrize("how", ["sealed", "switched off", "deleted"])
def test_open_batches_end_with_the_stream(how: str) -> None:
    world = world_with()
    part(world, 1)
    fast(world, 1, 0)
    config = {"name": "S", "subjects": ["s.>"], "allow_atomic": True, "allow_batched": True}
    match how:
        case "sealed":
            world.api("STREAM.UPDATE.S", {**config, "sealed": True})
            expected = 10109
        case "switched off":
            world.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"]})
            expected = 10174
        case "deleted":
            world.api("STREAM.DELETE.S")
            expected = 0
    assert (world.facts.batches.atomic_open, world.facts.batches.fast_open) == (0, 0)
    assert world.facts.batches.staged_bytes == 0
    if expected:
        assert error_of(part(world, 2, Nats_Batch_Commit="1")) == expected


def test_a_failed_commit_stores_nothing() -> None:
    world = world_with(disk_like=True)
    assert world.publish("s.a")["seq"] == 1
    part(world, 1, Nats_Msg_Id="once")
    part(world, 2)
    world.stores.made["S"].fail_next = StorageFault("disk on fire")
    assert error_of(part(world, 3, Nats_Batch_Commit="1")) == 10077
    assert world.state()["messages"] == 1
    for seq in (1, 2):
        part(world, seq, batch="again", Nats_Msg_Id="once" if seq == 1 else "other")
    assert part(world, 3, batch="again", Nats_Batch_Commit="1") == {
        "stream": "S", "seq": 4, "batch": "again", "count": 3,
    }  # fmt: skip
    world.account.streams["S"].check_invariants()


def test_a_disk_that_fills_up_refuses_a_batch_as_a_whole() -> None:
    world = world_with()
    store = world.account.streams["S"].store
    real = store.append_atomic
    calls = []

    def refusing(*message: Any) -> None:
        calls.append(message)
        if len(calls) == 2:
            raise StoreUnavailable("no space", full=True)
        real(*message)

    store.__dict__["append_atomic"] = refusing
    part(world, 1)
    part(world, 2)
    assert error_of(part(world, 3, Nats_Batch_Commit="1")) == 10047
    assert not store.atomic_open and world.state()["messages"] == 0
    del store.__dict__["append_atomic"]
    assert world.publish("s.a")["seq"] == 1


def test_a_failed_commit_is_told_to_fast_batches() -> None:
    world = world_with(disk_like=True)
    fast(world, 1, 0, flow=2)
    world.stores.made["S"].fail_next = StorageFault("disk on fire")
    (answer,) = fast(world, 2, 1, flow=2)
    assert error_of(answer) == 10077


class Wants(NoConsumers):
    """Interest in some subjects."""

    def has_interest(self, subject: bytes) -> bool:
        return subject in (b"s.b", b"s.d")


def test_what_nobody_wants_takes_a_sequence_only() -> None:
    world = world_with(retention="interest")
    world.account.streams["S"].serve(Wants())
    for seq, subject in enumerate(["s.a", "s.b", "s.c", "s.d"], start=1):
        part(world, seq, subject)
    assert part(world, 5, "s.e", Nats_Batch_Commit="1")["seq"] == 5
    assert world.seqs() == [2, 4] and world.state()["last_seq"] == 5
    part(world, 1, "s.a", batch="none")
    assert part(world, 2, "s.c", batch="none", Nats_Batch_Commit="1")["seq"] == 7
    assert world.seqs() == [2, 4] and world.publish("s.b")["seq"] == 8
    world.account.streams["S"].check_invariants()


def test_republished_copies_know_what_came_before_them() -> None:
    world = world_with(republish={"src": ">", "dest": "copy.>"})
    world.publish("s.a")
    part(world, 1, "s.a")
    part(world, 2, "s.b")
    part(world, 3, "s.a", Nats_Batch_Commit="1")
    copies = [sent[2].decode() for sent in world.ports.sent if sent[0].startswith(b"copy.")]
    assert [int(copy.split("Nats-Last-Sequence: ")[1].split("\r\n")[0]) for copy in copies] == [0, 1, 0, 2]


def test_readers_see_a_batch_at_once() -> None:
    """Nothing of a batch can be read before all of it is committed."""
    world = world_with(disk_like=True)
    part(world, 1)
    world.ports.jobs_held = True
    block = b"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: 2\r\nNats-Batch-Commit: 1\r\n\r\n"
    world.ports.route(b"s.a", b"_INBOX.x", block, b"y")
    world.ports.settle()
    store = world.account.streams["S"].store
    assert reads.at(store, 1) is None and reads.last(store, b"s.a") is None and store.messages == 0
    world.ports.jobs_held = False
    world.ports.settle()
    for seq in (1, 2):
        assert "message" in world.api("STREAM.MSG.GET.S", {"seq": seq})


def test_every_batch_of_a_server_is_its_own() -> None:
    """The same id in two streams names two batches."""
    world = world_with()
    world.create("T", subjects=["t.>"], allow_atomic=True)
    part(world, 1, "s.a")
    assert error_of(part(world, 2, "t.a")) == 10176
    assert part(world, 1, "t.a", Nats_Batch_Commit="1") == {"stream": "T", "seq": 1, "batch": "b", "count": 1}
    assert part(world, 2, "s.a", Nats_Batch_Commit="1") == {"stream": "S", "seq": 2, "batch": "b", "count": 2}
