"""A Raft group over the store's own log: seeds that must hold, and stores that break a promise and must be caught.

The campaign `raft` runs more of the same seeds.
"""

from __future__ import annotations

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from support.raft_sim import Violation
from support.raft_store_sim import StoreMutant, StoreSim

SEEDS = 40
"""In every run; a seed takes some hundredths of a second."""

SHORT_SEEDS = 1_000
"""With less time for trouble each."""

BLOCKS = 8
"""Tests that share them, so that each is short."""


@pytest.mark.parametrize("block", range(BLOCKS))
def test_seeds_hold(block: int) -> None:
    acked = elections = 0
    # In odd seeds nodes are away for so long that they may need whole segments.
    for seed in range(block, SEEDS, BLOCKS):
        sim = StoreSim(seed, nodes=5 if seed % 5 == 0 else 3).run()
        acked += len(sim.acked_messages)
        elections += len(sim.leaders)
    assert acked > SEEDS / BLOCKS and elections >= SEEDS / BLOCKS  # there was something to lose


@pytest.mark.parametrize("block", range(BLOCKS))
def test_short_seeds_hold(block: int) -> None:
    acked = sum(len(StoreSim(seed, steps=60).run().acked_messages) for seed in range(block, SHORT_SEEDS, BLOCKS))
    assert acked > SHORT_SEEDS / BLOCKS


def test_a_unit_whose_end_is_rewritten() -> None:
    """A process that starts again shows the part in the segment before: what it had shown until then."""
    StoreSim(700_414).run()


def test_a_segment_with_a_unit_that_was_given_up_goes_last() -> None:
    """After a start it counts the sequences of that unit, or it goes before the file of what is applied says so."""
    StoreSim(701_304).run()


def test_the_last_file_of_a_log_stays_until_there_is_another() -> None:
    """A log that was cut goes on in a segment that has no file yet."""
    StoreSim(703_514).run()


def test_a_seed_is_the_whole_story() -> None:
    one, other, third = (StoreSim(seed).run().trace.hexdigest() for seed in (7, 7, 8))
    assert one == other != third


@pytest.mark.parametrize("mutant", StoreMutant)
def test_a_broken_store_is_caught(mutant: StoreMutant) -> None:
    for seed in range(200):
        try:
            StoreSim(seed, mutant=mutant).run()
        except Violation as caught:
            with pytest.raises(Violation) as again:
                StoreSim(seed, mutant=mutant).run()
            assert str(again.value) == str(caught)
            return
    pytest.fail(f"nobody noticed that {mutant.value}")
