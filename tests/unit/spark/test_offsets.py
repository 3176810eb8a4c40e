"""Offsets in checkpoints, and whether the places they name are still good."""

from __future__ import annotations

import json

import pytest

from slipstream.spark.errors import DataLoss
from slipstream.spark.offsets import Offset, OffsetError, Position
from slipstream.spark.positions import StreamState, checked, range_start


def test_the_form_in_a_checkpoint() -> None:
    offset = Offset({"B": Position(7, "1/b"), "A": Position(1, "2/a")})
    text = json.dumps(offset.to_json())
    assert text == '{"v": 1, "s": {"A": {"q": 1, "id": "2/a"}, "B": {"q": 7, "id": "1/b"}}}'
    assert Offset.from_json(json.loads(text)) == offset


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
        {"partition-1": {"index": 3}},
    ],
)
def test_other_offsets_are_refused(value: object) -> None:
    with pytest.raises(OffsetError, match="checkpoint"):
        Offset.from_json(value)


def test_streams_that_moved() -> None:
    begin = Offset({"A": Position(5, "a"), "B": Position(9, "b")})
    end = Offset({"A": Position(8, "a"), "B": Position(9, "b"), "C": Position(3, "c")})
    assert list(begin.streams_with(end)) == [
        ("A", Position(5, "a"), Position(8, "a")),
        ("C", Position(1, "c"), Position(3, "c")),
    ]


STATE = StreamState("A", "id", 10, 20)


@pytest.mark.parametrize("seq", [10, 15, 20, 21])
def test_a_good_place_stays(seq: int) -> None:
    assert checked("A", Position(seq, "id"), STATE, fail=True) == Position(seq, "id")


@pytest.mark.parametrize(
    ("position", "state", "words", "instead"),
    [
        (Position(9, "id"), STATE, "no longer holds messages 9 to 9", Position(10, "id")),
        (Position(22, "id"), STATE, "ends at 20", Position(21, "id")),
        (Position(15, "old"), STATE, "deleted and created again", Position(10, "id")),
        (Position(15, "id"), None, "is gone", None),
    ],
)
def test_losses(position: Position, state: StreamState | None, words: str, instead: Position | None) -> None:
    with pytest.raises(DataLoss, match=words):
        checked("A", position, state, fail=True)
    assert checked("A", position, state, fail=False) == instead


def test_replacement_of_older_messages_is_no_loss() -> None:
    bucket = StreamState("KV_b", "id", 10, 20, replaces=True)
    assert checked("KV_b", Position(3, "id"), bucket, fail=True) == Position(3, "id")


def test_a_start_that_is_too_old() -> None:
    assert range_start("A", 12, STATE, adjust=False) == 12
    assert range_start("A", 3, STATE, adjust=True) == 10
    with pytest.raises(DataLoss, match="outOfRange=adjust"):
        range_start("A", 3, STATE, adjust=False)
