"""Sources of a running server beside those of nats-server: same contents, same facts, same refusals."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.copies import CopyPair, Side
from support.servers import ServerPool


@pytest.fixture(scope="module")
def pair(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CopyPair]:
    both = CopyPair(server_pool, tmp_path_factory.mktemp, sized=False)
    yield both
    both.close()


@pytest.fixture(autouse=True)
def no_streams(pair: CopyPair) -> Iterator[None]:
    yield
    pair.clear()


def unordered(side: Side, stream: str, last: int) -> list[Any]:
    """Messages of several sources: what each source sent is in order, the sources among each other are not."""
    return sorted(([*message[1:]] for message in side.messages(stream, last)), key=_source_of)


def _source_of(message: Any) -> tuple[str, ...]:
    (words,) = [line.split(": ")[1].split(" ") for line in message[1] if line.startswith("Nats-Stream-Source")]
    return words[0], words[2], words[3]


@pytest.mark.parametrize(
    ("source", "last"),
    [
        ({}, 6),
        ({"opt_start_seq": 3}, 4),
        ({"opt_start_time": "2020-01-01T00:00:00Z"}, 6),
        ({"filter_subject": "o.2"}, 2),
        ({"filter_subject": "o.>"}, 6),
        ({"subject_transforms": [{"src": "o.*", "dest": "t.{{wildcard(1)}}.x"}]}, 6),
        ({"subject_transforms": [{"src": "o.1", "dest": "one"}, {"src": "o.2", "dest": ""}]}, 4),
    ],
    ids=str,
)
def test_one_source(pair: CopyPair, source: dict[str, Any], last: int) -> None:
    pair.fill()
    pair.api("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "O", **source}]})
    pair.settled("S", last)
    assert len(pair.messages("S", last + 1)) == last
    pair.api("STREAM.LIST")


def test_several_sources_and_own_subjects(pair: CopyPair) -> None:
    pair.fill("A")
    pair.fill("B")
    sources: list[Any] = [{"name": "A"}, {"name": "B", "filter_subject": "b.1"}, {"name": "B", "filter_subject": "b.2"}]
    pair.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "sources": sources, "max_msgs": 100})
    pair.settled("S", 10)
    pair.same(lambda side: unordered(side, "S", 10))
    pair.publish("s.1", b"own")
    pair.publish("a.7", b"later")
    pair.settled("S", 12)
    changed = {"name": "S", "subjects": ["s.>"], "max_msgs": 100, "sources": [sources[0], {"name": "B"}]}
    pair.api("STREAM.UPDATE.S", changed)
    pair.settled("S", 18)
    pair.api("STREAM.UPDATE.S", {**changed, "sources": []})
    pair.publish("a.8", b"no more")
    pair.publish("s.2", b"own again")
    pair.settled("S", 19)


def test_a_chain_names_only_the_last_origin(pair: CopyPair) -> None:
    pair.fill()
    pair.api("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "O"}]})
    pair.settled("S", 6)
    transform = [{"src": "o.*", "dest": "t.{{wildcard(1)}}"}]
    pair.api("STREAM.CREATE.T", {"name": "T", "sources": [{"name": "S", "subject_transforms": transform}]})
    pair.settled("T", 6)
    pair.messages("T", 6)
    pair.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "T"}})
    pair.settled("M", 6)
    pair.messages("M", 6)


def test_headers_of_conditions_and_batches_are_left_out(pair: CopyPair) -> None:
    pair.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"], "allow_rollup_hdrs": True, "allow_msg_ttl": True})
    blocks = [
        b"NATS/1.0\r\nNats-Expected-Last-Sequence: 0\r\n\r\n",
        b"NATS/1.0\r\nNats-Expected-Last-Sequence: 1\r\nNats-Expected-Stream: O\r\nX: y\r\nNats-Expected-A: z\r\n\r\n",
        b"NATS/1.0\r\nNats-Rollup: sub\r\nNats-TTL: 1h\r\n\r\n",
        b"NATS/1.0\r\nNats-Msg-Id: a\r\nNats-Batch-Other: x\r\n\r\n",
    ]
    for block in blocks:
        pair.publish("o.1", b"x", block)
    pair.api("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "O"}]})
    pair.settled("S", 2)
    pair.messages("S", 2)
    pair.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}})
    pair.settled("M", 4)
    pair.messages("M", 4)


def test_repetitions_within_the_window(pair: CopyPair) -> None:
    pair.fill("A")
    pair.fill("B")
    pair.api("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "A"}], "duplicate_window": 60_000_000_000})
    pair.settled("S", 6)
    pair.api(
        "STREAM.UPDATE.S", {"name": "S", "sources": [{"name": "A"}, {"name": "B"}], "duplicate_window": 60_000_000_000}
    )
    pair.settled("S", 9)
    pair.messages("S", 9)


def test_limits_and_settings_of_the_target(pair: CopyPair) -> None:
    pair.fill(count=9)
    pair.api(
        "STREAM.CREATE.S",
        {
            "name": "S",
            "sources": [{"name": "O"}],
            "max_msgs_per_subject": 1,
            "subject_transform": {"src": "o.>", "dest": "in.>"},
        },
    )
    pair.settled("S", 9)
    pair.messages("S", 9)


def test_a_work_queue_keeps_what_was_not_copied(pair: CopyPair) -> None:
    pair.fill(retention="workqueue")
    pair.api("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "O"}]})
    pair.settled("S", 6)
    pair.messages("S", 6)
    for side in pair.sides:
        side.until("O", lambda info: info["state"]["messages"] == 0)
    names = pair.api("CONSUMER.NAMES.O")["consumers"]
    assert len(names) == 1
    pair.publish("o.1", b"next")
    pair.settled("S", 7)
    pair.api("STREAM.DELETE.S")
    for side in pair.sides:
        side.until("O", lambda info: info["state"]["consumer_count"] == 0)
    pair.api("CONSUMER.NAMES.O")


def test_a_given_consumer(pair: CopyPair) -> None:
    pair.fill(retention="interest")
    consumer = {"durable_name": "C", "deliver_subject": "to.s", "ack_policy": "flow_control", "max_ack_pending": 100}
    pair.api("CONSUMER.CREATE.O.C", {"stream_name": "O", "config": consumer})
    source = {"name": "O", "consumer": {"name": "C", "deliver_subject": "to.s"}}
    pair.api("STREAM.CREATE.S", {"name": "S", "sources": [source]})
    for number in range(3):
        pair.publish("o.1", b"n%d" % number)
    pair.settled("S", 3)
    pair.messages("S", 3)
    for side in pair.sides:
        side.until("O", lambda info: info["state"]["messages"] == 0)
    pair.api("STREAM.DELETE.S")
    assert pair.api("CONSUMER.NAMES.O")["consumers"] == ["C"]


@pytest.mark.parametrize("policy", ["explicit", "none"])
def test_a_given_consumer_must_acknowledge_by_flow_control(pair: CopyPair, policy: str) -> None:
    pair.fill()
    consumer = {"durable_name": "C", "deliver_subject": "to.s", "ack_policy": policy}
    pair.api("CONSUMER.CREATE.O.C", {"stream_name": "O", "config": consumer})
    source = {"name": "O", "consumer": {"name": "C", "deliver_subject": "to.s"}}
    pair.api("STREAM.CREATE.S", {"name": "S", "sources": [source]})
    pair.api("STREAM.CREATE.M", {"name": "M", "mirror": source})
    for side in pair.sides:
        side.until("S", lambda info: "error" in info["sources"][0])
        side.until("M", lambda info: "error" in info["mirror"])
    pair.api("STREAM.INFO.S")
    pair.api("STREAM.INFO.M")


def test_a_missing_origin_is_told(pair: CopyPair) -> None:
    pair.fill()
    pair.api("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "O"}, {"name": "NONE"}]})
    for side in pair.sides:
        side.until("S", lambda info: info["state"]["messages"] == 6 and "error" in json.dumps(info["sources"]))
    pair.api("STREAM.INFO.S")


REFUSED: list[dict[str, Any]] = [
    {"sources": []},
    {"sources": [None]},
    {"sources": [{}]},
    {"sources": [{"name": "a.b"}]},
    {"sources": [{"name": "O"}, {"name": "O"}]},
    {"sources": [{"name": "O"}, {"name": "O", "filter_subject": ">"}]},
    {"sources": [{"name": "O", "opt_start_seq": 1}, {"name": "O"}]},
    {"sources": [{"name": "O", "filter_subject": "a"}, {"name": "O", "filter_subject": "a.>"}]},
    {"sources": [{"name": "O", "filter_subject": "a..b"}]},
    {"sources": [{"name": "O", "filter_subject": "a", "subject_transforms": [{"src": "a", "dest": "b"}]}]},
    {"sources": [{"name": "O", "subject_transforms": [{"src": "a.*", "dest": "b"}, {"src": "a.b", "dest": "c"}]}]},
    {"sources": [{"name": "O", "subject_transforms": [{"src": "a..", "dest": "b"}]}]},
    {"sources": [{"name": "O", "subject_transforms": [{"src": "a", "dest": "b.{{wildcard(2)}}"}]}]},
    {"sources": [{"name": "O"}], "max_msg_size": 10},
    {"sources": [{"name": "O", "consumer": {"name": "c"}}]},
    {"sources": [{"name": "O", "consumer": {"name": "c", "deliver_subject": "d"}, "filter_subject": "x"}]},
    {
        "sources": [
            {"name": "O", "consumer": {"name": "c", "deliver_subject": "d"}},
            {"name": "O", "consumer": {"name": "c", "deliver_subject": "e"}},
        ]
    },
    {"sources": [{"name": "O", "external": {"api": "$JS.API", "deliver": ""}}]},
    {"sources": [{"name": "S"}]},
    {"sources": [{"name": "S", "filter_subject": "other"}], "subjects": ["s.>"]},
    {"sources": [{"name": "S", "filter_subject": "s.1"}], "subjects": ["s.>"]},
    {"sources": [{"name": "BACK"}]},
    {"sources": [{"name": "O"}], "subjects": ["o.1"]},
    {"sources": [{"name": "O"}], "retention": "workqueue"},
    {"sources": [{"name": "O"}], "mirror_direct": True},
    {"sources": [{"name": "O"}], "allow_msg_schedules": True},
]


@pytest.mark.parametrize("config", REFUSED, ids=str)
def test_configurations(pair: CopyPair, config: dict[str, Any]) -> None:
    pair.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"], "max_msg_size": 100})
    pair.api("STREAM.CREATE.BACK", {"name": "BACK", "sources": [{"name": "S"}]})
    answer = pair.api("STREAM.CREATE.S", {"name": "S", **config})
    if "error" not in answer:
        pair.api("STREAM.CREATE.S", {"name": "S", **config})
