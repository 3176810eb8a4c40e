"""BULK.HOLD and RELEASE: what retention leaves, what users remove all the same, and how holds end."""

from __future__ import annotations

import pytest

from slipstream.limits import BULK_HOLDS_MAX
from slipstream.units import SECOND_NS
from support.bulk_world import BulkWorld


@pytest.fixture(params=["file", "memory"])
def world(request: pytest.FixtureRequest) -> BulkWorld:
    """An account; the tests make streams of the kind they need."""
    made = BulkWorld()
    made.storage = request.param  # type: ignore[attr-defined]
    return made


def make(world: BulkWorld, **config: object) -> None:
    world.create("S", subjects=["s.*"], storage=world.storage, **config)  # type: ignore[attr-defined]


def hold(world: BulkWorld, first: int, ttl_s: float = 600, id_: str = "") -> str:
    answer = world.api("BULK.HOLD.S", {"first": first, "ttl_s": ttl_s, "id": id_})
    assert "error" not in answer, answer
    return str(answer["id"])


def release(world: BulkWorld, id_: str) -> None:
    assert world.api("BULK.RELEASE.S", {"id": id_})["success"]
    world.ports.settle()


def test_the_number_of_messages(world: BulkWorld) -> None:
    make(world, max_msgs=10)
    world.fill(10)
    held = hold(world, 6)
    world.fill(8)
    assert world.seqs() == list(range(6, 19))
    release(world, held)
    assert world.seqs() == list(range(9, 19))


def test_bytes(world: BulkWorld) -> None:
    make(world, max_bytes=2000)
    world.fill(30)
    first = world.seqs()[0]
    held = hold(world, first)
    world.fill(3)
    assert world.seqs()[0] == first
    release(world, held)
    assert world.seqs()[0] > first


def test_messages_per_subject(world: BulkWorld) -> None:
    make(world, max_msgs_per_subject=1)
    world.fill(10)
    held = hold(world, 3)
    world.fill(10)
    assert world.seqs() == list(range(3, 21))
    release(world, held)
    assert world.seqs() == list(range(11, 21))


def test_age(world: BulkWorld) -> None:
    make(world, max_age=10 * SECOND_NS)
    world.fill(5)
    held = hold(world, 3)
    world.ports.advance(30 * SECOND_NS)
    assert world.seqs() == [3, 4, 5]
    release(world, held)
    assert world.seqs() == []


def test_life_times(world: BulkWorld) -> None:
    make(world, allow_msg_ttl=True)
    for _ in range(3):
        world.publish("s.1", b"x", Nats_TTL="5")
    held = hold(world, 2)
    world.ports.advance(20 * SECOND_NS)
    assert world.seqs() == [2, 3]
    release(world, held)
    world.ports.advance(SECOND_NS)
    assert world.seqs() == []


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_acknowledged_messages(world: BulkWorld, retention: str) -> None:
    make(world, retention=retention)
    config = {"durable_name": "C", "ack_policy": "explicit"}
    made = world.api("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
    assert "error" not in made, made
    world.fill(4)
    held = hold(world, 3)
    acks: list[bytes] = []
    world.ports.subscribe(b"_INBOX.pull", lambda _subject, reply, _header, _payload: acks.append(reply or b""))
    world.ports.route(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"_INBOX.pull", None, b"4")
    world.ports.settle()
    for reply in acks:
        world.ports.route(reply, None, None, b"+ACK")
    world.ports.settle()
    assert world.seqs() == [3, 4]
    release(world, held)
    assert world.seqs() == []


def test_users_remove_all_the_same(world: BulkWorld) -> None:
    make(world)
    world.fill(10)
    hold(world, 1)
    world.api("STREAM.MSG.DELETE.S", {"seq": 5})
    world.api("STREAM.PURGE.S", {"seq": 4})
    assert world.seqs() == [4, 6, 7, 8, 9, 10]


def test_holds_end_by_themselves(world: BulkWorld) -> None:
    make(world, max_msgs=5)
    world.fill(5)
    held = hold(world, 1, ttl_s=10)
    other = hold(world, 3, ttl_s=100)
    world.fill(5)
    assert world.seqs() == list(range(1, 11))
    world.ports.advance(5 * SECOND_NS)
    assert hold(world, 2, ttl_s=10, id_=held) == held  # renewed, and moved
    assert world.seqs() == list(range(2, 11))
    world.ports.advance(11 * SECOND_NS)
    assert world.seqs() == list(range(3, 11))
    assert world.error("BULK.RELEASE.S", {"id": held})[0] == 30009
    assert world.error("BULK.HOLD.S", {"first": 1, "id": held})[0] == 30009
    release(world, other)
    assert world.seqs() == list(range(6, 11))


def test_a_stream_that_grows_too_far_drops_its_holds(world: BulkWorld) -> None:
    make(world, max_msgs=10)
    world.fill(10)
    held = hold(world, 1)
    world.fill(11)
    assert world.seqs() == list(range(12, 22))
    assert any("the hold on 1 is dropped" in text for _, text in world.ports.logged)
    assert world.error("BULK.RELEASE.S", {"id": held})[0] == 30009


def test_limits(world: BulkWorld) -> None:
    make(world)
    for body in ({"first": -1}, {"first": 1, "ttl_s": 0}, {"first": 1, "ttl_s": 1e9}, {"first": 1, "ttl_s": 1e400}, {}):
        assert world.error("BULK.HOLD.S", body)[0] == 30001, body
    for _ in range(BULK_HOLDS_MAX):
        hold(world, 1)
    assert world.error("BULK.HOLD.S", {"first": 1})[0] == 30008


def test_holds_do_not_outlive_the_server() -> None:
    world = BulkWorld()
    world.create("S", subjects=["s.*"], max_msgs=5)
    world.fill(5)
    held = hold(world, 1)
    world.fill(3)
    assert world.seqs() == list(range(1, 9))
    again = world.restart()
    again.ports.settle()
    assert again.seqs() == list(range(4, 9))
    assert again.error("BULK.HOLD.S", {"first": 1, "id": held})[0] == 30009
