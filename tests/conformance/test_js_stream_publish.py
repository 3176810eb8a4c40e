"""What publishers get back and what is stored, compared with nats-server message by message."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.jetstream_oracle import Both, Oracle, header_block
from support.jetstream_world import World


@pytest.fixture
def both(oracle: Oracle) -> Iterator[Both]:
    asker = Both(oracle, World())
    yield asker
    asker.clear()


CONDITIONS = [
    ["Nats-Expected-Stream: X"],
    ["Nats-Expected-Stream: S"],
    ["Nats-Expected-Last-Sequence: 3"],
    ["Nats-Expected-Last-Sequence: 2"],
    ["Nats-Expected-Last-Sequence: 03"],
    ["Nats-Expected-Last-Sequence: x"],
    ["Nats-Expected-Last-Sequence: -3"],
    ["Nats-Expected-Last-Sequence: "],
    ["Nats-Expected-Last-Sequence:3"],
    ["nats-expected-last-sequence: 9"],
    ["X-Nats-Expected-Last-Sequence: 9"],
    ["Nats-Expected-Last-Sequence: 3", "Nats-Expected-Last-Sequence: 4"],
    ["Nats-Expected-Last-Subject-Sequence: 0"],
    ["Nats-Expected-Last-Subject-Sequence: 1"],
    ["Nats-Expected-Last-Subject-Sequence: 2"],
    ["Nats-Expected-Last-Subject-Sequence: x"],
    ["Nats-Expected-Last-Subject-Sequence: 3", "Nats-Expected-Last-Subject-Sequence-Subject: s.>"],
    ["Nats-Expected-Last-Subject-Sequence: 2", "Nats-Expected-Last-Subject-Sequence-Subject: s.b"],
    ["Nats-Expected-Last-Subject-Sequence: 0", "Nats-Expected-Last-Subject-Sequence-Subject: zz"],
    ["Nats-Expected-Last-Subject-Sequence: 9", "Nats-Expected-Last-Subject-Sequence-Subject: zz"],
    ["Nats-Expected-Last-Subject-Sequence-Subject: s.b"],
    ["Nats-Expected-Last-Msg-Id: id"],
    ["Nats-Expected-Last-Msg-Id: other"],
    ["Nats-Msg-Id: id"],
    ["Nats-Msg-Id: new"],
    ["Nats-Msg-Id: "],
    ["Nats-Msg-Id: id", "Nats-Expected-Last-Sequence: 99"],
    ["Nats-Msg-Id: id", "Nats-Expected-Last-Msg-Id: zz"],
    ["Nats-Msg-Id: id", "Nats-Rollup: bad"],
    ["Nats-Rollup: sub"],
    ["Nats-Rollup: ALL"],
    ["Nats-Rollup: bad"],
    ["Nats-Rollup: "],
    ["Nats-TTL: 1"],
    ["Nats-TTL: 1s"],
    ["Nats-TTL: 999ms"],
    ["Nats-TTL: 1h30m"],
    ["Nats-TTL: 0"],
    ["Nats-TTL: -1"],
    ["Nats-TTL: never"],
    ["Nats-TTL: NEVER"],
    ["Nats-TTL: x"],
    ["Nats-TTL: 1.5"],
    ["Nats-Incr: +1"],
    ["Nats-Incr: x"],
    ["Nats-Schedule: @at 2120-01-01T00:00:00Z", "Nats-Schedule-Target: s.z"],
    ["Nats-Schedule: nonsense"],
    ["Nats-Schedule-Next: purge"],
    ["Nats-Schedule-Next: x", "Nats-Scheduler: s.q"],
    ["Nats-Schedule-Next: purge", "Nats-Scheduler: s.q"],
    ["Nats-Schedule-Next: purge", "Nats-Scheduler: s.a"],
    ["Nats-Scheduler: s.q"],
    ["Nats-Stream-Source: S 1"],
    ["Nats-Batch-Id: b"],
    ["Nats-Request-Info: {}"],
    ["Nats-Request-Info: {}", "A: b"],
    ["A: b"],
    ["A: " + "b" * 65_600],
    ["Nats-Msg-Id: id", "A: " + "b" * 65_600],
]


@pytest.mark.parametrize("ttl", [False, True])
@pytest.mark.parametrize("rollup", [False, True])
@pytest.mark.parametrize("lines", CONDITIONS, ids=[str(index) for index in range(len(CONDITIONS))])
def test_conditions(both: Both, lines: list[str], rollup: bool, ttl: bool) -> None:
    both.make(allow_rollup_hdrs=rollup, allow_msg_ttl=ttl)
    both.ask("s.a", b"1")
    both.ask("s.b", b"2")
    both.ask("s.c", b"3", header_block("Nats-Msg-Id: id"))
    both.ask("s.a", b"payload", header_block(*lines))
    both.everything(6)


@pytest.mark.parametrize("subject", ["s.a.*", "s.*.x", "s.>", "s.*", "s.a.**"])
def test_a_roll_up_takes_its_subject_for_a_filter(both: Both, subject: str) -> None:
    both.make(allow_rollup_hdrs=True, max_msgs_per_subject=5)
    for known in ("s.a", "s.a.x", "s.a.y", "s.b.x", "s.a.x", "s.a.*"):
        both.ask(known, b"1")
    both.ask(subject, b"roll", header_block("Nats-Rollup: sub"))
    both.ask(subject, b"next")
    both.everything(10)


@pytest.mark.parametrize(
    "header",
    [b"NATS/1.0 503\r\n\r\n", b"NATS/1.0 100 Idle\r\nA: b\r\n\r\n", b"garbage", b"NATS/1.0\r\n\r\n", b"\r\n"],
)
def test_odd_header_blocks(both: Both, header: bytes) -> None:
    both.make()
    both.ask("s.a", b"x", header)
    both.everything(3)


LIMITS: list[dict[str, Any]] = [
    {"max_msgs": 3},
    {"max_msgs": 3, "discard": "new"},
    {"max_bytes": 90},
    {"max_bytes": 90, "discard": "new"},
    {"max_bytes": 10},
    {"max_msgs_per_subject": 1},
    {"max_msgs_per_subject": 2, "max_msgs": 3},
    {"max_msgs_per_subject": 1, "discard": "new"},
    {"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True},
    {"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True, "allow_rollup_hdrs": True},
    {"max_msgs_per_subject": 1, "discard": "new", "max_msgs": 2},
    {"max_msgs_per_subject": 1, "discard": "new", "max_bytes": 60},
    {"max_msg_size": 5},
    {"retention": "interest"},
    {"retention": "workqueue", "max_msgs": 2},
    {"first_seq": 10, "max_msgs": 2},
    {"no_ack": False, "deny_delete": True, "max_msgs_per_subject": 1},
]


@pytest.mark.parametrize("limits", LIMITS, ids=[str(index) for index in range(len(LIMITS))])
def test_limits(both: Both, limits: dict[str, Any]) -> None:
    both.make(**limits)
    for size, subject in enumerate("abacab", start=1):
        both.ask(f"s.{subject}", b"x" * size)
        both.api("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"})
    both.ask("s.a", b"r", header_block("Nats-Rollup: sub"))
    both.ask("s.a", b"r", header_block("Nats-Msg-Id: x"))
    both.ask("s.a", b"r", header_block("Nats-Msg-Id: x"))
    both.everything()


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        ("s.*.*", "t.{{wildcard(2)}}.{{wildcard(1)}}"),
        ("s.*.*", "t.$2.$1"),
        ("s.*.*", "t.{{partition(5,1,2)}}"),
        ("s.*.*", "t.{{partition(5)}}"),
        ("s.*.*", "t.{{splitFromLeft(1,3)}}"),
        ("s.*.*", "t.{{splitFromRight(1,3)}}"),
        ("s.*.*", "t.{{sliceFromLeft(1,2)}}"),
        ("s.*.*", "t.{{SliceFromRight(1,2)}}"),
        ("s.*.*", "t.{{split(1,-)}}"),
        ("s.*.*", "t.{{left(1,2)}}.{{right(2,1)}}"),
        ("s.*.*", "t.{{wildcard(0)}}.$-1"),
        ("s.*.*", "t.{{Partition(-5,1)}}.{{partition(0)}}"),
        ("s.*.*", "t.{{split(1,)}}"),
        ("s.>", "u.>"),
        ("s.*.>", "u.{{wildcard(1)}}.>"),
        ("", "all.>"),
        ("other", "never"),
    ],
)
def test_transforms(both: Both, source: str, destination: str) -> None:
    both.make(subject_transform={"src": source, "dest": destination})
    for subject in ("s.abcde.fg", "s.a.b", "s.-a--b-.x", "s.abcdef.y.z", "s.q", "s.*.x", "s.a.>"):
        both.ask(subject, b"x")
    both.everything(9)


def test_expected_subject_is_the_stored_one(both: Both) -> None:
    both.make(subject_transform={"src": "s.*", "dest": "t.{{wildcard(1)}}"}, max_msgs_per_subject=1)
    both.ask("s.a", b"1", header_block("Nats-Expected-Last-Subject-Sequence: 0"))
    both.ask("s.a", b"2", header_block("Nats-Expected-Last-Subject-Sequence: 0"))
    both.ask("s.a", b"3", header_block("Nats-Expected-Last-Subject-Sequence: 1"))
    both.everything(4)


def test_marker_ttl_raises_message_ttl(both: Both) -> None:
    both.make(subject_delete_marker_ttl=60_000_000_000)
    both.ask("s.a", b"1", header_block("Nats-TTL: 5", "A: b"))
    both.ask("s.a", b"2", header_block("Nats-TTL: 5"))
    both.ask("s.a", b"3", header_block("Nats-TTL: 2m"))
    both.ask("s.a", b"4", header_block("Nats-TTL: never"))
    both.everything(6)


def test_domainless_info_counts_calls(both: Both) -> None:
    both.make()
    both.api("STREAM.INFO.NONE")
    info = both.api("STREAM.INFO.S")
    assert info["config"]["metadata"]["_nats.req.level"] == "0"
