"""What a stream remembers of transactions, for how long, and what it says about them."""

from __future__ import annotations

from typing import Any

import pytest

from slipstream.jetstream.bulk.limits import BULK_FENCE_NS
from support.bulk_world import BulkWorld

ROWS = [("s.1", b"", b"a"), ("s.2", b"", b"b")]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> BulkWorld:
    """A stream with room for few transactions."""
    monkeypatch.setattr("slipstream.jetstream.bulk.fences.BULK_FENCES_MAX", 4)
    monkeypatch.setattr("slipstream.jetstream.bulk.fences.BULK_BRIEF_FENCES_MAX", 2)
    made = BulkWorld()
    made.create("S", subjects=["s.*"])
    return made


def commit(world: BulkWorld, txn: str, batch_id: int = 0, **more: Any) -> Any:
    world.ports.clock_ns += 1
    parts = [world.stage(ROWS, txn)]
    return world.api("BULK.COMMIT.S", {"txn": txn, "batch_id": batch_id, "parts": parts, **more})


def test_a_fence_can_be_asked_for(world: BulkWorld) -> None:
    world.fill(1)
    assert world.api("BULK.FENCE.S", {"txn": "T"})["batch_id"] == -1
    commit(world, "T", 7)
    asked = ("batch_id", "first_seq", "last_seq", "count", "offered")
    answer = world.api("BULK.FENCE.S", {"txn": "T"})
    assert [answer[name] for name in asked] == [7, 2, 3, 2, 2]
    again = world.restart()
    assert {**again.api("BULK.FENCE.S", {"txn": "T"})} == answer
    assert again.error("BULK.FENCE.S", {"txn": ""})[0] == 30001
    assert again.error("BULK.FENCE.X", {"txn": "T"})[0] == 10059


def test_a_repeated_batch_is_told_how_many_it_had(world: BulkWorld) -> None:
    """Whoever repeats it with another number of messages does not repeat it."""
    seen = ("s.1", b"NATS/1.0\r\nNats-Msg-Id: one\r\n\r\n", b"x")
    assert world.commit(1, [world.stage([seen])])["offered"] == 1
    done = world.commit(2, [world.stage([seen, *ROWS])])
    assert (done["count"], done["left_out"], done["offered"]) == (2, 1, 3)
    again = world.commit(2, [world.stage(ROWS)])
    assert (again["duplicate"], again["count"], again["offered"]) == (True, 2, 3)
    assert world.commit(1, [])["offered"] is None, "only the last batch is known"


def test_nothing_is_forgotten_within_a_month(world: BulkWorld) -> None:
    for number in range(4):
        assert commit(world, f"T{number}", 5)["count"] == 2
    refused = commit(world, "T4")
    assert refused["error"]["err_code"] == 30014 and refused["error"]["code"] == 429
    assert world.state()["messages"] == 8, "nothing of it was stored"
    assert commit(world, "T0", 6)["count"] == 2, "those who are known go on"
    world.ports.clock_ns += BULK_FENCE_NS - 3
    assert commit(world, "T4")["count"] == 2
    assert commit(world, "T2", 5)["duplicate"] and commit(world, "T0", 6)["duplicate"]
    assert world.api("BULK.FENCE.S", {"txn": "T1"})["batch_id"] == -1, "it was idle longest"


def test_brief_transactions_take_nobodys_place(world: BulkWorld) -> None:
    for number in range(4):
        commit(world, f"T{number}", 5)
    for number in range(10):
        assert commit(world, f"B{number}", brief=True)["count"] == 2
        assert commit(world, f"B{number}", brief=True)["duplicate"]
    known = [n for n in range(10) if world.api("BULK.FENCE.S", {"txn": f"B{n}"})["batch_id"] == 0]
    assert known == [8, 9]
    again = world.restart()
    assert all(commit(again, f"T{number}", 5)["duplicate"] for number in range(4))
    assert commit(again, "B10", brief=True)["count"] == 2
    assert again.api("BULK.FENCE.S", {"txn": "B8"})["batch_id"] == -1


def test_fences_of_before(world: BulkWorld) -> None:
    """Notes that do not say how many were offered."""
    store = world.account.streams["S"].store
    commit(world, "T", 3)
    store.put_note(b"bulk.txn:T", b"[3,1,2,2,5]")
    assert world.api("BULK.FENCE.S", {"txn": "T"})["offered"] is None
    assert commit(world, "T", 3)["duplicate"]
