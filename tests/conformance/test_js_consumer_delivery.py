"""Clients of nats-server and of ours get the same messages, statuses and numbers, step by step."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.consumer_oracle import ConsumerPair, ListeningOracle
from support.consumer_world import ConsumerWorld

MS = 1_000_000
HEADER = b"NATS/1.0\r\nA: b\r\n\r\n"


@pytest.fixture
def pair(listening_oracle: ListeningOracle) -> Iterator[ConsumerPair]:
    both = ConsumerPair(listening_oracle, ConsumerWorld())
    yield both
    both.clear()


def stream(pair: ConsumerPair, count: int = 0, **config: Any) -> None:
    pair.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": "memory", **config})
    for number in range(count):
        pair.publish("s.a" if number % 2 == 0 else "s.b", b"m%d" % number)


def create(pair: ConsumerPair, name: str = "C", **config: Any) -> Any:
    body = {"name": name, "durable_name": name, "ack_policy": "explicit", **config}
    return pair.api(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": body})


def test_messages_keep_their_subject_and_carry_numbers(pair: ConsumerPair) -> None:
    stream(pair, 4)
    pair.publish("s.h", b"with header", HEADER)
    create(pair)
    pair.pull(3).expect(3)
    pair.same_info()
    pair.pull(b"").expect(1)
    pair.pull(b"nonsense").expect(1)
    pair.same_info()


def test_headers_only(pair: ConsumerPair) -> None:
    stream(pair, 1)
    pair.publish("s.h", b"with header", HEADER)
    create(pair, headers_only=True)
    pair.pull(2).expect(2)


def test_acks_move_the_floor(pair: ConsumerPair) -> None:
    stream(pair, 6)
    create(pair, filter_subject="s.b")
    inbox = pair.pull(3)
    inbox.expect(3)
    pair.same_info()
    inbox.answer(1, b"+ACK", confirmed=True)
    pair.same_info()
    inbox.answer(0, b"", confirmed=True)
    pair.same_info()
    inbox.answer(0, b"+ACK", confirmed=True)
    inbox.answer(2, b"+OK", confirmed=True)
    pair.same_info()


def test_naks_and_terms(pair: ConsumerPair) -> None:
    stream(pair, 5)
    create(pair)
    inbox = pair.pull(4)
    inbox.expect(4)
    inbox.answer(2, b"-NAK", confirmed=True)
    inbox.answer(0, b"-NAK", confirmed=True)
    pair.same_info()
    again = pair.pull(3)
    again.expect(3)
    pair.same_info()
    inbox.answer(1, b"+TERM because", confirmed=True)
    inbox.answer(3, b"+WPI", confirmed=True)
    inbox.answer(3, b"what is this", confirmed=True)
    inbox.answer(3, b'-NAK {"delay": 100000000000}', confirmed=True)
    pair.same_info()
    again.answer(0, b"+ACK", confirmed=True)
    pair.same_info()


def test_next_in_an_ack(pair: ConsumerPair) -> None:
    stream(pair, 3)
    create(pair)
    inbox = pair.pull(1)
    inbox.expect(1)
    more = pair.listen("_INBOX.next")
    mine, theirs = inbox.last[0][1], inbox.last_theirs[0][1]
    pair.world.ports.route(mine, b"_INBOX.next", None, b"+NXT 2")
    pair.oracle.publish(theirs, b"_INBOX.next", b"+NXT 2")
    more.expect(2)
    pair.same_info()


def test_ack_all(pair: ConsumerPair) -> None:
    stream(pair, 6)
    create(pair, ack_policy="all")
    inbox = pair.pull(5)
    inbox.expect(5)
    inbox.answer(2, b"+ACK", confirmed=True)
    pair.same_info()
    inbox.answer(1, b"+ACK", confirmed=True)
    pair.same_info()
    inbox.answer(4, b"+ACK", confirmed=True)
    pair.same_info()


def test_ack_none(pair: ConsumerPair) -> None:
    stream(pair, 6)
    create(pair, ack_policy="none", filter_subject="s.a")
    pair.pull(2).expect(2)
    pair.same_info()
    pair.pull({"batch": 5, "no_wait": True}).expect(2)
    pair.same_info()


STARTS: list[dict[str, Any]] = [
    {"deliver_policy": "all"},
    {"deliver_policy": "last"},
    {"deliver_policy": "new"},
    {"deliver_policy": "last", "filter_subject": "s.a"},
    {"deliver_policy": "last", "filter_subject": "s.none"},
    {"deliver_policy": "last", "filter_subjects": ["s.a", "s.b"]},
    {"deliver_policy": "last_per_subject", "filter_subject": "s.*"},
    {"deliver_policy": "last_per_subject", "filter_subject": "s.none"},
    {"deliver_policy": "last_per_subject", "filter_subjects": ["s.a", "s.b"]},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 4},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 40},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 4, "filter_subject": "s.a"},
    {"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"},
    {"deliver_policy": "by_start_time", "opt_start_time": "2100-01-01T00:00:00Z"},
    {"deliver_policy": "all", "filter_subject": "s.b"},
    {"deliver_policy": "all", "filter_subjects": ["s.b", "s.none"]},
]


@pytest.mark.parametrize("start", STARTS, ids=str)
@pytest.mark.parametrize("deleted", [0, 3], ids=["whole", "first ones deleted"])
def test_where_a_consumer_begins(pair: ConsumerPair, start: dict[str, Any], deleted: int) -> None:
    stream(pair, 6)
    for seq in range(1, deleted + 1):
        pair.api("STREAM.MSG.DELETE.S", {"seq": seq})
    created = create(pair, **start)
    pending = created["num_pending"]
    pair.same_info()
    if pending:
        pair.pull(pending).expect(pending)
    pair.same_info()


@pytest.mark.parametrize("start", STARTS[:7], ids=str)
def test_an_empty_stream(pair: ConsumerPair, start: dict[str, Any]) -> None:
    stream(pair)
    create(pair, **start)
    pair.same_info()


BAD_PULLS: list[Any] = [
    b"{",
    b'{"batch": "x"}',
    {"batch": 1, "idle_heartbeat": 1000 * MS},
    {"batch": 1, "idle_heartbeat": 1000 * MS, "expires": 1500 * MS},
    {"batch": 11},
    b"11",
    {"batch": 1, "expires": 6_000 * MS},
    {"batch": 1, "max_bytes": 1001},
    {"batch": 1, "min_pending": 5},
    {"batch": 1, "min_ack_pending": 5},
    {"batch": 1, "id": "x"},
    {"batch": 1, "priority": 10},
    {"batch": 1, "priority": -1},
    {"batch": 5, "no_wait": True},
]


@pytest.mark.parametrize("body", BAD_PULLS, ids=str)
def test_refused_pulls(pair: ConsumerPair, body: Any) -> None:
    stream(pair)
    create(pair, max_batch=10, max_expires=5_000 * MS, max_bytes=1_000)
    pair.pull(body).expect(1)


@pytest.mark.parametrize("policy", ["overflow", "pinned_client", "prioritized"])
@pytest.mark.parametrize(
    "body", [{"batch": 1}, {"batch": 1, "group": "b"}, {"batch": 1, "group": "a", "priority": 99}], ids=str
)
def test_refused_pulls_of_groups(pair: ConsumerPair, policy: str, body: Any) -> None:
    stream(pair)
    create(pair, priority_policy=policy, priority_groups=["a"])
    pair.pull(body).expect(1)


def test_byte_budgets(pair: ConsumerPair) -> None:
    stream(pair)
    for _ in range(6):
        pair.publish("s.a", b"x" * 100)
    create(pair)
    pair.pull({"batch": 5, "max_bytes": 50}).expect(1)
    pair.pull({"batch": 2, "max_bytes": 10_000}).expect(3)
    pair.pull({"batch": 5, "max_bytes": 320, "expires": 10_000 * MS}).expect(3)
    pair.same_info()


def test_no_wait(pair: ConsumerPair) -> None:
    stream(pair, 3)
    create(pair)
    pair.pull({"batch": 5, "no_wait": True}).expect(4)
    pair.pull({"batch": 5, "no_wait": True}).expect(1)
    waiting = pair.pull({"batch": 2, "no_wait": True, "expires": 30_000 * MS})
    waiting.expect(0)
    pair.publish("s.a")
    waiting.expect(2)


def test_waiting_is_limited(pair: ConsumerPair) -> None:
    stream(pair)
    create(pair, max_waiting=2)
    first = pair.pull({"batch": 1, "expires": 30_000 * MS})
    pair.pull({"batch": 1, "expires": 30_000 * MS})
    pair.pull({"batch": 1, "expires": 30_000 * MS}).expect(1)
    pair.same_info()
    first.leave()
    pair.same_info()
    pair.api("CONSUMER.DELETE.S.C")


def test_time_runs_out(pair: ConsumerPair) -> None:
    stream(pair, 1)
    create(pair)
    inbox = pair.pull({"batch": 3, "expires": 250 * MS, "idle_heartbeat": 100 * MS, "max_bytes": 5000})
    pair.world.ports.advance(260 * MS)
    inbox.expect(4)


def test_the_consumer_goes(pair: ConsumerPair) -> None:
    stream(pair)
    create(pair)
    inbox = pair.pull({"batch": 3, "expires": 30_000 * MS})
    pair.until_waiting(1)
    pair.api("CONSUMER.DELETE.S.C")
    inbox.expect(1)


def test_push(pair: ConsumerPair) -> None:
    stream(pair, 4)
    inbox = pair.listen("dlv")
    create(pair, deliver_subject="dlv", ack_policy="explicit")
    inbox.expect(4)
    pair.same_info()
    pair.pull(1).expect(1)
    pair.publish("s.a")
    inbox.expect(1)
    inbox.answer(0, b"+ACK", confirmed=True)
    pair.same_info()


def test_push_heartbeats_and_stalls(pair: ConsumerPair) -> None:
    stream(pair)
    for _ in range(12):
        pair.publish("s.a", b"x" * 100_000)
    inbox = pair.listen("dlv")
    create(pair, deliver_subject="dlv", ack_policy="none", flow_control=True, idle_heartbeat=200 * MS)
    pair.world.ports.advance(201 * MS)
    inbox.expect(14)


def test_redelivery_after_ack_wait(pair: ConsumerPair) -> None:
    stream(pair, 3)
    create(pair, ack_wait=200 * MS, max_deliver=2)
    inbox = pair.pull(2)
    inbox.expect(2)
    waiting = pair.pull({"batch": 2, "expires": 20_000 * MS})
    pair.world.ports.advance(300 * MS)
    waiting.expect(2)
    pair.same_info()


def test_reset(pair: ConsumerPair) -> None:
    stream(pair, 4)
    create(pair)
    inbox = pair.pull(3)
    inbox.expect(3)
    inbox.answer(0, b"+ACK", confirmed=True)
    pair.api("CONSUMER.RESET.S.C")
    pair.pull(2).expect(2)
    pair.api("CONSUMER.RESET.S.C", {"seq": 4})
    pair.pull(1).expect(1)
    pair.api("CONSUMER.RESET.S.C", {"seq": "x"})
    create(pair, "D", deliver_policy="by_start_sequence", opt_start_seq=3)
    pair.api("CONSUMER.RESET.S.D", {"seq": 2})
    pair.api("CONSUMER.RESET.S.D", {"seq": 3})
    create(pair, "E", deliver_policy="new")
    pair.api("CONSUMER.RESET.S.E", {"seq": 2})


@pytest.mark.parametrize("purge", [{}, {"seq": 3}, {"keep": 1}, {"filter": "s.x"}], ids=str)
def test_purge(pair: ConsumerPair, purge: Any) -> None:
    stream(pair, 6)
    create(pair)
    pair.pull(4).expect(4)
    pair.api("STREAM.PURGE.S", purge)
    pair.same_info()


@pytest.mark.parametrize("retention", ["interest", "workqueue"])
def test_acked_messages_leave(pair: ConsumerPair, retention: str) -> None:
    stream(pair, retention=retention)
    create(pair, filter_subject="s.a")
    create(pair, "D", filter_subject="s.b")
    for subject in ("s.a", "s.b", "s.c", "s.a"):
        pair.publish(subject)
    inbox = pair.pull(2)
    inbox.expect(2)
    inbox.answer(0, b"+ACK", confirmed=True)
    pair.api("STREAM.INFO.S", {"deleted_details": True})
    inbox.answer(1, b"+TERM", confirmed=True)
    pair.api("STREAM.INFO.S", {"deleted_details": True})
    pair.same_info()
    pair.api("CONSUMER.DELETE.S.D")
    pair.api("STREAM.INFO.S", {"deleted_details": True})
