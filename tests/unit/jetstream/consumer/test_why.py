"""Why a consumer delivers nothing: a test for each cause."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.consumer import why as causes_of
from slipstream.jetstream.store.values import Lost
from support.consumer_world import SECOND_NS, ConsumerWorld

MINUTE_NS = 60 * SECOND_NS


def world(count: int = 0, stream: dict[str, Any] | None = None, **config: object) -> ConsumerWorld:
    made = ConsumerWorld()
    made.stream(**(stream or {}))
    made.fill(count)
    made.add(**config)
    return made


def why(w: ConsumerWorld, name: str = "C", stream: str = "S") -> dict[str, dict[str, Any]]:
    """Cause → what is said of it."""
    answer = w.api(f"CONSUMER.WHY.{stream}.{name}")
    assert "error" not in answer, answer
    assert answer["type"] == "io.nats.jetstream.api.v1.consumer_why_response"
    assert (answer["stream_name"], answer["name"]) == (stream, name)
    found = {cause["cause"]: cause for cause in answer["causes"]}
    assert len(found) == len(answer["causes"])
    order = ["stuck", "waiting", "idle"]
    kinds = [order.index(cause["kind"]) for cause in answer["causes"]]
    assert kinds == sorted(kinds)
    assert all(cause["text"].endswith(".") for cause in answer["causes"])
    return found


def said(w: ConsumerWorld, cause: str, kind: str) -> str:
    found = why(w)
    assert cause in found, found
    assert found[cause]["kind"] == kind
    return str(found[cause]["text"])


def test_who_is_not_there_is_not_explained() -> None:
    w = world()
    assert w.api("CONSUMER.WHY.S.NOPE")["error"]["err_code"] == 10014
    assert w.api("CONSUMER.WHY.NOPE.C")["error"]["err_code"] == 10059
    assert w.api("CONSUMER.WHY.S.C", {"x": 1})["error"]["code"] == 400


def test_nothing_in_the_way_is_no_cause() -> None:
    w = world(1)
    inbox = w.pull({"batch": 2, "expires": MINUTE_NS})
    (message,) = inbox.messages()
    w.ack(message)
    assert why(w).keys() == {"all_delivered"}
    w.ports.commits_held = True
    w.ports.route(b"s.a", None, None, b"x")  # received, and on its way
    assert why(w).keys() == {"all_delivered"}


def test_paused() -> None:
    w = world(1)
    w.api("CONSUMER.PAUSE.S.C", {"pause_until": "2100-01-01T00:00:00Z"})
    assert "paused until 2100-01-01T00:00:00Z" in said(w, "paused", "waiting")
    assert why(w)["paused"]["until"] == "2100-01-01T00:00:00Z"
    w.api("CONSUMER.PAUSE.S.C", {})
    assert "paused" not in why(w)


def test_no_pull() -> None:
    w = world(3)
    assert said(w, "no_pull", "stuck").startswith("No client asks: 3 messages")
    w.pull(1)
    assert "2 messages" in said(w, "no_pull", "stuck")
    w.pull(2)
    assert "no_pull" not in why(w)


def test_a_pull_whose_client_left_is_none() -> None:
    w = world(max_ack_pending=1)
    w.fill(2)
    w.pull(1)
    inbox = w.pull({"batch": 1, "expires": MINUTE_NS})
    assert "no_pull" not in why(w)
    w.ports.gone.add(inbox.subject)
    assert "no_pull" in why(w)


def test_max_waiting() -> None:
    w = world(max_waiting=2)
    for _ in range(2):
        assert "max_waiting" not in why(w)
        w.pull({"batch": 1, "expires": MINUTE_NS})
    assert said(w, "max_waiting", "waiting").startswith("2 pull requests wait")


def test_max_ack_pending() -> None:
    w = world(3, max_ack_pending=2)
    inbox = w.pull(3)
    first, _ = inbox.messages()
    assert said(w, "max_ack_pending", "stuck").startswith("2 messages of at most 2 (max_ack_pending)")
    w.ack(first)
    w.ack(inbox.messages()[0])
    assert "max_ack_pending" not in why(w)


def test_no_interest() -> None:
    w = world(1, deliver_subject="dlv")
    assert said(w, "no_interest", "stuck") == "Nobody is subscribed to dlv."
    w.listen("dlv")
    assert "no_interest" not in why(w)


def test_no_interest_in_the_group() -> None:
    w = world(deliver_subject="dlv", deliver_group="g")
    w.listen("dlv")
    text = said(w, "no_interest", "idle")  # and nothing is to be delivered
    assert text == "Nobody is subscribed to dlv in the queue group g. There are subscribers, but not in this group."


def test_the_stream_takes_the_deliver_subject() -> None:
    w = world(1, deliver_subject="dlv")
    w.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>", "dlv"], "storage": "memory"})
    assert "deliver subject dlv" in said(w, "deliver_cycle", "stuck")


def test_flow_control() -> None:
    w = world(deliver_subject="dlv", flow_control=True, idle_heartbeat=SECOND_NS, max_ack_pending=-1)
    w.listen("dlv")
    w.fill(9, payload=b"x" * 400_000)
    assert "flow control request is unanswered" in said(w, "flow_control", "stuck")
    flow_id = next(message[2] for message in w.ports.delivered if b"FlowControl" in (message[3] or b""))
    assert flow_id is not None
    w.ports.route(flow_id, None, None, b"")
    w.ports.settle()
    assert "flow_control" not in why(w)


def test_rate_limit() -> None:
    w = world(stream={"max_msg_size": 100}, deliver_subject="dlv", rate_limit_bps=8)
    w.listen("dlv")
    w.fill(2, payload=b"x" * 90)
    assert "rate limit" in said(w, "rate_limit", "waiting")
    assert "until" in why(w)["rate_limit"]


def test_original_replay() -> None:
    w = ConsumerWorld()
    w.stream()
    w.fill(1)
    w.ports.advance(MINUTE_NS)
    w.fill(1)
    w.add(deliver_subject="dlv", replay_policy="original", ack_policy="none")
    w.listen("dlv")
    assert "1m0s from now" in said(w, "replay", "waiting")
    w.ports.advance(MINUTE_NS)
    assert "replay" not in why(w)


def test_congested() -> None:
    w = world(3_000, deliver_subject="dlv", max_ack_pending=-1)
    w.ports.smooth = False
    w.listen("dlv")
    assert "has not read" in said(w, "congested", "waiting")


def test_unacknowledged_and_backoff() -> None:
    w = world(1, ack_wait=30 * SECOND_NS)
    w.pull(1)
    text = said(w, "unacknowledged", "waiting")
    assert text.startswith("1 message is with clients") and "30s from now (ack_wait)" in text
    w = world(1, backoff=[SECOND_NS, MINUTE_NS], max_deliver=3)
    w.pull(1)
    w.ports.advance(2 * SECOND_NS)
    w.pull(1)
    assert "1m0s from now (backoff)" in said(w, "unacknowledged", "waiting")


def test_nak_delay() -> None:
    w = world(1)
    (message,) = w.pull(1).messages()
    w.ack(message, b'-NAK {"delay": 10000000000}')
    assert "10s from now" in said(w, "nak_delay", "waiting")
    assert "unacknowledged" not in why(w)
    w.check()
    w.ports.advance(11 * SECOND_NS)
    assert "nak_delay" not in why(w) and "no_pull" in why(w)
    w.check()
    (message,) = w.pull(1).messages()
    w.ack(message, b'-NAK {"delay": 10000000000}')
    w.ack(message, b"+WPI")
    assert "nak_delay" not in why(w) and "unacknowledged" in why(w)
    w.ack(message)
    assert "unacknowledged" not in why(w)
    w.check()


def test_max_deliver() -> None:
    w = world(1, max_deliver=1, ack_wait=SECOND_NS)
    w.pull(1)
    w.ports.advance(2 * SECOND_NS)
    assert said(w, "max_deliver", "idle").startswith("1 message is given up: delivered 1 times")


def test_dead_letters_on_their_way() -> None:
    w = ConsumerWorld()
    w.stream()
    w.stream("DEAD", ["dead"], max_msgs=1, discard="new")
    w.fill(1, "dead")  # it is full, and stores no letter
    w.fill(1)
    w.add(max_deliver=1, ack_wait=SECOND_NS, metadata={"slipstream.dlq": "dead"})
    w.pull(1)
    w.ports.advance(2 * SECOND_NS)
    assert said(w, "dead_letters", "waiting").startswith("1 message is on the way")


def test_pinned_to_a_client_that_does_not_ask() -> None:
    w = world(3, priority_policy="pinned_client", priority_groups=["g"], priority_timeout=MINUTE_NS)
    w.pull({"batch": 1, "group": "g"})
    w.pull({"batch": 1, "group": "g", "expires": MINUTE_NS})
    assert "pinned to the client" in said(w, "pinned", "waiting")
    assert "until" in why(w)["pinned"]
    w.api("CONSUMER.UNPIN.S.C", {"group": "g"})
    assert "pinned" not in why(w)


def test_overflow() -> None:
    w = world(3, priority_policy="overflow", priority_groups=["g"])
    w.pull({"batch": 1, "group": "g", "min_pending": 100, "expires": MINUTE_NS})
    assert "3 pending and 0 unacknowledged" in said(w, "overflow", "waiting")
    w.pull({"batch": 1, "group": "g"})
    assert w.numbers()[2] == 1


def test_nothing_to_deliver() -> None:
    w = world()
    assert said(w, "empty", "idle") == "The stream is empty."
    w.fill(2)
    assert "empty" not in why(w) and "all_delivered" not in why(w)
    w.pull(2)
    assert said(w, "all_delivered", "idle").endswith("up to sequence 2.")


def test_a_filter_that_matches_nothing() -> None:
    w = world(2, filter_subjects=["s.b", "s.c", "s.d", "s.e"])
    text = said(w, "filter", "idle")
    assert text == "None of the stream's 2 messages is on a subject that the consumer wants (s.b, s.c, s.d, …)."
    w.fill(1, "s.b")
    assert "filter" not in why(w)


def test_it_begins_behind_the_end() -> None:
    w = world(2, deliver_policy="by_start_sequence", opt_start_seq=10)
    assert said(w, "not_begun", "idle") == "The consumer begins at sequence 10, and the stream ends at 2."


def test_inactive() -> None:
    w = world(durable=False, inactive_threshold=MINUTE_NS)
    assert "it is removed at" in said(w, "inactive", "waiting")
    w.pull({"batch": 1, "expires": MINUTE_NS})
    assert "inactive" not in why(w)


def test_being_made() -> None:
    w = world()
    w.consumer().held = True
    assert "being made" in said(w, "starting", "waiting")


def test_a_stream_that_cannot_write(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(1)
    store = type(w.consumer().store)
    monkeypatch.setattr(store, "fault", property(lambda _: StorageFault("no space left on device")))
    assert "cannot write (no space left on device)" in said(w, "storage_fault", "stuck")


def test_messages_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(1)
    monkeypatch.setattr(type(w.consumer().store), "lost", lambda _: Lost([1], 10))
    assert said(w, "unreadable", "idle").startswith("1 message of the stream cannot be read any more")


def test_offline() -> None:
    w = world()
    w.consumers().offline["OLD"] = "unsupported"
    assert why(w, "OLD")["offline"]["text"] == "The consumer cannot run on this server: unsupported."
    w.account.offline["BROKEN"] = "input/output error"
    assert why(w, "C", "BROKEN")["offline"]["text"] == "The stream cannot run on this server: input/output error."


def test_a_key_is_in_flight() -> None:
    w = world(0, metadata={"slipstream.delivery": "key-shared"})
    for key in "aab":
        w.fill(1, f"s.{key}")
    first, _ = w.pull(2).messages()
    text = said(w, "key_in_flight", "waiting")
    assert text.startswith("1 message waits, of 1 key of which another message is in flight (key-shared)")
    assert "no_pull" not in why(w), "a pull request would get nothing"
    w.ack(first)
    assert "key_in_flight" not in why(w)
    assert said(w, "no_pull", "stuck").startswith("No client asks: 1 message could be delivered")


def test_a_key_has_had_its_share() -> None:
    w = world(0, metadata={"slipstream.delivery": "rate", "slipstream.delivery.rate": "1/m"})
    w.fill(2, "s.a")
    assert len(w.pull(2).messages()) == 1
    assert said(w, "key_rate", "waiting").startswith("1 key has had its share (rate): the first may go at")
    assert "until" in why(w)["key_rate"] and "no_pull" not in why(w)
    w.ports.advance(MINUTE_NS)
    assert "key_rate" not in why(w) and "no_pull" in why(w)


def test_no_more_is_looked_at() -> None:
    w = world(0, metadata={"slipstream.delivery": "key-shared", "slipstream.delivery.ahead": "3"})
    w.fill(5, "s.a")
    (message,) = w.pull(2).messages()
    assert said(w, "look_ahead", "stuck") == "3 messages wait for their keys, and no more are looked at (ahead)."
    w.ack(message)
    assert "look_ahead" not in why(w)


def test_every_cause_is_in_these_tests() -> None:
    source = Path(causes_of.__file__).read_text()
    named = set(re.findall(r'Cause\(\s*"(\w+)"', source))
    assert len(named) == source.count("Cause(") - source.count("class Cause(")
    tested = set(re.findall(r'(?:said\(w, |why\(w, [^)]*\)\[)"(\w+)"', Path(__file__).read_text()))
    assert named == tested
