"""Mirrors of a running server beside those of nats-server: same contents, same facts, same refusals."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.copies import CopyPair, Side
from support.servers import ServerPool


@pytest.fixture(scope="module")
def pair(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CopyPair]:
    both = CopyPair(server_pool, tmp_path_factory.mktemp)
    yield both
    both.close()


@pytest.fixture(autouse=True)
def no_streams(pair: CopyPair) -> Iterator[None]:
    yield
    pair.clear()


def test_a_mirror_has_what_its_origin_has(pair: CopyPair) -> None:
    pair.fill()
    pair.api("STREAM.MSG.DELETE.O", {"seq": 3})
    pair.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}})
    pair.settled("M", 6)
    pair.messages("M", 7)
    times = [
        [side.api(f"STREAM.MSG.GET.{name}", {"seq": 2})["message"]["time"] for name in ("O", "M")]
        for side in pair.sides
    ]
    assert all(origin == mirror for origin, mirror in times)
    pair.publish("o.9", b"late")
    pair.settled("M", 7)
    pair.api("STREAM.LIST")
    pair.api("STREAM.NAMES", {"subject": "o.9"})
    pair.api("CONSUMER.NAMES.O")
    pair.api("STREAM.INFO.O")


@pytest.mark.parametrize(
    "mirror",
    [
        {"opt_start_seq": 4},
        {"opt_start_seq": 100},
        {"opt_start_time": "2020-01-01T00:00:00Z"},
        {"filter_subject": "o.2"},
        {"subject_transforms": [{"src": "o.*", "dest": "t.{{wildcard(1)}}.x"}]},
        {"subject_transforms": [{"src": "o.1", "dest": "one"}, {"src": "o.2", "dest": ""}]},
        {"filter_subject": "o.1", "opt_start_seq": 2},
    ],
    ids=str,
)
def test_where_a_mirror_begins_and_what_it_takes(pair: CopyPair, mirror: dict[str, Any]) -> None:
    pair.fill()
    pair.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O", **mirror}})
    last = 5 if mirror.get("filter_subject") == "o.2" or len(mirror.get("subject_transforms", [])) > 1 else 6
    last = 4 if mirror.get("filter_subject") == "o.1" else last
    pair.settled("M", 99 if mirror.get("opt_start_seq") == 100 else last, heard=True)
    pair.messages("M", 7)


def test_an_origin_that_begins_late(pair: CopyPair) -> None:
    pair.fill(first_seq=1000)
    pair.api("STREAM.PURGE.O", {"seq": 1003})
    pair.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}, "storage": "memory"})
    pair.settled("M", 1005)
    pair.api("STREAM.PURGE.O", {})
    pair.publish("o.1", b"after")
    pair.settled("M", 1006)


def test_a_mirror_without_an_origin_says_so(pair: CopyPair) -> None:
    pair.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "NONE"}})
    for side in pair.sides:
        side.until("M", lambda info: "error" in info["mirror"])
    pair.api("STREAM.INFO.M")


def test_a_mirror_keeps_its_own_limits_and_takes_no_messages(pair: CopyPair) -> None:
    pair.fill()
    pair.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}, "max_msgs": 2, "max_msgs_per_subject": 1})
    pair.settled("M", 6)
    pair.api("STREAM.MSG.DELETE.M", {"seq": 5})
    pair.api("STREAM.MSG.DELETE.M", {"seq": 5})
    pair.settled("M", 6)
    pair.api("STREAM.PURGE.M")
    pair.settled("M", 6)
    pair.publish("o.1", b"more")
    pair.settled("M", 7)
    pair.api("STREAM.DELETE.O")
    pair.api("STREAM.INFO.O")
    pair.settled("M", 7)


def test_a_mirror_answers_for_its_origin(pair: CopyPair) -> None:
    pair.fill(allow_direct=True)
    pair.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}})
    pair.settled("M", 6)

    def answers(side: Side) -> set[bytes]:
        found = set()
        for _ in range(200):
            ((header, _),) = side.client.request("$JS.API.DIRECT.GET.O", b'{"seq":2}', None, 1)
            ((by_subject, _),) = side.client.request("$JS.API.DIRECT.GET.O.o.2", b"", None, 1)
            for block in (header, by_subject):
                assert block is not None
                found.add(block.split(b"Nats-Stream: ")[1].split(b"\r\n")[0])
            if len(found) == 2:
                break
        return found

    assert pair.same(answers) == {b"O", b"M"}
    pair.api("STREAM.UPDATE.M", {"name": "M", "subjects": ["x.>"], "mirror_direct": False})
    assert pair.same(answers) == {b"O"}


def test_promotion(pair: CopyPair) -> None:
    pair.fill()
    mirror = {"name": "M", "mirror": {"name": "O"}}
    pair.api("STREAM.CREATE.M", mirror)
    pair.settled("M", 6)
    pair.api("STREAM.UPDATE.M", {**mirror, "description": "still one", "max_msgs": 5})
    pair.api("STREAM.UPDATE.M", {"name": "M", "mirror": {"name": "O", "filter_subject": "o.1"}})
    pair.api("STREAM.UPDATE.M", {"name": "M", "mirror": {"name": "P"}})
    pair.api("STREAM.UPDATE.M", {**mirror, "subjects": ["x"]})
    pair.api("STREAM.UPDATE.M", {"name": "M", "subjects": ["o.>"]})
    pair.api("STREAM.UPDATE.M", {"name": "M", "subjects": ["n.>"], "mirror_direct": True})
    pair.api("STREAM.UPDATE.M", {"name": "M", "subjects": ["n.>"]})
    pair.publish("o.1", b"not for M")
    pair.publish("n.1", b"for M")
    pair.settled("M", 7)
    pair.messages("M", 8)
    pair.api("STREAM.UPDATE.O", {"name": "O", "mirror": {"name": "M"}})


REFUSED: list[dict[str, Any]] = [
    {"mirror": {"name": ""}},
    {"mirror": {"name": "a.b"}},
    {"mirror": {"name": "O", "opt_start_seq": 1, "opt_start_time": "2020-01-01T00:00:00Z"}},
    {"mirror": {"name": "O"}, "subjects": ["x"]},
    {"mirror": {"name": "O"}, "sources": [{"name": "O"}]},
    {"mirror": {"name": "O"}, "first_seq": 5},
    {"mirror": {"name": "O"}, "max_msg_size": 10},
    {"mirror": {"name": "O"}, "subject_delete_marker_ttl": 2_000_000_000, "allow_msg_ttl": True},
    {"mirror": {"name": "O", "filter_subject": "a", "subject_transforms": [{"src": "b", "dest": "c"}]}},
    {"mirror": {"name": "O", "filter_subject": "a..b"}},
    {"mirror": {"name": "O", "subject_transforms": [{"src": "a.*", "dest": "c"}, {"src": "a.b", "dest": "d"}]}},
    {"mirror": {"name": "O", "subject_transforms": [{"src": "a..", "dest": "c"}]}},
    {"mirror": {"name": "O", "subject_transforms": [{"src": "a", "dest": "c.{{wildcard(3)}}"}]}},
    {"mirror": {"name": "O", "external": {"api": "$JS.API", "deliver": "d"}}},
    {"mirror": {"name": "O", "external": {"api": "x.>", "deliver": "d"}}},
    {"mirror": {"name": "O", "external": {"api": "x", "deliver": "d.*"}}},
    {"mirror": {"name": "O", "consumer": {}}},
    {"mirror": {"name": "O", "consumer": {"name": "c"}}},
    {"mirror": {"name": "O", "consumer": {"name": "c", "deliver_subject": "d"}, "opt_start_seq": 2}},
    {"mirror": {"name": "M"}},
    {"mirror": {"name": "O"}, "retention": "interest"},
    {"mirror": {"name": "O"}, "retention": "workqueue"},
    {"mirror": {"name": "O"}, "duplicate_window": 5_000_000_000},
    {"mirror": {"name": "O"}, "mirror_direct": True},
    {"mirror": {"name": "O"}, "mirror_direct": True, "pedantic": True},
    {"mirror": {"name": "O"}, "allow_direct": True, "republish": {"src": ">", "dest": "re.>"}},
    {"mirror": {"name": "O"}, "subject_transform": {"src": "o.>", "dest": "p.>"}},
    {"mirror": {"name": "O"}, "sealed": True},
    {"mirror": {}},
    {"mirror": None},
    {"mirror_direct": True, "subjects": ["x"]},
]


@pytest.mark.parametrize("config", REFUSED, ids=str)
def test_configurations(pair: CopyPair, config: dict[str, Any]) -> None:
    pair.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"], "max_msg_size": 100})
    answer = pair.api("STREAM.CREATE.M", {"name": "M", **config})
    if "error" not in answer:
        pair.api("STREAM.CREATE.M", {"name": "M", **config})
