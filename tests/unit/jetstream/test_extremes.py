"""Times and sequences at the limits of 64 bits: nothing overflows, nothing stands still, and all of it starts again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipstream.units import SECOND_NS
from support.bulk_world import BulkWorld
from support.copy_world import CopyWorld
from support.jetstream_world import World

LONGEST = 2**63 - 1
YEAR_NS = 365 * 86_400 * SECOND_NS
LAST_SEQ = 2**64 - 3


def ttl_stream(**config: Any) -> BulkWorld:
    w = BulkWorld()
    w.create("S", subjects=["s.>"], allow_msg_ttl=True, allow_rollup_hdrs=True, **config)
    return w


def restarted(w: BulkWorld) -> BulkWorld:
    again = w.restart()
    assert again.account.offline == {} and again.account.snapshot().quarantined == []
    return again


@pytest.mark.parametrize("ttl", [str(LONGEST), str(LONGEST // SECOND_NS), "2562047h47m16s"])
def test_a_message_that_wants_to_live_longest(ttl: str) -> None:
    w = ttl_stream(allow_atomic=True, allow_batched=True)
    assert w.publish("s.a", Nats_TTL=ttl)["seq"] == 1
    ack = w.publish("s.b", Nats_TTL=ttl, Nats_Batch_Id="B", Nats_Batch_Sequence="1", Nats_Batch_Commit="1")
    assert ack["seq"] == 2
    block = f"NATS/1.0\r\nNats-TTL: {ttl}\r\n\r\n".encode()
    w.request_all("s.c", b"x", block, reply_tail="F.10.ok.1.2.$FI")
    part = w.stage([("s.d", block, b"x"), ("s.e", b"", b"y")])
    assert w.commit(1, [part])["last_seq"] == 5
    w.ports.clock_ns += YEAR_NS
    again = restarted(w)
    again.ports.advance(SECOND_NS)
    assert again.state()["messages"] == 5
    assert again.publish("s.a")["seq"] == 6


def test_markers_that_stay_longest() -> None:
    w = ttl_stream(subject_delete_marker_ttl=LONGEST, max_age=SECOND_NS)
    assert w.publish("s.a")["seq"] == 1
    w.ports.advance(3 * SECOND_NS)
    assert w.publish("s.b", Nats_TTL="1s")["seq"] == 3
    again = restarted(w)
    assert again.publish("s.c")["seq"] == 4


def test_schedules_whose_messages_live_longest_or_that_come_last() -> None:
    w = ttl_stream(allow_msg_schedules=True)
    w.publish("s.a", Nats_Schedule="@every 1s", Nats_Schedule_Target="s.out", Nats_Schedule_TTL=str(LONGEST))
    w.publish("s.b", Nats_Schedule="@every 2562047h", Nats_Schedule_Target="s.out2")
    w.publish("s.c", Nats_Schedule="@at 9999-12-31T23:59:59Z", Nats_Schedule_Target="s.out2")
    w.ports.advance(3 * SECOND_NS)
    again = restarted(w)
    again.ports.advance(3 * SECOND_NS)
    assert again.state(subjects_filter=">")["subjects"].keys() == {"s.a", "s.b", "s.c", "s.out"}
    assert "seq" in again.publish("s.d")


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize("first_seq", [2**63 - 2, 2**63 + 5, LAST_SEQ - 2])
def test_a_stream_that_begins_late(first_seq: int, storage: str) -> None:
    w = BulkWorld()
    w.create("S", subjects=["s"], first_seq=first_seq, storage=storage, max_msgs=2, allow_direct=True)
    for number in range(3):
        assert w.publish("s")["seq"] == first_seq + number
    assert w.state()["messages"] == 2  # limits hold up there too
    assert (
        json.loads(w.request("$JS.API.STREAM.MSG.GET.S", {"last_by_subj": "s"})[1])["message"]["seq"] == first_seq + 2
    )  # type: ignore[index]
    if storage == "file":
        w = restarted(w)
        assert (w.state()["first_seq"], w.state()["last_seq"]) == (first_seq + 1, first_seq + 2)
    config = {"durable_name": "C", "ack_policy": "explicit"}
    assert "error" not in w.api("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
    assert w.api("CONSUMER.INFO.S.C")["num_pending"] == 2


def test_a_stream_without_sequences_left_says_so() -> None:
    w = BulkWorld()
    w.create("S", subjects=["s"], first_seq=LAST_SEQ - 1, allow_atomic=True, allow_batched=True)
    part = w.stage([("s", b"", b"x")] * 3)
    assert w.error("BULK.COMMIT.S", {"txn": "T", "batch_id": 1, "parts": [part]})[0] == 10077
    for number in (1, 2):
        w.request("s", b"x", b"NATS/1.0\r\nNats-Batch-Id: B\r\nNats-Batch-Sequence: %d\r\n\r\n" % number)
    refused = w.publish("s", Nats_Batch_Id="B", Nats_Batch_Sequence="3", Nats_Batch_Commit="1")
    assert refused["error"]["err_code"] == 10077
    assert [w.publish("s").get("seq") for _ in range(2)] == [LAST_SEQ - 1, LAST_SEQ]
    for header in ({}, {"Nats_Msg_Id": "a"}):
        assert w.publish("s", **header)["error"] == {
            "code": 503,
            "err_code": 10077,
            "description": "no sequences left",
        }
    w = restarted(w)
    assert w.publish("s")["error"]["err_code"] == 10077
    assert w.api("STREAM.PURGE.S")["purged"] == 2
    assert w.publish("s")["error"]["err_code"] == 10077
    assert w.state()["last_seq"] == LAST_SEQ
    assert restarted(w).state()["last_seq"] == LAST_SEQ


def test_a_first_sequence_behind_the_last_is_refused() -> None:
    answer = World().api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "first_seq": 2**64 - 1})
    assert answer["error"]["err_code"] == 10052


def test_a_purge_up_to_the_highest_number() -> None:
    w = BulkWorld()
    w.create("S", subjects=["s"])
    w.publish("s")
    assert w.api("STREAM.PURGE.S", {"seq": 2**64 - 1})["purged"] == 1
    assert "seq" in w.publish("s")
    assert "seq" in restarted(w).publish("s")


def test_copies_of_a_stream_that_begins_late() -> None:
    w = CopyWorld()
    w.origin("O", 0, first_seq=2**63 - 2)
    w.mirror("M")
    w.sources({"name": "O"}, name="A")
    w.wait()
    for number in range(4):
        assert w.publish(f"o.{number}")["seq"] == 2**63 - 2 + number
    w.wait(5 * SECOND_NS)
    assert w.last_seq("M") == 2**63 + 1
    assert w.last_seq("A") == 4


@pytest.mark.parametrize(
    "config",
    [
        {"max_age": LONGEST, "duplicate_window": LONGEST},
        {"max_msgs": LONGEST, "max_msgs_per_subject": LONGEST, "max_consumers": LONGEST},
        {"max_msg_size": 2**31 - 1},
        {"consumer_limits": {"inactive_threshold": LONGEST, "max_ack_pending": LONGEST}},
    ],
)
def test_a_stream_with_the_largest_limits(config: dict[str, Any]) -> None:
    w = BulkWorld()
    w.create("S", subjects=["s"], **config)
    assert w.publish("s", Nats_Msg_Id="a")["seq"] == 1
    assert w.publish("s", Nats_Msg_Id="a")["duplicate"]
    w = restarted(w)
    w.ports.advance(5 * SECOND_NS)
    assert w.publish("s", Nats_Msg_Id="a")["duplicate"]
    assert w.publish("s")["seq"] == 2


@pytest.mark.parametrize(
    "config",
    [
        {"ack_wait": LONGEST},
        {"backoff": [LONGEST, LONGEST], "max_deliver": 3},
        {"inactive_threshold": LONGEST},
        {"max_ack_pending": LONGEST, "max_waiting": LONGEST, "max_deliver": LONGEST},
        {"max_expires": LONGEST, "max_batch": 2**31, "max_bytes": LONGEST},
        {"rate_limit_bps": 2**64 - 1, "deliver_subject": "d"},
        {"idle_heartbeat": LONGEST, "deliver_subject": "d"},
        {"pause_until": "9999-12-31T23:59:59Z"},
        {"opt_start_seq": 2**64 - 1, "deliver_policy": "by_start_sequence"},
        {"opt_start_time": "9999-12-31T23:59:59Z", "deliver_policy": "by_start_time"},
        {"opt_start_time": "0001-01-01T00:00:00Z", "deliver_policy": "by_start_time"},
        {"priority_policy": "pinned_client", "priority_groups": ["a"], "priority_timeout": LONGEST},
    ],
)
def test_a_consumer_with_the_largest_values(config: dict[str, Any]) -> None:
    w = BulkWorld()
    w.create("S", subjects=["s"])
    w.publish("s")
    inbox = w.ports.subscribe(b"d", lambda *_: None)
    body = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit", **config}}
    made = w.api("CONSUMER.DURABLE.CREATE.S.C", body)
    assert "error" not in made, made
    assert made.get("pause_remaining", 0) <= LONGEST
    pull = {"batch": 5, "expires": LONGEST, "group": "a"} if "priority_groups" in config else {"expires": LONGEST}
    w.ports.route(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"_INBOX.pull", None, json.dumps(pull).encode())
    w.ports.advance(5 * SECOND_NS)
    inbox.close()
    again = restarted(w)
    again.ports.advance(5 * SECOND_NS)
    assert {key: again.api("CONSUMER.INFO.S.C")["config"][key] for key in config} == config
    assert "error" not in again.publish("s")
