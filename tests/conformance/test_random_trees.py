"""Random trees of operator mode: the same clients get the same verdicts from nats-server and from ours."""

from __future__ import annotations

import pytest

from support.random_trees import TreeMaker, outcome
from support.servers import Both

TREES = 4


def agree(both: Both, seed: int) -> int:
    """How many clients of a tree came in, which both servers treat alike."""
    tree = TreeMaker(seed).tree()
    pair = both.fresh(tree.config)
    came = 0
    for login in tree.logins:
        real, ours = (outcome(server, login, tree.script) for server in (pair.real, pair.ours))
        assert ours.agrees(real), (seed, ours, real)
        came += ours.came
    pair.real.end()
    pair.ours.end()
    return came


def test_the_same_verdicts(both: Both) -> None:
    assert sum(agree(both, seed) for seed in range(TREES)) > TREES


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_the_same_verdicts_for_many_trees(both: Both) -> None:
    assert sum(agree(both, seed) for seed in range(1000, 3000)) > 2000
