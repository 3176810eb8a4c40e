"""Where a job's streams are, and what it says when a server refuses."""

from __future__ import annotations

import pytest

from slipstream.bulk import BulkError
from slipstream.spark.jobs.ranges import place, reason
from slipstream.spark.runtime.target import Reach


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
