"""Orders by keys: key-shared, fair, priority, rate per key."""

from __future__ import annotations

from typing import Any

import pytest

from slipstream.jetstream.backup.consumers import saved_state
from slipstream.jetstream.consumer.key_queues import KeyRate
from slipstream.jetstream.consumer.limits import RATED_KEYS_MAX
from slipstream.jetstream.consumer.ordering import KeyFrom
from support.consumer_world import SECOND_NS, ConsumerWorld, seq_of, tokens

MINUTE_NS = 60 * SECOND_NS


def ordered(kind: str, key: str = "", **more: str) -> dict[str, str]:
    metadata = {"slipstream.delivery": kind}
    if key:
        metadata["slipstream.delivery.key"] = key
    return metadata | {f"slipstream.delivery.{name}": value for name, value in more.items()}


def world(subjects: str, metadata: dict[str, str], **config: Any) -> ConsumerWorld:
    """A stream with a message on `s.<letter>` for each letter."""
    made = ConsumerWorld()
    made.stream(**config.pop("stream", {}))
    for letter in subjects:
        made.fill(1, f"s.{letter}")
    made.add(metadata=metadata, **config)
    return made


@pytest.mark.parametrize(
    ("metadata", "config", "problem"),
    [
        (ordered("shared"), {}, "slipstream.delivery must be one of key-shared, fair, priority, rate"),
        ({"slipstream.delivery.key": "subject"}, {}, "slipstream.delivery must be one of"),
        (ordered("fair", colour="red"), {}, "unknown metadata slipstream.delivery.colour"),
        (ordered("fair", "token:0"), {}, "slipstream.delivery.key must be subject, token:<n> or header:<name>"),
        (ordered("fair", "header:"), {}, "slipstream.delivery.key must be"),
        (ordered("fair", rate="fast"), {}, "slipstream.delivery.rate must be a number and a unit"),
        (ordered("rate"), {}, "slipstream.delivery rate needs slipstream.delivery.rate"),
        (ordered("priority"), {}, "slipstream.delivery priority needs slipstream.delivery.key"),
        (ordered("priority", "token:1", rate="1/s"), {}, "slipstream.delivery priority has no"),
        (ordered("fair", ahead="0"), {}, "slipstream.delivery.ahead must be a number between 1 and 32768"),
        (ordered("fair", ahead="99999"), {}, "slipstream.delivery.ahead must be"),
        (ordered("fair"), {"ack_policy": "all"}, "slipstream.delivery needs explicit acks"),
        (ordered("fair"), {"replay_policy": "original"}, "not for replay policy original"),
        (ordered("fair"), {"max_ack_pending": -1}, "needs max_ack_pending between 1 and 16384"),
        (
            ordered("fair"),
            {"deliver_policy": "last_per_subject", "filter_subject": "s.>"},
            "not for deliver policy last_per_subject",
        ),
    ],
)
def test_what_cannot_be_is_refused(metadata: dict[str, str], config: dict[str, Any], problem: str) -> None:
    w = ConsumerWorld()
    w.stream()
    body = {"name": "C", "durable_name": "C", "ack_policy": "explicit", "metadata": metadata, **config}
    answer = w.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": body})
    assert problem in answer["error"]["description"]
    assert answer["error"]["err_code"] == 10052


def test_the_order_stays() -> None:
    w = world("", ordered("fair"))
    body = {"name": "C", "durable_name": "C", "ack_policy": "explicit", "metadata": ordered("key-shared")}
    answer = w.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": body})
    assert "slipstream.delivery can not be updated" in answer["error"]["description"]


def test_keys() -> None:
    assert KeyFrom(token=2).of_subject(b"a.b.c") == b"b"
    assert KeyFrom(token=3).of_subject(b"a.b.c") == b"c"
    assert KeyFrom(token=4).of_subject(b"a.b.c") == b""
    assert KeyFrom(header=b"K").of_headers(b"NATS/1.0\r\nK:  x \r\n\r\n") == b"x"
    assert KeyFrom(header=b"K").of_headers(b"") == b""


# --- key-shared ---


def test_one_message_of_a_key_is_in_flight() -> None:
    w = world("aabab", ordered("key-shared", "token:2"))
    inbox = w.pull(10)
    first = inbox.messages()
    assert [seq_of(message) for message in first] == [1, 3]
    assert w.numbers() == (3, 0, 2, 0, 3)
    w.ack(first[1])
    assert inbox.seqs() == [5]
    assert w.numbers()[1] == 0
    w.ack(first[0])
    (second,) = inbox.messages()
    assert seq_of(second) == 2
    assert w.numbers() == (5, 1, 2, 0, 1)
    w.ack(second)
    assert inbox.seqs() == [4]
    assert w.numbers()[1] == 3
    w.check()


