"""The leader of a stream sees to it that its group has the members that the meta group wants.

    every tick, of streams that are led here and move: the next step ──► proposed, or handed over
                                                       settled ──► said to the meta group's leader until it is noted

What this is not: what the next step is (`member_steps`), or who decides (`meta.moves`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from slipstream.replication.meta.entries import Assignment
from slipstream.replication.meta.moves import Settled
from slipstream.replication.raft.member_steps import SETTLED, HandOver, NextMembers, next_step
from slipstream.replication.replica.stream_replica import StreamReplica

__all__ = ["MemberMoves"]

_CAUGHT_UP: Final = 64
"""A member that lacks no more entries than so many may vote: it has them within a moment."""
_SAID_AGAIN_TICKS: Final = 5


class MemberMoves:
    """Of all streams that this server leads."""

    def __init__(self, node: int, say: Callable[[Settled], None]) -> None:
        """For the server `node`; `say` tells the meta group's leader, perhaps in vain."""
        self._node = node
        self._say = say
        self._ticks = 0
        self._said: dict[int, int] = {}  # by group: the wish that was said to be settled

    def tick(self) -> None:
        """A tick has passed."""
        self._ticks += 1

    @property
    def is_due(self) -> bool:
        """Whether what was said and is not noted is said again in this tick."""
        return self._ticks % _SAID_AGAIN_TICKS == 0

    def forget(self, group: int) -> None:
        """This group does not move any more, or is not here."""
        self._said.pop(group, None)

    def look(self, assignment: Assignment, replica: StreamReplica) -> None:
        """Take the next step of a stream that moves and is led here, if the one before is done."""
        group = replica.group
        if group is None or replica.commits.is_changing:
            return
        group.wake()  # while it moves, members are looked at
        ready, gone = group.caught_up(_CAUGHT_UP), [peer for peer, _ in assignment.gone]
        step = next_step(self._node, group.votes, assignment.peers, assignment.move, ready, gone)
        if isinstance(step, NextMembers):
            replica.commits.change(step.changes, assignment.move)
        elif isinstance(step, HandOver):
            group.transfer(step.to)
        elif step == SETTLED and (self._said.get(assignment.group) != assignment.move or self.is_due):
            self._said[assignment.group] = assignment.move
            self._say(
                Settled(
                    assignment.account,
                    assignment.name,
                    assignment.group,
                    assignment.move,
                    group.term,
                    group.applied,
                )
            )
