"""Commits of whoever copies streams: behind a batch that is named, and with headers that were for another stream."""

from __future__ import annotations

from typing import Any

import pytest

from support.bulk_world import BulkWorld


@pytest.fixture
def world() -> BulkWorld:
    made = BulkWorld()
    made.create("S", subjects=["s.*"], allow_rollup_hdrs=True)
    return made


def commit(world: BulkWorld, batch_id: int, rows: list[tuple[str, bytes, bytes]], **more: Any) -> Any:
    body = {"txn": "T", "batch_id": batch_id, "parts": [world.stage(rows)], **more}
    return world.api("BULK.COMMIT.S", body)


def headed(payload: bytes, line: str) -> tuple[str, bytes, bytes]:
    return "s.1", f"NATS/1.0\r\n{line}\r\n\r\n".encode(), payload


def test_of_two_that_go_on_from_the_same_batch_one_is_told(world: BulkWorld) -> None:
    rows = [("s.1", b"", b"a")]
    assert commit(world, 10, rows, after=0)["error"]["err_code"] == 30015
    assert commit(world, 10, rows, after=-1)["count"] == 1
    assert commit(world, 10, rows, after=-1)["duplicate"], "its answer was lost, and it asks again"
    refused = commit(world, 25, rows, after=-1)
    assert refused["error"]["err_code"] == 30015 and "is 10" in refused["error"]["description"]
    assert commit(world, 20, rows, after=10)["count"] == 1
    assert world.state()["messages"] == 2
    again = world.restart()
    assert commit(again, 30, rows, after=10)["error"]["err_code"] == 30015
    assert commit(again, 30, rows, after=20)["count"] == 1


def test_headers_that_were_for_another_stream_are_kept_without_effect(world: BulkWorld) -> None:
    world.publish("s.1", b"before", Nats_Msg_Id="one")
    rows = [
        headed(b"same id", "Nats-Msg-Id: one"),
        headed(b"and again", "Nats-Msg-Id: one"),
        headed(b"condition", "Nats-Expected-Last-Subject-Sequence: 77"),
        headed(b"condition", "Nats-Expected-Stream: OTHER"),
        headed(b"rolled up", "Nats-Rollup: sub"),
        headed(b"in a batch", "Nats-Batch-Id: b"),
    ]
    for number, row in enumerate(rows):
        refused = commit(world, number, [row])
        assert "error" in refused or refused["left_out"] == 1
    done = commit(world, 100, rows, copied=True)
    assert (done["count"], done["left_out"]) == (6, 0)
    assert world.texts() == [b"before", *(payload for _, _, payload in rows)], "nothing was rolled up"
    store = world.account.streams["S"].store
    assert [store.get(seq).headers for seq in range(2, 8)] == [header for _, header, _ in rows]
    before = world.texts()
    assert world.restart().texts() == before


@pytest.mark.parametrize("line", ["Nats-Incr: 1", "Nats-Schedule: @every 1s", "Nats-TTL: 5"])
def test_what_would_need_more_than_the_message_is_refused(world: BulkWorld, line: str) -> None:
    assert "(row 0 of the part)" in commit(world, 1, [headed(b"x", line)], copied=True)["error"]["description"]
