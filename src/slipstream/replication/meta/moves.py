"""Other servers for a stream: how an assignment changes when they are wished for, and when all is where it should be.

    wish ──► peers: who should keep it; moving_from: who kept it so far, and still does ──► the leader sees to it
    cancelled ──► a wish for those that kept it before somebody asked for others (`origin`)
    settled ──► moving_from: nobody; those that are not wanted are gone ──► each removes its files, and says so

A wish replaces the one before it. What the stream's leader says counts for the wish that it names and no other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from msgspec.structs import replace

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.structs import Placement, StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.replication.meta.entries import Assignment, MoveOrigin
from slipstream.replication.meta.placement import Surroundings, place, place_elsewhere
from slipstream.replication.meta.state import MetaState

__all__ = [
    "Left",
    "Settled",
    "cancelled",
    "changed_assignment",
    "check_not_moving",
    "moved_off",
    "noted",
    "wish",
    "without_peer",
    "without_removed",
]


class Settled(msgspec.Struct, array_like=True, tag=1):
    """A stream's leader says that its group has the members that were wished for."""

    account: str
    stream: str
    group: int
    move: int
    """Which wish."""
    term: int
    index: int
    """An entry of the group that is behind all changes for it, and its term."""


class Left(msgspec.Struct, array_like=True, tag=2):
    """A server says that it has removed its files of a group that it left."""

    account: str
    stream: str
    group: int
    node: int
    move: int
    """By which wish it left."""


def changed_assignment(
    existing: Assignment, config: StreamConfig, state: MetaState, around: Surroundings, leader: int
) -> Assignment:
    """What an update makes of an assignment, with as few other servers as it takes.

    Args:
        existing: the assignment.
        config: the configuration that it gets, checked.
        state: what is agreed on, with what is proposed.
        around: who is there.
        leader: who leads the stream, as far as is known; it stays if some have to go.

    Raises:
        TableError: 10005, there are not enough servers.
    """
    copies, old = max(config.num_replicas, 1), existing.peers
    if config.placement is not None and config.placement != existing.config.placement:
        placed = place(config, existing.cluster, state, around, prefer=old)
        origin = _origin(existing, around, is_move=True)
        return wish(replace(existing, config=config, cluster=placed.cluster), placed.peers, origin)
    origin = _origin(existing, around, is_move=False)
    if copies > len(old):
        placed = place(config, existing.cluster, state, around, keep=old)
        return wish(replace(existing, config=config), placed.peers, origin)
    if copies < len(old):
        order = sorted(old, key=lambda peer: (peer != leader, peer not in around.online, old.index(peer)))
        return wish(replace(existing, config=config), order[:copies], origin)
    return replace(existing, config=config)


def check_not_moving(existing: Assignment, *, is_move: bool) -> None:
    """Whether a stream may be wished elsewhere (`is_move`), or get another number of copies.

    Raises:
        TableError: 10124 while it moves; 10226: it is to move while the number of its copies changes.
    """
    origin = existing.origin
    if origin is not None and origin.is_move:
        raise TableError(table.STREAM_MOVE_IN_PROGRESS)
    if is_move and existing.is_moving:
        raise TableError(table.STREAM_MOVE_IN_PROGRESS if origin is None else table.STREAM_RECONFIGURE_IN_PROGRESS)


def cancelled(existing: Assignment) -> Assignment:
    """The assignment on its way back to where it was, with as many copies as it had.

    Raises:
        TableError: 10129, nobody asked for anything else, or that is done.
    """
    origin = existing.origin
    if origin is None:
        raise TableError(table.STREAM_RECONFIGURE_NOT_IN_PROGRESS)
    config = replace(existing.config, num_replicas=origin.replicas, placement=origin.placement)
    if existing.config == config and existing.peers == origin.peers:
        return existing  # it is on its way back
    return wish(replace(existing, config=config, cluster=origin.cluster), origin.peers, origin)


