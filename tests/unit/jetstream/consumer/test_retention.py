"""Interest and work-queue streams keep what is needed and nothing else, and dead letters go where they should."""

import json
from typing import Any

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream import headers
from support.consumer_world import SECOND_NS, ConsumerWorld


def world(retention: str, **config: Any) -> ConsumerWorld:
    made = ConsumerWorld()
    made.stream(retention=retention, **config)
    return made


def ack_all(w: ConsumerWorld, name: str, count: int = 100) -> None:
    for message in w.pull({"batch": count, "no_wait": True}, name).take():
        if message[2]:
            w.ack(message)


def test_interest_waits_for_everyone() -> None:
    w = world("interest")
    w.add("A")
    w.add("B", filter_subject="s.b")
    w.publish("s.a")
    w.publish("s.b")
    ack_all(w, "A")
    assert w.seqs() == [2]
    ack_all(w, "B")
    assert w.seqs() == []


def test_interest_without_consumers_stores_nothing() -> None:
    w = world("interest")
    assert w.publish("s.a")["seq"] == 1
    assert w.seqs() == []
    w.add("A", filter_subject="s.a")
    w.publish("s.b")
    w.publish("s.a")
    assert w.seqs() == [3]


def test_the_last_consumer_takes_its_interest_along() -> None:
    w = world("interest")
    w.add("A")
    w.add("B")
    w.publish("s.a")
    ack_all(w, "A")
    w.api("CONSUMER.DELETE.S.B")
    assert w.seqs() == []
    w.publish("s.a")
    w.api("CONSUMER.DELETE.S.A")
    assert w.seqs() == []


def test_ack_none_consumers_are_done_on_delivery() -> None:
    w = world("interest")
    w.add("A", ack_policy="none")
    w.publish("s.a")
    assert w.pull(1, "A").seqs() == [1]
    assert w.seqs() == []


def test_narrower_filters_release_messages() -> None:
    w = world("interest")
    w.add("A")
    w.publish("s.a")
    w.publish("s.b")
    w.add("A", filter_subject="s.b")
    assert w.seqs() == [2]


def test_a_work_queue_keeps_its_messages_without_consumers() -> None:
    w = world("workqueue")
    w.publish("s.a")
    w.add("A")
    w.pull(1, "A")
    w.api("CONSUMER.DELETE.S.A")
    assert w.seqs() == [1]
    w = w.restart()
    w.add("B")
    assert w.pull(1, "B").seqs() == [1]


def test_a_work_queue_keeps_what_new_filters_missed() -> None:
    w = world("workqueue")
    w.add("A", filter_subject="s.a")
    for subject in ("s.b", "s.a"):
        w.publish(subject)
    ack_all(w, "A")
    w.add("A", filter_subjects=["s.a", "s.b"])
    w = w.restart()
    assert w.seqs() == [1], "it was never offered, so it was never acknowledged"


def test_messages_given_up_stay_until_a_late_ack() -> None:
    w = world("workqueue")
    w.add("A", max_deliver=1, ack_wait=SECOND_NS)
    w.publish("s.a")
    (message,) = w.pull(1, "A").messages()
    w.ports.advance(3 * SECOND_NS)
    w = w.restart()
    assert w.seqs() == [1] and w.info("A")["num_ack_pending"] == 0
    w.ack(message)
    assert w.seqs() == []


def test_a_lost_removal_is_made_up_for_at_start() -> None:
    w = world("workqueue")
    w.add("A")
    w.fill(3)
    (message, _) = w.pull(2, "A").messages()
    store = w.account.streams["S"].store
    plain, store.delete = store.delete, lambda _seq: False  # type: ignore[method-assign]
    w.ack(message, double=True)
    store.delete = plain  # type: ignore[method-assign]
    assert w.seqs() == [1, 2, 3]
    w = w.restart()
    assert w.seqs() == [2, 3]


def test_a_sweep_is_cut_into_slices() -> None:
    w = world("interest")
    w.add("A")
    w.add("B")
    w.fill(5_000)
    w.api("CONSUMER.DELETE.S.A")
    assert len(w.seqs()) == 5_000
    ack_all(w, "B", 1_000)
    assert len(w.seqs()) == 4_000


# --- dead letters ---


def dead_world(retention: str = "workqueue", **config: Any) -> ConsumerWorld:
    w = world(retention)
    w.stream("DLQ", ["dlq.>"])
    w.add("A", metadata={"slipstream.dlq": "dlq.s"}, ack_wait=SECOND_NS, **config)
    return w


def letters(w: ConsumerWorld) -> list[Any]:
    store = w.account.streams["DLQ"].store
    return [store.get(seq) for seq in range(store.first_seq, store.last_seq + 1)]


