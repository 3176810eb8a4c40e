"""What the meta group's log holds: one message a fact, under a subject that names what it is about.

    node.<id>                     a server: its name, cluster, tags and room
    stream.<account>.<stream>     an assignment: a stream, its configuration and the servers that keep it

The last message of a subject counts, an empty one says that there is nothing any more. So the log is a key-value
bucket: the store's own index, compaction and recovery are all it needs, and there is no snapshot apart from it. (Notes
of a store, a kilobyte each and a thousand at most, are too few and too small for configurations.)
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec

from slipstream.errors import StorageFault
from slipstream.jetstream.config.stored import from_stored, to_stored
from slipstream.jetstream.config.structs import Placement, StreamConfig
from slipstream.jetstream.gojson import JsonError

__all__ = ["Assignment", "MoveOrigin", "Node", "decode", "encode", "node_key", "stream_key"]

_NODE: Final = b"node."
_STREAM: Final = b"stream."


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A server as a member of the cluster."""

    id: int
    name: str
    cluster: str
    tags: list[str] = []
    max_memory: int = 0
    max_storage: int = 0
    incarnation: bytes = b""
    """Makes the number of a server that lost its store another one; see `node_id`."""
    removed: bool = False
    """It was taken out of the cluster, or another incarnation has its place: this number never takes part again."""


class MoveOrigin(msgspec.Struct, frozen=True, array_like=True):
    """Where a stream was before its servers began to change, and where it goes again if that is cancelled."""

    peers: list[int]
    cluster: str
    replicas: int
    placement: Placement | None
    is_move: bool
    """Whether it is to go elsewhere; else it gets more or fewer copies."""
    since_ns: int


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A stream, and who keeps it."""

    account: str
    config: StreamConfig
    uid: bytes
    """Of the stream's store, on every server: a stream made again under the same name has another."""
    group: int
    """Of the stream: a number that was never used before."""
    peers: list[int]
    """The servers that are to keep it."""
    preferred: int
    """Which of them should lead at first."""
    cluster: str
    created_ns: int
    restoring: bool = False
    """Whether a backup is still to fill it: it is not open to anybody."""
    founders: list[int] = []
    """Those that its group began with; none: it has one copy and no group."""
    moving_from: list[int] = []
    """While its servers change: those that kept it before, and still do; none: it does not move."""
    move: int = 0
    """How often other servers were wished for: what is said of an earlier wish does not count."""
    floor_term: int = 0
    floor_index: int = 0
    """An entry of its group that is behind the last change of servers: see `votes.Votes`."""
    gone: list[tuple[int, int]] = []
    """Servers that left its group and have not said yet that their files are removed, each with the wish that they left
    by. Until they have, they are no members again: what they still have would be taken for what they promise."""
    origin: MoveOrigin | None = None
    """While its servers change because somebody asked for it."""

    @property
    def name(self) -> str:
        """The stream's."""
        return self.config.name

    @property
    def is_replicated(self) -> bool:
        """Whether there is a Raft group for it; a stream with one copy needs none, unless it moves."""
        return bool(self.founders)

    @property
    def is_moving(self) -> bool:
        """Whether its servers change."""
        return bool(self.moving_from)

    def left_at(self, node: int) -> int:
        """The wish by which this server left, if its files are to go; else 0."""
        return next((move for peer, move in self.gone if peer == node), 0)

    @property
    def hosts(self) -> list[int]:
        """The servers that keep it now: those it leaves go when all is where it should be."""
        return [*self.peers, *(peer for peer in self.moving_from if peer not in self.peers)]


class _StoredAssignment(msgspec.Struct, array_like=True, kw_only=True):
    """As written: the configuration is what a stream's store has, so that it outlives changes of our structures."""

    account: str
    config: bytes
    uid: bytes
    group: int
    peers: list[int]
    preferred: int
    cluster: str
    restoring: bool = False
    founders: list[int] | None = None
    moving_from: list[int] = []
    move: int = 0
    floor_term: int = 0
    floor_index: int = 0
    gone: list[tuple[int, int]] = []
    origin: MoveOrigin | None = None


def node_key(node_id: int) -> bytes:
    """The subject of a server's message."""
    return b"%s%d" % (_NODE, node_id)


def stream_key(account: str, stream: str) -> bytes:
    """The subject of an assignment. Names of accounts may have any characters."""
    return _STREAM + quote(account, safe="").replace(".", "%2E").encode() + b"." + stream.encode()


def encode(entry: Node | Assignment) -> tuple[bytes, bytes]:
    """Subject and payload of a message."""
    if isinstance(entry, Node):
        return node_key(entry.id), msgspec.msgpack.encode(entry)
    stored = _StoredAssignment(
        account=entry.account,
        config=to_stored(entry.config, entry.created_ns),
        uid=entry.uid,
        group=entry.group,
        peers=entry.peers,
        preferred=entry.preferred,
        cluster=entry.cluster,
        restoring=entry.restoring,
        founders=entry.founders,
        moving_from=entry.moving_from,
        move=entry.move,
        floor_term=entry.floor_term,
        floor_index=entry.floor_index,
        gone=entry.gone,
        origin=entry.origin,
    )
    return stream_key(entry.account, entry.name), msgspec.msgpack.encode(stored)


def decode(subject: bytes, payload: bytes) -> Node | Assignment:
    """What a message says.

    Raises:
        StorageFault: it is not one that `encode` gave.
    """
    try:
        if subject.startswith(_NODE):
            node = msgspec.msgpack.decode(payload, type=Node)
            if node_key(node.id) == subject:
                return node
        elif subject.startswith(_STREAM):
            found = _decode_assignment(payload)
            if stream_key(found.account, found.name) == subject:
                return found
    except (msgspec.DecodeError, JsonError, UnicodeError) as error:
        raise StorageFault(f"an entry of the meta group cannot be read: {error}") from error
    raise StorageFault(f"an entry of the meta group has the wrong subject: {subject!r}")


def _decode_assignment(payload: bytes) -> Assignment:
    stored = msgspec.msgpack.decode(payload, type=_StoredAssignment)
    config, created_ns = from_stored(stored.config)
    founders = stored.founders
    if founders is None:  # written before streams could move
        founders = stored.peers if len(stored.peers) > 1 else []
    return Assignment(
        account=stored.account,
        config=config,
        uid=stored.uid,
        group=stored.group,
        peers=stored.peers,
        preferred=stored.preferred,
        cluster=stored.cluster,
        created_ns=created_ns,
        restoring=stored.restoring,
        founders=founders,
        moving_from=stored.moving_from,
        move=stored.move,
        floor_term=stored.floor_term,
        floor_index=stored.floor_index,
        gone=stored.gone,
        origin=stored.origin,
    )
