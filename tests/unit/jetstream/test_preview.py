"""Clients of JetStream's technical preview: subjects, acks and answers that they know, where a stream asks for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.consumer_world import SECOND_NS, ConsumerWorld

ON = {"slipstream.preview": "true"}


def world(**config: Any) -> ConsumerWorld:
    made = ConsumerWorld()
    made.stream("wc", ["s.>"], metadata=ON, **config)
    made.add("p1", "wc", ack_wait=30 * SECOND_NS)
    return made


def obs(w: ConsumerWorld, names: str = "wc p1") -> Any:
    answer = w.request("$JS.OBSERVABLE.INFO", names.encode())
    assert answer is not None
    return answer[1] if answer[1].startswith(b"-ERR") else json.loads(answer[1])


def test_a_publish_is_acknowledged_as_the_preview_did() -> None:
    w = world(max_msg_size=100)
    for subject, payload, header in (("s.1", b"hello", None), ("s.1", b"x", b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n")):
        assert w.request(subject, payload, header) == (None, b"+OK")
    assert w.request("s.1", b"x", b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n") == (None, b"+OK")  # a duplicate
    assert w.request("s.1", b"x" * 200) == (None, b"-ERR 'message size exceeds maximum allowed'")
    assert w.seqs("wc") == [1, 2]


def test_the_next_message_and_its_ack() -> None:
    w = world()
    assert obs(w) == {
        "Delivered": {"ObsSeq": 1, "SetSeq": 1},
        "AckFloor": {"ObsSeq": 0, "SetSeq": 0},
        "Pending": None,
        "Redelivery": None,
    }
    w.fill(3)
    sent_ns = w.ports.now_ns()
    w.ports.route(b"$JS.RN.wc.p1", b"_INBOX.rn", None, b"2")
    w.ports.settle()
    replies = [message[2] for message in w.ports.delivered if message[0] == b"_INBOX.rn"]
    assert replies == [b"$JS.A.wc.p1.1.1.1", b"$JS.A.wc.p1.1.2.2"]
    assert obs(w)["Pending"] == {"1": sent_ns, "2": sent_ns}
    w.ports.route(b"$JS.A.wc.p1.1.1.1", None, None, b"+OK")
    w.ports.route(b"$JS.A.wc.p1.1.2.2", None, None, b"-NAK")
    w.ports.settle()
    w.ports.route(b"$JS.RN.wc.p1", b"_INBOX.again", None, b"")
    w.ports.settle()
    assert [message[2] for message in w.ports.delivered if message[0] == b"_INBOX.again"] == [b"$JS.A.wc.p1.2.2.3"]
    state = obs(w)
    assert state["Delivered"] == {"ObsSeq": 4, "SetSeq": 3} and state["AckFloor"] == {"ObsSeq": 1, "SetSeq": 1}
    assert list(state["Pending"]) == ["2"] and state["Redelivery"] == {"2": 1}
    w.check()


def test_clients_of_today_pull_as_ever() -> None:
    w = world()
    w.fill(1)
    (message,) = w.pull(1, "p1", "wc").messages()
    assert message[2] is not None and message[2].startswith(b"$JS.ACK.wc.p1.1.1.1.")


def test_only_where_it_is_asked_for() -> None:
    w = world()
    w.stream("S", ["t"])
    w.add("C", "S")
    assert w.request("t", b"x") == (None, b'{"stream":"S","seq":1}')
    assert w.request("$JS.RN.S.C", b"1") is None
    assert obs(w, "S C") == b"-ERR 'observable not found'"
    assert obs(w, "wc nobody") == b"-ERR 'observable not found'"
    assert obs(w, "wc") == b"-ERR 'bad request'"
    w.api("STREAM.DELETE.wc")
    assert w.request("$JS.OBSERVABLE.INFO", b"wc p1") is None


@pytest.mark.parametrize("value", ["yes", ""])
def test_what_is_not_understood_is_refused(value: str) -> None:
    w = ConsumerWorld()
    answer = w.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "metadata": {"slipstream.preview": value}})
    assert "slipstream.preview must be true" in answer["error"]["description"]


def test_it_stays_for_life() -> None:
    w = world()
    answer = w.api("STREAM.UPDATE.wc", {"name": "wc", "subjects": ["s.>"], "storage": "memory"})
    assert "can not change slipstream.preview" in answer["error"]["description"]
