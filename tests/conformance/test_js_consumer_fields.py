"""Every field of a consumer's configuration and of a pull request, wrong in every way a JSON value can be.

The fields come from the tables the server reads by, so a new one is tried without anybody thinking of it. nats-server
is asked the same, and the answers are compared to the word.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from slipstream.jetstream.config.structs import CONSUMER_CONFIG
from slipstream.jetstream.consumer import requests
from support.consumer_oracle import ConsumerPair, ListeningOracle
from support.consumer_world import ConsumerWorld

VALUES: list[Any] = [None, True, -1, 0, 1, 1.5, 2**63, "", "x", "1s", "a b", [], [1], [""], {}, {"k": 1}]
# A consumer that is gone before it can be deleted, and one that servers make for each other.
NOT_COMPARED = [("inactive_threshold", 1), ("sourcing", True)]
PULL = {"batch": 1, "no_wait": True}


@pytest.fixture
def pair(listening_oracle: ListeningOracle) -> Iterator[ConsumerPair]:
    both = ConsumerPair(listening_oracle, ConsumerWorld())
    both.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": "memory"})
    yield both
    both.clear()


@pytest.mark.parametrize("field", [field.name for field in CONSUMER_CONFIG.fields])
@pytest.mark.parametrize("base", [{}, {"deliver_subject": "dlv"}], ids=["pull", "push"])
def test_a_field_of_the_configuration(pair: ConsumerPair, field: str, base: dict[str, Any]) -> None:
    for value in VALUES:
        if (field, value) in NOT_COMPARED:
            continue
        config = {"name": "C", "durable_name": "C", "ack_policy": "explicit", **base, field: value}
        answer = pair.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
        if "error" not in answer:
            pair.api("CONSUMER.DELETE.S.C")


@pytest.mark.parametrize("field", [field.name for field in requests._BODY.fields])
@pytest.mark.parametrize("policy", ["", "overflow", "pinned_client", "prioritized"])
def test_a_field_of_a_pull_request(pair: ConsumerPair, field: str, policy: str) -> None:
    group = {"priority_policy": policy, "priority_groups": ["g"]} if policy else {}
    config = {"name": "C", "durable_name": "C", "ack_policy": "explicit", **group}
    pair.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
    for value in VALUES:
        body: dict[str, Any] = {**PULL, **({"group": "g"} if policy else {}), field: value}
        if waits(body):
            continue
        pair.pull(json.dumps(body).encode()).expect(1)
    pair.same_info()


def waits(body: dict[str, Any]) -> bool:
    """Whether a request is good and stays in the queue, so that there is nothing to compare."""
    expires = body.get("expires")
    return body["no_wait"] is None or (type(expires) is int and 0 < expires < 2**63)
