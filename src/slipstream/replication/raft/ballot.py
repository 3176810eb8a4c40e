"""What a member of a group has promised: its term, its vote and the membership, as they are saved or being saved.

Invariant: while `saving` is not 0, nothing may be said that depends on the votes of that version.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from slipstream.jetstream.store.file.replica.votes import Votes
from slipstream.replication.raft.ports import GroupLog

__all__ = ["Ballot"]


class Ballot:
    """The votes of one member.

    Args:
        node: whose.
        votes: as its file has them.
    """

    __slots__ = ("_knows", "_node", "saving", "votes")

    def __init__(self, node: int, votes: Votes) -> None:
        self._node = node
        self._knows = not votes.floor_index  # what it may have promised before it was made
        self.votes = votes
        """As they were saved last, or are being saved."""
        self.saving = 0
        """Version of those that are being saved; 0: none."""

    @property
    def is_voter(self) -> bool:
        """Whether it is one of those that count, now or until a joint state is left."""
        return self._node in self.votes.voters or self._node in self.votes.outgoing

    @property
    def is_member(self) -> bool:
        """Whether it is told what the group agrees on."""
        return self.is_voter or self._node in self.votes.learners

    @property
    def is_changing(self) -> bool:
        """Whether the membership is on its way to another one."""
        votes = self.votes
        return bool(votes.learners or votes.outgoing or votes.next_learners)

    def may_vote(self, log: GroupLog) -> bool:
        """Whether this log has all that the votes promise: see `Votes.floor_index`."""
        if not self._knows:
            last = (log.terms()[-1][1], log.last_index)
            self._knows = last >= (self.votes.floor_term, self.votes.floor_index)
        return self._knows

    def others(self) -> Collection[int]:
        """All members but this one."""
        votes = self.votes
        return {*votes.voters, *votes.learners, *votes.outgoing, *votes.next_learners} - {self._node}

    def is_majority(self, nodes: Collection[int]) -> bool:
        """Whether these are one of the voters, with this one."""
        voters = self.votes.voters
        return sum(voter == self._node or voter in nodes for voter in voters) > len(voters) // 2

    def begin_saving(self, votes: Votes, term: int, vote: int, commit: int) -> Votes | None:
        """What has to be saved before anything else is done, with the membership of `votes`; None: nothing is new.

        Args:
            votes: the present ones, perhaps with another membership.
            term: that holds now.
            vote: in that term.
            commit: known to be committed, and synced.
        """
        if votes is self.votes and (term, vote) == (votes.term, votes.vote):
            return None
        self.votes = replace(votes, version=votes.version + 1, term=term, vote=vote, commit=commit)
        self.saving = self.votes.version
        return self.votes

    def saved(self, version: int) -> bool:
        """Votes are on disk; whether they are the latest, and nothing waits for them any more."""
        if version != self.saving:
            return False
        self.saving = 0
        return True
