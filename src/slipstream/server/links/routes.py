"""Routes at the edge: the listener, dialling with pauses, and the sockets of the mesh."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from slipstream.ids import new_nuid
from slipstream.limits import ROUTE_PING_INTERVAL_MAX_NS
from slipstream.links.routes.link import RouteLink
from slipstream.links.routes.mesh import Mesh
from slipstream.links.routes.targets import RouteTarget, route_target
from slipstream.protocol import texts
from slipstream.protocol.peer import Peer
from slipstream.protocol.texts import CloseReason
from slipstream.server.clients.listener import address_of
from slipstream.server.clients.tls_protocol import SecurePeer
from slipstream.server.links.protocol import LinkProtocol, LinkTiming, TlsFirst
from slipstream.server.links.sockets import LinkSockets
from slipstream.server.sockets.binding import host_port
from slipstream.server.sockets.peer_tls import PeerTls
from slipstream.server.sockets.reachable import reachable
from slipstream.units import MILLISECOND_NS, SECOND_NS

if TYPE_CHECKING:
    from slipstream.config.listener_options import ClusterOptions
    from slipstream.links.end import LinkEnd
    from slipstream.server.server import Server
    from slipstream.server.sockets.tls_layer import TlsFacts

__all__ = ["Routes"]

# As nats-server has them.
_DIAL_TIMEOUT_NS = SECOND_NS
_RETRY_NS = SECOND_NS
_RETRY_MAX_NS = 30 * SECOND_NS  # with `connect_backoff`
_AGAIN_JITTER_NS = 100 * MILLISECOND_NS  # two servers that dropped each other's routes try again at different times
_HANDSHAKE_NS = 2 * SECOND_NS  # where no `authorization` says how long a peer may take


class Routes:
    """The routes of one server. Implements `MeshEdge`."""

    def __init__(self, server: Server) -> None:
        options = server.options.cluster
        self._server = server
        name = options.name or new_nuid(server.hub.rng)
        self._tls = PeerTls.of(options.tls)
        self.mesh = Mesh(
            server.hub,
            self,
            name,
            dynamic=not options.name,
            replicates=server.options.replicates,
            gateways=server.supercluster,
        )
        self.sockets: LinkSockets[RouteLink] = LinkSockets(server)
        self._by_name = True  # a peer that was told of by address shows the name of a configured one
        self.port = 0
        server.hub.cluster_name = name

    @property
    def url(self) -> str:
        """Where servers on this machine connect."""
        host = self._server.options.cluster.host or self._server.options.host
        if host in ("", "0.0.0.0", "::"):
            host = "127.0.0.1"
        return f"nats://{host_port(host, self.port)}"

    def listen(self) -> None:
        """Bind the route port.

        Raises:
            StartError: the address cannot be had.
        """
        server, options = self._server, self._server.options.cluster
        host = options.host or server.options.host
        own = self.mesh.introduction
        self.log("INF", f"Cluster name is {own.cluster}")
        if own.dynamic:
            self.log("WRN", "Cluster name was dynamically generated, consider setting one")
        self.port = self.sockets.listen("router port", "route", host, options.port, partial(self._protocol, None))
        own.host, own.port = self._advertised(host)

    def start(self) -> None:
        """Clients can connect: tell other servers where, and dial those that are configured."""
        self._take_own_urls()
        self.mesh.telling.watch_accounts()
        for url in self._server.options.cluster.routes:
            self._dial_all(url)

    def accounts_changed(self, _names: Iterable[str]) -> None:
        """Accounts of operator mode came or changed."""
        self.mesh.telling.watch_accounts()

    def _take_own_urls(self) -> None:
        server, own = self._server, self.mesh.introduction
        leafs = server.leafnodes
        advertises = leafs is not None and not server.options.leafnodes.no_advertise
        own.own_leaf_urls = leafs.nodes.introduction.urls[:1] if leafs is not None and advertises else []
        told = not server.options.cluster.no_advertise
        own.own_urls = reachable(*server.hub.advertised) if told else []
        if server.websocket is not None and told:
            own.own_websocket_urls = reachable(server.hub.websocket_host, server.hub.websocket_port)
        else:
            own.own_websocket_urls = []

    def _advertised(self, host: str) -> tuple[str, int]:
        told = self._server.options.cluster.advertise
        if not told:
            return host, self.port
        target = route_target(told if ":" in told else f"{told}:{self.port}", explicit=True)
        return (host, self.port) if target is None else (target.host, target.port)

    def reload(self, before: ClusterOptions, tls: PeerTls | None) -> None:
        """Other options hold: dial new routes, close those that are gone, and follow the rest."""
        server, options = self._server, self._server.options.cluster
        self._tls = tls
        self.mesh.telling.watch_accounts()
        if options == before:
            return
        self._take_own_urls()
        host = options.host or server.options.host
        self.mesh.introduction.host, self.mesh.introduction.port = self._advertised(host)
        self.mesh.changes.reload(before, new_nuid(server.hub.rng))
        for link in list(self.sockets.open.values()):
            if link.login is not None and not self.mesh.admits(link, link.login):
                self.mesh.turn_away(link)
            elif link.explicit and link.target is not None and not self.mesh.dials.is_wanted(link.target):
                link.reconnects = False
                link.close(CloseReason.ROUTE_REMOVED)
                self.log("INF", f"Removed route {link.target.address}")
        for url in options.routes:
            if url not in before.routes:
                self._dial_all(url)
        self.urls_changed()
        self.log("INF", "Reloaded: cluster")

    def _dial_all(self, url: str) -> None:
        for account in ("", *self.mesh.roster.pinned):
            target = route_target(url, explicit=True, account=account)
            if target is not None:
                self.dial(target)

    # --- what the mesh asks ------------------------------------------------------------------------------------------

    def log(self, level: str, text: str) -> None:
        """A log line."""
        self._server.log(level, text)

    def ready(self, link: RouteLink) -> None:
        """The handshake is over: ask from now on whether the peer lives."""
        self.sockets.start_pings(link.end)

    def at_end_of_turn(self, work: Callable[[], None]) -> None:
        """Call when what was read in this turn is handled."""
        self._server.turns.at_end_of_turn(work)

    def compress(self, end: LinkEnd, mode: str) -> None:
        """Compress from here on, or at another level."""
        self.sockets.compress(end, mode)

    def close(self, link: RouteLink, reason: CloseReason) -> None:
        """Close the socket of a route that ended."""
        if reason is CloseReason.TLS_HANDSHAKE_ERROR and link.solicited:
            # Perhaps the certificate has the address and not the name, or the other way round.
            self._by_name = not self._by_name
        self.sockets.close(link.end, reason)

    def urls_changed(self) -> None:
        """Tell clients where they may connect."""
        hub = self._server.hub
        hub.cluster_name = self.mesh.introduction.cluster
        if self.sockets.closed:
            return
        told = not self._server.options.cluster.no_advertise
        urls, websocket = self.mesh.client_urls() if told else (list[str](), list[str]())
        if self._server.leafnodes is not None:
            self._server.leafnodes.nodes.cluster_changed(self.mesh.leaf_urls(), websocket)
        if (urls, websocket) != (hub.connect_urls, hub.websocket_urls):
            hub.connect_urls, hub.websocket_urls = urls, websocket
            for connection in list(hub.each_connection()):
                connection.send_info()

    def dial(self, target: RouteTarget, *, again: bool = False, soon: bool = False) -> None:
        """Connect, and keep trying if it was configured; `soon`: what was in the way is gone in a moment."""
        delay_ns = 0
        if again:
            waits = target.explicit and not soon
            delay_ns = self._server.hub.rng.randrange(_AGAIN_JITTER_NS) + (_RETRY_NS if waits else 0)
        call = RouteCall(target, self.mesh, partial(self._protocol, target))
        self.sockets.dialer.dial(call, delay_ns=delay_ns, again=again)

    # --- sockets -----------------------------------------------------------------------------------------------------

    def _protocol(self, target: RouteTarget | None) -> LinkProtocol:
        first = None
        if self._tls is not None:
            first = TlsFirst(
                self._tls.listening if target is None else self._tls.dialling,
                self._secured,
                None if target is None else self._name_of(target),
                self._tls.timeout_ns,
            )
        return LinkProtocol(
            self._server, self._timing, partial(self._opened, target), self.sockets.lost, first, self._await_handshake
        )

    def _name_of(self, target: RouteTarget) -> str:
        """The name that a peer's certificate has to show; who was told of by address has that of a configured one."""
        configured = next((host for host in self._hosts() if not _is_address(host)), "")
        return configured if configured and self._by_name and _is_address(target.host) else target.host

    def _hosts(self) -> list[str]:
        targets = (route_target(url, explicit=True) for url in self._server.options.cluster.routes)
        return [target.host for target in targets if target is not None]

    def _secured(self, protocol: LinkProtocol, facts: TlsFacts) -> None:
        peer = protocol.end.peer
        assert isinstance(peer, SecurePeer)
        peer.learn(facts)
        self._await_handshake(protocol)

    def _timing(self) -> LinkTiming:
        options = self._server.options
        cluster = options.cluster
        return LinkTiming(
            min(cluster.ping_interval_ns or options.ping_interval_ns, ROUTE_PING_INTERVAL_MAX_NS),
            cluster.ping_max or options.ping_max,
            cluster.write_deadline_ns or options.write_deadline_ns,
            cluster.write_timeout == "close",
        )

    def _opened(self, target: RouteTarget | None, protocol: LinkProtocol) -> LinkEnd:
        peer = (Peer if self._tls is None else SecurePeer)(*address_of(protocol.transport), "route")
        link = self.mesh.accept(peer) if target is None else self.mesh.dialled(peer, target)
        self.sockets.open[link.end] = link
        return link.end

    def _await_handshake(self, protocol: LinkProtocol) -> None:
        """A peer has so much time to say who it is."""
        end, timeout_ns = protocol.end, self._server.options.cluster.auth_timeout_ns or _HANDSHAKE_NS
        refuse = partial(end.refuse, CloseReason.AUTHENTICATION_TIMEOUT, texts.AUTHENTICATION_TIMEOUT)
        self.sockets.await_step(end, timeout_ns, refuse)


class RouteCall:
    """A server of the cluster that is to be reached."""

    timeout_ns = _DIAL_TIMEOUT_NS
    is_announced = False
    tunnel = None

    def __init__(self, target: RouteTarget, mesh: Mesh, protocol: Callable[[], LinkProtocol]) -> None:
        self._target = target
        self._mesh = mesh
        self.protocol = protocol

    @property
    def is_wanted(self) -> bool:
        """Whether it is still to be reached."""
        return self._mesh.dials.is_wanted(self._target)

    def next_address(self) -> tuple[str, int]:
        """Where it listens."""
        return self._target.host, self._target.port

    def trying(self) -> str:
        """What is logged before an attempt."""
        return f"Trying to connect to route on {self._target.address}"

    def failed(self, attempts: int) -> str:
        """What is logged before the error of an attempt."""
        return f"Error trying to connect to route (attempt {attempts})"

    def pause_ns(self, attempts: int) -> int | None:
        """Those that were configured are tried for ever, others some times."""
        options = self._mesh.hub.options.cluster
        if not self._target.explicit and attempts > options.connect_retries:
            return None
        return min(_RETRY_NS << min(attempts - 1, 5), _RETRY_MAX_NS) if options.connect_backoff else _RETRY_NS


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