def test_workers_share_keys() -> None:
    w = world("abcabc", ordered("key-shared"))
    inboxes = [w.pull(2) for _ in range(3)]
    got = [inbox.messages() for inbox in inboxes]
    assert sorted(seq_of(message) for messages in got for message in messages) == [1, 2, 3]
    for messages in got:
        for message in messages:
            w.ack(message)
    assert sorted(seq for inbox in inboxes for seq in inbox.seqs()) == [4, 5, 6]
    w.check()


def test_a_redelivery_keeps_the_key() -> None:
    w = world("aa", ordered("key-shared"), ack_wait=SECOND_NS)
    inbox = w.pull(10)
    (first,) = inbox.messages()
    w.ack(first, b"-NAK")
    (again,) = inbox.messages()
    assert tokens(again)[:2] == (2, 1)
    w.ports.advance(SECOND_NS * 3 // 2)
    (again,) = inbox.messages()
    assert tokens(again)[:2] == (3, 1)
    w.ack(again, b"+TERM")
    assert inbox.seqs() == [2]
    w.check()


def test_what_is_given_up_frees_its_key() -> None:
    w = world("aa", ordered("key-shared"), ack_wait=SECOND_NS, max_deliver=1)
    inbox = w.pull(10)
    assert inbox.seqs() == [1]
    w.ports.advance(2 * SECOND_NS)
    assert inbox.seqs() == [2]
    w.check()


def test_a_dead_letter_frees_its_key() -> None:
    metadata = ordered("key-shared") | {"slipstream.dlq": "dead"}
    w = world("aa", metadata, ack_wait=SECOND_NS, max_deliver=1)
    inbox = w.pull(10)
    assert inbox.seqs() == [1]
    w.ports.advance(2 * SECOND_NS)
    assert inbox.seqs() == [2]
    w.check()


def test_a_removed_message_frees_its_key_and_is_not_delivered() -> None:
    w = world("aaaa", ordered("key-shared"))
    inbox = w.pull(10)
    assert inbox.seqs() == [1]
    w.api("STREAM.MSG.DELETE.S", {"seq": 2})
    assert w.info()["num_pending"] == 2
    w.api("STREAM.MSG.DELETE.S", {"seq": 1})
    assert inbox.seqs() == [3]
    w.api("STREAM.PURGE.S")
    assert w.info()["num_pending"] == 0
    w.fill(1)
    assert inbox.seqs() == [5]
    w.check()


def test_keys_survive_a_restart() -> None:
    w = world("aabbc", ordered("key-shared"))
    inbox = w.pull(10)
    first, _, third = inbox.messages()
    w.ack(third)
    w.ack(first)
    assert inbox.seqs() == [2]
    w = w.restart()
    assert w.numbers() == (5, 1, 2, 0, 1)
    inbox = w.pull(10)
    assert inbox.seqs() == []  # 2 and 3 are in flight, and 4 waits for 3
    assert w.api("CONSUMER.WHY.S.C")["causes"][0]["cause"] in ("unacknowledged", "key_in_flight")
    w.ports.route(b"$JS.ACK.S.C.1.3.2.0.0", None, None, b"+ACK")
    w.ports.settle()
    assert inbox.seqs() == [4]
    w.check()


def test_a_work_queue_keeps_what_was_passed_over() -> None:
    w = world("aab", ordered("key-shared"), stream={"retention": "workqueue"})
    inbox = w.pull(10)
    first, other = inbox.messages()
    w.ack(other)
    assert w.seqs() == [1, 2]
    w = w.restart()
    assert w.seqs() == [1, 2]
    w.ack(first)
    assert w.seqs() == [2] and w.pull(1).seqs() == [2]


def test_a_reset_begins_anew() -> None:
    w = world("aab", ordered("key-shared"))
    inbox = w.pull(10)
    assert inbox.seqs() == [1, 3]
    w.api("CONSUMER.RESET.S.C", {"seq": 2})
    assert inbox.seqs() == [2, 3]
    w.check()


def test_other_filters_leave_out_what_waits() -> None:
    w = world("aabb", ordered("key-shared"))
    inbox = w.pull(10)
    messages = inbox.messages()
    assert [seq_of(message) for message in messages] == [1, 3]
    w.add(metadata=ordered("key-shared"), filter_subject="s.a")
    for message in messages:
        w.ack(message)
    assert inbox.seqs() == [2] and w.info()["num_pending"] == 0
    w.check()


def test_pushed_and_by_header() -> None:
    w = ConsumerWorld()
    w.stream()
    for key in "aab":
        w.publish("s.x", Order=key)
    w.publish("s.x")
    w.publish("s.x")
    w.add(metadata=ordered("key-shared", "header:Order"), deliver_subject="dlv")
    inbox = w.listen("dlv")
    messages = inbox.messages()
    assert [seq_of(message) for message in messages] == [1, 3, 4]  # without the header: one key
    w.ack(messages[0])
    assert inbox.seqs() == [2]
    w.ack(messages[2])
    assert inbox.seqs() == [5]
    w.check()


def test_the_look_ahead_is_bounded_and_said() -> None:
    w = world("a" * 10 + "b", ordered("key-shared", ahead="5"))
    inbox = w.pull(10)
    (first,) = inbox.messages()
    assert len(w.consumer().state.acks.ahead or ()) == 5
    causes = {cause["cause"]: cause["text"] for cause in w.api("CONSUMER.WHY.S.C")["causes"]}
    assert causes["look_ahead"].startswith("5 messages wait for their keys")
    assert "5 messages wait, of 1 key " in causes["key_in_flight"]
    w.check()
    for _ in range(5):
        w.ack(first)
        first = inbox.messages()[0]
    assert w.numbers()[4] == 4  # and 11 was seen
    w.check()


def test_a_backup_goes_back_to_what_was_passed_over() -> None:
    w = world("aab", ordered("key-shared"))
    messages = w.pull(10).messages()
    w.ack(messages[1])
    saved = saved_state(w.consumer().state, 3, 0)
    assert saved.delivered.stream_seq == 1
    assert list(saved.pending or ()) == [1]


# --- fair ---


def test_turns_of_keys() -> None:
    w = world("aaaabbc", ordered("fair", "token:2"))
    assert w.pull(10).seqs() == [1, 5, 7, 2, 6, 3, 4]


def test_who_comes_late_has_the_next_turn() -> None:
    w = world("aaaa", ordered("fair"))
    assert w.pull(2).seqs() == [1, 2]
    w.fill(1, "s.b")
    assert w.pull(3).seqs() == [3, 5, 4]
    w.check()


def test_small_messages_first_where_there_is_no_room() -> None:
    w = world("aabb", ordered("fair"), max_ack_pending=1)
    inbox = w.pull(10)
    seen = []
    for _ in range(4):
        (message,) = inbox.messages()
        seen.append(seq_of(message))
        w.ack(message)
    assert seen == [1, 3, 2, 4]
    w.check()


def test_a_byte_budget_puts_back() -> None:
    w = ConsumerWorld()
    w.stream()
    for letter in "aab":
        w.fill(1, f"s.{letter}", b"x" * 100)
    w.add(metadata=ordered("fair"))
    inbox = w.pull({"batch": 3, "max_bytes": 200})
    assert inbox.seqs() == [1]
    w.check()
    assert w.pull(3).seqs() == [3, 2]
    w.check()


# --- priority ---


def test_the_lowest_number_first() -> None:
    w = ConsumerWorld()
    w.stream()
    for priority in ("9", "5", "0", "", "5", "12"):
        if priority:
            w.publish("s.x", Priority=priority)
        else:
            w.publish("s.x")
    w.add(metadata=ordered("priority", "header:Priority"))
    assert w.pull(10).seqs() == [3, 2, 5, 1, 4, 6]


def test_the_oldest_does_not_wait_for_ever() -> None:
    w = world("9" + "0" * 40, ordered("priority", "token:2"))
    assert w.pull(16).seqs() == [*range(2, 17), 1]


# --- rate ---


def test_the_rate_of_a_key() -> None:
    w = world("aaab", ordered("rate", "token:2", rate="1/s"))
    inbox = w.pull(10)
    assert inbox.seqs() == [1, 4]
    (cause,) = [each for each in w.api("CONSUMER.WHY.S.C")["causes"] if each["cause"] == "key_rate"]
    assert cause["text"].startswith("1 key has had its share (rate)")
    w.fill(1, "s.c")
    assert inbox.seqs() == [5]  # others go on meanwhile
    w.ports.advance(SECOND_NS)
    assert inbox.seqs() == [2]
    w.ports.advance(SECOND_NS)
    assert inbox.seqs() == [3]
    w.check()


def test_a_rate_with_one_in_flight() -> None:
    w = world("aa", ordered("key-shared", rate="60/m"))
    inbox = w.pull(10)
    (message,) = inbox.messages()
    w.ack(message)
    assert inbox.seqs() == []
    w.ports.advance(SECOND_NS)
    assert inbox.seqs() == [2]
    w.check()


def test_rates_of_too_many_keys() -> None:
    rate = KeyRate(SECOND_NS)
    for number in range(RATED_KEYS_MAX):
        assert rate.ready_ns(b"%d" % number, number) <= number
        rate.went(b"%d" % number, number)
    assert rate.ready_ns(b"new", RATED_KEYS_MAX) == SECOND_NS  # when the first may be forgotten
    assert rate.ready_ns(b"new", SECOND_NS) <= SECOND_NS
