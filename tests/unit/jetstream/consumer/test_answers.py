"""Acks of every kind, redelivery, max_deliver, advisories and metrics."""

import json
from typing import Any

import pytest

from slipstream.jetstream.ports import Delivery
from support.consumer_world import SECOND_NS, ConsumerWorld, tokens


def world(count: int = 0, **config: object) -> ConsumerWorld:
    made = ConsumerWorld()
    made.stream()
    made.fill(count)
    made.add(**config)
    return made


def events(w: ConsumerWorld, pattern: str) -> list[Any]:
    """What is published under a pattern from now on."""
    heard: list[Any] = []
    w.ports.subscribe(pattern.encode(), lambda _s, _r, _h, payload: heard.append(json.loads(payload)))
    return heard


def test_a_double_ack_is_confirmed_after_the_commit() -> None:
    w = ConsumerWorld(disk_like=True)
    w.stream()
    w.fill(1)
    w.add()
    (message,) = w.pull(1).messages()
    w.ports.jobs_held = True
    assert not w.ack(message, double=True)
    w.ports.jobs_held = False
    w.ports.settle()
    assert any(sent[0].startswith(b"_INBOX.ack") for sent in w.ports.sent)


def test_a_failed_commit_confirms_nothing() -> None:
    w = ConsumerWorld(disk_like=True)
    w.stream()
    w.fill(1)
    w.add()
    (message,) = w.pull(1).messages()
    from slipstream.errors import StorageFault

    w.stores.made["S"].fail_next = StorageFault("disk on fire")
    assert not w.ack(message, double=True)


def test_both_ack_subjects_are_understood() -> None:
    w = world(1)
    w.pull(1).messages()
    name = w.consumers().account_hash
    w.ports.route(f"$JS.ACK._.{name}.S.C.1.1.1.0.0".encode(), None, None, b"+ACK")
    w.ports.settle()
    assert w.numbers()[2] == 0


@pytest.mark.parametrize("seq", [0, 2, 5, 99, 2**63, 2**64, 10**30])
@pytest.mark.parametrize("word", [b"+ACK", b"-NAK", b"+TERM", b"+WPI", b"+NXT", b"junk"])
def test_acks_of_messages_that_are_not_out_change_nothing(seq: int, word: bytes) -> None:
    w = world(5)
    w.pull(1)
    w.ports.route(b"$JS.ACK.S.C.1.%d.%d.0.0" % (seq, seq), b"_INBOX.x", None, word)
    w.ports.settle()
    assert w.info()["num_ack_pending"] == (2 if word == b"+NXT" and 0 < seq < 10**19 else 1)
    w.check()


def test_naks_come_back_in_their_order_before_anything_new() -> None:
    w = world(4)
    messages = w.pull(3).messages()
    for index in (2, 0):
        w.ack(messages[index], b"-NAK")
    assert [tokens(message)[:2] for message in w.pull(3).messages()] == [(2, 3), (2, 1), (1, 4)]


def test_a_nak_is_not_forgotten_by_a_restart() -> None:
    w = world(3)
    w.ack(w.pull(3).messages()[1], b"-NAK")
    w = w.restart()
    w.ports.advance(2_000_000)
    assert w.pull({"batch": 3, "no_wait": True}).seqs() == [2]


def test_a_nak_with_delay_waits() -> None:
    w = world(1)
    (message,) = w.pull(1).messages()
    w.ack(message, b"-NAK 2s")
    inbox = w.pull(1)
    w.ports.advance(SECOND_NS)
    assert inbox.take() == []
    w.ports.advance(2 * SECOND_NS)
    assert inbox.seqs() == [1]


def test_a_bad_delay_is_an_immediate_nak() -> None:
    w = world(1)
    (message,) = w.pull(1).messages()
    w.ack(message, b"-NAK whenever")
    assert w.pull(1).seqs() == [1]
    assert any("bad NAK delay" in text for _, text in w.ports.logged)