@pytest.mark.parametrize("retention", ["limits", "interest", "workqueue"])
def test_max_deliver_sends_a_dead_letter(retention: str) -> None:
    w = dead_world(retention, max_deliver=2)
    w.publish("s.a", b"poison", Nats_Msg_Id="id", Own="kept")
    w.pull(5, "A")
    w.ports.advance(5 * SECOND_NS)
    (letter,) = letters(w)
    assert letter.subject == b"dlq.s" and letter.payload == b"poison"
    found = {
        key: headers.find(letter.headers, b"Slipstream-Dlq-" + key)
        for key in (b"Stream", b"Sequence", b"Consumer", b"Deliveries", b"Reason", b"Subject")
    }
    assert found == {
        b"Stream": b"S",
        b"Sequence": b"1",
        b"Consumer": b"A",
        b"Deliveries": b"2",
        b"Reason": b"max_deliver",
        b"Subject": b"s.a",
    }
    assert headers.find(letter.headers, b"Own") == b"kept"
    assert w.seqs() == ([1] if retention == "limits" else [])
    assert w.info("A")["num_ack_pending"] == 0


def test_term_sends_a_dead_letter_with_its_reason() -> None:
    w = dead_world()
    w.publish("s.a")
    (message,) = w.pull(1, "A").messages()
    assert w.ack(message, b"+TERM not\r\nmine", double=True)
    (letter,) = letters(w)
    assert headers.find(letter.headers, b"Slipstream-Dlq-Reason") == b"terminated: not  mine"


def test_a_dead_letter_survives_a_restart_and_is_stored_once() -> None:
    w = dead_world(max_deliver=1)
    w.publish("s.a")
    w.pull(1, "A")
    stop = w.account.streams["DLQ"]
    stop._subscribe([])  # the receiving stream does not hear it
    w.ports.advance(3 * SECOND_NS)
    assert w.seqs() == [1] and letters(w) == []
    w = w.restart()
    w.ports.settle()
    assert len(letters(w)) == 1 and w.seqs() == []
    w = w.restart()
    assert len(letters(w)) == 1


def test_an_unconfirmed_dead_letter_is_looked_for() -> None:
    w = dead_world(max_deliver=1)
    w.publish("s.a")
    w.pull(1, "A")
    consumer = w.consumer("A")
    consumer.dead_letters._on_stored = lambda *_: None  # type: ignore[method-assign]
    w.ports.advance(4 * SECOND_NS)
    assert len(letters(w)) == 1
    assert w.seqs() == [1], "kept until it is known to be safe"
    w.ports.advance(30 * SECOND_NS)
    assert len(letters(w)) == 1, "not published again"
    assert w.seqs() == [], "found where it had to be"


def test_a_refused_dead_letter_is_repeated_until_it_is_taken() -> None:
    w = dead_world(max_deliver=1)
    w.api("STREAM.UPDATE.DLQ", {"name": "DLQ", "subjects": ["dlq.>"], "storage": "memory", "max_msg_size": 1})
    w.publish("s.a", b"poison")
    w.pull(1, "A")
    w.ports.advance(30 * SECOND_NS)
    assert letters(w) == [] and w.seqs() == [1]
    w.api("STREAM.UPDATE.DLQ", {"name": "DLQ", "subjects": ["dlq.>"], "storage": "memory"})
    w.ports.advance(10 * SECOND_NS)
    assert len(letters(w)) == 1 and w.seqs() == []


def test_without_a_stream_the_letter_is_published_once() -> None:
    w = world("workqueue")
    heard: list[bytes] = []
    w.ports.subscribe(b"dlq.s", lambda _s, _r, _h, payload: heard.append(payload))
    w.add("A", metadata={"slipstream.dlq": "dlq.s"}, ack_wait=SECOND_NS, max_deliver=1)
    w.publish("s.a", b"poison")
    w.pull(1, "A")
    w.ports.advance(30 * SECOND_NS)
    assert heard == [b"poison"] and w.seqs() == []


def test_the_stream_may_name_the_subject() -> None:
    w = world("limits", metadata={"slipstream.dlq": "dlq.s"})
    w.stream("DLQ", ["dlq.>"])
    w.add("A")
    w.publish("s.a")
    (message,) = w.pull(1, "A").messages()
    w.ack(message, b"+TERM")
    assert len(letters(w)) == 1


@pytest.mark.parametrize("subject", ["s.dead", "a b", "dlq.*", "x..y"])
def test_bad_dead_letter_subjects_are_refused(subject: str) -> None:
    w = world("limits")
    body = {"stream_name": "S", "config": {"name": "A", "metadata": {"slipstream.dlq": subject}}}
    assert w.api("CONSUMER.CREATE.S.A", json.dumps(body))["error"]["err_code"] == 10052


def test_a_failed_commit_leaves_no_acknowledged_message_behind() -> None:
    w = world("workqueue")
    w.add("A")
    w.fill(2)
    (message, _) = w.pull(2, "A").messages()
    store = w.account.streams["S"].store
    plain, store.delete = store.delete, lambda _seq: False  # type: ignore[method-assign]
    w.ack(message)
    store.delete = plain  # type: ignore[method-assign]
    w.account.streams["S"].on_fault(StorageFault("disk on fire"))
    w.ports.settle()
    assert w.seqs() == [2]
