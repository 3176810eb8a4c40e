"""A stream that moves between servers in a storm: seeds that must hold, and broken promises that are caught."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.jetstream.store.file.replica.log import ReplicaLog
from slipstream.replication.meta.entries import Assignment
from slipstream.replication.raft.group import Group
from slipstream.replication.replica.files import ReplicaFiles
from support.move_world import MovingStorm

SEEDS = 20
BLOCKS = 5


@pytest.mark.parametrize("block", range(BLOCKS))
def test_seeds_hold(block: int) -> None:
    acked = moves = 0
    for seed in range(block, SEEDS, BLOCKS):
        more: dict[str, Any] = {"padding": 3000, "max_msgs": 5} if seed % 3 == 2 else {}
        storm = MovingStorm(seed, copies=(1, 3)[seed % 2], **more).run()
        acked += len(storm.acked)
        moves += storm.moves
    assert acked > 20 and moves > 10  # there was something to lose, and much to do


SHOWN = {
    "a leader that is no member any more asks for votes": 20046,
    "a copy comes when the log has more": 20088,
    "an answer to a question of an earlier process": 20160,
}
"""Seeds that failed, and why."""


@pytest.mark.parametrize("seed", SHOWN.values(), ids=SHOWN)
def test_seeds_that_failed_once_hold(seed: int) -> None:
    MovingStorm(seed, steps=200, copies=1 if seed % 4 == 0 else 3).run()


MUTANTS: dict[str, tuple[Any, str, Any, int]] = {
    "servers that are not wanted leave at once": (Assignment, "hosts", property(lambda one: one.peers), 0),
    "who forgot what it had votes all the same": (Group, "may_vote", property(lambda _: True), 15),
    "what was alone begins as an empty replica": (ReplicaFiles, "was_made", property(lambda _: True), 0),
    "segments take the place of a log that has more by now": (ReplicaLog, "lacks", lambda *_: True, 20088),
}
"""What is replaced, and the seed to look at first."""


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_promise_is_caught(mutant: str) -> None:
    target, name, new, first = MUTANTS[mutant]
    with mock.patch.object(target, name, new):
        for seed in (first, *range(60)):
            try:
                MovingStorm(seed, copies=1 if target in (ReplicaFiles, ReplicaLog) else 3).run()
            except AssertionError:
                return
    pytest.fail("nobody noticed")
