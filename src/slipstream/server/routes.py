"""Routes at the edge: the listener, dialling with pauses, and the sockets of the mesh."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from slipstream.config.record import replace
from slipstream.ids import new_nuid
from slipstream.limits import ROUTE_PING_INTERVAL_MAX_NS
from slipstream.links.routes.link import RouteLink
from slipstream.links.routes.mesh import Mesh
from slipstream.links.routes.targets import RouteTarget, route_target
from slipstream.protocol import texts
from slipstream.protocol.host import State
from slipstream.protocol.peer import Peer
from slipstream.protocol.texts import CloseReason
from slipstream.server.acceptor import Acceptor
from slipstream.server.link_protocol import LinkEnd, LinkProtocol, LinkTiming, TlsFirst
from slipstream.server.listener import address_of
from slipstream.server.reachable import reachable
from slipstream.server.tls import TlsContext
from slipstream.server.tls_protocol import SecurePeer
from slipstream.units import MILLISECOND_NS, SECOND_NS

if TYPE_CHECKING:
    from slipstream.config.listener_options import ClusterOptions, TLSOptions
    from slipstream.kernels.wire.outbox import Outbox
    from slipstream.server.server import Server
    from slipstream.server.tls_layer import TlsFacts

__all__ = ["RouteTls", "Routes"]

# As nats-server has them.
_DIAL_TIMEOUT_NS = SECOND_NS
_RETRY_NS = SECOND_NS
_RETRY_MAX_NS = 30 * SECOND_NS  # with `connect_backoff`
_AGAIN_JITTER_NS = 100 * MILLISECOND_NS  # two servers that dropped each other's routes try again at different times
_HANDSHAKE_NS = 2 * SECOND_NS  # where no `authorization` says how long a peer may take
_ABORT = (CloseReason.SLOW_CONSUMER_PENDING, CloseReason.SLOW_CONSUMER_WRITE_DEADLINE)


class RouteTls:
    """The `tls` block of a cluster, for both sides of a handshake; both show a certificate."""

    def __init__(self, options: TLSOptions) -> None:
        """Read the files.

        Raises:
            ConfigError: one of them cannot be used.
        """
        self.listening = TlsContext.for_server(replace(options, verify=True))
        self.dialling = TlsContext.for_peer(options)
        self.timeout_ns = options.timeout_ns

    @staticmethod
    def of(options: ClusterOptions) -> RouteTls | None:
        """Of a `cluster` block; None without TLS.

        Raises:
            ConfigError: a file cannot be used.
        """
        return None if options.tls is None else RouteTls(options.tls)


class Routes:
    """The routes of one server. Implements `MeshEdge`."""

    def __init__(self, server: Server) -> None:
        options = server.options.cluster
        self._server = server
        self._turns = server.turns
        name = options.name or new_nuid(server.hub.rng)
        self._tls = RouteTls.of(options)
        self.mesh = Mesh(server.hub, self, name, dynamic=not options.name)
        self._open: set[RouteLink] = set()  # with a socket, READY or not
        self._dialling: set[asyncio.Task[None]] = set()
        self._listener: Acceptor | None = None
        self._closed = False
        self._by_name = True  # a peer that was told of by address shows the name of a configured one
        self.port = 0
        server.hub.cluster_name = name

    def listen(self) -> None:
        """Bind the route port.

        Raises:
            StartError: the address cannot be had.
        """
        server, options = self._server, self._server.options.cluster
        host = options.host or server.options.host
        listening = server.bind("router port", host, options.port)
        self.port = listening.getsockname()[1]
        own = self.mesh.introduction
        own.host, own.port = self._advertised(host)
        self._listener = Acceptor(self._turns, listening, partial(self._protocol, None))
        self.log("INF", f"Cluster name is {own.cluster}")
        if own.dynamic:
            self.log("WRN", "Cluster name was dynamically generated, consider setting one")
        shown = f"[{host}]" if ":" in host else host
        self.log("INF", f"Listening for route connections on {shown}:{self.port}")

    def start(self) -> None:
        """Clients can connect: tell other servers where, and dial those that are configured."""
        self._take_own_urls()
        self.mesh.telling.watch_accounts()
        for url in self._server.options.cluster.routes:
            self._dial_all(url)

    def _take_own_urls(self) -> None:
        server, own = self._server, self.mesh.introduction
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

    def reload(self, before: ClusterOptions, tls: RouteTls | None) -> None:
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
        for link in list(self._open):
            if link.explicit and link.target is not None and not self.mesh.is_wanted(link.target):
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
        if isinstance(link.edge, LinkProtocol):
            link.edge.start_pings()

    def at_end_of_turn(self, work: Callable[[], None]) -> None:
        """Call when what was read in this turn is handled."""
        self._turns.at_end_of_turn(work)

    def compress(self, link: RouteLink, mode: str) -> None:
        """Compress from here on, or at another level."""
        if isinstance(link.edge, LinkProtocol):
            link.edge.compress(mode)

    def close(self, link: RouteLink, reason: CloseReason) -> None:
        """Close the socket of a route that ended."""
        if reason is CloseReason.TLS_HANDSHAKE_ERROR and link.solicited:
            # Perhaps the certificate has the address and not the name, or the other way round.
            self._by_name = not self._by_name
        edge = link.edge
        if isinstance(edge, LinkProtocol):
            if reason in _ABORT:
                edge.abort()
            else:
                edge.finish()

    def urls_changed(self) -> None:
        """Tell clients where they may connect."""
        hub = self._server.hub
        hub.cluster_name = self.mesh.introduction.cluster
        if self._closed:
            return
        told = not self._server.options.cluster.no_advertise
        urls, websocket = self.mesh.client_urls() if told else (list[str](), list[str]())
        if (urls, websocket) != (hub.connect_urls, hub.websocket_urls):
            hub.connect_urls, hub.websocket_urls = urls, websocket
            for connection in list(hub.each_connection()):
                connection.send_info()

    def dial(self, target: RouteTarget, *, again: bool = False) -> None:
        """Connect, and keep trying if it was configured."""
        if self._closed:
            return
        task = self._turns.loop.create_task(self._dial(target, again=again))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    async def _dial(self, target: RouteTarget, *, again: bool) -> None:
        rng, options = self._server.hub.rng, self._server.options
        if again:
            pause = rng.randrange(_AGAIN_JITTER_NS) + (_RETRY_NS if target.explicit else 0)
            await asyncio.sleep(pause / SECOND_NS)
        attempts, delay_ns = 0, _RETRY_NS
        while not self._closed and self.mesh.is_wanted(target):
            self.log("DBG", f"Trying to connect to route on {target.address}")
            try:
                connecting = self._turns.loop.create_connection(
                    partial(self._protocol, target), target.host, target.port
                )
                await asyncio.wait_for(connecting, _DIAL_TIMEOUT_NS / SECOND_NS)
                return
            except (OSError, TimeoutError) as error:
                attempts += 1
                reports = options.reconnect_error_reports if again else options.connect_error_reports
                level = "ERR" if attempts == 1 or (reports and attempts % reports == 0) else "DBG"
                self.log(level, f"Error trying to connect to route (attempt {attempts}): {str(error) or 'timeout'}")
            if not target.explicit and attempts > options.cluster.connect_retries:
                return
            await asyncio.sleep(delay_ns / SECOND_NS)
            if options.cluster.connect_backoff:
                delay_ns = min(delay_ns * 2, _RETRY_MAX_NS)

    def outboxes(self) -> list[Outbox]:
        """Of all routes."""
        return [link.outbox for link in self._open]

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
        return LinkProtocol(self._server, self._timing(), partial(self._opened, target), self._lost, first)

    def _name_of(self, target: RouteTarget) -> str:
        """The name that a peer's certificate has to show; who was told of by address has that of a configured one."""
        configured = next((host for host in self._hosts() if not _is_address(host)), "")
        return configured if configured and self._by_name and _is_address(target.host) else target.host

    def _hosts(self) -> list[str]:
        targets = (route_target(url, explicit=True) for url in self._server.options.cluster.routes)
        return [target.host for target in targets if target is not None]

    def _secured(self, protocol: LinkProtocol, facts: TlsFacts) -> None:
        link = protocol.link
        assert isinstance(link, RouteLink)
        assert isinstance(link.peer, SecurePeer)
        link.peer.learn(facts)
        self._await_handshake(link, protocol)

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
        self._open.add(link)
        self._await_handshake(link, protocol)
        return link

    def _await_handshake(self, link: RouteLink, protocol: LinkProtocol) -> None:
        timeout_ns = self._server.options.cluster.auth_timeout_ns or _HANDSHAKE_NS
        protocol.set_step_timer(timeout_ns, partial(self._too_slow, link))

    def _too_slow(self, link: RouteLink) -> None:
        """A peer that does not say who it is."""
        if link.state not in (State.READY, State.CLOSED):
            link.refuse(CloseReason.AUTHENTICATION_TIMEOUT, texts.AUTHENTICATION_TIMEOUT)

    def _lost(self, link: LinkEnd) -> None:
        if isinstance(link, RouteLink):
            self._open.discard(link)

    # --- the end -----------------------------------------------------------------------------------------------------

    def close_listener(self) -> None:
        """Let no further server in."""
        if self._listener is not None:
            self._listener.close()

    def stop(self) -> None:
        """End all routes and dial no more."""
        self._closed = True
        self.close_listener()
        for task in self._dialling:
            task.cancel()
        for link in list(self._open):
            link.close(CloseReason.SERVER_SHUTDOWN)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
