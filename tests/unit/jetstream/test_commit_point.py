"""Nothing passes the point "committed" by: for a store whose sync does not end, nothing leaves, of whatever kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.consumer_world import SECOND_NS, ConsumerWorld

HEADER = b"NATS/1.0\r\n%b\r\n\r\n"


def send(w: ConsumerWorld, subject: str, payload: bytes = b"x", header: bytes = b"") -> None:
    w.ports.route(subject.encode(), b"_INBOX.x", HEADER % header if header else None, payload)


def api(w: ConsumerWorld, subject: str, body: bytes = b"") -> None:
    w.ports.route(f"$JS.API.{subject}".encode(), b"_INBOX.x", None, body)


def a_plain_publish(w: ConsumerWorld) -> None:
    send(w, "s.a")


def publishes_that_take_the_fast_path(w: ConsumerWorld) -> None:
    for _ in range(3):
        send(w, "s.a")


def a_publish_with_headers(w: ConsumerWorld) -> None:
    send(w, "s.a", header=b"A: b")


def a_repetition(w: ConsumerWorld) -> None:
    send(w, "s.a", header=b"Nats-Msg-Id: 1")
    send(w, "s.a", header=b"Nats-Msg-Id: 1")


def a_refusal(w: ConsumerWorld) -> None:
    send(w, "s.a")
    send(w, "s.a", header=b"Nats-Expected-Last-Sequence: 99")


def a_batch(w: ConsumerWorld) -> None:
    send(w, "s.a", header=b"Nats-Batch-Id: b\r\nNats-Batch-Sequence: 1")
    w.ports.sent.clear()  # the first is answered because it is taken, not because it is stored
    send(w, "s.b", header=b"Nats-Batch-Id: b\r\nNats-Batch-Sequence: 2\r\nNats-Batch-Commit: 1")


def a_counter(w: ConsumerWorld) -> None:
    send(w, "count.a", b"", b"Nats-Incr: 1")


def a_republished_copy(w: ConsumerWorld) -> None:
    w.ports.route(b"copied.a", None, None, b"x")


def an_answer_of_the_api(w: ConsumerWorld) -> None:
    send(w, "s.a")
    w.ports.sent.clear()
    api(w, "STREAM.PURGE.S")


def an_update_and_its_advisory(w: ConsumerWorld) -> None:
    api(w, "STREAM.UPDATE.S", b'{"name":"S","subjects":["s.>"],"allow_atomic":true,"description":"new"}')


def a_removal_of_a_message(w: ConsumerWorld) -> None:
    api(w, "STREAM.MSG.DELETE.S", b'{"seq":1,"no_erase":true}')


def a_new_consumer(w: ConsumerWorld) -> None:
    api(w, "CONSUMER.CREATE.S.N", b'{"stream_name":"S","config":{"name":"N","durable_name":"N"}}')


def a_delivery_to_a_pull(w: ConsumerWorld) -> None:
    w.ports.route(b"s.new", None, None, b"x")


def a_delivery_that_is_pushed(w: ConsumerWorld) -> None:
    w.ports.route(b"s.pushed", None, None, b"x")


def a_read_of_what_was_just_published(w: ConsumerWorld) -> None:
    w.ports.route(b"s.read", None, None, b"x")
    api(w, "STREAM.MSG.GET.S", b'{"last_by_subj":"s.read"}')


def a_confirmed_ack(w: ConsumerWorld) -> None:
    w.ports.route(unacked(w), b"_INBOX.x", None, b"+ACK")


def a_dead_letter(w: ConsumerWorld) -> None:
    w.ports.route(unacked(w), None, None, b"+TERM")


def unacked(w: ConsumerWorld) -> bytes:
    replies = [message[2] for message in w.ports.delivered if message[1] == b"s.first" and message[2] is not None]
    return replies[0]


KINDS: list[Callable[[ConsumerWorld], None]] = [
    a_plain_publish,
    publishes_that_take_the_fast_path,
    a_publish_with_headers,
    a_repetition,
    a_refusal,
    a_batch,
    a_counter,
    a_republished_copy,
    an_answer_of_the_api,
    an_update_and_its_advisory,
    a_removal_of_a_message,
    a_new_consumer,
    a_delivery_to_a_pull,
    a_delivery_that_is_pushed,
    a_read_of_what_was_just_published,
    a_confirmed_ack,
    a_dead_letter,
]


def a_world(*, sync_always: bool) -> ConsumerWorld:
    """Streams with one message, and consumers of every kind that wait for the next."""
    w = ConsumerWorld(disk_like=True, sync_always=sync_always)
    w.stream("S", storage="file", allow_atomic=True)
    w.stream("COPIED", ["copied.>"], storage="file", republish={"src": "copied.>", "dest": "copy.>"})
    w.stream("COUNT", ["count.>"], storage="file", allow_msg_counter=True)
    w.listen("copy.a")
    w.listen("pushed")
    w.listen("dead")
    w.add("PUSH", deliver_subject="pushed", filter_subject="s.pushed")
    w.add("PULL", filter_subject="s.new")
    w.add("DLQ", filter_subject="s.first", metadata={"slipstream.dlq": "dead"})
    w.publish("s.first")
    assert w.pull(1, "DLQ").seqs() == [1]
    w.pull(1, "PULL")
    w.ports.advance(SECOND_NS)
    return w


@pytest.mark.parametrize("sync_always", [True, False])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_nothing_leaves_before_its_commit(kind: Callable[[ConsumerWorld], None], sync_always: bool) -> None:
    w = a_world(sync_always=sync_always)
    w.ports.sent.clear()
    w.ports.jobs_held = True
    kind(w)
    w.ports.settle()
    assert w.ports.jobs, "it needs a commit"
    assert w.ports.sent == []
    w.ports.advance(20 * SECOND_NS)
    assert w.ports.sent == [], "time alone lets nothing go"
    w.ports.jobs_held = False
    w.ports.settle()
    w.ports.advance(SECOND_NS)
    assert w.ports.sent != [], "it would have left"
    w.check()
