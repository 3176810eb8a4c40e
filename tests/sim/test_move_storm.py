"""A stream that moves between servers in a storm: seeds that must hold, and broken promises that are caught."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.replication import member_moves
from slipstream.replication.group import Group
from slipstream.replication.member_steps import next_step
from slipstream.replication.meta.entries import Assignment
from support.move_world import MovingStorm

SEEDS = 40
BLOCKS = 10


@pytest.mark.parametrize("block", range(BLOCKS))
def test_seeds_hold(block: int) -> None:
    acked = moves = 0
    for seed in range(block, SEEDS, BLOCKS):
        more: dict[str, Any] = {"padding": 3000, "max_msgs": 5} if seed % 3 == 2 else {}
        storm = MovingStorm(seed, **more).run()
        acked += len(storm.acked)
        moves += storm.moves
    assert acked > 20 and moves > 10  # there was something to lose, and much to do


def back_at_once(node: int, members: Any, wanted: Any, move: int, ready: Any, gone: Any) -> Any:
    """A server that left is a member again before it has removed what it had."""
    del gone
    return next_step(node, members, wanted, move, ready)


MUTANTS: dict[str, tuple[Any, str, Any, int]] = {
    "servers that are not wanted leave at once": (Assignment, "hosts", property(lambda one: one.peers), 0),
    "who forgot what it had votes all the same": (Group, "may_vote", property(lambda _: True), 21),
    "who left is a member before its files are gone": (member_moves, "next_step", back_at_once, 15),
}
"""What is replaced, and the seed to look at first."""


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_promise_is_caught(mutant: str) -> None:
    target, name, new, first = MUTANTS[mutant]
    with mock.patch.object(target, name, new):
        for seed in (first, *range(60)):
            try:
                MovingStorm(seed).run()
            except AssertionError:
                return
    pytest.fail("nobody noticed")
