"""Staging through memory that the server shares with a writer on its machine."""

from __future__ import annotations

from typing import Any

import pytest

from slipstream.jetstream.bulk.limits import BULK_SWEEP_NS
from slipstream.kernels.bulk.bulkscan import encode_message
from slipstream.kernels.log.record import StoredMessage, crc32c
from slipstream.limits import BULK_STAGE_IDLE_NS
from support.bulk_world import BulkWorld

RECORDS = [encode_message(StoredMessage(number, 0, b"s.1", b"", b"%d" % number)) for number in (1, 2, 3)]


@pytest.fixture
def world() -> BulkWorld:
    made = BulkWorld()
    made.create("S", subjects=["s.*"])
    return made


def begin(world: BulkWorld) -> tuple[str, Any]:
    """The calls of a part, and its memory."""
    begun = world.api("BULK.STAGE.S", {"txn": "T", "part": 0, "memory": True})
    offer = begun["memory"]
    room = world.ports.memories[offer["name"]].view
    assert len(room) == offer["bytes"] and offer["bytes"] % begun["room_bytes"] == 0
    assert begun["id"] in offer["name"]
    return f"BULK.STAGE.S.{begun['id']}", room


def end(world: BulkWorld, call: str) -> dict[str, Any]:
    crc = 0
    for record in RECORDS:
        crc = crc32c(record[:4], crc)
    size = sum(map(len, RECORDS))
    staged = world.api(f"{call}.END", {"count": 3, "crc": crc, "bytes": size})
    return {name: staged[name] for name in ("name", "count", "crc", "bytes")}


def test_records_in_memory_and_in_messages(world: BulkWorld) -> None:
    call, room = begin(world)
    one, two, three = RECORDS
    room[100 : 100 + len(one)] = one
    assert world.api(f"{call}.M0", b"100 %d" % len(one))["offset"] == len(one)
    room[:] = bytes(len(room))  # it is the writer's again
    assert world.api(f"{call}.{len(one)}", two)["offset"] == len(one + two)
    room[: len(three)] = three
    assert world.api(f"{call}.M{len(one + two)}", b"0 %d" % len(three))["offset"] == len(one + two + three)
    part = end(world, call)
    assert world.ports.memories == {}, "the memory is gone with the stage"
    assert world.commit(1, [part])["count"] == 3
    assert world.texts() == [b"1", b"2", b"3"]


@pytest.mark.parametrize("place", [b"", b"0", b"0 ", b"-1 8", b"0 8 8", b"0 99999999", b"9999999 8", b"0 " + b"8" * 40])
def test_places_that_are_none(world: BulkWorld, place: bytes) -> None:
    call, _room = begin(world)
    assert world.error(f"{call}.M0", place)[0] == 30001


def test_what_is_refused(world: BulkWorld) -> None:
    plain = world.api("BULK.STAGE.S", {"txn": "T", "part": 0})
    assert "memory" not in plain
    assert world.error(f"BULK.STAGE.S.{plain['id']}.M0", b"0 8")[0] == 30001, "it has no memory"
    call, room = begin(world)
    assert world.error(f"{call}.Mx", b"0 8")[0] == 30001
    assert world.error(f"{call}.M8", b"0 8")[0] == 30010, "these are not the next bytes"
    room[:8] = b"no bytes"
    assert world.error(f"{call}.M0", b"0 64")[0] == 30010


def test_memory_goes_with_what_it_was_for(world: BulkWorld) -> None:
    begin(world)
    begin(world)
    assert len(world.ports.memories) == 2
    world.api("BULK.ABORT.S", {"txn": "T"})
    assert world.ports.memories == {}
    begin(world)
    world.ports.advance(BULK_STAGE_IDLE_NS + 2 * BULK_SWEEP_NS)
    assert world.ports.memories == {}, "nobody goes on with it"
    begin(world)
    world.api("STREAM.DELETE.S")
    assert world.ports.memories == {}


def test_a_server_that_cannot_share(world: BulkWorld) -> None:
    world.ports.shares_memory = False
    begun = world.api("BULK.STAGE.S", {"txn": "T", "part": 0, "memory": True})
    assert "memory" not in begun
