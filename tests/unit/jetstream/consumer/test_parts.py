"""Filters, ack subjects, starts, pacing: the small parts of a consumer."""

import pytest

from slipstream.jetstream.ack_subjects import account_hash, ack_numbers
from slipstream.jetstream.consumer.filters import Filters
from slipstream.jetstream.consumer.naks import nak_delay_ns
from slipstream.jetstream.consumer.pacing import RateLimit, Replay
from slipstream.subjects.collisions import subset_within

SECOND_NS = 1_000_000_000


def test_filters_that_cover_the_stream_are_none() -> None:
    assert Filters(["s.>"], ["s.a", "s.b.*"]).for_store == ()
    assert Filters(["s.a", "s.b"], ["s.a", "s.b"]).for_store == ()
    assert Filters(["s.a"], ["s.a", "s.b"]).for_store == (b"s.a",)
    assert Filters([], ["s.a"]).for_store == ()


def test_filters_match() -> None:
    filters = Filters(["s.a", "s.*.c"], ["s.>"])
    assert filters.match(b"s.a") and filters.match(b"s.x.c")
    assert not filters.match(b"s.b")
    assert filters.touch(b"s.>") and not filters.touch(b"t.>")


@pytest.mark.parametrize(
    ("subjects", "overlap"),
    [
        (["a", "b"], False),
        (["a", "a"], True),
        (["a", "*"], True),
        (["a.*", "a.*"], True),
        (["a.*.c", "a.b.*"], False),
        (["a.>", "a.b.c"], True),
    ],
)
def test_overlap(subjects: list[str], overlap: bool) -> None:
    assert subset_within([subject.encode() for subject in subjects]) is overlap


@pytest.mark.parametrize(
    ("subject", "numbers"),
    [
        (b"$JS.ACK.S.C.1.22.33.44.55", (22, 33, 1)),
        (b"$JS.ACK._.hash.S.C.1.22.33.44.55", (22, 33, 1)),
        (b"$JS.ACK._.hash.S.C.1.22.33.44.55.more.tokens", (22, 33, 1)),
        (b"$JS.ACK.S.C.1.22.33.44", None),
        (b"$JS.ACK.S.C.1.22.33.44.55.66", None),
        (b"$JS.ACK.S.C.1.x.33.44.55", None),
        (b"$JS.ACK.S.C.1.-2.33.44.55", None),
        (b"$JS.ACK.S.C.1.1_0.33.44.55", None),
        (b"$JS.ACK.S.C.1." + b"9" * 40 + b".33.44.55", None),
        (b"", None),
    ],
)
def test_ack_subjects(subject: bytes, numbers: object) -> None:
    assert ack_numbers(subject) == numbers


@pytest.mark.parametrize(
    ("argument", "delay"),
    [
        (b'{"delay": 5}', 5),
        (b"1m30s", 90 * SECOND_NS),
        (b'{"delay": "5"}', None),
        (b"{", None),
        (b"soon", None),
        (b"\xff\xfe", None),
        (b'{"other": 1}', 0),
    ],
)
def test_nak_delays(argument: bytes, delay: object) -> None:
    assert nak_delay_ns(argument) == delay


def test_account_hash_is_nats_servers() -> None:
    assert account_hash("$G") == account_hash("$G") != account_hash("A")
    assert len(account_hash("$G")) == 8 and account_hash("$G").isalnum()


def test_replay_waits_for_the_original_gap() -> None:
    replay = Replay(until_seq=3)
    assert replay.delay_ns(1, 1_000_000_000, 0) == 0
    replay.sent(1_000_000_000, 0)
    assert replay.delay_ns(2, 3_000_000_000, 500_000_000) == 1_500_000_000
    assert replay.delay_ns(2, 1_000_500_000, 0) == 0, "a gap below a millisecond"
    assert replay.delay_ns(4, 9_000_000_000, 0) == 0, "stored after the consumer began"


def test_rate_limit() -> None:
    limit = RateLimit(8_000, burst_bytes=1_000, now_ns=0)
    assert limit.delay_ns(1_000, 0) == 0
    limit.sent(1_000, 0)
    assert limit.delay_ns(500, 0) == SECOND_NS // 2
    assert limit.delay_ns(500, SECOND_NS // 2) == 0
    assert limit.delay_ns(5_000, SECOND_NS) == 0, "a message larger than the burst goes when the bucket is full"