def moved_off(
    existing: Assignment, peer: int, tags: Collection[str], state: MetaState, around: Surroundings
) -> Assignment:
    """The assignment with another server in the place of one, which has these tags and those of the configuration.

    If its cluster has none, all of its servers are others, of another cluster.

    Raises:
        TableError: 10005, there is none; 10124, 10226: its servers change already.
    """
    check_not_moving(existing, is_move=True)
    config, kept = existing.config, [one for one in existing.peers if one != peer]
    placement = config.placement or Placement()
    asked = replace(config, placement=replace(placement, tags=[*placement.tags, *tags]))
    try:
        placed = place(asked, existing.cluster, state, around, keep=kept, avoid=[peer])
    except TableError:
        elsewhere = place_elsewhere(asked, existing.cluster, state, around)
        if elsewhere is None:
            raise
        placed = elsewhere
    moved = replace(existing, cluster=placed.cluster)
    return wish(moved, placed.peers, _origin(existing, around, is_move=True))


def without_peer(existing: Assignment, peer: int, state: MetaState, around: Surroundings) -> Assignment:
    """The assignment with another server in the place of one.

    Raises:
        TableError: 10075, there is no other.
    """
    kept = [one for one in existing.peers if one != peer]
    if len(kept) == len(existing.peers):
        return existing  # it is on its way out
    try:
        placed = place(existing.config, existing.cluster, state, around, keep=kept, avoid=[peer])
    except TableError:
        raise TableError(table.PEER_REMAP) from None
    return wish(existing, placed.peers, _origin(existing, around, is_move=True))


def without_removed(existing: Assignment, state: MetaState, around: Surroundings) -> Assignment | None:
    """The assignment with others in the place of servers that were removed; None: that is not possible, or needless.

    Whoever comes back under the same name without its files has its place again. A stream with one copy stays with its
    name: what is there of it is on that server's disk, or nowhere.
    """
    gone = [peer for peer in existing.peers if peer in state.nodes and state.nodes[peer].removed]
    if not gone:
        return None
    now = {node.name: node.id for node in state.nodes.values() if not node.removed}
    again = {peer: now[state.nodes[peer].name] for peer in gone if state.nodes[peer].name in now}
    peers = [again.get(peer, peer) for peer in existing.peers]
    if not existing.is_replicated:
        return replace(existing, peers=peers, preferred=peers[0]) if again else None
    left = [peer for peer in peers if peer not in gone]
    if len(set(peers)) < len(peers) or len(left) < len(peers):
        kept = list(dict.fromkeys(left))
        try:
            peers = place(existing.config, existing.cluster, state, around, keep=kept, avoid=gone).peers
        except TableError:
            return None  # when there is another server
    return wish(existing, peers)


def _settled(existing: Assignment | None, said: Settled) -> Assignment | None:
    """The assignment when a stream's leader says so; None: it does not count."""
    if existing is None or not existing.is_moving or (existing.group, existing.move) != (said.group, said.move):
        return None
    gone = [(peer, existing.move) for peer in existing.moving_from if peer not in existing.peers]
    return replace(
        existing,
        moving_from=[],
        floor_term=said.term,
        floor_index=said.index,
        gone=[*existing.gone, *gone],
        origin=None,
    )


def _left(existing: Assignment | None, said: Left) -> Assignment | None:
    """The assignment when a server says that its files are removed; None: it does not count."""
    if existing is None or existing.group != said.group or (said.node, said.move) not in existing.gone:
        return None
    return replace(existing, gone=[one for one in existing.gone if one[0] != said.node])


def noted(existing: Assignment | None, said: Settled | Left) -> Assignment | None:
    """The assignment when a server says such a thing; None: it does not count."""
    return _settled(existing, said) if isinstance(said, Settled) else _left(existing, said)


def _origin(existing: Assignment, around: Surroundings, *, is_move: bool) -> MoveOrigin:
    """Where it is; while its servers change already, where it was before that."""
    config = existing.config
    return existing.origin or MoveOrigin(
        existing.peers, existing.cluster, max(config.num_replicas, 1), config.placement, is_move, around.now_ns
    )


def wish(assignment: Assignment, peers: Sequence[int], origin: MoveOrigin | None = None) -> Assignment:
    """The same stream on other servers; `origin`: where it goes again if that is cancelled, None if it cannot be."""
    return replace(
        assignment,
        peers=list(peers),
        preferred=assignment.preferred if assignment.preferred in peers else peers[0],
        moving_from=assignment.hosts,
        move=assignment.move + 1,
        founders=assignment.founders or assignment.peers,  # one copy becomes a group of one, and stays one
        origin=origin,
    )
