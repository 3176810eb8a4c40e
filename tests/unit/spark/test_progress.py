"""Lag from the progress of a query."""

from __future__ import annotations

import json

from slipstream.spark.source.offsets import Offset, StreamPosition
from slipstream.spark.source.progress import lag


class Progress:
    """As listeners get it."""

    def __init__(self, fields: dict[str, object]) -> None:
        self.json = json.dumps(fields)


def offset(**places: int) -> dict[str, object]:
    return Offset({name: StreamPosition(seq, "1/x") for name, seq in places.items()}).to_json()


def test_lag_by_stream() -> None:
    fields: dict[str, object] = {"sources": [{"endOffset": offset(A=11, B=5), "latestOffset": offset(A=31, B=5, C=8)}]}
    assert lag(fields) == {"A": 20, "B": 0, "C": 7}
    assert lag(Progress(fields)) == {"A": 20, "B": 0, "C": 7}


def test_offsets_as_texts() -> None:
    assert lag({"sources": [{"endOffset": json.dumps(offset(A=3)), "latestOffset": json.dumps(offset(A=4))}]}) == {
        "A": 1
    }


def test_nothing_to_tell() -> None:
    assert lag(None) == {}
    assert lag({"sources": []}) == {}
    assert lag({"sources": [{"endOffset": None, "latestOffset": offset(A=4)}]}) == {}
    assert lag({"sources": [{"endOffset": {"logOffset": 5}, "latestOffset": {"logOffset": 6}}]}) == {}
