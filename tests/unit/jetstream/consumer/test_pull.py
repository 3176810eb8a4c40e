"""Pull requests: who gets what, and what the others are told."""

import json

import msgspec
import pytest

from slipstream.jetstream.consumer import requests
from slipstream.jetstream.consumer.delivery import Stop
from slipstream.jetstream.consumer.limits import CONSUMER_AHEAD_BYTES
from slipstream.jetstream.consumer.requests import PullRequest
from slipstream.jetstream.gojson.scan import JsonError
from support.consumer_world import SECOND_NS, ConsumerWorld, Inbox, status, tokens

MS = 1_000_000


def world(count: int = 0, **config: object) -> ConsumerWorld:
    made = ConsumerWorld()
    made.stream()
    made.fill(count)
    made.add(**config)
    return made


def test_requests_are_served_in_turn() -> None:
    w = world()
    first, second = w.pull(3), w.pull(3)
    w.fill(4)
    assert first.seqs() == [1, 3] and second.seqs() == [2, 4]


def test_a_batch_arrives_whole_and_in_order() -> None:
    w = world(3_000, max_ack_pending=-1)
    messages = w.pull(2_500).messages()
    assert [tokens(message)[1:3] for message in messages] == [(n, n) for n in range(1, 2_501)]
    assert [tokens(message)[4] for message in messages] == list(range(2_999, 499, -1))


def test_max_ack_pending_stops_and_acks_resume() -> None:
    w = world(5, max_ack_pending=2)
    inbox = w.pull(5)
    first = inbox.messages()
    assert len(first) == 2
    w.ack(first[0])
    assert inbox.seqs() == [3]
    assert w.numbers()[2] == 2


def test_no_wait_ends_with_the_first_heartbeat_though_acks_would_free_more() -> None:
    w = world(5, max_ack_pending=2)
    inbox = w.pull({"batch": 5, "no_wait": True, "expires": 10 * SECOND_NS, "idle_heartbeat": SECOND_NS})
    first = inbox.messages()
    assert len(first) == 2
    w.ports.advance(1100 * MS)
    assert inbox.statuses() == ["404 No Messages"]
    w.ack(first[0])
    assert inbox.take() == []


def test_no_wait_that_expired_meanwhile_timed_out() -> None:
    w = world(5, max_ack_pending=2)
    inbox = w.pull({"batch": 5, "no_wait": True, "expires": SECOND_NS})
    assert len(inbox.messages()) == 2
    w.ports.advance(1100 * MS)
    assert inbox.statuses() == ["408 Request Timeout"]


def test_gone_clients_are_forgotten() -> None:
    w = world()
    gone, there = w.pull(1), w.pull(1)
    w.ports.gone.add(gone.subject)
    w.fill(1)
    assert gone.take() == [] and there.seqs() == [1]


def test_a_full_queue_makes_room_for_the_living() -> None:
    w = world(max_waiting=2)
    gone = w.pull({"batch": 1, "expires": 60 * SECOND_NS})
    w.pull({"batch": 1, "expires": 60 * SECOND_NS})
    assert w.pull(1).statuses() == ["409 Exceeded MaxWaiting"]
    beating = {"batch": 1, "expires": 60 * SECOND_NS, "idle_heartbeat": SECOND_NS}
    assert w.pull(beating).take() == [], "a client with heartbeats notices by itself"
    w.ports.gone.add(gone.subject)
    w.ports.advance(2 * SECOND_NS)
    assert w.pull({"batch": 1, "expires": SECOND_NS}).take() == []
    assert w.info()["num_waiting"] == 2


def test_waiting_requests_are_bounded_whatever_is_configured() -> None:
    w = world(max_waiting=10_000_000)
    queue = w.consumer().pull
    assert queue is not None
    for number in range(100_200):
        queue.on_request(b"_INBOX.many.%d" % number, b'{"batch":1,"expires":900000000000}')
    assert len(queue.waiting) == 100_000
    w.ports.settle()
    assert sum(status(message) == "409 Exceeded MaxWaiting" for message in w.ports.delivered) == 200


