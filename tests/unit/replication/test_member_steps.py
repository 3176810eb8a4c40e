"""From the members that a group has to those that it should have."""

from __future__ import annotations

import random
from typing import Any

import pytest

from slipstream.jetstream.store.file.replica.votes import Votes
from slipstream.replication.raft.member_steps import SETTLED, WAIT, HandOver, NextMembers, move_of, next_step


def step(
    members: Votes, wanted: list[int], *, node: int = 1, move: int = 1, ready: Any = range(1, 9), **more: Any
) -> Any:
    return next_step(node, members, wanted, move, set(ready), **more)


def test_those_that_are_missing_learn_first() -> None:
    assert step(Votes(voters=[1, 2, 3]), [1, 2, 3, 4, 5]) == NextMembers((("learner", 4),))
    assert step(Votes(voters=[1, 2, 3], learners=[4]), [1, 2, 3, 4, 5]) == NextMembers((("learner", 5),))
    learning = Votes(voters=[1, 2, 3], learners=[4, 5])
    assert step(learning, [1, 2, 3, 4, 5], ready=[1, 2, 3, 4]) == WAIT
    assert step(learning, [1, 2, 4, 5]) == NextMembers((("voter", 4), ("voter", 5), ("gone", 3)))


def test_who_left_and_has_not_said_so_is_no_member() -> None:
    assert step(Votes(voters=[1, 2]), [1, 2, 3], gone=[3]) == WAIT
    assert step(Votes(voters=[1, 2]), [1, 2, 3, 4], gone=[3]) == NextMembers((("learner", 4),))


def test_a_joint_state_is_left_by_who_stays() -> None:
    assert step(Votes(voters=[1, 2, 4], outgoing=[1, 2, 3]), [9]) == NextMembers(())
    assert step(Votes(voters=[1, 2, 4], outgoing=[1, 2, 3]), [1, 2, 4], node=3) == HandOver(1)
    assert step(Votes(voters=[1, 2, 4], outgoing=[1, 2, 3]), [1, 2, 4], node=3, ready=[]) == WAIT


def test_a_leader_that_is_not_wanted_hands_over() -> None:
    assert step(Votes(voters=[1, 2, 3]), [2, 3]) == HandOver(2)
    assert step(Votes(voters=[1, 2, 3]), [2, 3], ready=[1, 3]) == HandOver(3)
    assert step(Votes(voters=[1, 2, 3]), [2, 3], ready=[1]) == WAIT
    # Nobody who is wanted votes yet: they do first, and it stays.
    assert step(Votes(voters=[1, 2], learners=[4, 5]), [4, 5]) == NextMembers((("voter", 4), ("voter", 5), ("gone", 2)))
    assert step(Votes(voters=[1], learners=[4]), [4]) == NextMembers((("voter", 4),))


def test_another_wish_replaces_the_one_before() -> None:
    assert step(Votes(voters=[1, 2, 3], learners=[4], move=1), [1, 2, 3], move=2) == NextMembers((("gone", 4),))
    assert step(Votes(voters=[1, 2, 3], move=2), [1, 2, 4], move=1) == WAIT  # not heard of yet
    # It says in the log which wish is fulfilled, before it says so to others.
    assert step(Votes(voters=[1, 2, 3], move=1), [1, 2, 3], move=2) == NextMembers((("voter", 1),))
    assert step(Votes(voters=[1, 2, 3], move=2), [3, 2, 1], move=2) == SETTLED


@pytest.mark.parametrize("seed", range(50))
def test_any_wish_is_fulfilled_whoever_leads(seed: int) -> None:
    rng = random.Random(seed)
    members = Votes(voters=rng.sample(range(1, 8), rng.randrange(1, 6)))
    leader, move, wanted = members.voters[0], 0, members.voters
    for number in range(60):
        if number < 40 and rng.random() < 0.2:
            wanted, move = rng.sample(range(1, 8), rng.randrange(1, 6)), move + 1
        if rng.random() < 0.3:
            leader = rng.choice([*members.voters, *members.outgoing])
        found = step(members, wanted, node=leader, move=move)
        if isinstance(found, HandOver):
            leader = found.to
            assert leader in members.voters
        elif isinstance(found, NextMembers):
            members = applied(members, found, move)
            assert members.voters and leader in [*members.voters, *members.outgoing]
    assert step(members, wanted, node=leader, move=move) == SETTLED and set(members.voters) == set(wanted)


def applied(members: Votes, change: NextMembers, move: int) -> Votes:
    """As Raft applies it."""
    if not change.changes:
        return Votes(voters=members.voters, learners=members.learners, move=move)
    voters, learners = set(members.voters), set(members.learners)
    for kind, node in change.changes:
        voters.discard(node)
        learners.discard(node)
        if kind != "gone":
            (voters if kind == "voter" else learners).add(node)
    outgoing = members.voters if len(change.changes) > 1 else []
    return Votes(voters=sorted(voters), learners=sorted(learners), outgoing=outgoing, move=move)


def test_the_wish_of_an_entry() -> None:
    number = (7).to_bytes(8, "big")
    assert move_of(b"\x08\x02\x12\x04\x08\x01\x18\x05\x1a\x08" + number) == 7
    assert move_of(b"\x1a\x08" + number) == 7
    assert [move_of(data) for data in (b"", b"\x08\x02", b"\x12\x02\x18\x05", b"\x1a\x03abc", b"\x12\xff")] == [0] * 5
