"""Listeners for other servers: gateways, routes and leaf nodes. Modules of a kind are loaded when it is configured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstream.config.options import Options
    from slipstream.links.gateways.inbound import InboundGateway
    from slipstream.links.gateways.outbound import OutboundGateway
    from slipstream.links.leafs.link import LeafLink
    from slipstream.links.routes.link import RouteLink
    from slipstream.server.gateways import Gateways
    from slipstream.server.leafnodes import LeafnodeServer
    from slipstream.server.link_sockets import LinkSockets
    from slipstream.server.routes import Routes
    from slipstream.server.server import Server

__all__ = ["GatewayPort", "LeafnodePort", "RoutePort"]


class GatewayPort:
    """To other clusters."""

    name = "gateway"
    url = ""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.opened: Gateways | None = None

    @property
    def sockets(self) -> LinkSockets[InboundGateway | OutboundGateway] | None:
        """See `LinkPort.sockets`."""
        return None if self.opened is None else self.opened.sockets

    async def open(self) -> int:
        """See `ServerPort.open`."""
        if not self._server.options.gateway.port:
            return 0
        from slipstream.server.gateways import Gateways

        self.opened = Gateways(self._server)
        self.opened.listen()
        return self.opened.port

    def start(self) -> None:
        """See `LinkPort.start`."""
        if self.opened is not None:
            self.opened.start()

    def prepare(self, options: Options) -> Callable[[Options], None] | None:
        """See `ServerPort.prepare`."""
        opened = self.opened
        if opened is None:
            return None
        from slipstream.server.gateways import GatewayTls

        tls = GatewayTls(options.gateway)
        return lambda _before: opened.reload(tls)

    def accounts_changed(self, _names: Iterable[str]) -> None:
        """See `LinkPort.accounts_changed`."""
        if self.opened is not None:
            self.opened.supercluster.watch_accounts()

    def close(self) -> None:
        """See `ServerPort.close`."""
        if self.opened is not None:
            self.opened.sockets.close_listener()


class RoutePort:
    """To other servers of the cluster."""

    name = "cluster"
    url = ""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.opened: Routes | None = None

    @property
    def sockets(self) -> LinkSockets[RouteLink] | None:
        """See `LinkPort.sockets`."""
        return None if self.opened is None else self.opened.sockets

    async def open(self) -> int:
        """See `ServerPort.open`."""
        server = self._server
        if not server.options.cluster.port:
            return 0
        from slipstream.server.routes import Routes

        self.opened = opened = Routes(server)
        opened.listen()
        if server.monitoring is not None:
            server.monitoring.join_cluster(opened.mesh)
        if server.jetstream is not None and server.jetstream.cluster is not None:
            server.jetstream.cluster.join(opened.mesh)
        if server.supercluster is not None:
            server.supercluster.join(opened.mesh)
        return opened.port

    def start(self) -> None:
        """See `LinkPort.start`."""
        if self.opened is not None:
            self.opened.start()

    def prepare(self, options: Options) -> Callable[[Options], None] | None:
        """See `ServerPort.prepare`."""
        opened = self.opened
        if opened is None:
            return None
        from slipstream.server.peer_tls import PeerTls

        tls = PeerTls.of(options.cluster.tls)
        return lambda before: opened.reload(before.cluster, tls)

    def accounts_changed(self, _names: Iterable[str]) -> None:
        """See `LinkPort.accounts_changed`."""
        if self.opened is not None:
            self.opened.mesh.telling.watch_accounts()

    def close(self) -> None:
        """See `ServerPort.close`."""
        if self.opened is not None:
            self.opened.sockets.close_listener()


class LeafnodePort:
    """From leaf nodes, and to those whose leaf node this server is: with remotes alone it listens nowhere."""

    name = "leafnodes"
    url = ""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.opened: LeafnodeServer | None = None

    @property
    def sockets(self) -> LinkSockets[LeafLink] | None:
        """See `LinkPort.sockets`."""
        return None if self.opened is None else self.opened.sockets

    async def open(self) -> int:
        """See `ServerPort.open`."""
        options = self._server.options.leafnodes
        if not (options.port or options.remotes):
            return 0
        opened = self._make()
        if options.port:
            opened.listen()
        return opened.port

    def _make(self) -> LeafnodeServer:
        from slipstream.server.leafnodes import LeafnodeServer

        self.opened = LeafnodeServer(self._server)
        if self._server.monitoring is not None:
            self._server.monitoring.watch_leafs(self.opened.nodes)
        return self.opened

    def start(self) -> None:
        """See `LinkPort.start`."""
        if self.opened is not None:
            self.opened.start()

    def prepare(self, options: Options) -> Callable[[Options], None] | None:
        """See `ServerPort.prepare`; the first remote may come with a reload."""
        opened = self.opened
        if opened is None and not options.leafnodes.remotes:
            return None
        from slipstream.server.leafnodes import LeafTls

        tls = LeafTls(options.leafnodes)
        if opened is None:
            return lambda _before: self._make().start()
        return lambda before: opened.reload(before.leafnodes, tls)

    def accounts_changed(self, names: Iterable[str]) -> None:
        """See `LinkPort.accounts_changed`."""
        if self.opened is not None:
            self.opened.nodes.accounts_changed(names)

    def close(self) -> None:
        """See `ServerPort.close`."""
        if self.opened is not None:
            self.opened.sockets.close_listener()
