"""A Raft group on simulated disks, network and clock: seeds that must hold, and mutants that must be caught.

The campaign `raft` runs a hundred thousand of the same seeds.
"""

from __future__ import annotations

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from support.raft_sim import Mutant, RaftSim, Violation

SEEDS = 40
"""In every run; a seed takes some hundredths of a second."""

BLOCKS = 8
"""Tests that share them, so that each is short."""

SHOWN = {Mutant.LOST_VOTE: (244,), Mutant.EARLY_VOTE: (200,)}
"""Where to look first: a lost vote shows itself only if a node restarts between two candidates of one term."""


@pytest.mark.parametrize("block", range(BLOCKS))
def test_seeds_hold(block: int) -> None:
    acked = elections = 0
    for seed in range(block, SEEDS, BLOCKS):
        sim = RaftSim(seed, nodes=5 if seed % 5 == 0 else 3).run()
        acked += len(sim.acked)
        elections += len(sim.leaders)
    assert acked > SEEDS / BLOCKS and elections >= SEEDS / BLOCKS  # there was something to lose


def test_a_seed_is_the_whole_story() -> None:
    one, other, third = (RaftSim(seed).run().trace.hexdigest() for seed in (7, 7, 8))
    assert one == other != third


@pytest.mark.parametrize("mutant", Mutant)
def test_a_broken_node_is_caught(mutant: Mutant) -> None:
    for seed in (*SHOWN.get(mutant, ()), *range(400)):
        try:
            RaftSim(seed, mutant=mutant).run()
        except Violation as caught:
            with pytest.raises(Violation) as again:
                RaftSim(seed, mutant=mutant).run()
            assert str(again.value) == str(caught)
            return
    pytest.fail(f"nobody noticed that {mutant.value}")
