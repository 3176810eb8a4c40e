"""Connections for replicas between servers of different clusters: one from each server to each one that takes part.

Streams of a supercluster are agreed on by all of its servers, so each has to reach each. Such a connection begins as
a gateway does, on the same port and with the same rights; its CONNECT says what it is for. Addresses are those that a
cluster tells of itself: whoever has a gateway to a cluster that takes part dials all of its servers, and again as long
as the cluster tells of them.

What this is not: what replicas say (`ReplicaLinks`), or what messages and interest go by (`supercluster`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slipstream.protocol.texts import CloseReason

if TYPE_CHECKING:
    from slipstream.links.gateways.inbound import InboundGateway
    from slipstream.links.gateways.outbound import OutboundGateway
    from slipstream.links.gateways.remotes import GatewayAddress, RemoteCluster
    from slipstream.links.routes.replica_links import ReplicaLinks

__all__ = ["ReplicaGateways"]

DialReplicas = Callable[["RemoteCluster", "GatewayAddress", bool], None]
"""Connect to a server of a cluster for replicas; at once, or (the third) after a pause."""


class ReplicaGateways:
    """Those of one server.

    Args:
        dial: connects.
        ready: is told of one whose handshake is over.
    """

    def __init__(self, dial: DialReplicas, ready: Callable[[InboundGateway | OutboundGateway], None]) -> None:
        self.links: ReplicaLinks | None = None  # None: this server takes no part
        self._dial = dial
        self._ready = ready
        self._dialled: dict[str, set[str]] = {}  # addresses by cluster, under way or there

    def meet(self, remote: RemoteCluster) -> None:
        """A cluster that takes part is reached, or told of its servers anew: dial those that are not."""
        if self.links is None:
            return
        dialled = self._dialled.setdefault(remote.name, set())
        for address in remote.addresses():
            if address.shown not in dialled:
                dialled.add(address.shown)
                self._dial(remote, address, False)

    def is_wanted(self, remote: RemoteCluster, address: GatewayAddress) -> bool:
        """Whether a server is still to be dialled; if not, it may be again when its cluster tells of it."""
        if self.links is not None and address.shown in remote.urls():
            return True
        self._dialled.get(remote.name, set()).discard(address.shown)
        return False

    def begin(self, link: InboundGateway | OutboundGateway, *, takes_part: bool) -> None:
        """The peer has said who it is, and whether it takes part: not all servers of a cluster need to."""
        if self.links is None:
            link.end.refuse(CloseReason.PROTOCOL_VIOLATION, "Replication is not configured")
            return
        if not takes_part:
            link.reconnects = False
            link.end.close(CloseReason.ROUTE_REMOVED)
            return
        self.links.began(link)
        if link.end.is_open:
            self._ready(link)

    def message(self, link: InboundGateway | OutboundGateway, group: bytes, body: bytes) -> None:
        """A replica of another server says something."""
        if self.links is not None:
            self.links.message(link, group, body)

    def closed(self, link: InboundGateway | OutboundGateway) -> None:
        """A connection ended; one that was dialled is dialled again."""
        if self.links is not None:
            self.links.closed(link)

    def again(self, link: OutboundGateway) -> None:
        """Dial again, unless there is another connection to the same server, or it takes no part."""
        if link.reconnects:
            self._dial(link.remote, link.address, True)
        else:
            # If that is another one some day, the cluster will tell.
            self._dialled.get(link.remote.name, set()).discard(link.address.shown)
