"""Atomic and fast batches, counters and schedules: every answer and every stored message compared with nats-server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.jetstream_oracle import Both, Oracle, header_block
from support.jetstream_world import World
from support.server_process import ServerProcess


@pytest.fixture
def both(real_server: ServerProcess) -> Iterator[Both]:
    oracle = Oracle(real_server.port)
    asker = Both(oracle, World())
    asker.clear()
    yield asker
    oracle.close()


def batch(both: Both, *messages: tuple[str, bytes, list[str]], batch_id: str = "b", commit: str = "1") -> Any:
    """Publish all of these as one batch; the answer to the last."""
    answer = None
    for seq, (subject, payload, lines) in enumerate(messages, start=1):
        own = [f"Nats-Batch-Id: {batch_id}", f"Nats-Batch-Sequence: {seq}"]
        if seq == len(messages) and commit:
            own.append(f"Nats-Batch-Commit: {commit}")
        answer = both.ask(subject, payload, header_block(*own, *lines))
    return answer


# --- atomic batches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", ["1", "eob", "0", "", "EOB", "2"])
def test_a_batch(both: Both, commit: str) -> None:
    both.make(allow_atomic=True)
    both.ask("s.z", b"before")
    batch(both, ("s.a", b"1", []), ("s.b", b"2", ["A: b"]), ("s.a", b"3", []), commit=commit)
    both.ask("s.z", b"after")
    batch(both, ("s.a", b"alone", []), commit=commit)
    both.everything()


ODD = [
    ["Nats-Batch-Id: b"],
    ["Nats-Batch-Id: b", "Nats-Batch-Sequence: 0"],
    ["Nats-Batch-Id: b", "Nats-Batch-Sequence: 2"],
    ["Nats-Batch-Id: b", "Nats-Batch-Sequence: x"],
    ["Nats-Batch-Id: b", "Nats-Batch-Sequence: 1001"],
    ["Nats-Batch-Id: b", "Nats-Batch-Sequence: 1001", "Nats-Batch-Commit: eob"],
    ["Nats-Batch-Id: b", "Nats-Batch-Sequence: 1002", "Nats-Batch-Commit: eob"],
    ["Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "Nats-Batch-Commit: 1"],
    ["Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "Nats-Batch-Commit: x"],
    ["Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "Nats-Batch-Commit: eob"],
    ["Nats-Batch-Id: " + "b" * 64, "Nats-Batch-Sequence: 1", "Nats-Batch-Commit: 1"],
    ["Nats-Batch-Id: " + "b" * 65, "Nats-Batch-Sequence: 1", "Nats-Batch-Commit: 1"],
    ["Nats-Batch-Id: ", "Nats-Batch-Sequence: 1"],
    ['Nats-Batch-Id: a"b', "Nats-Batch-Sequence: 1", "Nats-Batch-Commit: 1"],
    ["Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "Nats-Required-Api-Level: 1", "Nats-Batch-Commit: 1"],
    ["Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "Nats-Required-Api-Level: 99", "Nats-Batch-Commit: 1"],
    ["Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "A: " + "b" * 65_600, "Nats-Batch-Commit: 1"],
]


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("lines", ODD, ids=[str(index) for index in range(len(ODD))])
def test_odd_first_messages(both: Both, lines: list[str], allowed: bool) -> None:
    both.make(allow_atomic=allowed, max_msg_size=100_000)
    both.ask("s.a", b"x", header_block(*lines))
    both.everything(3)


@pytest.mark.parametrize("seqs", [(1, 3), (1, 1), (1, 2, 2), (1, 2, 4), (1, 2, 1)])
def test_gaps_end_a_batch(both: Both, seqs: tuple[int, ...]) -> None:
    both.make(allow_atomic=True)
    for seq in seqs:
        both.ask("s.a", b"x", header_block("Nats-Batch-Id: b", f"Nats-Batch-Sequence: {seq}"))
    both.ask(
        "s.a", b"x", header_block("Nats-Batch-Id: b", f"Nats-Batch-Sequence: {seqs[-1] + 1}", "Nats-Batch-Commit: 1")
    )
    both.everything(3)


@pytest.mark.parametrize("count", [1000, 1001])
@pytest.mark.parametrize("commit", ["1", "eob"])
def test_size_of_a_batch(both: Both, count: int, commit: str) -> None:
    both.make(allow_atomic=True)
    batch(both, *((f"s.{n % 3}", b"x", []) for n in range(count)), commit=commit)
    both.api("STREAM.INFO.S", {"subjects_filter": ">"})


def test_open_batches_of_a_stream(both: Both) -> None:
    both.make(allow_atomic=True)
    for number in range(51):
        both.ask("s.a", b"x", header_block(f"Nats-Batch-Id: b{number}", "Nats-Batch-Sequence: 1"))
    both.ask("s.a", b"x", header_block("Nats-Batch-Id: b7", "Nats-Batch-Sequence: 2", "Nats-Batch-Commit: 1"))
    both.ask("s.a", b"x", header_block("Nats-Batch-Id: c", "Nats-Batch-Sequence: 1"))
    both.everything(5)


INSIDE = [
    ["Nats-Expected-Last-Sequence: 3"],
    ["Nats-Expected-Last-Sequence: 4"],
    ["Nats-Expected-Last-Sequence: 5"],
    ["Nats-Expected-Last-Subject-Sequence: 1"],
    ["Nats-Expected-Last-Subject-Sequence: 0"],
    ["Nats-Expected-Last-Subject-Sequence: 2", "Nats-Expected-Last-Subject-Sequence-Subject: s.b"],
    ["Nats-Expected-Last-Subject-Sequence: 3", "Nats-Expected-Last-Subject-Sequence-Subject: s.c"],
    ["Nats-Expected-Last-Subject-Sequence: 0", "Nats-Expected-Last-Subject-Sequence-Subject: s.q"],
    ["Nats-Expected-Last-Subject-Sequence-Subject: s.q"],
    ["Nats-Expected-Last-Msg-Id: id"],
    ["Nats-Expected-Stream: S"],
    ["Nats-Expected-Stream: X"],
    ["Nats-Msg-Id: id"],
    ["Nats-Msg-Id: first"],
    ["Nats-Msg-Id: new"],
    ["Nats-Rollup: sub"],
    ["Nats-Rollup: all"],
    ["Nats-Rollup: bad"],
    ["Nats-TTL: 5s"],
    ["Nats-TTL: bad"],
    ["Nats-TTL: never"],
    ["Nats-Incr: 1"],
    ["Nats-Incr: x"],
    ["Nats-Schedule: @at 2120-01-01T00:00:00Z", "Nats-Schedule-Target: s.z"],
    ["Nats-Schedule-Next: purge", "Nats-Scheduler: s.q"],
    ["Nats-Schedule-Next: purge", "Nats-Scheduler: s.b"],
    ["Nats-Schedule-Next: purge", "Nats-Scheduler: s.f"],
    ["Nats-Scheduler: s.q"],
    ["Nats-Stream-Source: S 1"],
    ["Nats-Request-Info: {}"],
]


@pytest.mark.parametrize("where", ["first", "same", "other"])
@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("lines", INSIDE, ids=[str(index) for index in range(len(INSIDE))])
def test_conditions_inside_a_batch(both: Both, lines: list[str], allowed: bool, where: str) -> None:
    flags = {"allow_rollup_hdrs": allowed, "allow_msg_ttl": allowed, "allow_msg_schedules": allowed}
    both.make(allow_atomic=True, **flags)
    both.ask("s.a", b"1")
    both.ask("s.b", b"2")
    both.ask("s.c", b"3", header_block("Nats-Msg-Id: id"))
    first = ("s.f", b"first", ["Nats-Msg-Id: first"])
    match where:
        case "first":
            batch(both, ("s.a", b"it", lines), first)
        case "same":
            batch(both, first, ("s.f", b"it", lines), ("s.x", b"last", []))
        case "other":
            batch(both, first, ("s.a", b"it", lines), ("s.x", b"last", []), commit="eob")
    both.everything(9)


LIMITS: list[dict[str, Any]] = [
    {"max_msgs": 3},
    {"max_msgs": 3, "discard": "new"},
    {"max_msgs": 7, "discard": "new"},
    {"max_bytes": 300},
    {"max_bytes": 300, "discard": "new"},
    {"max_msgs_per_subject": 1},
    {"max_msgs_per_subject": 1, "discard": "new"},
    {"max_msgs_per_subject": 2, "discard": "new", "discard_new_per_subject": True},
    {"max_msg_size": 90},
    {"retention": "interest"},
    {"subject_transform": {"src": "s.*", "dest": "t.{{wildcard(1)}}"}},
    {"no_ack": False, "deny_delete": True},
    {"allow_msg_ttl": True, "subject_delete_marker_ttl": 10_000_000_000},
]


@pytest.mark.parametrize("limits", LIMITS, ids=[str(index) for index in range(len(LIMITS))])
def test_limits_and_batches(both: Both, limits: dict[str, Any]) -> None:
    both.make(allow_atomic=True, allow_rollup_hdrs=True, **limits)
    for subject in "abc":
        both.ask(f"s.{subject}", b"x")
    ttl = ["Nats-TTL: 2"] if limits.get("allow_msg_ttl") else []
    batch(both, ("s.a", b"1", []), ("s.b", b"22", ttl), ("s.a", b"333", []), ("s.d", b"4444", []))
    batch(both, ("s.a", b"r", ["Nats-Rollup: sub"]), ("s.a", b"s", []), ("s.c", b"t", ["Nats-Rollup: sub"]))
    batch(both, ("s.e", b"r", ["Nats-Rollup: all"]), ("s.a", b"s", []))
    both.everything(14)


# --- fast batches -----------------------------------------------------------------------------------------------------


class Fast:
    """Speaks the fast batch protocol to both."""

    def __init__(self, both: Both, batch_id: str = "f") -> None:
        self._both = both
        self.batch_id = batch_id

    def send(
        self,
        seq: int,
        operation: int,
        payload: bytes = b"x",
        *,
        lines: tuple[str, ...] = (),
        flow: int = 10,
        gap: str = "fail",
        subject: str = "s.a",
    ) -> Any:
        tail = f"{self.batch_id}.{flow}.{gap}.{seq}.{operation}.$FI"
        return self._both.ask_many(subject, payload, header_block(*lines) if lines else None, reply_tail=tail)


START, APPEND, COMMIT, END, PING = range(5)


@pytest.mark.parametrize("gap", ["ok", "fail"])
@pytest.mark.parametrize("last", [COMMIT, END])
@pytest.mark.parametrize("flow", [1, 3, 10, 0, 70_000])
def test_a_fast_batch(both: Both, gap: str, last: int, flow: int) -> None:
    both.make(allow_batched=True)
    fast = Fast(both)
    fast.send(1, START, gap=gap, flow=flow)
    for seq in range(2, 13):
        fast.send(seq, APPEND, gap=gap, flow=flow)
    fast.send(12, PING, gap=gap, flow=flow)
    fast.send(13, last, gap=gap, flow=flow)
    fast.send(14, APPEND, gap=gap, flow=flow)
    both.everything(16)


@pytest.mark.parametrize("gap", ["ok", "fail"])
@pytest.mark.parametrize(
    "steps",
    [
        [(1, START), (3, APPEND), (4, APPEND), (5, COMMIT)],
        [(1, START), (2, APPEND), (2, APPEND), (3, APPEND)],
        [(1, START), (5, PING), (6, APPEND), (7, END)],
        [(1, START), (1, PING), (2, END)],
        [(1, COMMIT)],
        [(1, START), (4, COMMIT)],
        [(1, START), (4, END)],
        [(2, APPEND)],
        [(1, PING)],
    ],
    ids=str,
)
def test_gaps_in_fast_batches(both: Both, gap: str, steps: list[tuple[int, int]]) -> None:
    both.make(allow_batched=True)
    fast = Fast(both)
    for seq, operation in steps:
        fast.send(seq, operation, gap=gap, flow=2)
    both.everything(8)


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize(
    "tail",
    [
        "f.10.fail.1.0.$FI",
        "f.10.fail.1.9.$FI",
        "f.10.fail.1.x.$FI",
        "f.10.maybe.1.0.$FI",
        "f.10.fail.0.0.$FI",
        "f.10.fail.2.0.$FI",
        "f.10.fail.1.1.$FI",
        "f.10.fail.1.3.$FI",
        "f.10.fail.x.0.$FI",
        "f.x.fail.1.0.$FI",
        "10.fail.1.0.$FI",
        "$FI",
        "fi",
        "f" * 65 + ".10.fail.1.0.$FI",
    ],
)
def test_odd_reply_subjects(both: Both, tail: str, allowed: bool) -> None:
    both.make(allow_batched=allowed)
    both.ask_many("s.a", b"x", None, reply_tail=tail)
    both.everything(3)


@pytest.mark.parametrize("gap", ["ok", "fail"])
@pytest.mark.parametrize("at", [1, 3, 4])
@pytest.mark.parametrize(
    "lines",
    [
        ["Nats-Expected-Last-Sequence: 99"],
        ["Nats-Expected-Stream: X"],
        ["Nats-Msg-Id: id"],
        ["Nats-Rollup: sub"],
        ["Nats-TTL: 1"],
        ["Nats-Required-Api-Level: 99"],
        ["Nats-Expected-Last-Subject-Sequence: 0"],
    ],
    ids=str,
)
def test_refusals_in_fast_batches(both: Both, gap: str, at: int, lines: list[str]) -> None:
    both.make(allow_batched=True)
    both.ask("s.a", b"before", header_block("Nats-Msg-Id: id"))
    fast = Fast(both)
    for seq in range(1, 5):
        operation = START if seq == 1 else COMMIT if seq == 4 else APPEND
        fast.send(seq, operation, gap=gap, flow=2, lines=tuple(lines) if seq == at else ())
    both.everything(8)


@pytest.mark.parametrize("gap", ["ok", "fail"])
@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("expected", ["id", "other"])
def test_the_last_message_id_in_fast_batches(both: Both, gap: str, at: int, expected: str) -> None:
    both.make(allow_batched=True)
    both.ask("s.a", b"before", header_block("Nats-Msg-Id: id"))
    fast = Fast(both)
    for seq in range(1, 6):
        operation = START if seq == 1 else COMMIT if seq == 5 else APPEND
        lines = (
            (f"Nats-Expected-Last-Msg-Id: {expected}",) if seq == at else ("Nats-Msg-Id: other",) if seq == 2 else ()
        )
        fast.send(seq, operation, gap=gap, flow=2, lines=lines)
    both.everything(8)


def test_several_fast_batches_share(both: Both) -> None:
    both.make(allow_batched=True)
    batches = [Fast(both, f"f{number}") for number in range(4)]
    for one in batches:
        one.send(1, START, flow=300)
    for seq in range(2, 40):
        for one in batches:
            one.send(seq, APPEND, flow=300)
    for one in batches:
        one.send(40, COMMIT, flow=300)
    both.api("STREAM.INFO.S", {})


@pytest.mark.parametrize("flag", ["allow_atomic", "allow_batched", "allow_msg_counter", "allow_msg_schedules"])
@pytest.mark.parametrize("storage", ["memory", "file"])
def test_switching_features(both: Both, flag: str, storage: str) -> None:
    config = {"name": "S", "subjects": ["s.>"], "storage": storage}
    both.api("STREAM.CREATE.S", config)
    both.api("STREAM.UPDATE.S", {**config, flag: True})
    both.api("STREAM.UPDATE.S", {**config, flag: True, "description": "other"})
    both.api("STREAM.UPDATE.S", config)
    both.api("STREAM.DELETE.S")
    both.api("STREAM.CREATE.S", {**config, flag: True})
    both.api("STREAM.UPDATE.S", config)
    for more in (
        {"discard": "new", "max_msgs": 1},
        {"allow_msg_ttl": True},
        {"retention": "interest"},
        {"persist_mode": "async"},
        {"allow_rollup_hdrs": True, "deny_purge": True},
        {"mirror": {"name": "T"}, "subjects": []},
        {"sources": [{"name": "T"}]},
        {"sealed": True},
    ):
        both.api("STREAM.DELETE.S")
        both.api("STREAM.CREATE.S", {**config, flag: True, **more})
    both.api("STREAM.DELETE.S")
    both.api("STREAM.CREATE.S", {**config, "allow_msg_counter": True, "allow_msg_schedules": True})
    both.api("STREAM.CREATE.S", {**config, "allow_atomic": True, "allow_batched": True, "allow_msg_counter": True})


# --- counters ---------------------------------------------------------------------------------------------------------


def test_counters(both: Both) -> None:
    both.make(allow_msg_counter=True)
    for value in ("1", "+2", "-5", "0", "00012", "9" * 40, "-" + "8" * 60, "+0"):
        both.ask("s.a", b"", header_block(f"Nats-Incr: {value}"))
        both.ask("s.b", b"", header_block(f"Nats-Incr: {value}", "A: b"))
    both.everything(20)
    both.api("STREAM.PURGE.S", {"filter": "s.a"})
    both.ask("s.a", b"", header_block("Nats-Incr: 7"))


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize(
    ("payload", "lines"),
    [
        (b"", []),
        (b"x", []),
        (b"x", ["Nats-Incr: 1"]),
        (b"", ["Nats-Incr: x"]),
        (b"", ["Nats-Incr: 1.5"]),
        (b"", ["Nats-Incr: 1_000"]),
        (b"", ["Nats-Incr: --1"]),
        (b"", ["Nats-Incr: +"]),
        (b"", ["Nats-Incr:"]),
        (b"", ["Nats-Incr: 1", "Nats-Rollup: sub"]),
        (b"", ["Nats-Incr: 1", "Nats-Expected-Stream: S"]),
        (b"", ["Nats-Incr: 1", "Nats-Expected-Last-Sequence: 1"]),
        (b"", ["Nats-Incr: 1", "Nats-Expected-Last-Subject-Sequence: 1"]),
        (b"", ["Nats-Incr: 1", "Nats-Expected-Last-Msg-Id: x"]),
        (b"", ["Nats-Incr: 1", "Nats-Msg-Id: x"]),
        (b"", ["Nats-Incr: 1", "Nats-TTL: 1"]),
        (b"", ["Nats-Rollup: sub"]),
        (b"", ["Nats-Msg-Id: x"]),
    ],
    ids=str,
)
def test_what_counters_refuse(both: Both, payload: bytes, lines: list[str], allowed: bool) -> None:
    both.make(allow_msg_counter=allowed, allow_rollup_hdrs=True)
    both.ask("s.a", b"", header_block("Nats-Incr: 5") if allowed else None)
    both.ask("s.a", payload, header_block(*lines) if lines else None)
    both.ask("s.a", payload, header_block(*lines) if lines else None)
    both.everything(5)


def test_counters_in_batches(both: Both) -> None:
    both.make(allow_msg_counter=True, allow_atomic=True, allow_batched=True)
    both.ask("s.a", b"", header_block("Nats-Incr: 5"))
    batch(both, ("s.a", b"", ["Nats-Incr: 1"]), ("s.b", b"", ["Nats-Incr: 2"]), ("s.a", b"", ["Nats-Incr: 3"]))
    batch(both, ("s.a", b"", ["Nats-Incr: 1"]), ("s.b", b"", []))
    batch(both, ("s.a", b"", ["Nats-Incr: 1"]), ("s.b", b"x", ["Nats-Incr: 1"]))
    fast = Fast(both)
    fast.send(1, START, b"", lines=("Nats-Incr: 10",))
    fast.send(2, COMMIT, b"", lines=("Nats-Incr: 10",))
    both.everything(9)


@pytest.mark.parametrize("digits", [100, 5000, 60_000])
def test_long_counters(both: Both, digits: int) -> None:
    both.make(allow_msg_counter=True)
    for _ in range(3):
        both.ask("s.a", b"", header_block("Nats-Incr: " + "9" * digits))
    both.ask("s.a", b"", header_block("Nats-Incr: -" + "9" * digits))


# --- schedules --------------------------------------------------------------------------------------------------------

FUTURE = "@at 2120-01-01T00:00:00Z"
SCHEDULES = [
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.t"],
    [f"Nats-Schedule: {FUTURE}"],
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.a"],
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: other"],
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.*"],
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.t", "Nats-Schedule-TTL: 5m"],
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.t", "Nats-Schedule-TTL: bad"],
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.t", "Nats-Schedule-Rollup: sub"],
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.t", "Nats-Schedule-Rollup: all"],
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.t", "Nats-Schedule-Source: s.s"],
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.t", "Nats-Schedule-Source: s.t"],
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.t", "Nats-Schedule-Source: s.a"],
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.t", "Nats-Schedule-Source: other"],
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.t", "Nats-Schedule-Source: s.>"],
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.t", "Nats-Rollup: sub"],
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.t", "Nats-Rollup: all"],
    [f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.t", "Nats-Schedule-Time-Zone: Europe/Berlin"],
    ["Nats-Schedule: 0 0 5 * * *", "Nats-Schedule-Target: s.t", "Nats-Schedule-Time-Zone: Europe/Berlin"],
    ["Nats-Schedule: 0 0 5 * * *", "Nats-Schedule-Target: s.t", "Nats-Schedule-Time-Zone: Nowhere/At"],
    ["Nats-Schedule: 0 0 5 * * *", "Nats-Schedule-Target: s.t", "Nats-Schedule-Time-Zone: "],
    ["Nats-Schedule: 0 0 5 * * *", "Nats-Schedule-Target: s.t", "Nats-Schedule-Time-Zone: ../etc/passwd"],
    ["Nats-Schedule-Time-Zone: Nowhere/At"],
    ["Nats-Schedule: @every 1h", "Nats-Schedule-Target: s.t", "Nats-Schedule-Time-Zone: UTC"],
    ["Nats-Schedule-Next: purge", "Nats-Scheduler: s.q"],
    ["Nats-Schedule-Next: purge", "Nats-Scheduler: s.b"],
    ["Nats-Schedule-Next: purge", "Nats-Scheduler: s.known"],
    ["Nats-Schedule-Next: purge", "Nats-Scheduler: s.a"],
    ["Nats-Schedule-Next: purge", "Nats-Scheduler: s.*"],
    ["Nats-Schedule-Next: purge"],
    ["Nats-Schedule-Next: x", "Nats-Scheduler: s.q"],
    ["Nats-Scheduler: s.q"],
    ["Nats-Schedule: "],
]
PATTERNS = [
    "@at 2120-01-01T00:00:00Z", "@at 2120-01-01T00:00:00+02:00", "@at 2120-01-01T00:00:00.5Z", "@at 2120-01-01",
    "@at", "@at ", "@at 0001-01-01T00:00:00Z", "@every 1h", "@every 1s", "@every 999ms", "@every -1h", "@every x",
    "@every", "@every 1h30m", "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly",
    "@Daily", "@minutely", "0 0 0 1 1 *", "* * * * *", "* * * * * * *", "0 0 0 1 JAN mon", "0 0 0 30 2 *",
    "0 0 0 31 4,6,9,11 *", "60 * * * * *", "59 59 23 31 12 6", "0 0 0 0 * *", "0 0 0 * * 7", "0 0 24 * * *",
    "*/5 * 1 1 1 *", "*/0 * * * * *", "5/10 0 0 1 1 *", "1-5/2 0 0 1 1 *", "5-1 * * * * *", "1-2-3 * * * * *",
    "1/2/3 * * * * *", "? 0 0 ? 1 ?", ", 0 0 1 1 *", "1,,2 0 0 1 1 *", "+1 0 0 1 1 *", "-1 0 0 1 1 *", "a * * * * *",
    "0 0 0 * foo *", "*-5 0 0 1 1 *", "0  0   0 1 1 *", " 0 0 0 1 1 *", "0 0 0 1 1 sunday",
]  # fmt: skip


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("ttl", [True, False])
@pytest.mark.parametrize("lines", SCHEDULES, ids=[str(index) for index in range(len(SCHEDULES))])
def test_schedules_that_are_stored_or_not(both: Both, lines: list[str], allowed: bool, ttl: bool) -> None:
    both.make(allow_msg_schedules=allowed, allow_msg_ttl=ttl, allow_rollup_hdrs=True)
    both.ask("s.a", b"1")
    both.ask("s.b", b"2")
    both.ask("s.known", b"3", header_block(f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.t"))
    both.ask("s.a", b"it", header_block(*lines))
    both.everything(6)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(both: Both, pattern: str) -> None:
    both.make(allow_msg_schedules=True)
    both.ask("s.a", b"it", header_block(f"Nats-Schedule: {pattern}", "Nats-Schedule-Target: s.t"))
    both.everything(3)


PAST = "@at 2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["A: b", "Nats-Expected-Last-Sequence: 3", "Nats-Expected-Stream: S"],
        ["Nats-Schedule-TTL: 5m"],
        ["Nats-Schedule-Rollup: sub"],
        ["Nats-Schedule-Source: s.b"],
        ["Nats-Schedule-Source: s.none", "A: b"],
        ["Nats-Msg-Id: x", "Nats-TTL: 1h"],
    ],
    ids=str,
)
def test_what_a_schedule_publishes(both: Both, lines: list[str]) -> None:
    both.make(allow_msg_schedules=True, allow_msg_ttl=True)
    both.ask("s.t", b"earlier")
    both.ask("s.t", b"earlier still")
    both.ask("s.b", b"source", header_block("B: c", "Nats-Msg-Id: y", "Nats-TTL: 2h"))
    both.ask("s.a", b"it", header_block(f"Nats-Schedule: {PAST}", "Nats-Schedule-Target: s.t", *lines))
    both.settle(lambda state: state["last_seq"] == 5)
    both.everything(7)


def test_a_schedule_that_is_replaced_does_not_fire(both: Both) -> None:
    both.make(allow_msg_schedules=True)
    both.ask("s.a", b"first", header_block(f"Nats-Schedule: {PAST}", "Nats-Schedule-Target: s.t"))
    both.ask("s.a", b"second", header_block(f"Nats-Schedule: {FUTURE}", "Nats-Schedule-Target: s.t"))
    both.ask("s.c", b"third", header_block(f"Nats-Schedule: {PAST}", "Nats-Schedule-Target: s.t"))
    both.ask("s.c", b"no schedule")
    both.ask("s.d", b"fourth", header_block(f"Nats-Schedule: {PAST}", "Nats-Schedule-Target: s.t"))
    both.ask("s.e", b"cancelled", header_block(f"Nats-Schedule: {PAST}", "Nats-Schedule-Target: s.t"))
    both.ask("s.x", b"cancels", header_block("Nats-Schedule-Next: purge", "Nats-Scheduler: s.e"))
    both.settle(lambda state: state["last_seq"] == 8)
    both.everything(10)
