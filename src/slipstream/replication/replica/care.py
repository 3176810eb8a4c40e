"""Whether a replica is whole, and on a leader, whether the others are.

    look, now and then ──► old messages are lost here ──► a leader hands over, a follower asks to be made a learner
                       └─► a learner that is to keep the stream has caught up ──► it is a voter
    a damaged member asks ──► see `repair`

What this is not: what becomes of a replica that cannot be opened (`Replica.damaged`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.file import FileStore
from slipstream.replication.raft.group import Group
from slipstream.replication.raft.marks import ReplicaDamaged
from slipstream.replication.replica.leader_commits import LeaderCommits
from slipstream.replication.replica.repair import REPAIR, TOKEN_BYTES, RepairLeader, new_token

__all__ = ["CaredReplica", "ReplicaCare"]

_NEAR: Final = 64  # entries: whoever misses no more has caught up


class CaredReplica(Protocol):
    """`Replica` is one."""

    title: str
    group: Group | None

    @property
    def leads_now(self) -> bool:
        """Whether the stream runs here."""
        ...

    @property
    def settled_store(self) -> FileStore | None:
        """The store, while it takes part and nothing else is about to happen to it."""
        ...

    @property
    def commits(self) -> LeaderCommits:
        """While it leads."""
        ...

    def tell(self, to: int, kind: int, body: bytes) -> None:
        """Send something that is not Raft's."""
        ...

    def behind(self, to: int) -> None:
        """Offer whole segments to this node."""
        ...

    def drop_copy(self, to: int) -> None:
        """What this node was given is of no use to it."""
        ...

    def damaged(self, error: ReplicaDamaged) -> None:
        """Something is lost: be silent until it is there again."""
        ...


class ReplicaCare:
    """Of one replica."""

    def __init__(
        self,
        node: int,
        replica: CaredReplica,
        ports: Ports,
        peers: Callable[[], Sequence[int]],
        is_moving: Callable[[], bool],
    ) -> None:
        """`peers` are the servers that keep the stream, which change while it `is_moving`."""
        self._node = node
        self._replica = replica
        self._ports = ports
        self._peers = peers
        self._is_moving = is_moving
        self._repairs = RepairLeader()
        self._borne = ""  # what is lost in the copies of others, too
        self._token = b""  # of damage that the leader was told of

    def look(self) -> None:
        """Now and then."""
        replica = self._replica
        group, store = replica.group, replica.settled_store
        if group is None or store is None:
            return
        lost = _lost(store)
        if not lost or lost == self._borne:
            self._token = b""
        elif replica.leads_now:
            self._hand_over(lost, group)
        elif self._node in group.votes.learners:
            replica.damaged(ReplicaDamaged(lost))
        elif group.leader:
            self._token = self._token or new_token(self._ports)
            replica.tell(group.leader, REPAIR, self._token)
        if replica.leads_now:
            self._promote(group, store)

    def repaired(self, store: FileStore) -> None:
        """A copy of what others have was taken: what it lacks nobody has."""
        self._borne = _lost(store)

    def is_back(self, member: int, matched: int) -> bool:
        """On a leader: whether a learner has what it was missing; `matched` is what Raft knows that it has."""
        return self._repairs.is_back(member, matched)

    def steps_down(self) -> None:
        """This one leads no more, or takes no part."""
        self._repairs.clear()

    def asked(self, sender: int, token: bytes) -> None:
        """A damaged replica asks whoever leads; who only thought so must not answer."""
        replica = self._replica

        def confirmed(leads: bool) -> None:
            group, store = replica.group, replica.settled_store
            log = store.replica if store is not None else None
            if not leads or group is None or log is None or not replica.leads_now:
                return
            if not token[0] and not self._can_do_without(sender, group):
                return  # it still takes part, and is needed
            if self._repairs.is_new(sender, token):
                replica.drop_copy(sender)
            step = self._repairs.asked(sender, token, group.votes, log.last_index, group.applied)
            if step == "demote":
                replica.commits.change([("learner", sender)])
            elif step == "offer":
                replica.behind(sender)

        if replica.leads_now and len(token) == TOKEN_BYTES and sender in self._peers():
            replica.commits.confirm(confirmed)

    def _can_do_without(self, member: int, group: Group) -> bool:
        """Whether the others that are there could commit without this one."""
        rest = [voter for voter in group.votes.voters if voter != member]
        return sum(voter in group.caught_up(_NEAR) for voter in rest) > len(rest) // 2

    def _hand_over(self, lost: str, group: Group) -> None:
        """A damaged leader lets one lead that is whole, is there, and has everything."""
        whole = [
            peer
            for peer in group.caught_up(_NEAR)
            if peer != self._node and peer in group.votes.voters and peer not in self._repairs.waiting
        ]
        if whole:
            title = self._replica.title
            self._ports.log("ERR", f"The replica of {title} is damaged, another one is to lead: {lost}")
            lags = group.lags()
            group.transfer(min(whole, key=lambda peer: lags.get(peer, 0)))

    def _promote(self, group: Group, store: FileStore) -> None:
        """A learner that is to keep the stream, and has caught up, is a voter again."""
        votes, log = group.votes, store.replica
        if (
            log is None
            or votes.outgoing
            or not votes.learners
            or self._replica.commits.is_changing
            or self._is_moving()
        ):
            return  # who makes a stream move changes its members
        lags, last = group.lags(), log.last_index
        for learner in votes.learners:
            matched = last - lags.get(learner, last)
            if 0 < matched >= last - _NEAR and learner in self._peers() and self._repairs.is_back(learner, matched):
                self._replica.commits.change([("voter", learner)])
                return


def _lost(store: FileStore) -> str:
    """What of a store that is otherwise whole cannot be read; empty if nothing."""
    seqs, regions = store.lost().seqs, store.report.damaged_regions
    if seqs:
        return f"{len(seqs)} messages cannot be read, the first is {seqs[0]}"
    return f"{regions[0][0]} cannot be read at {regions[0][1]}" if regions else ""
