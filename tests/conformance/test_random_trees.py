"""Random trees of operator mode, in the same two servers: the same clients get the same verdicts from nats-server and
ours, one by one (permissions, scopes, limits, times, revocations) and together (exports, activations, mappings, and
tokens that change under them). The long form is the campaign `trees`."""

from __future__ import annotations

import pytest

from support.random_trees import alone
from support.servers import Both
from support.shared_clients import agree
from support.shared_trees import server_config

ALONE, TOGETHER = 12, 5


@pytest.fixture
def ports(both: Both) -> tuple[int, int]:
    """Those of nats-server and ours; each tree has accounts of its own."""
    pair = both(server_config("tokens"))
    return pair.real.port, pair.ours.port


def test_the_same_verdicts(ports: tuple[int, int]) -> None:
    assert sum(alone(ports, seed) for seed in range(ALONE)) > ALONE


def test_the_same_messages(ports: tuple[int, int]) -> None:
    assert sum(agree(ports, seed).messages for seed in range(TOGETHER)) > 20 * TOGETHER
