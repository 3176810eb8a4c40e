"""What a server says of itself to its peers: INFO and CONNECT of routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.links.compression import NOT_SUPPORTED, configured_mode
from slipstream.links.documents import PROTO, introduce, subject_lists
from slipstream.links.routes.handshake import RouteConnect, RouteInfo

if TYPE_CHECKING:
    from slipstream.links.routes.link import RouteLink
    from slipstream.links.routes.targets import RouteTarget
    from slipstream.routing.hub import Hub

__all__ = ["Introduction"]


class Introduction:
    """One server as the others of its cluster know it.

    Args:
        hub: identity and options.
        cluster: the name of the cluster.
        dynamic: whether it was made up, and gives way to that of others.
        replicates: whether it takes part in replication.
        gateway_url: where other clusters reach it; empty: nowhere.
    """

    def __init__(
        self, hub: Hub, cluster: str, *, dynamic: bool, replicates: bool = False, gateway_url: str = ""
    ) -> None:
        self._hub = hub
        self._gateway_url = gateway_url
        self._replicates = replicates
        self.cluster = cluster
        self.dynamic = dynamic
        self.host, self.port = "", 0  # where it listens
        self.own_urls: list[str] = []  # for clients
        self.own_websocket_urls: list[str] = []
        self.own_leaf_urls: list[str] = []

    def renamed(self, cluster: str, *, dynamic: bool) -> bool:
        """Take the name of another cluster, if this one's was made up and the other counts more."""
        if not self.dynamic or (dynamic and self.cluster >= cluster):
            return False
        self.cluster = cluster
        self.dynamic = dynamic
        return True

    def info(self, link: RouteLink | None) -> RouteInfo:
        """INFO: as the first one on a route, or for all that are there."""
        options = self._hub.options.cluster
        permissions = options.permissions
        info = RouteInfo(
            proto=PROTO,
            host=self.host,
            port=self.port,
            auth_required=bool(options.user),
            ip=f"nats-route://{options.advertise}/" if options.advertise else "",
            cluster=self.cluster,
            cluster_dynamic=self.dynamic,
            connect_urls=self.own_urls or None,
            ws_connect_urls=self.own_websocket_urls or None,
            leafnode_urls=self.own_leaf_urls or None,
            lnoc=True,
            gateway_url=self._gateway_url,
            slipstream_replication=self._replicates,
            slipstream_crossing=True,
            route_pool_size=max(options.pool_size, 0),
            imports=None if permissions is None else subject_lists(permissions.publish),
            exports=None if permissions is None else subject_lists(permissions.subscribe),
        )
        introduce(info, self._hub, options.tls, verifies=True)
        if link is not None:
            info.nonce = self._hub.new_nonce()
            own = configured_mode(options.compression)
            info.compression = link.end.compression or ("" if own == NOT_SUPPORTED else own)
            info.route_account = link.account
            info.route_pool_idx = max(link.place, 0)
            info.gossip_mode = 0 if link.target is None else link.target.gossip_mode
            info.slipstream_replicas = link.for_replicas
        return info

    def connect(self, target: RouteTarget) -> RouteConnect:
        """CONNECT to a server that was dialled."""
        options = self._hub.options
        return RouteConnect(
            user=target.user,
            password=target.password,
            tls_required=options.cluster.tls is not None,
            headers=not options.no_header_support,
            name=self._hub.identity.id,
            cluster=self.cluster,
            cluster_dynamic=self.dynamic,
            lnoc=True,
        )
