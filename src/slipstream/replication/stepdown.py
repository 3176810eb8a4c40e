"""Who leads next, when a leader is asked to step down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.api import bodies
from slipstream.jetstream.config.structs import Placement
from slipstream.jetstream.errors import TableError

if TYPE_CHECKING:
    from slipstream.replication.coordinator import Coordinator

__all__ = ["next_leader"]


def next_leader(
    request: bodies.LeaderStepdownRequest, cluster: Coordinator, members: Iterable[int], lags: Mapping[int, int]
) -> int:
    """The server that a leader hands over to.

    Args:
        request: it may ask for a server, for tags, or for a cluster.
        cluster: as this server sees it, which leads.
        members: of the group.
        lags: how much each of them is known to miss.

    Raises:
        TableError: 10005, there is no such server.
    """
    asked = request.placement or Placement()
    others = [peer for peer in members if peer != cluster.node.id]
    if asked.preferred:
        if asked.preferred == cluster.node.name:
            raise _no_peers(f'preferred server "{asked.preferred}" is already leader')
        found = next((peer for peer in others if cluster.name_of(peer) == asked.preferred), None)
        if found is None:
            raise _no_peers(f'preferred server "{asked.preferred}" not known')
        if found not in cluster.online:
            raise _no_peers(f'preferred server "{asked.preferred}" is not connected')
        return found
    there = [peer for peer in others if peer in cluster.online and _fits(cluster, peer, asked)]
    if not there:
        raise _no_peers("no replacement peer connected")
    return min(there, key=lambda peer: lags.get(peer, 0))


def _fits(cluster: Coordinator, peer: int, asked: Placement) -> bool:
    node = cluster.state.nodes.get(peer)
    if node is None:
        return not (asked.tags or asked.cluster)
    tags = {tag.strip().lower() for tag in node.tags}
    return asked.cluster in ("", node.cluster) and all(
        (tag[1:] not in tags) if tag.startswith("!") else tag in tags for tag in map(str.lower, asked.tags)
    )


def _no_peers(text: str) -> TableError:
    return TableError(table.CLUSTER_NO_PEERS, err=text)