def test_an_ended_request_leaves_no_timer_behind() -> None:
    w = world(5_000, max_ack_pending=-1)
    for _ in range(1_000):
        w.pull({"batch": 1, "expires": 60 * SECOND_NS})
    queue = w.consumer().pull
    assert queue is not None and len(queue.waiting) == 0
    assert len(queue.waiting._heap) < 200


def test_heartbeats_only_while_nothing_comes() -> None:
    w = world()
    inbox = w.pull({"batch": 5, "expires": 10 * SECOND_NS, "idle_heartbeat": SECOND_NS})
    w.ports.advance(900 * MS)
    w.fill(1)
    w.ports.advance(900 * MS)
    assert inbox.statuses() == []
    w.ports.advance(200 * MS)
    (beat,) = inbox.take()
    assert beat[3] == b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 1\r\n\r\n"


def test_expiry_says_what_is_left() -> None:
    w = world(1)
    inbox = w.pull({"batch": 3, "expires": SECOND_NS, "max_bytes": 1_000})
    size = 1_000 - sum(len(part or b"") for part in inbox.messages()[0][1:])
    w.ports.advance(2 * SECOND_NS)
    (ended,) = inbox.take()
    assert ended[3] == (
        b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 2\r\nNats-Pending-Bytes: %d\r\n\r\n" % size
    )


def test_claims_of_others_count_for_those_who_do_not_wait() -> None:
    w = world(max_ack_pending=1)
    w.fill(3)
    w.pull(1)
    w.pull(5)
    assert w.pull({"batch": 1, "no_wait": True}).statuses() == ["408 Requests Pending"]


def test_the_shutdown_is_told() -> None:
    w = world()
    inbox = w.pull({"batch": 2, "expires": 60 * SECOND_NS})
    w.account.shutdown()
    (told,) = inbox.take()
    assert told[3] == b"NATS/1.0 409 Server Shutdown\r\nNats-Pending-Messages: 2\r\nNats-Pending-Bytes: 0\r\n\r\n"


def test_a_deleted_stream_is_told() -> None:
    w = world()
    inbox = w.pull(2)
    w.api("STREAM.DELETE.S")
    assert inbox.statuses() == ["409 Consumer Deleted"]


def test_a_required_level_is_checked() -> None:
    w = world(1)
    header = b"NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n"
    assert w.pull(1, header=header).statuses() == ["412 Required Api Level"]


def test_a_request_without_reply_is_ignored() -> None:
    w = world(1)
    w.ports.route(b"$JS.API.CONSUMER.MSG.NEXT.S.C", None, None, b"1")
    w.ports.settle()
    assert w.numbers()[2] == 0


def test_nobody_answers_for_a_missing_consumer() -> None:
    w = world()
    w.api("CONSUMER.DELETE.S.C")
    assert not w.ports.has_interest(b"$JS.API.CONSUMER.MSG.NEXT.S.C")
    assert not w.ports.has_interest(b"$JS.ACK.S.C.1.1.1.1.1")


def test_congested_receivers_get_a_pause() -> None:
    w = world(3_000, max_ack_pending=-1)
    w.ports.smooth = False
    inbox = w.pull(3_000)
    assert len(inbox.take()) == 1_024
    w.ports.advance(20 * MS)
    assert inbox.take() == [], "it has not caught up"
    w.ports.smooth = True
    w.ports.advance(32 * MS)
    assert len(inbox.take()) == 3_000 - 1_024


def test_nothing_is_read_far_ahead_of_a_receiver() -> None:
    w = ConsumerWorld()
    w.stream()
    w.fill(6, payload=b"x" * 600_000)
    w.add()
    w.ports.waiting_bytes = CONSUMER_AHEAD_BYTES + 1
    inbox = w.pull(6)
    for pause_ms in (2, 4, 8, 16, 32, 32):
        w.ports.advance(pause_ms * MS - 1)
        assert len(w.ports.delivered) == 2, "a slice"
        w.ports.advance(1)
    w.ports.waiting_bytes = CONSUMER_AHEAD_BYTES
    w.ports.advance(32 * MS)
    assert inbox.seqs() == [1, 2, 3, 4, 5, 6]


