"""The stream API answers as nats-server does: every question is asked of the real one too."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from support.jetstream_oracle import Both, Oracle
from support.jetstream_world import World


@pytest.fixture
def both(oracle: Oracle) -> Iterator[Both]:
    asker = Both(oracle, World())
    yield asker
    asker.clear()


def headers(**values: str) -> bytes:
    lines = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in values.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def make(both: Both, **config: Any) -> Any:
    return both.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": "memory", **config})


NAMES = [
    "",
    "a.b",
    "a*",
    "a>",
    ">",
    "a b",
    "a\tb",
    "a\nb",
    "a/b",
    "a\\b",
    "..",
    "../x",
    "é",
    "a" * 255,
    "a" * 256,
    "a" * 10_000,
    "\x01",
    "\x7f",
]


@pytest.mark.parametrize("name", NAMES, ids=[repr(name)[:20] for name in NAMES])
def test_names(both: Both, name: str) -> None:
    token = name if name and not set(name) & set(" \t\n.") and len(name) < 3000 else "S"
    both.api(f"STREAM.CREATE.{token}", {"name": name, "storage": "memory"})
    both.api(f"STREAM.UPDATE.{token}", {"name": name, "storage": "memory"})
    both.api(f"STREAM.INFO.{token}")


VALUES = [
    '"x"',
    "1",
    "0",
    "1.5",
    "-1",
    "-2",
    "true",
    "null",
    "[]",
    "{}",
    "[1]",
    '{"a":1}',
    "1e400",
    "9223372036854775807",
    "9223372036854775808",
    "99999999999999999999",
    '""',
    '">"',
    '["a","a"]',
    '["a",1]',
]
FIELDS = [
    "name",
    "description",
    "subjects",
    "retention",
    "max_consumers",
    "max_msgs",
    "max_bytes",
    "max_age",
    "max_msgs_per_subject",
    "max_msg_size",
    "discard",
    "storage",
    "num_replicas",
    "no_ack",
    "duplicate_window",
    "placement",
    "compression",
    "first_seq",
    "subject_transform",
    "republish",
    "allow_direct",
    "mirror_direct",
    "discard_new_per_subject",
    "sealed",
    "deny_delete",
    "deny_purge",
    "allow_rollup_hdrs",
    "consumer_limits",
    "allow_msg_ttl",
    "subject_delete_marker_ttl",
    "persist_mode",
    "metadata",
    "pedantic",
    "template_owner",
]


@pytest.mark.parametrize("field", FIELDS)
def test_values_of_every_field(both: Both, field: str) -> None:
    for number, (value, extra) in enumerate(itertools.product(VALUES, ("", '"pedantic":true,'))):
        # A name of its own: nats-server may still be removing the files of the one before.
        name = f"S-{field}-{number}"
        body = f'{{"name":"{name}",{extra}"{field}":{value}}}'.encode()
        answer = both.api(f"STREAM.CREATE.{name}", body)
        if "error" not in answer:
            both.api(f"STREAM.INFO.{name}")
            both.api(f"STREAM.DELETE.{name}")
        else:
            both.api("STREAM.NAMES")


NESTED = [
    {"subjects": ["a", "a"]},
    {"subjects": ["a.*", "a.b"]},
    {"subjects": ["a..b"]},
    {"subjects": ["a b"]},
    {"subjects": [">"]},
    {"subjects": ["*"]},
    {"subjects": ["$JS.API.>"]},
    {"subjects": ["$SYS.>"]},
    {"subjects": ["$NRG.x"]},
    {"description": "d" * 4096},
    {"description": "d" * 4097},
    {"metadata": {"k": "v" * 131_071}},
    {"metadata": {"k": "v" * 131_072}},
    {"metadata": {"_nats.ver": "x", "_nats.level": "9", "_nats.req.level": "9", "a": "b"}},
    {"num_replicas": 3},
    {"num_replicas": 6},
    {"max_age": 99_999_999},
    {"max_age": 100_000_000},
    {"max_age": 1_000_000_000},
    {"max_age": 1_000_000_000, "duplicate_window": 2_000_000_000},
    {"duplicate_window": 99_999_999},
    {"duplicate_window": 100_000_000},
    {"discard_new_per_subject": True, "discard": "new"},
    {"discard_new_per_subject": True, "discard": "old", "max_msgs_per_subject": 1},
    {"discard_new_per_subject": True, "discard": "new", "max_msgs_per_subject": 1},
    {"deny_purge": True, "allow_rollup_hdrs": True},
    {"subject_delete_marker_ttl": 999_999_999},
    {"subject_delete_marker_ttl": 1_000_000_000},
    {"subject_delete_marker_ttl": 1_000_000_000, "pedantic": True},
    {"subject_delete_marker_ttl": 1_000_000_000, "allow_msg_ttl": True, "pedantic": True},
    {"subject_delete_marker_ttl": 1_000_000_000, "deny_purge": True},
    {"persist_mode": "async", "storage": "file"},
    {"persist_mode": "async", "storage": "memory"},
    {"placement": {"cluster": "x"}},
    {"placement": {"preferred": "x"}},
    {"placement": {"tags": ["a"]}},
    {"consumer_limits": {"inactive_threshold": 5, "max_ack_pending": 7}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{wildcard(1)}}"}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{wildcard(2)}}"}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{bogus(2)}}"}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{partition(3,1)}}"}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{partition(x)}}"}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{split(1)}}"}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{split(1,-,-)}}"}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{wildcard()}}"}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{left(1,1)}}"}},
    {"subject_transform": {"src": "a.*", "dest": "b..c"}},
    {"subject_transform": {"src": "a.*", "dest": "b.>.c"}},
    {"subject_transform": {"src": "a.>", "dest": "b"}},
    {"subject_transform": {"src": "a..b", "dest": "b"}},
    {"subject_transform": {"src": "a", "dest": "b.*"}},
    {"subject_transform": {"src": "a", "dest": "b c"}},
    {"subject_transform": {"src": "a", "dest": "b.$1"}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{WILDCARD(1)}}"}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{ wildcard ( 1 ) }}"}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{splitfromleft(1,99999999999)}}"}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{wildcard(1,2)}}"}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{random(1,2)}}"}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{split(1, )}}"}},
    {"subject_transform": {"src": "", "dest": ""}},
    {"subject_transform": {"src": "a.>", "dest": ">"}},
    {"republish": {"dest": "S"}},
    {"republish": {"dest": "r.>"}},
    {"republish": {"dest": "r.>"}, "pedantic": True},
    {"republish": {"src": "a", "dest": "r.>"}},
    {"republish": {"src": "a.*", "dest": "r.{{wildcard(1)}}", "headers_only": True}},
    {"republish": {"src": ">", "dest": ">"}, "subjects": ["a"], "subject_transform": {"src": "a", "dest": "b"}},
    {"mirror": {}},
    {"mirror": {"name": "x.y"}},
    {"mirror": {"name": "M"}, "first_seq": 3},
    {"mirror": {"name": "M"}, "subjects": ["a"]},
    {"mirror": {"name": "M"}, "sources": [{"name": "N"}]},
    {"mirror": {"name": "M"}, "allow_msg_counter": True},
    {"mirror": {"name": "M"}, "allow_atomic": True},
    {"mirror": {"name": "M"}, "allow_batched": True},
    {"mirror": {"name": "M"}, "allow_msg_schedules": True},
    {"mirror": {"name": "M"}, "subject_delete_marker_ttl": 1_000_000_000},
    {"mirror": {"name": "M", "filter_subject": "a", "subject_transforms": [{"src": "a", "dest": "b"}]}},
    {"mirror": {"name": "M", "subject_transforms": [{"src": "a..b", "dest": "b"}]}},
    {"mirror": {"name": "M", "subject_transforms": [{"src": "a", "dest": "b."}]}},
    {"mirror": {"name": "M", "subject_transforms": [{"src": "a", "dest": "b"}, {"src": "*", "dest": "c"}]}},
    {"mirror": {"name": "M", "consumer": {"name": "a.b", "deliver_subject": "d"}}},
    {"mirror": {"name": "M", "external": {"api": "$JS.API", "deliver": ""}}},
    {"mirror": {"name": "M", "external": {"api": "a.>", "deliver": ""}}},
    {"mirror": {"name": "M", "external": {"api": "", "deliver": "a.>"}}},
    {"mirror": {"name": "S"}},
    {"sources": [{"name": "a.b"}]},
    {"sources": [{"name": "A"}, {"name": "A"}]},
    {"sources": [{"name": "A", "filter_subject": "a", "subject_transforms": [{"src": "a", "dest": "b"}]}]},
    {"sources": [{"name": "A", "subject_transforms": [{"src": "a", "dest": "b"}, {"src": "a", "dest": "c"}]}]},
    {"sources": [{"name": "A", "consumer": {"name": "c", "deliver_subject": "d"}, "opt_start_seq": 4}]},
    {"sources": [{"name": "A"}], "allow_msg_schedules": True},
    {"sources": [{"name": "S"}]},
    {"allow_msg_counter": True, "discard": "new"},
    {"allow_msg_counter": True, "allow_msg_ttl": True},
    {"allow_msg_counter": True, "allow_msg_schedules": True},
    {"allow_msg_counter": True, "retention": "interest"},
    {"allow_msg_schedules": True, "discard": "new"},
    {"allow_msg_schedules": True, "pedantic": True},
    {"allow_atomic": True, "persist_mode": "async"},
]


@pytest.mark.parametrize("config", NESTED, ids=[str(index) for index in range(len(NESTED))])
def test_rules_between_fields(both: Both, config: dict[str, Any]) -> None:
    both.api("STREAM.CREATE.S", {"name": "S", "storage": "memory", **config})
    both.api("STREAM.NAMES")


CHANGES: list[dict[str, Any]] = [
    {"storage": "file"},
    {"retention": "interest"},
    {"retention": "workqueue"},
    {"deny_delete": False},
    {"allow_msg_ttl": False},
    {"max_msgs": 5},
    {"max_bytes": 5},
    {"subjects": ["other"]},
    {"subjects": ["taken"]},
    {"sealed": True},
    {"num_replicas": 3},
    {"mirror": {"name": "X"}},
    {"description": "new", "metadata": {"a": "b"}},
    {"first_seq": 100},
    {"persist_mode": "async", "storage": "file"},
    {"name": "T"},
    {"allow_direct": True},
    {"deny_purge": True},
    {"discard": "new", "discard_new_per_subject": True, "max_msgs_per_subject": 3},
    {"duplicate_window": 0, "max_age": 1_000_000_000},
]


@pytest.mark.parametrize("change", CHANGES, ids=[str(index) for index in range(len(CHANGES))])
def test_updates(both: Both, change: dict[str, Any]) -> None:
    base = {"name": "S", "subjects": ["s.>"], "storage": "memory", "deny_delete": True, "allow_msg_ttl": True}
    both.api("STREAM.CREATE.O", {"name": "O", "subjects": ["taken"], "storage": "memory"})
    both.api("STREAM.CREATE.S", base)
    for index in range(7):
        both.ask(f"s.{index}", b"payload")
    both.api("STREAM.UPDATE.S", {**base, **change})
    both.api("STREAM.INFO.S")
    both.api("STREAM.UPDATE.S", base)
    both.api("STREAM.CREATE.S", base)
    both.ask("s.1", b"after")


def test_unknown_streams_and_wrong_bodies(both: Both) -> None:
    make(both)
    for verb in ("INFO", "DELETE", "PURGE", "MSG.GET", "MSG.DELETE", "UPDATE", "SNAPSHOT", "RESTORE"):
        for body in (b"", b"{}", b" ", b"x", b"[]", b"{", b'{"x":1}', b'{"seq":1}', b"null", b'"s"', b"5"):
            if verb in ("SNAPSHOT", "RESTORE") and body not in (b"", b"{}"):
                continue
            both.api(f"STREAM.{verb}.NONE", body)
    for verb in ("PEER.REMOVE", "PEER.EVACUATE", "LEADER.STEPDOWN", "CANCEL_MOVE"):
        both.api(f"STREAM.{verb}.S", b'{"peer":"x"}')
    both.api("CONSUMER.LEADER.STEPDOWN.S.C")
    for body in (b"x", b"[]", b'{"offset":-1}', b'{"offset":99}', b'{"subject":"s.a"}', b'{"subject":"*"}', b'{"x":1}'):
        both.api("STREAM.NAMES", body)
        both.api("STREAM.LIST", body)
    for level in ("4", "6", "x", "", "-1"):
        both.api("STREAM.NAMES", b"", headers(Nats_Required_Api_Level=level))
        both.api("STREAM.INFO.S", b"", headers(Nats_Required_Api_Level=level))


@pytest.mark.parametrize(
    "body",
    [
        b'{"keep":2}',
        b'{"seq":4}',
        b'{"seq":1}',
        b'{"seq":7}',
        b'{"seq":8}',
        b'{"seq":100}',
        b'{"filter":"s.0"}',
        b'{"filter":"s.0","keep":1}',
        b'{"filter":"s.1","seq":4}',
        b'{"filter":"s.*"}',
        b'{"filter":">"}',
        b'{"filter":"zz"}',
        b'{"filter":"s..x"}',
        b'{"seq":2,"keep":2}',
        b'{"keep":100}',
        b'{"filter":"s.1","seq":100}',
        b"",
        b"x",
    ],
)
def test_purge(both: Both, body: bytes) -> None:
    make(both)
    for index in range(6):
        both.ask(f"s.{index % 2}", b"x")
    both.api("STREAM.MSG.DELETE.S", {"seq": 5})
    both.api("STREAM.PURGE.S", body)
    both.api("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"})
    both.ask("s.9", b"x")
    both.api("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": "s.*"})


@pytest.mark.parametrize("storage", ["memory", "file"])
def test_delete_message(both: Both, storage: str) -> None:
    make(both, storage=storage)
    for index in range(6):
        both.ask(f"s.{index % 2}", b"x")
    for seq in (1, 1, 3, 3, 0, 6, 6, 7, 99):
        both.api("STREAM.MSG.DELETE.S", {"seq": seq, "no_erase": seq == 3})
    for seq in range(8):
        both.api("STREAM.MSG.GET.S", {"seq": seq})


def test_denied_and_sealed(both: Both) -> None:
    base = {"name": "S", "subjects": ["s.>"], "storage": "memory", "deny_delete": True, "deny_purge": True}
    both.api("STREAM.CREATE.S", base)
    both.ask("s.1", b"x")
    both.api("STREAM.MSG.DELETE.S", {"seq": 1})
    both.api("STREAM.PURGE.S")
    both.api("STREAM.UPDATE.S", {**base, "sealed": True})
    both.api("STREAM.MSG.DELETE.S", {"seq": 1})
    both.api("STREAM.PURGE.S")
    both.ask("s.1", b"x")
    both.ask("s.1", b"x", headers(Nats_Msg_Id="a"))


def test_get_message(both: Both) -> None:
    make(both)
    both.ask("s.a", b"one")
    both.ask("s.b", b"", headers(A="1"))
    both.ask("s.a.c", b"three", headers(Nats_Msg_Id="<&>"))
    requests: list[dict[str, Any]] = [
        {"seq": 1},
        {"seq": 2},
        {"seq": 2, "no_hdr": True},
        {"seq": 9},
        {"last_by_subj": "s.a"},
        {"last_by_subj": "s.*"},
        {"last_by_subj": ">"},
        {"last_by_subj": "zz"},
        {"next_by_subj": "s.b"},
        {"next_by_subj": "s.*", "seq": 2},
        {"next_by_subj": "s.>", "seq": 9},
        {"start_time": "2020-01-01T00:00:00Z"},
        {"start_time": "2120-01-01T00:00:00Z"},
        {"start_time": "2020-01-01T00:00:00Z", "next_by_subj": "s.b"},
        {"seq": 1, "last_by_subj": "s.a"},
        {"seq": 1, "start_time": "2020-01-01T00:00:00Z"},
        {"last_by_subj": "a", "next_by_subj": "b"},
        {"seq": 1, "batch": 2},
        {"seq": 1, "max_bytes": 2},
        {"no_hdr": True},
    ]
    for request in requests:
        both.api("STREAM.MSG.GET.S", request)


DIRECT: list[Any] = [
    {"seq": 1},
    {"seq": 2},
    {"seq": 2, "no_hdr": True},
    {"seq": 9},
    {"last_by_subj": "s.a"},
    {"last_by_subj": "s.*"},
    {"last_by_subj": "zz"},
    {"next_by_subj": "s.b"},
    {"next_by_subj": "s.*", "seq": 2},
    {"next_by_subj": "s.>", "seq": 9},
    {"seq": 1, "batch": 2},
    {"seq": 1, "batch": 1},
    {"seq": 1, "batch": 100},
    {"seq": 9, "batch": 2},
    {"seq": 1, "batch": 10, "next_by_subj": "s.*"},
    {"next_by_subj": "s.a", "batch": 10},
    {"seq": 1, "batch": 10, "max_bytes": 1},
    {"seq": 1, "batch": 3, "no_hdr": True},
    {"start_time": "2020-01-01T00:00:00Z", "batch": 2},
    {"start_time": "2120-01-01T00:00:00Z"},
    {"multi_last": ["s.*"]},
    {"multi_last": [">"]},
    {"multi_last": ["zz"]},
    {"multi_last": ["s.a", "s.b"], "batch": 1},
    {"multi_last": [">"], "up_to_seq": 2},
    {"multi_last": [">"], "up_to_seq": 100},
    {"multi_last": [">"], "seq": 3},
    {"multi_last": [">"], "up_to_time": "2020-01-01T00:00:00Z"},
    {"multi_last": [">"], "up_to_time": "2120-01-01T00:00:00Z"},
    {"multi_last": [">"], "max_bytes": 5},
    {"multi_last": [">"], "up_to_seq": 2, "up_to_time": "2120-01-01T00:00:00Z"},
    {"last_by_subj": "s.a", "batch": 2},
    {"last_by_subj": "s.a", "seq": 1},
    {"next_by_subj": "a", "multi_last": ["b"]},
    {},
    b"",
    b"x",
    b"[]",
    {"unknown": 1, "seq": 1},
    {"seq": "1"},
    b'{"seq":1} {"seq":2}',
]


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize("request_body", DIRECT, ids=[str(index) for index in range(len(DIRECT))])
def test_direct_get(both: Both, request_body: Any, storage: str) -> None:
    make(both, allow_direct=True, storage=storage)
    both.ask("s.a", b"one")
    both.ask("s.b", b"two", headers(A="1"))
    both.ask("s.a", b"three", headers(B="2"))
    both.ask("s.c.d", b"")
    both.api("STREAM.MSG.DELETE.S", {"seq": 3})
    both.ask("s.b", b"five")
    both.api("DIRECT.GET.S", request_body)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"no_hdr":true}', b'{"seq":1}', b"x", b'{"max_bytes":5}', b'{"batch":1}']
)
def test_direct_get_by_subject(both: Both, body: bytes) -> None:
    make(both, allow_direct=True)
    both.ask("s.a", b"one")
    both.ask("s.a", b"two", headers(A="1"))
    for key in ("s.a", "s.*", "zz", "s.a.b"):
        both.api(f"DIRECT.GET.S.{key}", body)
    both.api("DIRECT.GET.S.s.a", body, headers(Nats_Required_Api_Level="9"))
