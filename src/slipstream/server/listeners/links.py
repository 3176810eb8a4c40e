"""Listeners for other servers: gateways, routes and leaf nodes. Modules of a kind are loaded when it is configured."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstream.config.options import Options
    from slipstream.server.links.gateways import Gateways
    from slipstream.server.links.leafnodes import LeafnodeServer
    from slipstream.server.links.routes import Routes
    from slipstream.server.server import Server

__all__ = ["GatewayPort", "LeafnodePort", "RoutePort"]


class GatewayPort:
    """To other clusters."""

    name = "gateway"

    def __init__(self, server: Server) -> None:
        self._server = server
        self.opened: Gateways | None = None

    async def open(self) -> int:
        """See `ListenerRow.open`."""
        if not self._server.options.gateway.port:
            return 0
        from slipstream.server.links.gateways import Gateways

        self.opened = Gateways(self._server)
        if self._server.monitoring is not None:
            self._server.monitoring.join_supercluster(self.opened.supercluster)
        self.opened.listen()
        return self.opened.port

    def prepare(self, options: Options) -> Callable[[Options], None] | None:
        """See `ListenerRow.prepare`."""
        opened = self.opened
        if opened is None:
            return None
        from slipstream.server.links.gateways import GatewayTls

        tls = GatewayTls(options.gateway)
        return lambda _before: opened.reload(tls)


class RoutePort:
    """To other servers of the cluster."""

    name = "cluster"

    def __init__(self, server: Server) -> None:
        self._server = server
        self.opened: Routes | None = None

    async def open(self) -> int:
        """See `ListenerRow.open`."""
        server = self._server
        if not server.options.cluster.port:
            return 0
        from slipstream.server.links.routes import Routes

        self.opened = opened = Routes(server)
        opened.listen()
        if server.monitoring is not None:
            server.monitoring.join_cluster(opened.mesh)
        if server.jetstream is not None and server.jetstream.cluster is not None:
            server.jetstream.cluster.join(opened.mesh)
        if server.supercluster is not None:
            server.supercluster.join(opened.mesh)
        return opened.port

    def prepare(self, options: Options) -> Callable[[Options], None] | None:
        """See `ListenerRow.prepare`."""
        opened = self.opened
        if opened is None:
            return None
        from slipstream.server.sockets.peer_tls import PeerTls

        tls = PeerTls.of(options.cluster.tls)
        return lambda before: opened.reload(before.cluster, tls)


class LeafnodePort:
    """From leaf nodes, and to those whose leaf node this server is: with remotes alone it listens nowhere."""

    name = "leafnodes"

    def __init__(self, server: Server) -> None:
        self._server = server
        self.opened: LeafnodeServer | None = None

    async def open(self) -> int:
        """See `ListenerRow.open`."""
        options = self._server.options.leafnodes
        if not (options.port or options.remotes):
            return 0
        opened = self._make()
        if options.port:
            opened.listen()
        return opened.port

    def _make(self) -> LeafnodeServer:
        from slipstream.server.links.leafnodes import LeafnodeServer

        self.opened = LeafnodeServer(self._server)
        if self._server.monitoring is not None:
            self._server.monitoring.watch_leafs(self.opened.nodes)
        return self.opened

    def prepare(self, options: Options) -> Callable[[Options], None] | None:
        """See `ListenerRow.prepare`; the first remote may come with a reload."""
        opened = self.opened
        if opened is None and not options.leafnodes.remotes:
            return None
        from slipstream.server.links.leafnodes import LeafTls

        tls = LeafTls(options.leafnodes)
        if opened is None:
            return lambda _before: self._make().start()
        return lambda before: opened.reload(before.leafnodes, tls)
