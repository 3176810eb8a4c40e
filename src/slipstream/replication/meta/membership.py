"""Which servers are members of the meta group: what its leader changes next. A pure function.

    heard of, not a member ──► learner ──caught up──► voter, in place of the incarnation before it if there was one
    removed ──► gone

One step at a time: the next one follows when this one is agreed on. A joint state, which several changes at once make,
is left first of all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from slipstream.jetstream.store.file.replica.votes import Votes
from slipstream.replication.meta.entries import Node
from slipstream.replication.raft.member_steps import MemberKind

__all__ = ["next_change"]

_CAUGHT_UP: Final = 16  # entries: the rest comes with the next messages

Changes = list[tuple[MemberKind, int]]


def next_change(
    votes: Votes,
    leader: int,
    known: Mapping[int, Node],
    heard: Mapping[int, Node],
    caught_up: Callable[[int, int], bool],
    name_of: Callable[[int], str],
) -> Changes | None:
    """What to propose, None if all is as it should be.

    Args:
        votes: the membership as it is.
        leader: who asks.
        known: all servers that were agreed on.
        heard: servers that can be reached.
        caught_up: whether a member misses at most so many entries.
        name_of: the name of a member.
    """
    if votes.outgoing:
        return []
    removed = {node.id for node in known.values() if node.removed}
    for member in (*votes.learners, *votes.voters):
        if member in removed and member != leader and len(votes.voters) > (member in votes.voters):
            return [("gone", member)]
    for learner in votes.learners:
        node = heard.get(learner)
        if node is not None and caught_up(learner, _CAUGHT_UP):
            before = [voter for voter in votes.voters if name_of(voter) == node.name and voter != leader]
            return [("voter", learner), *(("gone", voter) for voter in before)]
    for number in sorted(heard):
        if number not in removed and number not in votes.voters and number not in votes.learners:
            return [("learner", number)]
    return None
