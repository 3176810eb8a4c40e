"""The fast path into a stream: what the delivery kernel hands over, and the answers of a commit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slipstream.kernels.fastpath.intake import Intake
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.wire.delivery import Delivery
from slipstream.kernels.wire.interest import Interest
from slipstream.kernels.wire.outbox import FlushQueue, Outbox
from slipstream.kernels.wire.parser import Parser
from slipstream.kernels.wire.receivers import Route, Subscription


class Client:
    def __init__(self, interest: Interest, subject: bytes, sid: bytes) -> None:
        self.outbox = Outbox(FlushQueue(lambda: None), self, 1 << 20)
        self.subscription = Subscription(subject, None, sid, self.outbox, self)
        interest.insert(self.subscription)

    def take(self) -> bytes:
        return b"".join(self.outbox.take())


class Slow:
    def __init__(self) -> None:
        self.taken: list[tuple[bytes, bytes | None, bytes | None, bytes]] = []
        self.resume: Callable[[], bool] = lambda: True
        self.intake = Intake(lambda *what: self.taken.append(what), lambda: self.resume(), lambda: 1, 1 << 20, 100)
        self.intake.payload_bytes_max = 100
        self.writer = LogWriter(MessageIndex(1))

    def open(self, limit: int) -> None:
        self.writer.open_segment(1, 0, 0, limit, 0)
        self.intake.open(self.writer)


def test_delivery_hands_over_to_an_intake() -> None:
    slow = Slow()
    stream = Subscription(b"a.>", None, b"", None, None, slow.intake)
    delivery = Delivery(1)
    assert delivery.deliver(Route((stream,)), None, b"a.b", b"r", 0, b"one") == 1
    slow.open(1 << 20)
    assert delivery.deliver(Route((stream,)), None, b"a.b", b"r", 0, b"two") == 1
    assert slow.taken == [(b"a.b", b"r", None, b"one")]
    assert slow.intake.acks == [(b"r", 1)]
    assert stream.delivered == 2


def test_a_full_segment_is_not_for_the_fast_path() -> None:
    slow = Slow()
    slow.open(200)
    for _ in range(3):
        slow.intake(None, b"a", None, 0, b"x" * 60)
    assert (slow.intake.last_seq, len(slow.taken)) == (1, 2)


def test_a_sequence_that_is_not_next_is_not_for_the_fast_path() -> None:
    slow = Slow()
    slow.open(1 << 20)
    slow.intake.last_seq = 5
    slow.intake(None, b"a", None, 0, b"x")
    assert (slow.intake.last_seq, len(slow.taken)) == (5, 1)


def test_a_stream_without_acks() -> None:
    slow = Slow()
    slow.open(1 << 20)
    slow.intake.answers = False
    slow.intake(None, b"a", b"r", 0, b"x")
    assert (slow.intake.last_seq, slow.intake.acks) == (1, [])


def test_a_stand_by_asks_once() -> None:
    slow = Slow()
    asked: list[int] = []
    slow.resume = lambda: not asked.append(slow.intake.last_seq)
    slow.open(1 << 20)
    slow.intake(None, b"a", None, 0, b"x")
    slow.intake.stand_by()
    for _ in range(3):
        slow.intake(None, b"a", None, 0, b"x")
    assert (slow.intake.last_seq, asked, slow.taken) == (4, [1], [])


def test_a_stand_by_that_is_closed_by_the_answer() -> None:
    slow = Slow()
    slow.resume = lambda: slow.intake.close() is None
    slow.open(1 << 20)
    slow.intake.stand_by()
    slow.intake(None, b"a", None, 0, b"x")
    assert (slow.intake.last_seq, len(slow.taken)) == (0, 1)


def test_a_header_longer_than_the_message_is_refused() -> None:
    with pytest.raises(ValueError, match="header"):
        Slow().intake(None, b"a", None, 2, b"x")


def test_answers_go_to_their_inboxes() -> None:
    interest = Interest()
    one, two = Client(interest, b"_INBOX.1.*", b"5"), Client(interest, b"_INBOX.2.>", b"6")
    acks = [(b"_INBOX.1.a", 7), (b"nobody", 8), (b"_INBOX.1.c", 18446744073709551615)]
    delivery = Delivery(1)
    delivery.publish_acks(interest, acks, 0, 2, b'{"seq":')
    assert one.take() == b'MSG _INBOX.1.a 5 9\r\n{"seq":7}\r\n'
    delivery.publish_answer(interest, b"_INBOX.2.b", b"no")
    assert two.take() == b"MSG _INBOX.2.b 6 2\r\nno\r\n"
    delivery.publish_acks(interest, acks, 2, 9, b'{"seq":')
    assert one.take() == b'MSG _INBOX.1.c 5 28\r\n{"seq":18446744073709551615}\r\n'
    delivery.publish_acks(interest, [(b"_INBOX.1.c", 2**63 - 1)], 0, 1, b"")
    assert one.take() == b"MSG _INBOX.1.c 5 20\r\n9223372036854775807}\r\n"


def test_answers_need_a_subject() -> None:
    with pytest.raises(TypeError):
        Delivery(1).publish_acks(Interest(), [("text", 1)], 0, 1, b"")
    with pytest.raises(TypeError):
        Delivery(1).publish_acks(Interest(), [b"text"], 0, 1, b"")


def test_a_literal_joins_a_family_that_is_in_use() -> None:
    interest = Interest()
    Client(interest, b"_INBOX.1.*", b"1")
    for number in range(4):
        assert len(interest.find_route(b"_INBOX.1.%d" % number).subscriptions) == 1
    literal = Client(interest, b"_INBOX.1.9", b"2").subscription
    assert len(interest.find_route(b"_INBOX.1.9").subscriptions) == 2
    assert len(interest.find_route(b"_INBOX.1.8").subscriptions) == 1
    interest.remove(literal)
    assert len(interest.find_route(b"_INBOX.1.9").subscriptions) == 1
    Client(interest, b"*.*.9", b"3")
    assert len(interest.find_route(b"_INBOX.1.9").subscriptions) == 2
    assert len(interest.find_route(b"_INBOX.1.8").subscriptions) == 1


def test_publishers_do_not_hold_a_route_that_interest_has_left_behind() -> None:
    """One of two publishers asks again before the other, and so could make an old route look new."""
    interest, delivery = Interest(), Delivery(1)
    Client(interest, b"_INBOX.1.*", b"1")
    publishers = [Parser(None, None, delivery, 1 << 20, 4096) for _ in range(2)]
    for publisher in publishers:
        publisher.interest = interest
        publisher.fast = True
    for _ in range(3):
        for number, publisher in enumerate(publishers):
            publisher.feed(b"PUB _INBOX.1.%d 0\r\n\r\n" % number)
    literal = Client(interest, b"_INBOX.1.0", b"2")
    publishers[1].feed(b"PUB _INBOX.1.1 0\r\n\r\n")
    publishers[0].feed(b"PUB _INBOX.1.0 0\r\n\r\n")
    assert literal.take() == b"MSG _INBOX.1.0 2 0\r\n\r\n"
