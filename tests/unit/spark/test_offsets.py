"""Offsets in checkpoints, and whether the places they name are still good."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slipstream.spark.runtime.errors import DataLoss
from slipstream.spark.runtime.retention import RetentionRisk, read_retention
from slipstream.spark.runtime.stream_state import StreamState
from slipstream.spark.source.offsets import Offset, OffsetError, StreamPosition
from slipstream.spark.source.positions import checked, range_start


def test_the_form_in_a_checkpoint() -> None:
    offset = Offset({"B": StreamPosition(7, "1/b"), "A": StreamPosition(1, "2/a")})
    text = json.dumps(offset.to_json())
    assert text == '{"v": 1, "s": {"A": {"q": 1, "id": "2/a"}, "B": {"q": 7, "id": "1/b"}}}'
    assert Offset.from_json(json.loads(text)) == offset
    more = Offset({"A": StreamPosition(9, "2/a", oldest_ns=5, waits=True, joined_at=3)}).to_json()
    assert more["s"]["A"] == {"q": 9, "id": "2/a", "t": 5, "f": 3, "w": True}
    again = Offset.from_json(more).positions["A"]
    assert (again.oldest_ns, again.waits, again.joined_at) == (5, True, 3)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"v": 2, "s": {}},
        {"v": 1, "s": []},
        {"v": 1, "s": {"A": 5}},
        {"v": 1, "s": {"A": {"q": 0, "id": "x"}}},
        {"v": 1, "s": {"A": {"q": "5", "id": "x"}}},
        {"v": 1, "s": {"A": {"q": True, "id": "x"}}},
        {"v": 1, "s": {"A": {"q": 5}}},
        {"v": 1, "s": {"A": {"q": 5, "id": "x", "t": "1"}}},
        {"partition-1": {"index": 3}},
    ],
)
def test_other_offsets_are_refused(value: object) -> None:
    with pytest.raises(OffsetError, match="checkpoint"):
        Offset.from_json(value)


def test_streams_that_moved() -> None:
    begin = Offset({"A": StreamPosition(5, "a"), "B": StreamPosition(9, "b")})
    ends = {
        "A": StreamPosition(8, "a"),
        "B": StreamPosition(9, "b"),
        "C": StreamPosition(3, "c"),
        "D": StreamPosition(7, "d", joined_at=4),
    }
    assert list(begin.streams_with(Offset(ends | {"E": StreamPosition(4, "e", joined_at=4)}))) == [
        ("A", StreamPosition(5, "a"), StreamPosition(8, "a")),
        ("C", StreamPosition(1, "c"), StreamPosition(3, "c")),
        ("D", StreamPosition(4, "d"), StreamPosition(7, "d")),
    ]


STATE = StreamState("A", "id", 10, 20)


@pytest.mark.parametrize("seq", [10, 15, 20, 21])
def test_a_good_place_stays(seq: int) -> None:
    assert checked("A", StreamPosition(seq, "id"), STATE, fail=True) == StreamPosition(seq, "id")


@pytest.mark.parametrize(
    ("position", "state", "words", "instead"),
    [
        (StreamPosition(9, "id"), STATE, "no longer holds messages 9 to 9", StreamPosition(10, "id")),
        (StreamPosition(22, "id"), STATE, "ends at 20", StreamPosition(21, "id")),
        (StreamPosition(15, "old"), STATE, "deleted and created again", StreamPosition(10, "id")),
        (StreamPosition(15, "id"), None, "is gone", None),
    ],
)
def test_losses(
    position: StreamPosition, state: StreamState | None, words: str, instead: StreamPosition | None
) -> None:
    with pytest.raises(DataLoss, match=words):
        checked("A", position, state, fail=True)
    assert checked("A", position, state, fail=False) == instead


def test_replacement_of_older_messages_is_no_loss() -> None:
    def retention() -> RetentionRisk:
        return RetentionRisk(per_subject=1, messages=11)

    assert checked("A", StreamPosition(3, "id"), STATE, fail=True, retention=retention) == StreamPosition(3, "id")
    assert range_start("A", 3, STATE, adjust=False, retention=retention) == 3


DAY_NS = 86_400 * 10**9
BUCKET = RetentionRisk(per_subject=1, messages=50, bytes=5_000, largest_bytes=1_000, now_ns=10 * DAY_NS)


@pytest.mark.parametrize(
    ("facts", "replaced"),
    [
        ({}, True),
        ({"per_subject": 0}, False),
        ({"messages": 0}, False),  # the newest message of each subject would be there
        ({"per_subject": 1000}, False),  # no subject can have so many
        ({"until_acked": True}, False),
        ({"max_messages": 50}, False),
        ({"max_messages": 51}, True),
        ({"max_bytes": 5_500}, False),
        ({"max_bytes": 6_000}, True),
        ({"max_bytes": 9_000, "largest_bytes": 10**6}, False),
        ({"max_bytes": 10_000, "largest_bytes": 10**6}, True),
        ({"max_age_ns": DAY_NS}, False),
        ({"max_age_ns": DAY_NS + 1}, True),
    ],
)
def test_whether_replacement_explains_what_is_missing(facts: dict[str, int], replaced: bool) -> None:
    """Nothing that is missing was stored before the ninth day."""
    assert replace(BUCKET, **facts).replaced(9 * DAY_NS) is replaced  # type: ignore[arg-type]


def test_a_stream_that_was_quiet_a_moment_ago_has_not_aged() -> None:
    bucket = replace(BUCKET, max_age_ns=DAY_NS)
    assert not bucket.replaced(0)
    assert bucket.replaced(0, quiet_ns=DAY_NS - 1)
    assert not bucket.replaced(0, quiet_ns=DAY_NS)
    assert bucket.replaced(None), "age does not matter"


def test_the_facts_of_a_stream() -> None:
    config: dict[str, object] = {"max_msgs": 9, "max_bytes": 99, "max_msgs_per_subject": 3, "max_age": 7}
    info = {"config": config, "state": {"messages": 4, "bytes": 44}, "ts": "1970-01-01T00:00:01Z"}
    assert read_retention(info, 100, 0) == RetentionRisk(3, 4, 44, 9, 99, 100, 7, False, 10**9)
    new = {**config, "discard": "new", "max_msg_size": 5, "retention": "workqueue"}
    assert read_retention({**info, "config": new}, 100, 0) == RetentionRisk(3, 4, 44, 0, 0, 5, 7, True, 10**9)
    bare = {"config": {"max_msgs": -1}, "state": {"messages": 0, "bytes": 0}}
    assert read_retention(bare, 100, 5) == RetentionRisk(largest_bytes=100, now_ns=5)


def test_a_start_that_is_too_old() -> None:
    assert range_start("A", 12, STATE, adjust=False) == 12
    assert range_start("A", 3, STATE, adjust=True) == 10
    with pytest.raises(DataLoss, match="outOfRange=adjust"):
        range_start("A", 3, STATE, adjust=False)
