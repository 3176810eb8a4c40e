"""On which servers a new stream is kept. A pure function: the same question has the same answer.

A server is taken if it is of the wanted cluster, has the wanted tags and none of the unwanted ones, and has room for
`max_bytes`. With `unique_tag` no two of a stream's servers have the same tag of that prefix. Of those that can be
taken, replicated streams go where the fewest replicated ones are, then every stream where most room is, then where the
fewest are. What stands in the way of each server that is not taken becomes the error's text, in nats-server's words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.replication.meta.entries import Node
from slipstream.replication.meta.state import MetaState

__all__ = ["Placed", "Surroundings", "place", "place_anywhere", "place_elsewhere"]

_NO_JETSTREAM: Final = "!jetstream"  # the tag of a server that shall get no streams
_ROOM_STEPS: Final = 16
UsedBytes = Mapping[tuple[int, StorageType], int]


@dataclass(frozen=True, slots=True)
class Placed:
    """Servers, and the one that should lead."""

    peers: list[int]
    preferred: int
    cluster: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known of servers beside what they have agreed on."""

    online: Collection[int]
    used_bytes: UsedBytes = field(default_factory=dict)
    """What is stored on a server, if it has told."""
    unique_tag: str = ""
    now_ns: int = 0
    """When that is."""


@dataclass(slots=True)
class _Obstacles:
    """Why servers were not taken."""

    flags: set[str] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)

    # In the order in which they are told.
    TEXTS = (
        *("peer offline", "exclude tag set", "insufficient storage", "server tag not unique"),
        *("miscellaneous issue", "jetstream not enabled in cluster"),
    )

    def text(self) -> str:
        parts = ["no suitable peers for placement", *(text for text in self.TEXTS if text in self.flags)]
        for what, tags in (("tags not matched", self.missing), ("tags excluded", self.excluded)):
            if tags:
                quoted = ", ".join(f"'{tag}'" for tag in dict.fromkeys(tags))
                parts.append(f"{what} [{quoted}]")
        return ", ".join(parts)


def place(
    config: StreamConfig,
    cluster: str,
    state: MetaState,
    around: Surroundings,
    *,
    keep: Sequence[int] = (),
    avoid: Collection[int] = (),
    prefer: Collection[int] = (),
) -> Placed:
    """Choose servers for a new stream, or others for one that is there.

    Args:
        config: the stream's, checked.
        cluster: of who asks; taken if the configuration names none.
        state: what is agreed on, with what is proposed.
        around: who is there.
        keep: servers that have it and stay, whatever is asked of others.
        avoid: servers that must not be taken.
        prefer: servers that have it, and are taken first if they can be.

    Raises:
        TableError: 10005, with what stands in the way.
    """
    wanted = config.placement.cluster if config.placement is not None and config.placement.cluster else cluster
    tags = [_plain(tag) for tag in config.placement.tags] if config.placement is not None else []
    replicas = max(config.num_replicas, 1)
    obstacles = _Obstacles()
    if not state.nodes:
        obstacles.flags.add("jetstream not enabled in cluster")
    fitting = [
        node
        for node in sorted(state.nodes.values(), key=lambda node: node.name)
        if node.cluster == wanted
        and not node.removed
        and node.id not in avoid
        and (node.id in keep or _fits(node, config, tags, state, around, obstacles))
    ]
    order = _order(fitting, config, state, around)
    fitting.sort(key=lambda node: (node.id not in keep, node.id not in prefer, *order(node)))
    if around.unique_tag and not any(tag.removeprefix("!").startswith(around.unique_tag.lower()) for tag in tags):
        fitting = _unique(fitting, around.unique_tag.lower(), obstacles)
    there = sum(node.id in around.online for node in fitting)
    if len(fitting) < replicas or there < replicas // 2 + 1:
        if len(fitting) >= replicas:
            obstacles.flags.add("peer offline")
        raise TableError(table.CLUSTER_NO_PEERS, err=obstacles.text())
    peers = [node.id for node in fitting[:replicas]]
    present = [peer for peer in peers if peer in around.online]
    # Leaders do most of the work: they are spread too.
    return Placed(peers, min(present, key=lambda peer: state.load_of(peer).preferred), wanted)


def place_anywhere(config: StreamConfig, cluster: str, state: MetaState, around: Surroundings) -> Placed:
    """Choose servers for a new stream: of the cluster that it names, or else of that of who asks, or else of another.

    Raises:
        TableError: 10005, with what stands in the way in the first of them.
    """
    try:
        return place(config, cluster, state, around)
    except TableError:
        placed = place_elsewhere(config, cluster, state, around)
        if placed is None:
            raise
        return placed


def place_elsewhere(config: StreamConfig, cluster: str, state: MetaState, around: Surroundings) -> Placed | None:
    """Choose servers of another cluster than this one, if the stream may be there; None: there are none."""
    if config.placement is not None and config.placement.cluster:
        return None
    for name in sorted({node.cluster for node in state.nodes.values()} - {cluster}):
        with suppress(TableError):
            return place(config, name, state, around)
    return None


def _fits(
    node: Node, config: StreamConfig, tags: Sequence[str], state: MetaState, around: Surroundings, why: _Obstacles
) -> bool:
    own = {_plain(tag) for tag in node.tags}
    if _NO_JETSTREAM in own:
        why.flags.add("exclude tag set")
        return False
    for tag in tags:
        if tag.startswith("!") and tag[1:] in own:
            why.excluded.append(tag[1:])
            return False
        if not tag.startswith("!") and tag not in own:
            why.missing.append(tag)
            return False
    if config.max_bytes > 0 and config.max_bytes > _room(node, config.storage, state, around):
        why.flags.add("insufficient storage")
        return False
    return True


def _order(
    nodes: Sequence[Node], config: StreamConfig, state: MetaState, around: Surroundings
) -> Callable[[Node], tuple[int, ...]]:
    """Room is compared in steps: disks that differ by some blocks are alike, and streams are spread over them."""
    step = max((_room(node, config.storage, state, around) for node in nodes), default=0) // _ROOM_STEPS + 1

    def key(node: Node) -> tuple[int, ...]:
        load = state.load_of(node.id)
        replicated = load.replicated if config.num_replicas > 1 else 0
        steps = _room(node, config.storage, state, around) // step
        return node.id not in around.online, replicated, -steps, load.streams

    return key


def _room(node: Node, storage: StorageType, state: MetaState, around: Surroundings) -> int:
    limit = node.max_memory if storage is StorageType.MEMORY else node.max_storage
    taken = max(state.load_of(node.id).reserved[storage], around.used_bytes.get((node.id, storage), 0))
    return max(limit - taken, 0)


def _unique(nodes: Sequence[Node], prefix: str, why: _Obstacles) -> list[Node]:
    """The first of each tag."""
    seen: set[str] = set()
    out = []
    for node in nodes:
        tag = next((tag for tag in map(_plain, node.tags) if tag.startswith(prefix)), None)
        if tag is None or tag in seen:
            why.flags.add("server tag not unique")
        else:
            seen.add(tag)
            out.append(node)
    return out


def _plain(tag: str) -> str:
    return tag.strip().lower()
