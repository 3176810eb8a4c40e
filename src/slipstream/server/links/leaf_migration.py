"""Leaders of streams leave a server that has lost its hub (`jetstream_cluster_migrate` of a remote).

A cluster at the edge whose servers each have a link to a hub: whoever is cut off from the hub cannot hand on what a
stream stores, so another server that may still reach it leads instead. It does so once for each stream while the link
is away: if all are cut off, leaders do not wander.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.links.leafs.remotes import LeafRemote
    from slipstream.server.server import Server

__all__ = ["LeafMigration"]

_LOOK_NS: Final = SECOND_NS  # streams that this server begins to lead meanwhile are found then


class LeafMigration:
    """The remotes of one server that are away."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._away: dict[LeafRemote, asyncio.TimerHandle] = {}
        self._moved: dict[LeafRemote, set[tuple[str, str]]] = {}

    def dialling(self, remote: LeafRemote) -> None:
        """A remote is not connected; without a delay of its own it has one attempt to be."""
        options = remote.options
        if options.jetstream_cluster_migrate and remote not in self._away:
            self._moved[remote] = set()
            self._wait(remote, options.leader_migrate_delay_ns or _LOOK_NS)

    def connected(self, remote: LeafRemote) -> None:
        """It is: streams may be led here again."""
        timer = self._away.pop(remote, None)
        if timer is not None:
            timer.cancel()

    def _wait(self, remote: LeafRemote, delay_ns: int) -> None:
        self._away[remote] = self._server.turns.call_later(delay_ns, lambda: self._look(remote))

    def _look(self, remote: LeafRemote) -> None:
        leafs = self._server.leafnodes
        if leafs is None or leafs.sockets.closed or not (remote.wanted and remote.options.jetstream_cluster_migrate):
            self._away.pop(remote, None)
            return
        jetstream, moved = self._server.jetstream, self._moved[remote]
        if jetstream is not None and jetstream.cluster is not None:
            left = jetstream.cluster.coordinator.move_leaders(remote.account, moved)
            for _, stream in left:
                self._server.log(
                    "INF", f"JetStream leader of '{remote.account} > {stream}' moves: its leafnode is away"
                )
            moved |= left
        self._wait(remote, _LOOK_NS)
