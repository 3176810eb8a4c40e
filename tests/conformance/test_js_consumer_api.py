"""The consumer API answers as nats-server does: every question is asked of the real one too."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.consumer_world import ConsumerWorld
from support.jetstream_oracle import Both, Oracle

MS = 1_000_000


@pytest.fixture
def both(oracle: Oracle) -> Iterator[Both]:
    asker = Both(oracle, ConsumerWorld())
    yield asker
    asker.clear()


def stream(both: Both, **config: Any) -> Any:
    return both.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": "memory", **config})


def create(both: Both, name: str = "C", action: str = "", pedantic: bool = False, **config: Any) -> Any:
    body: dict[str, Any] = {"stream_name": "S", "config": {"name": name, "ack_policy": "explicit", **config}}
    if action:
        body["action"] = action
    if pedantic:
        body["pedantic"] = True
    return both.api(f"CONSUMER.CREATE.S.{name}", body)


PUSH = {"deliver_subject": "dlv"}
WRONG: list[dict[str, Any]] = [
    {"durable_name": "other"},
    {"durable_name": "a.b"},
    {"description": "x" * 4096},
    {"description": "x" * 4097},
    {"deliver_policy": "last_per_subject"},
    {"deliver_policy": "nothing"},
    {"deliver_policy": 1},
    {"deliver_policy": "undefined"},
    {"deliver_policy": "by_start_sequence"},
    {"deliver_policy": "by_start_time"},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 1, "opt_start_time": "2026-01-01T00:00:00Z"},
    {"deliver_policy": "by_start_time", "opt_start_seq": 1, "opt_start_time": "2026-01-01T00:00:00Z"},
    {"deliver_policy": "all", "opt_start_seq": 1},
    {"deliver_policy": "all", "opt_start_time": "2026-01-01T00:00:00Z"},
    {"deliver_policy": "last", "opt_start_seq": 1},
    {"deliver_policy": "last", "opt_start_time": "2026-01-01T00:00:00Z"},
    {"deliver_policy": "new", "opt_start_seq": 1},
    {"deliver_policy": "new", "opt_start_time": "2026-01-01T00:00:00Z"},
    {"deliver_policy": "last_per_subject", "filter_subject": "s.a", "opt_start_seq": 1},
    {"deliver_policy": "last_per_subject", "filter_subject": "s.a", "opt_start_time": "2026-01-01T00:00:00Z"},
    {"opt_start_seq": -1},
    {"opt_start_time": "yesterday"},
    {"ack_policy": "sometimes"},
    {"ack_policy": None},
    {"ack_policy": "none"},
    {"ack_policy": "all"},
    {"ack_policy": "none", "ack_wait": 1},
    {"ack_policy": "flow_control"},
    {"ack_policy": "flow_control", **PUSH},
    {"ack_policy": "flow_control", **PUSH, "max_ack_pending": -1},
    {"ack_policy": "flow_control", **PUSH, "ack_wait": 1},
    {"ack_policy": "flow_control", **PUSH, "max_deliver": 3},
    {"ack_wait": -1},
    {"ack_wait": 1},
    {"ack_wait": "30s"},
    {"ack_wait": 1.5},
    {"max_deliver": 0},
    {"max_deliver": -7},
    {"max_deliver": 5},
    {"max_deliver": "5"},
    {"backoff": [1000 * MS, 2000 * MS]},
    {"backoff": [1000 * MS, 2000 * MS], "max_deliver": 1},
    {"backoff": [1000 * MS, 2000 * MS], "max_deliver": 2},
    {"backoff": [-1]},
    {"backoff": [1000 * MS], "ack_wait": 5},
    {"backoff": "1s"},
    {"filter_subject": "s.a", "filter_subjects": ["s.b"]},
    {"filter_subject": "elsewhere"},
    {"filter_subject": "s..a"},
    {"filter_subject": " "},
    {"filter_subjects": ["s.a", "s.b"]},
    {"filter_subjects": ["s.a", "s.a"]},
    {"filter_subjects": ["s.a", "s.*"]},
    {"filter_subjects": ["s.a", "s.>"]},
    {"filter_subjects": ["s.a", ""]},
    {"filter_subjects": ["s.a", "s..b"]},
    {"filter_subjects": ["s.*.b", "s.a.*"]},
    {"filter_subjects": [f"s.{n}" for n in range(1000)]},
    {"filter_subjects": "s.a"},
    {"replay_policy": "original"},
    {"replay_policy": "slow"},
    {"rate_limit_bps": 1000},
    {"rate_limit_bps": 1000, **PUSH},
    {"rate_limit_bps": -1, **PUSH},
    {"sample_freq": "50"},
    {"sample_freq": "50%"},
    {"sample_freq": "200%"},
    {"sample_freq": "half"},
    {"sample_freq": "-1"},
    {"sample_freq": "99999999999999999999"},
    {"sample_freq": "%"},
    {"sample_freq": 50},
    {"max_waiting": 1},
    {"max_waiting": -1},
    {"max_waiting": 100_000},
    {"max_waiting": 1, **PUSH},
    {"max_ack_pending": -1},
    {"max_ack_pending": -5},
    {"max_ack_pending": 7},
    {"max_ack_pending": 7, "ack_policy": "none"},
    {"max_ack_pending": 7, "ack_policy": "none", **PUSH},
    {"flow_control": True},
    {"flow_control": True, **PUSH},
    {"flow_control": True, "idle_heartbeat": 1000 * MS, **PUSH},
    {"idle_heartbeat": 1000 * MS},
    {"idle_heartbeat": 99 * MS, **PUSH},
    {"idle_heartbeat": 100 * MS, **PUSH},
    {"idle_heartbeat": -1, **PUSH},
    {"headers_only": True},
    {"max_batch": -1},
    {"max_batch": 10},
    {"max_expires": -1},
    {"max_expires": 999_999},
    {"max_expires": 1 * MS},
    {"max_bytes": -1},
    {"max_bytes": 10},
    {"deliver_subject": "dlv.*"},
    {"deliver_subject": "dlv..x"},
    {"deliver_subject": "s.a"},
    {"deliver_subject": "s"},
    {"deliver_subject": "dlv", "deliver_group": "g"},
    {"deliver_group": "g"},
    {"inactive_threshold": -1},
    {"inactive_threshold": 1},
    {"inactive_threshold": 1, "durable_name": "C"},
    {"num_replicas": 1},
    {"num_replicas": 2},
    {"num_replicas": -1},
    {"mem_storage": True},
    {"direct": True},
    {"direct": True, **PUSH, "durable_name": "C"},
    {"metadata": {"k": "v"}},
    {"metadata": {"k": "v" * (128 * 1024)}},
    {"metadata": {"k": 1}},
    {"metadata": {"_nats.req.level": "3", "_nats.ver": "x"}},
    {"pause_until": "2020-01-01T00:00:00Z"},
    {"pause_until": "soon"},
    {"pause_until": "0001-01-01T00:00:00Z"},
    {"priority_groups": ["a"]},
    {"priority_policy": "overflow"},
    {"priority_policy": "overflow", "priority_groups": ["a"]},
    {"priority_policy": "overflow", "priority_groups": ["a", "b"]},
    {"priority_policy": "overflow", "priority_groups": [""]},
    {"priority_policy": "overflow", "priority_groups": ["a b"]},
    {"priority_policy": "overflow", "priority_groups": ["a" * 17]},
    {"priority_policy": "overflow", "priority_groups": ["a"], **PUSH},
    {"priority_policy": "pinned_client", "priority_groups": ["a"]},
    {"priority_policy": "pinned_client", "priority_groups": ["a"], "priority_timeout": 1000 * MS},
    {"priority_policy": "prioritized", "priority_groups": ["a"]},
    {"priority_policy": "first"},
    {"priority_timeout": 1000 * MS},
    {"priority_timeout": -1},
    {"unknown": 1},
    {"name": 5},
]


@pytest.mark.parametrize("config", WRONG, ids=[str(config)[:60] for config in WRONG])
@pytest.mark.parametrize("pedantic", [False, True], ids=["plain", "pedantic"])
def test_a_configuration_is_judged_alike(both: Both, config: dict[str, Any], pedantic: bool) -> None:
    stream(both)
    create(both, pedantic=pedantic, **config)


@pytest.mark.parametrize("retention", ["interest", "workqueue"])
@pytest.mark.parametrize(
    "config",
    [
        {},
        {"ack_policy": "none"},
        {"ack_policy": "all"},
        {"ack_policy": "none", **PUSH},
        {"ack_policy": "all", **PUSH},
        {"deliver_policy": "new"},
        {"deliver_policy": "last"},
        {"num_replicas": 1},
        {"num_replicas": 3},
    ],
    ids=str,
)
def test_retention_has_its_rules(both: Both, retention: str, config: dict[str, Any]) -> None:
    stream(both, retention=retention)
    create(both, **config)


def test_a_work_queue_is_divided_among_its_consumers(both: Both) -> None:
    stream(both, retention="workqueue")
    create(both, "A", filter_subject="s.a")
    create(both, "B", filter_subject="s.b.*")
    create(both, "X")
    create(both, "X", filter_subject="s.>")
    create(both, "X", filter_subjects=["s.c", "s.b.x"])
    create(both, "X", filter_subjects=["s.c", "s.d"])
    create(both, "A", filter_subject="s.d")
    create(both, "A", filter_subject="s.e")


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"durable_name": "D"}}),
        ("CONSUMER.CREATE.S", {"stream_name": "T", "config": {}}),
        ("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"name": "a/b"}}),
        ("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"name": "a.b"}}),
        ("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"name": "N"}}),
        ("CONSUMER.CREATE.S", b""),
        ("CONSUMER.CREATE.S", b"{"),
        ("CONSUMER.CREATE.S", b"[]"),
        ("CONSUMER.CREATE.S.N", {"stream_name": "S", "action": "make", "config": {}}),
        ("CONSUMER.CREATE.S.N", {"stream_name": "S", "action": "update", "config": {}}),
        ("CONSUMER.CREATE.S.N", {"stream_name": "S", "action": "create", "config": {"name": "other"}}),
        ("CONSUMER.CREATE.S.N", {"stream_name": "S", "config": {"durable_name": "other"}}),
        ("CONSUMER.CREATE.S.a\\b", {"stream_name": "S", "config": {}}),
        ("CONSUMER.CREATE.S." + "n" * 256, {"stream_name": "S", "config": {"durable_name": "n" * 256}}),
        ("CONSUMER.CREATE.S." + "n" * 255, {"stream_name": "S", "config": {"durable_name": "n" * 255}}),
        ("CONSUMER.CREATE.S.N.s.a", {"stream_name": "S", "config": {"filter_subject": "s.a"}}),
        ("CONSUMER.CREATE.S.N.s.a", {"stream_name": "S", "config": {"filter_subject": "s.b"}}),
        ("CONSUMER.CREATE.S.N.s.a", {"stream_name": "S", "config": {}}),
        ("CONSUMER.CREATE.S.N.s.a", {"stream_name": "S", "config": {"filter_subjects": ["s.a"]}}),
        ("CONSUMER.DURABLE.CREATE.S.D", {"stream_name": "S", "config": {"durable_name": "D"}}),
        ("CONSUMER.DURABLE.CREATE.S.D", {"stream_name": "S", "config": {"durable_name": "E"}}),
        ("CONSUMER.DURABLE.CREATE.S.D", {"stream_name": "S", "config": {}}),
        ("CONSUMER.CREATE.T.N", {"stream_name": "T", "config": {}}),
        ("CONSUMER.INFO.S.N", b""),
        ("CONSUMER.INFO.T.N", b""),
        ("CONSUMER.INFO.S.N", b"x"),
        ("CONSUMER.DELETE.S.N", b""),
        ("CONSUMER.DELETE.S.N", {"a": 1}),
        ("CONSUMER.DELETE.T.N", b""),
        ("CONSUMER.NAMES.S", b""),
        ("CONSUMER.NAMES.T", b""),
        ("CONSUMER.NAMES.S", {"offset": 5}),
        ("CONSUMER.NAMES.S", {"offset": -5}),
        ("CONSUMER.NAMES.S", {"offset": "x"}),
        ("CONSUMER.NAMES.S", {"what": "x"}),
        ("CONSUMER.LIST.S", b""),
        ("CONSUMER.LIST.T", b""),
        ("CONSUMER.LIST.S", {"offset": 5}),
        ("CONSUMER.LIST.S", {"offset": "x"}),
        ("CONSUMER.PAUSE.S.N", b""),
        ("CONSUMER.PAUSE.T.N", b""),
        ("CONSUMER.PAUSE.S.N", {"pause_until": "soon"}),
        ("CONSUMER.PAUSE.S.N", {"what": "soon"}),
        ("CONSUMER.UNPIN.S.N", b""),
        ("CONSUMER.UNPIN.S.N", {}),
        ("CONSUMER.UNPIN.S.N", {"group": "a b"}),
        ("CONSUMER.UNPIN.S.N", {"group": "a"}),
        ("CONSUMER.UNPIN.T.N", {"group": "a"}),
        ("CONSUMER.LEADER.STEPDOWN.S.N", b""),
    ],
    ids=lambda value: str(value)[:40],
)
def test_requests_are_read_alike(both: Both, subject: str, body: Any) -> None:
    stream(both)
    both.api(subject, body)


UPDATES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"deliver_policy": "new"}),
    ({}, {"mem_storage": True}),
    ({}, {"direct": True, **PUSH}),
    (
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 1},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 2},
    ),
    ({}, {"ack_policy": "none"}),
    ({}, {"replay_policy": "original"}),
    (PUSH, {**PUSH, "idle_heartbeat": 1000 * MS}),
    (PUSH, {**PUSH, "idle_heartbeat": 1000 * MS, "flow_control": True}),
    ({}, PUSH),
    (PUSH, {}),
    (PUSH, {"deliver_subject": "other"}),
    (PUSH, {**PUSH, "deliver_group": "g"}),
    ({}, {"max_waiting": 5}),
    ({}, {"backoff": [1, 2], "max_deliver": 1}),
    ({}, {"backoff": [1, 2]}),
    ({}, {"description": "new", "max_deliver": 7, "ack_wait": 5000 * MS, "max_ack_pending": 3, "sample_freq": "5"}),
    ({}, {"filter_subject": "s.a"}),
    ({"filter_subject": "s.a"}, {"filter_subjects": ["s.b", "s.c"]}),
    ({}, {"headers_only": True, "max_batch": 4, "max_expires": 5000 * MS, "max_bytes": 100}),
    ({}, {"metadata": {"k": "v"}, "inactive_threshold": 9000 * MS}),
    ({}, {"durable_name": "C"}),
    ({"durable_name": "C"}, {}),
    ({}, {"priority_policy": "overflow", "priority_groups": ["a"]}),
    ({}, {"pause_until": "2030-01-01T00:00:00Z"}),
    ({}, {"num_replicas": 1}),
    ({}, {}),
]


@pytest.mark.parametrize(("old", "new"), UPDATES, ids=lambda config: str(config)[:40])
@pytest.mark.parametrize("action", ["", "create", "update"])
def test_an_update_is_judged_alike(both: Both, old: dict[str, Any], new: dict[str, Any], action: str) -> None:
    stream(both)
    create(both, **old)
    create(both, action=action, **new)
    both.api("CONSUMER.INFO.S.C")


def test_limits_of_the_stream_apply(both: Both) -> None:
    stream(both, max_consumers=1, consumer_limits={"max_ack_pending": 10, "inactive_threshold": 1000 * MS})
    for pedantic in (False, True):
        create(both, pedantic=pedantic, max_ack_pending=11)
        create(both, pedantic=pedantic, inactive_threshold=2000 * MS)
        create(both, pedantic=pedantic)
    create(both, "D")


def test_life_of_a_consumer(both: Both) -> None:
    stream(both)
    create(both, durable_name="C")
    create(both, "D", ack_policy="none")
    both.api("CONSUMER.NAMES.S")
    both.api("CONSUMER.NAMES.S", {"offset": 1})
    both.api("CONSUMER.LIST.S")
    both.api("CONSUMER.PAUSE.S.C", {"pause_until": "2020-01-01T00:00:00Z"})
    both.api("CONSUMER.INFO.S.C")
    both.api("CONSUMER.PAUSE.S.C", b"")
    both.api("CONSUMER.INFO.S.C")
    both.api("CONSUMER.UNPIN.S.C", {"group": "a"})
    both.api("STREAM.INFO.S")
    both.api("CONSUMER.DELETE.S.C")
    both.api("CONSUMER.DELETE.S.C")
    both.api("CONSUMER.INFO.S.C")
    both.api("CONSUMER.NAMES.S")
