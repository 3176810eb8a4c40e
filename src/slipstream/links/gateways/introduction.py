"""What a server says of itself and of its cluster to other clusters: INFO and CONNECT of gateways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.links.documents import PROTO, introduce
from slipstream.links.gateways.handshake import GOSSIP, GatewayConnect, GatewayInfo
from slipstream.links.gateways.urls import ClusterUrls

if TYPE_CHECKING:
    from slipstream.links.gateways.outbound import OutboundGateway
    from slipstream.routing.hub import Hub

__all__ = ["GatewayIntroduction"]


class GatewayIntroduction:
    """One server as other clusters know it.

    Args:
        hub: identity and options.
        cluster: the name of the cluster.
    """

    def __init__(self, hub: Hub, cluster: str) -> None:
        self._hub = hub
        self._cluster = cluster
        self.host, self.port, self.url = "", 0, ""  # where it is reached
        self.urls = ClusterUrls()  # where its cluster is

    def listens_at(self, host: str, port: int, url: str) -> None:
        """Where it is reached."""
        self.host, self.port, self.url = host, port, url
        self.urls.add(url, self._hub.identity.id)

    def info(self) -> GatewayInfo:
        """INFO, the first one or one with other URLs."""
        options = self._hub.options
        info = GatewayInfo(
            proto=PROTO,
            host=self.host,
            port=self.port,
            auth_required=bool(options.gateway.user),
            gateway=self._cluster,
            gateway_urls=self.urls.all(),
            gateway_url=self.url,
            gateway_nrp=True,
            gateway_iom=True,
            slipstream_replication=options.replicates,
        )
        introduce(info, self._hub, options.gateway.tls, verifies=True)
        return info

    def connect(self, link: OutboundGateway) -> GatewayConnect:
        """CONNECT to a server that was dialled."""
        options, address = self._hub.options.gateway, link.address
        user, password = (address.user, address.password) if address.user else (options.user, options.password)
        return GatewayConnect(
            user=user,
            password=password,
            tls_required=link.peer.tls is not None,
            name=self._hub.identity.id,
            gateway=self._cluster,
            slipstream_replicas=link.for_replicas,
        )

    def gossip(self, cluster: str, urls: list[str]) -> GatewayInfo:
        """What a server of another cluster is told of a third one."""
        return GatewayInfo(server_id=self._hub.identity.id, gateway=cluster, gateway_urls=urls, gateway_cmd=GOSSIP)

    def gossip_at_home(self, cluster: str, urls: list[str]) -> GatewayInfo:
        """What servers of the own cluster are told of another one."""
        told = self.gossip(cluster, urls)
        # The id is none that a server has: others must not take it for news of a server.
        told.server_id = f"GW{self._hub.identity.id}"
        told.server_name = self._hub.identity.name
        return told
