"""The servers of a cluster: known to all, added when they are heard of, taken out when somebody asks for it.

    tick ──on the meta group's leader──► servers that changed are told to all, the next change of membership is proposed
    remove ──► agreed on that it is removed ──► out of the meta group ──► answered
    removed, or another incarnation has its place ──► its streams are assigned to others

What this is not: which streams a server keeps (`hosting`), and how they get there (`member_moves`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.api import bodies
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson import JsonError
from slipstream.jetstream.gojson.bind import Field, GoStruct
from slipstream.jetstream.gojson.scalars import STRING
from slipstream.replication.ids import short_id
from slipstream.replication.meta.entries import Node
from slipstream.replication.meta.membership import next_change
from slipstream.replication.meta.moves import without_removed

if TYPE_CHECKING:
    from slipstream.replication.coordinator import ClusterPlace
    from slipstream.replication.meta.group import MetaGroup
    from slipstream.replication.meta.placement import Surroundings
    from slipstream.replication.peer_calls import PeerCalls

__all__ = ["REMOVED", "ClusterServers"]

REMOVED: Final = "removed"
"""What a server is told that was removed, and does not know."""
_CHANGE_TICKS: Final = 3
_ASSIGNED_AT_ONCE: Final = 200
Answered = Callable[[ApiError | None], None]


class _RemoveServer(msgspec.Struct):
    peer: str = ""
    peer_id: str = ""


_REMOVE_SERVER: Final = GoStruct(
    "JSApiMetaServerRemoveRequest", _RemoveServer, [Field("peer", STRING), Field("peer_id", STRING)]
)


class ClusterServers:
    """As this server has them; it acts while it leads the meta group."""

    def __init__(
        self,
        place: ClusterPlace,
        calls: PeerCalls,
        name_of: Callable[[int], str],
        around: Callable[[], Surroundings],
    ) -> None:
        """None is known yet."""
        self._around = around
        self._place = place
        self._calls = calls
        self._name_of = name_of
        self._ticks = 0
        self._removing: tuple[int, Answered] | None = None

    def tick(self) -> None:
        """A tick has passed."""
        meta = self._place.meta
        if meta is None or meta.draft is None:
            self._answer(TableError(table.CLUSTER_NOT_AVAIL))
            return
        self._introduce(meta)
        if self._removing is not None and self._removing[0] not in meta.votes.voters:
            self._answer(None)
        self._ticks += 1
        if self._ticks % _CHANGE_TICKS == 0:
            if not meta.is_changing:
                self._change(meta)
            self._assign_anew(meta)

    def remove(self, body: bytes, answered: Answered) -> None:
        """Take a server out of the cluster, by its name or its number; `answered` is told when it is.

        Raises:
            ApiError: there is no such server, or another one is being removed.
        """
        meta = self._place.meta
        if meta is None or meta.draft is None:
            raise TableError(table.CLUSTER_NOT_AVAIL)
        if bodies.is_empty(body):
            raise TableError(table.BAD_REQUEST)
        try:
            asked = _REMOVE_SERVER.decode(body)
        except JsonError as error:
            raise TableError(table.INVALID_JSON, err=str(error)) from error
        if self._removing is not None:
            raise TableError(table.CLUSTER_SERVER_MEMBER_CHANGE_INFLIGHT)
        members = (*meta.votes.voters, *meta.votes.learners)
        found = next((one for one in members if self._is(one, asked)), None)
        if found is None:
            raise TableError(table.CLUSTER_SERVER_NOT_MEMBER)
        if meta.votes.voters == [found]:
            raise TableError(table.RAFT_GENERAL, err="the last server of a cluster cannot be removed")
        node = meta.draft.nodes.get(found) or Node(
            id=found, name=self._name_of(found), cluster=self._place.node.cluster
        )
        self._removing = (found, answered)
        meta.propose([msgspec.structs.replace(node, removed=True)], lambda _: None)

    def _is(self, member: int, asked: _RemoveServer) -> bool:
        return short_id(member) == asked.peer_id if asked.peer_id else self._name_of(member) == asked.peer

    def _answer(self, error: ApiError | None) -> None:
        if self._removing is not None:
            (_, answered), self._removing = self._removing, None
            answered(error)

    def _introduce(self, meta: MetaGroup) -> None:
        """Every member that is heard of is known to all as it is; one whose place another incarnation took is not."""
        draft, voters = meta.draft, meta.votes.voters
        assert draft is not None
        heard = (self._place.node, *self._place.reachable.values())
        for node in heard:
            before = draft.nodes.get(node.id)
            if node.id in voters and before != node and not (before is not None and before.removed):
                meta.propose([node], lambda _: None)
            elif before is not None and before.removed and node.id != self._place.node.id and node.id not in voters:
                self._calls.ask([node.id], REMOVED, b"", lambda *_: None)()
        current = {node.name: node.id for node in heard if node.id in voters}
        for node in list(draft.nodes.values()):
            if not node.removed and node.id not in voters and node.id != current.get(node.name, node.id):
                meta.propose([msgspec.structs.replace(node, removed=True)], lambda _: None)

    def _assign_anew(self, meta: MetaGroup) -> None:
        """Streams of removed servers get others, many in one step."""
        draft = meta.draft
        assert draft is not None
        if not any(node.removed and draft.load_of(node.id).streams for node in draft.nodes.values()):
            return
        found = (without_removed(one, draft, self._around()) for one in draft.assignments())
        changed = list(islice((one for one in found if one is not None), _ASSIGNED_AT_ONCE))
        if changed:
            meta.propose(changed, lambda _: None)

    def _change(self, meta: MetaGroup) -> None:
        assert meta.draft is not None
        own = self._place.node.id
        if own in meta.state.nodes and meta.state.nodes[own].removed:
            self._hand_over(meta, own)
            return
        changes = next_change(
            meta.votes, own, meta.draft.nodes, self._place.reachable, meta.has_caught_up, self._name_of
        )
        if changes is not None:
            meta.change(changes)

    def _hand_over(self, meta: MetaGroup, own: int) -> None:
        """This server is to go: another one takes it out."""
        if self._removing is not None and self._removing[0] == own:
            self._answer(None)
        lags: Mapping[int, int] = meta.lags()
        others = [voter for voter in meta.votes.voters if voter != own and voter in self._place.reachable]
        if others:
            meta.transfer(min(others, key=lambda other: lags.get(other, 0)))
