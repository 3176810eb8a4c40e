"""Groups with nothing to do, and what happens to them: seeds that must hold, and servers that never wake."""

from __future__ import annotations

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.replication.raft.quiescence import Quiescence
from support.quiet_world import QuietStorm

SEEDS = 30
BLOCKS = 6


@pytest.mark.parametrize("block", range(BLOCKS))
def test_seeds_hold(block: int) -> None:
    kinds: set[str] = set()
    for seed in range(block, SEEDS, BLOCKS):
        kinds |= QuietStorm(seed, nodes=5 if seed % 5 == 0 else 3).run().kinds
    assert len(kinds) > 4


def never_wakes(quiescence: Quiescence, node: int) -> None:
    """A server that is lost, silent or disagrees wakes nobody."""


def never_tells(quiescence: Quiescence, group: int) -> None:
    """Who ends does not say so, and is counted as if it rested."""
    quiescence._members.pop(group, None)


@pytest.mark.parametrize(("method", "mutant"), [("_wake", never_wakes), ("remove", never_tells)])
def test_servers_that_never_wake_are_caught(method: str, mutant: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quiescence, method, mutant)
    for seed in range(30):
        try:
            QuietStorm(seed).run()
        except AssertionError:
            return
    pytest.fail("nobody noticed")