def test_progress_postpones_the_deadline() -> None:
    w = world(1, ack_wait=2 * SECOND_NS)
    (message,) = w.pull(1).messages()
    for _ in range(5):
        w.ports.advance(3 * SECOND_NS // 2)
        w.ack(message, b"+WPI")
    inbox = w.pull(1)
    assert inbox.take() == []
    w.ports.advance(3 * SECOND_NS)
    assert inbox.seqs() == [1]


def test_backoff_grows_with_deliveries() -> None:
    w = world(1, backoff=[SECOND_NS, 5 * SECOND_NS], max_deliver=4)
    inbox = w.pull(10)
    heard = events(w, "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C")
    arrivals: list[Delivery] = []
    for _ in range(20):
        w.ports.advance(SECOND_NS)
        arrivals += inbox.take()
    assert [tokens(message)[0] for message in arrivals] == [1, 2, 3, 4]
    assert [event["deliveries"] for event in heard] == [4]


def test_max_deliver_gives_up_once_and_says_so() -> None:
    w = world(1, ack_wait=SECOND_NS, max_deliver=2)
    heard = events(w, "$JS.EVENT.ADVISORY.>")
    inbox = w.pull(10)
    w.ports.advance(10 * SECOND_NS)
    assert [tokens(message)[0] for message in inbox.messages()] == [1, 2]
    assert [(event["type"].rsplit(".", 1)[1], event["stream_seq"]) for event in heard] == [("max_deliver", 1)]
    assert w.numbers() == (1, 0, 0, 1, 0)
    assert w.seqs() == [1], "the message stays"


def test_a_nak_of_the_last_delivery_gives_up_at_once() -> None:
    w = world(1, max_deliver=1)
    (message,) = w.pull(1).messages()
    w.ack(message, b"-NAK")
    assert w.pull({"batch": 1, "no_wait": True}).statuses() == ["404 No Messages"]
    assert w.info()["num_redelivered"] == 0


def test_advisories_of_answers() -> None:
    w = world(2)
    heard = events(w, "$JS.EVENT.ADVISORY.CONSUMER.>")
    first, second = w.pull(2).messages()
    w.ack(first, b"-NAK")
    w.ack(second, b"+TERM no use")
    nak, terminated = heard
    assert nak["type"] == "io.nats.jetstream.advisory.v1.nak"
    assert (nak["stream"], nak["consumer"], nak["stream_seq"], nak["deliveries"]) == ("S", "C", 1, 1)
    assert terminated["reason"] == "no use"


def test_removed_messages_are_terminated() -> None:
    w = world(2)
    heard = events(w, "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.C")
    w.pull(2)
    w.api("STREAM.MSG.DELETE.S", {"seq": 1})
    assert [(event["stream_seq"], event["reason"]) for event in heard] == [(1, "Unacknowledged message was deleted")]
    assert w.numbers()[2] == 1


def test_sampled_acks_are_measured() -> None:
    w = world(1, sample_freq="100%")
    heard = events(w, "$JS.EVENT.METRIC.CONSUMER.ACK.S.C")
    (message,) = w.pull(1).messages()
    w.ports.advance(3 * SECOND_NS)
    w.ack(message)
    (metric,) = heard
    assert metric["type"] == "io.nats.jetstream.metric.v1.consumer_ack"
    assert (metric["ack_time"], metric["deliveries"], metric["stream_seq"]) == (3 * SECOND_NS, 1, 1)


def test_ack_none_consumers_do_not_listen_for_acks() -> None:
    w = world(1, ack_policy="none")
    assert not w.ports.has_interest(b"$JS.ACK.S.C.1.1.1.1.1")


def test_a_new_ack_wait_holds_for_what_is_out() -> None:
    w = world(1, ack_wait=60 * SECOND_NS)
    inbox = w.pull(2)
    inbox.messages()
    w.add(ack_wait=2 * SECOND_NS)
    w.ports.advance(3 * SECOND_NS)
    assert inbox.seqs() == [1]


def test_a_client_cannot_flood_the_log() -> None:
    w = world(1)
    w.pull(1)
    for seq in range(100, 200):
        w.ports.route(b"$JS.ACK.S.C.1.%d.1.0.0" % seq, None, None, b"+ACK")
    assert sum("future message" in text for _, text in w.ports.logged) == 1
