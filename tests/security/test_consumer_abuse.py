"""Clients that misuse consumers get the documented answer, cost bounded memory, and do not harm other consumers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipstream.jetstream.consumer.limits import CONSUMER_WAITING_CEILING
from support.consumer_world import SECOND_NS, ConsumerWorld, status

MANY = 20_000


def world(count: int = 0, **config: Any) -> ConsumerWorld:
    made = ConsumerWorld()
    made.stream()
    made.fill(count)
    made.add("C", **config)
    made.add("OTHER")
    return made


def works(w: ConsumerWorld, name: str = "OTHER") -> None:
    """A consumer serves a client that behaves."""
    w.publish("s.a")
    message = w.pull(1, name).messages()[0]
    assert w.ack(message, double=True)


def request_many(w: ConsumerWorld, count: int, body: bytes) -> None:
    """Pull requests from as many inboxes, without looking at each."""
    for number in range(count):
        w.ports.route(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"_INBOX.many.%d" % number, None, body)
    w.ports.settle()


def test_a_crowd_of_waiting_pulls_costs_nothing_per_message(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(max_waiting=CONSUMER_WAITING_CEILING)
    request_many(w, MANY, json.dumps({"batch": 1, "expires": 3_600 * SECOND_NS}).encode())
    assert w.info()["num_waiting"] == MANY
    asked: list[bytes] = []
    plain = w.ports.has_interest
    monkeypatch.setattr(w.ports, "has_interest", lambda subject: asked.append(subject) or plain(subject))
    w.fill(1)
    assert len(asked) < 10, "one message is not worth a look at everybody"
    works(w)


def test_more_waiting_pulls_than_allowed_are_refused() -> None:
    w = world(max_waiting=100)
    request_many(w, MANY, b'{"batch":1,"expires":3600000000000}')
    refused = [line for message in w.ports.delivered if (line := status(message))]
    assert refused == ["409 Exceeded MaxWaiting"] * (MANY - 100)
    assert w.info()["num_waiting"] == 100
    works(w)


def test_pulls_of_clients_that_left_go_with_the_next_message() -> None:
    w = world(max_waiting=CONSUMER_WAITING_CEILING)
    request_many(w, MANY, b'{"batch":1,"expires":3600000000000}')
    w.ports.gone |= {b"_INBOX.many.%d" % number for number in range(MANY)}
    inbox = w.pull({"batch": 1, "expires": SECOND_NS})
    w.fill(1)
    assert inbox.seqs() == [1]
    assert w.info()["num_waiting"] == 0


def test_a_client_that_naks_in_a_loop() -> None:
    w = world(3)
    before = len(w.ports.logged)
    for _ in range(3_000):
        for message in w.pull({"batch": 3, "no_wait": True}).messages():
            w.ack(message, b"-NAK")
        w.ports.delivered.clear()
        w.ports.sent.clear()
    w.ports.advance(SECOND_NS)
    state = w.stores.made["S"].journal.entries()[b"C"]
    assert sum(map(len, state)) < 64 * 1024
    assert len(w.ports.logged) == before
    assert w.info()["num_ack_pending"] == 3
    works(w)


def test_a_client_that_postpones_for_ever() -> None:
    w = world(2)
    messages = w.pull(2).messages()
    for _ in range(5_000):
        for message in messages:
            w.ack(message, b"+WPI")
        w.ports.sent.clear()
    engine = w.consumer().state.acks
    assert len(engine._heap) < 4_000, "outdated deadlines are dropped"
    works(w)


def test_a_client_that_never_acknowledges_stops_itself_only() -> None:
    w = world(3_000)
    assert len(w.pull({"batch": 3_000, "no_wait": True}).seqs()) == 1_000
    assert w.info()["num_ack_pending"] == 1_000
    assert len(w.pull({"batch": 500, "no_wait": True}, "OTHER").seqs()) == 500


@pytest.mark.parametrize("seq", [0, 1, 3, 4, 100, 2**63 - 1, 2**63, 2**64, 10**40])
@pytest.mark.parametrize("word", [b"+ACK", b"-NAK", b"+TERM", b"+WPI", b"", b"\xff\x00", b"+ACK" * 1_000])
@pytest.mark.parametrize(
    "form", ["$JS.ACK.S.C.1.{}.1.1.0", "$JS.ACK.S.C.{0}.{0}.{0}.{0}.{0}", "$JS.ACK._.x.S.C.1.{}.1.1.0.z"]
)
def test_forged_acks_change_nothing_that_was_not_delivered(seq: int, word: bytes, form: str) -> None:
    """Sequences that are unknown, old, not there yet, or no sequences at all."""
    w = world(4)
    w.ack(w.pull(2).messages()[0])
    before = w.numbers()
    w.ports.route(form.format(seq).encode(), b"_INBOX.x", None, word)
    w.ports.settle()
    assert w.numbers() == before
    w.check()


def test_acks_of_another_consumer_and_stream_are_foreign() -> None:
    w = world(2)
    w.stream("T", ["t.>"])
    w.fill(2, "t.a")
    w.add("C", "T")
    mine, theirs = w.pull(2).messages(), w.pull(2, "C", "T").messages()
    for message in theirs:
        w.ack(message)
    assert w.info("C", "S")["num_ack_pending"] == 2
    assert w.info("C", "T")["num_ack_pending"] == 0
    for message in mine:
        w.ack(message)
    assert w.info("C", "S")["num_ack_pending"] == 0
