"""How a job cuts a stream into work: whole rounds of tasks, of pieces that are not small."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.bulk import BulkError
from slipstream.spark.jobs.ranges import even_pieces, place, reason
from slipstream.spark.target import Reach

MIB = 1 << 20


@pytest.mark.parametrize(
    ("pieces", "size", "at_once", "expected"),
    [
        (3, 351 * MIB, 2, 4),  # two cores would work on three for two rounds
        (1, 100 * MIB, 2, 2),
        (1, 100 * MIB, 64, 3),  # a quarter of the wanted size is small enough
        (1, 10 * MIB, 2, 1),
        (0, 0, 2, 0),
        (4, 512 * MIB, 2, 4),
        (4, 512 * MIB, 1, 4),
    ],
)
def test_pieces_fill_rounds(pieces: int, size: int, at_once: int, expected: int) -> None:
    assert even_pieces(pieces, size, 128 * MIB, at_once) == expected


@given(st.integers(0, 1_000), st.integers(0, 1 << 40), st.integers(1, 1 << 30), st.integers(1, 200))
def test_never_fewer_and_never_a_whole_round_more(pieces: int, size: int, target: int, at_once: int) -> None:
    assert pieces <= even_pieces(pieces, size, target, at_once) < pieces + at_once


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("STREAM.INFO.ORDERS: JetStream is not available here", "JetStream is not available here"),
        ("BULK.STAGE: too many parts", "too many parts"),
        ("BULK.COMMIT.A: staged part invalid: the stream does not take it", "the stream does not take it"),
        ("cannot connect to 127.0.0.1:1: Connection refused", "cannot connect to 127.0.0.1:1: Connection refused"),
        ("message 7 of STREAM.A is damaged", "message 7 of STREAM.A is damaged"),
    ],
)
def test_names_of_calls_are_not_told(text: str, said: str) -> None:
    assert reason(BulkError(text)) == said


def test_places_are_told_without_secrets() -> None:
    assert place(Reach(servers="nats://127.0.0.1:4222")) == "nats://127.0.0.1:4222"
    assert place(Reach(servers="nats://joe:secret@one:4222,tls://token@two")) == "nats://one:4222,tls://two"