def test_short_slices_do_not_ask_how_far_a_receiver_is() -> None:
    w = world(3_000, max_ack_pending=-1)
    w.ports.waiting_bytes = CONSUMER_AHEAD_BYTES + 1
    assert len(w.pull(3_000).take()) == 3_000


def test_a_slice_ends_after_so_many_bytes() -> None:
    w = ConsumerWorld()
    w.stream()
    w.fill(12, payload=b"x" * 400_000)
    for options in ({}, {"headers_only": True}, {"replay_policy": "original"}):  # the last goes the careful way
        w.ports.smooth = True
        w.add(ack_wait=SECOND_NS, **options)
        w.ports.smooth = False  # what would be the next slice waits
        inbox = w.pull(12)
        assert inbox.seqs() == [1, 2, 3], "a mebibyte, and the message that crossed the line"
        w.ports.smooth = True
        w.ports.advance(2 * MS)
        assert inbox.seqs() == list(range(4, 13))
        w.ports.smooth = False
        w.ports.advance(2 * SECOND_NS)
        again = w.pull(12)
        assert again.seqs() == [1, 2, 3], "redeliveries as well"
        w.api("CONSUMER.DELETE.S.C")


def test_bodies_of_every_kind_get_an_answer() -> None:
    w = world(1)
    for body in (b"\x00", b"[]", b"null", b'"x"', b"1e3", b"{}}", b'{"batch":1}{"batch":2}', b"9" * 400):
        inbox = w.pull(body)
        w.check()
        w.ports.gone.add(inbox.subject)
    assert json.dumps(w.info())


