"""The ack engine: deadlines, redelivery order, floors."""

import pytest

from slipstream.jetstream.consumer.acks import AckEngine


def engine(*seqs: int, deadline_ns: int = 100) -> AckEngine:
    acks = AckEngine(1)
    if seqs:
        acks.delivered(list(seqs), deadline_ns)
    return acks


def test_the_floor_follows_the_oldest_pending() -> None:
    acks = engine(2, 5, 9)
    assert acks.floor == (0, 0)
    acks.ack(5)
    assert acks.floor == (0, 0)
    acks.ack(2)
    assert acks.floor == (2, 8)
    acks.ack(9)
    assert acks.floor == (3, 9)
    acks.delivered([20], 1)
    assert acks.floor == (3, 9)
    acks.check_invariants()


def test_an_ack_counts_once() -> None:
    acks = engine(1)
    assert acks.ack(1)
    assert not acks.ack(1)
    assert not acks.ack(7)


def test_due_messages_come_in_order_whatever_their_deadlines() -> None:
    acks = engine(1, 2, 3)
    acks.postpone(1, 90)
    acks.postpone(2, 500)
    assert acks.next_deadline_ns() == 90
    assert acks.take_due(100, 10) == [1, 3]
    for seq in (1, 3):
        acks.queue(seq)
    assert acks.next_deadline_ns() == 500
    acks.check_invariants()


def test_redelivery_keeps_the_first_consumer_sequence() -> None:
    acks = engine(1, 2)
    acks.queue(2)
    assert acks.next_redelivery() == 2
    assert acks.redelivered(2, 200) == 2
    assert (acks.dseq, acks.pending[2], acks.redelivered_count) == (3, 2, 1)
    assert acks.next_redelivery() == 0


def test_what_is_acked_while_queued_is_not_delivered_again() -> None:
    acks = engine(1, 2, 3)
    for seq in (3, 1, 2):
        acks.queue(seq)
    acks.ack(3)
    assert acks.next_redelivery() == 1
    assert acks.queued_count == 2


def test_giving_up_keeps_the_message_in_mind() -> None:
    acks = engine(1)
    assert acks.give_up(1) == 1
    assert not acks.pending and acks.exhausted == {1: 1}
    assert acks.floor == (1, 1)
    assert acks.ack(1), "a late ack still counts"


def test_the_floor_shown_waits_below_what_was_given_up() -> None:
    acks = engine(1, 2, 3, 4, 5)
    acks.give_up(3)
    acks.ack(1)
    assert acks.shown_floor == (1, 1)
    acks.ack(2)
    assert acks.shown_floor == (3, 3), "passed with what was below it"
    acks.give_up(4)
    assert acks.shown_floor == (3, 3) and acks.floor == (4, 4)
    acks = AckEngine.load(acks.dump())
    assert acks.shown_floor == (3, 3), "also after a restart"
    acks.delivered([6], 100)
    acks.ack(5)
    assert acks.shown_floor == (3, 3)
    acks.check_invariants()
    acks.ack(6)
    assert acks.shown_floor == acks.floor == (6, 6)


def test_ack_up_to() -> None:
    acks = engine(1, 2, 3, 4)
    acks.give_up(1)
    assert acks.ack_up_to(3, 3) == [2, 3, 1]
    assert acks.floor == (3, 3)
    assert acks.ack_up_to(2, 2) is None
    assert list(acks.pending) == [4]
    acks.check_invariants()


def test_a_dump_loads_back() -> None:
    acks = engine(1, 2, 3, 4)
    acks.queue(2)
    acks.redelivered(2, 300)
    acks.queue(3)
    acks.give_up(4)
    acks.ack(1)
    again = AckEngine.load(acks.dump())
    again.check_invariants()
    assert again.dump()[:4] == acks.dump()[:4]
    assert again.pending == acks.pending and again.exhausted == {4: 1} and again.deliveries(2) == 2
    assert again.take_due(0, 10) == [3], "what was queued is due at once"


@pytest.mark.parametrize("state", [[], [1, 2], [1, 2, 3, 4, 5, 6, 7], ["a"] * 7, None])
def test_a_bad_dump_is_refused(state: object) -> None:
    with pytest.raises(ValueError):
        AckEngine.load(state)


def test_outdated_deadlines_do_not_pile_up() -> None:
    acks = engine(1)
    for turn in range(10_000):
        acks.postpone(1, 1_000 + turn)
    assert len(acks._heap) < 3_000
    assert acks.next_deadline_ns() == 10_999


def test_a_shorter_stream_takes_deliveries_back() -> None:
    acks = engine(1, 2, 3)
    acks.clamp(1)
    assert list(acks.pending) == [1] and acks.delivered_seq == 1
    acks.check_invariants()