@pytest.mark.parametrize(
    "body",
    [
        b'{"batch":5}',
        b'{"batch":5,"expires":1000000,"no_wait":true,"idle_heartbeat":100}',
        b'{ "batch" : 5 , "max_bytes" : 9 }',
        b'{"Batch":5}',
        b'{"batch":5,"other":[1,{}]}',
        b'{"batch":1,"batch":2}',
        b'{"batch":null,"expires":7}',
        b'{"batch":1.0}',
        b'{"batch":1e1}',
        b'{"batch":"5"}',
        b'{"batch":9223372036854775807}',
        b'{"batch":9223372036854775808}',
        b'{"batch":-1}',
        b'{"batch":-0}',
        b'{"batch":01}',
        b'{"group":"a\\u0062","id":"x"}',
        b'{"group":"ab","id":"x","priority":3,"min_pending":4,"min_ack_pending":5}',
        b'{"no_wait":1}',
        b'{"batch":5}x',
        b'{"batch":5',
        b"{}",
    ],
)
def test_requests_are_read_alike_on_the_short_and_the_long_way(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> object:
        try:
            request = requests.read_request(b"inbox", body, 1_000)
        except JsonError as error:
            return str(error)
        return [getattr(request, name) for name in PullRequest.__slots__]

    short = read()
    monkeypatch.setattr(requests, "_plain_body", msgspec.json.Decoder(int).decode)  # always fails
    assert read() == short


def test_many_waiting_consumers_get_what_they_want_and_nothing_else() -> None:
    w = ConsumerWorld()
    w.stream()
    wanted = {f"L{number}": f"s.{number}" for number in range(10)} | {"P": "s.*", "T": "s.x.>", "E": ""}
    for name, subject in wanted.items():
        w.add(name, filter_subject=subject)
    inboxes = {name: w.pull({"batch": 9, "expires": SECOND_NS}, name) for name in wanted}
    pumps: list[str] = []
    for consumer in w.consumers().consumers.values():
        plain = consumer.pump
        consumer.pump = lambda *, alone=False, plain=plain, name=consumer.name: (  # type: ignore[method-assign]
            pumps.append(name),
            plain(alone=alone),
        )
    w.fill(1, "s.3")
    assert sorted(pumps) == ["E", "L3", "P"]
    w.fill(2, "s.x.y")
    w.fill(1, "s.7")
    got = {name: inbox.seqs() for name, inbox in inboxes.items()}
    assert {name: seqs for name, seqs in got.items() if seqs} == {
        "L3": [1],
        "L7": [4],
        "P": [1, 4],
        "T": [2, 3],
        "E": [1, 2, 3, 4],
    }


def test_changed_filters_are_noticed_while_many_wait() -> None:
    w = ConsumerWorld()
    w.stream()
    for number in range(12):
        w.add(f"C{number}", filter_subject=f"s.{number}")
    inboxes = [w.pull({"batch": 9, "expires": SECOND_NS}, f"C{number}") for number in range(12)]
    w.fill(1, "s.1")
    w.add("C2", filter_subject="s.new")
    w.fill(1, "s.new")
    w.api("CONSUMER.DELETE.S.C1")
    w.add("N", filter_subject="s.1")
    late = w.pull({"batch": 9, "expires": SECOND_NS}, "N")
    w.fill(1, "s.1")
    assert inboxes[2].seqs() == [2]
    assert late.seqs() == [1, 3]


class TestExpected:
    """One request waits alone: where the next message goes is known before it comes."""

    def waiting(self, body: object = 1, **config: object) -> tuple[ConsumerWorld, Inbox]:
        w = world(**config)
        return w, w.pull(body)

    def no_slices(self, w: ConsumerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(w.consumer().deliverer, "run", lambda **_: Stop.IDLE)

    def test_it_is_handed_out_ahead_of_the_slice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        w, inbox = self.waiting(filter_subject="s.a")
        w.fill(1, "s.b")
        self.no_slices(w, monkeypatch)
        w.fill(1, "s.a")
        (message,) = inbox.messages()
        assert tokens(message)[:3] == (1, 2, 1) and tokens(message)[4] == 0
        assert w.numbers() == (2, 0, 1, 0, 0) and not w.consumer().pull.waiting

    @pytest.mark.parametrize("body", [{"batch": 1, "max_bytes": 500}, {"batch": 1, "expires": SECOND_NS}])
    def test_conditions_are_for_the_slice(self, monkeypatch: pytest.MonkeyPatch, body: object) -> None:
        w, inbox = self.waiting(body)
        self.no_slices(w, monkeypatch)
        w.ports.clock_ns += 2 * SECOND_NS
        w.fill(1)
        assert inbox.take() == []

    def test_who_left_gets_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        w, inbox = self.waiting()
        self.no_slices(w, monkeypatch)
        w.ports.gone.add(inbox.subject)
        w.fill(1)
        assert inbox.take() == []

    def test_two_that_come_together_are_for_the_slice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        w, inbox = self.waiting(2)
        self.no_slices(w, monkeypatch)
        w.fill(2)
        assert inbox.take() == []

    def test_what_is_to_be_delivered_again_goes_first(self) -> None:
        w, inbox = self.waiting()
        w.fill(1)
        (first,) = inbox.messages()
        inbox = w.pull(1)
        assert first[2] is not None
        w.ports.route(b"s.a", None, None, b"2")
        w.ports.route(first[2], None, None, b"-NAK")
        assert inbox.seqs() == [1]

    def test_statuses_go_first(self) -> None:
        w, inbox = self.waiting()
        w.ports.route(b"s.a", None, None, b"x")
        w.ports.route(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"_INBOX.other", None, b"{")
        w.ports.settle()
        assert [message[0] for message in w.ports.delivered] == [b"_INBOX.other", inbox.subject]

    def test_new_settings_hold(self) -> None:
        w, inbox = self.waiting()
        w.ports.route(b"s.a", None, None, b"long")
        body = {"name": "C", "durable_name": "C", "ack_policy": "explicit", "headers_only": True}
        request = json.dumps({"stream_name": "S", "config": body}).encode()
        w.ports.route(b"$JS.API.CONSUMER.CREATE.S.C", b"_INBOX.api", None, request)
        (message,) = inbox.messages()
        assert (message[3], message[4]) == (b"NATS/1.0\r\nNats-Msg-Size: 4\r\n\r\n", b"")

    def test_only_the_next_message_after_a_count_of_none_follows(self) -> None:
        w, _ = self.waiting()
        w.fill(2)
        undelivered = w.consumer().deliverer.undelivered
        assert undelivered.pending() == 1 and not undelivered.follows(3)
        w.pull(1)
        assert undelivered.pending() == 0 and undelivered.follows(3) and not undelivered.follows(4)
        w.api("STREAM.MSG.DELETE.S", {"seq": 1})
        assert not undelivered.follows(3)
