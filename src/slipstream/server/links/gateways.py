"""Gateways at the edge: the listener, dialling with pauses, and the sockets to other clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from slipstream.config.addresses import advertised
from slipstream.limits import GATEWAY_PING_INTERVAL_MAX_NS
from slipstream.links.gateways.inbound import InboundGateway
from slipstream.links.gateways.outbound import OutboundGateway
from slipstream.links.gateways.supercluster import Supercluster
from slipstream.protocol import texts
from slipstream.protocol.texts import CloseReason
from slipstream.server.clients.listener import address_of
from slipstream.server.clients.tls_protocol import SecurePeer
from slipstream.server.links.protocol import LinkProtocol, LinkTiming, TlsFirst
from slipstream.server.links.sockets import LinkSockets
from slipstream.server.sockets.peer_tls import PeerTls
from slipstream.server.sockets.reachable import reachable
from slipstream.units import MILLISECOND_NS, SECOND_NS

if TYPE_CHECKING:
    from slipstream.config.listener_options import GatewayOptions
    from slipstream.links.end import LinkEnd
    from slipstream.links.gateways.remotes import GatewayAddress, RemoteCluster
    from slipstream.links.gateways.replica_gateways import ReplicaGateways
    from slipstream.server.server import Server
    from slipstream.server.sockets.tls_layer import TlsFacts

__all__ = ["GatewayTls", "Gateways"]

# As nats-server has them.
_FIRST_DIAL_NS: Final = SECOND_NS  # until then the own cluster has formed, and its URLs are known
_DIAL_TIMEOUT_NS: Final = SECOND_NS
_RETRY_NS: Final = SECOND_NS
_RETRY_MAX_NS: Final = 30 * SECOND_NS  # with `connect_backoff`
_AGAIN_JITTER_NS: Final = 100 * MILLISECOND_NS
_HANDSHAKE_NS: Final = 2 * SECOND_NS


class GatewayTls:
    """The `tls` blocks of `gateway` and of its entries, read."""

    def __init__(self, options: GatewayOptions) -> None:
        """Read the files.

        Raises:
            ConfigError: one of them cannot be used.
        """
        self.common = None if options.tls is None else PeerTls(options.tls)
        self._entries = {entry.name: PeerTls(entry.tls) for entry in options.gateways if entry.tls is not None}

    def to(self, remote: RemoteCluster) -> PeerTls | None:
        """How to speak TLS with another cluster; None: not at all."""
        return self._entries.get(remote.name, self.common)


class Gateways:
    """The gateways of one server. Implements `GatewayEdge`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._tls = GatewayTls(server.options.gateway)
        self.supercluster = Supercluster(server.hub, self)
        self.sockets: LinkSockets[InboundGateway | OutboundGateway] = LinkSockets(server)
        self.port = 0

    def listen(self) -> None:
        """Bind the gateway port.

        Raises:
            StartError: the address cannot be had.
        """
        server, options = self._server, self._server.options.gateway
        host, name = options.host or server.options.host, texts.quoted_text(options.name)
        self.log("INF", f"Gateway name is {options.name}")
        self.port = self.sockets.listen("gateway port", "gateways", host, options.port, partial(self._protocol, None))
        if options.advertise:
            host, port = advertised(options.advertise, self.port)
            url = reachable(host, port)[0]
            self.log("INF", f"Advertise address for gateway {name} is set to {url}")
        else:
            port, url = self.port, reachable(host, self.port)[0]
            self.log("INF", f"Address for gateway {name} is {url}")
        self.supercluster.introduction.listens_at(host, port, url)
        if any(tls is not None and tls.insecure for tls in (options.tls, *(one.tls for one in options.gateways))):
            self.log(
                "WRN",
                "TLS certificate chain and hostname of solicited gateways will not be verified. "
                "DO NOT USE IN PRODUCTION!",
            )

    def start(self) -> None:
        """Count what is wanted here, and dial the clusters that are configured."""
        self.supercluster.watch_accounts()
        for remote in self.supercluster.clusters.remotes.values():
            if not remote.urls():
                self.log("ERR", f"No URL of gateway {texts.quoted_text(remote.name)} has a host and a port")
            self._dial(remote, _FIRST_DIAL_NS, again=False)

    def accounts_changed(self, _names: Iterable[str]) -> None:
        """Accounts of operator mode came or changed."""
        self.supercluster.watch_accounts()

    def reload(self, tls: GatewayTls) -> None:
        """Other certificates hold from now on, and other accounts may be there."""
        self._tls = tls
        self.supercluster.watch_accounts()

    # --- what gateways ask -------------------------------------------------------------------------------------------

    def log(self, level: str, text: str) -> None:
        """A log line."""
        self._server.log(level, text)

    def ready(self, link: InboundGateway | OutboundGateway) -> None:
        """The handshake is over: ask from now on whether the peer lives."""
        self.sockets.start_pings(link.end)

    def close(self, link: InboundGateway | OutboundGateway, reason: CloseReason) -> None:
        """Close the socket of a connection that ended."""
        if reason is CloseReason.TLS_HANDSHAKE_ERROR and isinstance(link, OutboundGateway):
            link.remote.tls_failed(link.address)
        self.sockets.close(link.end, reason)

    def dial(self, remote: RemoteCluster, *, again: bool = False) -> None:
        """Connect, and keep trying if it was configured."""
        delay_ns = 0
        if again:
            delay_ns = self._server.hub.rng.randrange(_AGAIN_JITTER_NS) + (_RETRY_NS if remote.is_configured else 0)
        self._dial(remote, delay_ns, again=again)

    def dial_replicas(self, remote: RemoteCluster, address: GatewayAddress, again: bool) -> None:
        """Connect to one server of a cluster for what replicas say, for as long as that server is told of."""
        call = ReplicaCall(
            remote, address, self.supercluster.replica_gateways, partial(self._protocol, for_replicas=True)
        )
        self.sockets.dialer.dial(call, delay_ns=_RETRY_NS if again else 0, again=again)

    def _dial(self, remote: RemoteCluster, delay_ns: int, *, again: bool) -> None:
        call = GatewayCall(remote, self._server, self.supercluster, self._protocol)
        self.sockets.dialer.dial(call, delay_ns=delay_ns, again=again)

    # --- sockets -----------------------------------------------------------------------------------------------------

    def _protocol(
        self, dialled: tuple[RemoteCluster, GatewayAddress] | None, *, for_replicas: bool = False
    ) -> LinkProtocol:
        first = None
        tls = self._tls.common if dialled is None else self._tls.to(dialled[0])
        if tls is not None:
            context = tls.listening if dialled is None else tls.dialling
            name = None if dialled is None else dialled[0].tls_name(dialled[1])
            first = TlsFirst(context, self._secured, name, tls.timeout_ns)
        return LinkProtocol(
            self._server,
            self._timing,
            partial(self._opened, dialled, for_replicas),
            self.sockets.lost,
            first,
            self._await,
        )

    def _timing(self) -> LinkTiming:
        options = self._server.options
        gateway = options.gateway
        return LinkTiming(
            min(options.ping_interval_ns, GATEWAY_PING_INTERVAL_MAX_NS),
            options.ping_max,
            gateway.write_deadline_ns or options.write_deadline_ns,
            gateway.write_timeout == "close",
        )

    def _opened(
        self, dialled: tuple[RemoteCluster, GatewayAddress] | None, for_replicas: bool, protocol: LinkProtocol
    ) -> LinkEnd:
        peer = SecurePeer(*address_of(protocol.transport), "gateway")
        link: InboundGateway | OutboundGateway
        if dialled is None:
            link = self.supercluster.accept(peer)
        else:
            link = self.supercluster.dialled(peer, *dialled, for_replicas=for_replicas)
        self.sockets.open[link.end] = link
        return link.end

    def _secured(self, protocol: LinkProtocol, facts: TlsFacts) -> None:
        peer = protocol.end.peer
        assert isinstance(peer, SecurePeer)
        peer.learn(facts)
        self._await(protocol)

    def _await(self, protocol: LinkProtocol) -> None:
        """A peer has so much time to say who it is."""
        end, timeout_ns = protocol.end, self._server.options.gateway.auth_timeout_ns or _HANDSHAKE_NS
        refuse = partial(end.refuse, CloseReason.AUTHENTICATION_TIMEOUT, texts.AUTHENTICATION_TIMEOUT)
        self.sockets.await_step(end, timeout_ns, refuse)


class GatewayCall:
    """A cluster that is to be reached, at any of its servers."""

    timeout_ns = _DIAL_TIMEOUT_NS
    is_announced = True
    tunnel = None

    def __init__(
        self,
        remote: RemoteCluster,
        server: Server,
        supercluster: Supercluster,
        protocol: Callable[[tuple[RemoteCluster, GatewayAddress]], LinkProtocol],
    ) -> None:
        self._remote = remote
        self._server = server
        self._supercluster = supercluster
        self._protocol = protocol
        self._round: list[GatewayAddress] = []  # those of this round that were not tried yet
        self._rounds = 0
        self._address: GatewayAddress | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether it is still to be reached: not once there is a connection."""
        remote, supercluster = self._remote, self._supercluster
        is_known = supercluster.clusters.knows(remote) and bool(remote.urls())
        return is_known and remote.name not in supercluster.outbound

    def next_address(self) -> tuple[str, int]:
        """One of its servers after the other, in another order each time."""
        if not self._round:
            self._round = self._remote.shuffled(self._server.hub.rng)
            self._rounds += 1
        self._address = self._round.pop()
        return self._address.host, self._address.port

    def protocol(self) -> LinkProtocol:
        """What gets the socket."""
        assert self._address is not None
        return self._protocol((self._remote, self._address))

    def _shown(self) -> str:
        kind = "explicit" if self._remote.is_configured else "implicit"
        where = "" if self._address is None else self._address.shown
        return f"{kind} gateway {texts.quoted_text(self._remote.name)} ({where}) at {where} (attempt {self._rounds})"

    def trying(self) -> str:
        """What is logged before an attempt."""
        return f"Connecting to {self._shown()}"

    def failed(self, attempts: int) -> str:
        """What is logged before the error of an attempt."""
        return f"Error connecting to {self._shown()}"

    def pause_ns(self, attempts: int) -> int | None:
        """After a round: those that were configured are tried for ever, others some times."""
        if self._round:
            return 0
        options, remote = self._server.options.gateway, self._remote
        is_last = not options.connect_retries or self._rounds > options.connect_retries
        if is_last and not remote.is_configured and self._supercluster.given_up(remote):
            return None
        return min(_RETRY_NS << min(self._rounds - 1, 5), _RETRY_MAX_NS) if options.connect_backoff else _RETRY_NS


class ReplicaCall:
    """One server of a cluster that is to be reached for what replicas say."""

    timeout_ns = _DIAL_TIMEOUT_NS
    is_announced = False
    tunnel = None

    def __init__(
        self,
        remote: RemoteCluster,
        address: GatewayAddress,
        replica_gateways: ReplicaGateways,
        protocol: Callable[[tuple[RemoteCluster, GatewayAddress]], LinkProtocol],
    ) -> None:
        self._remote = remote
        self._address = address
        self._replica_gateways = replica_gateways
        self._protocol = protocol

    @property
    def is_wanted(self) -> bool:
        """Whether its cluster still tells of it."""
        return self._replica_gateways.is_wanted(self._remote, self._address)

    def next_address(self) -> tuple[str, int]:
        """Where it listens."""
        return self._address.host, self._address.port

    def protocol(self) -> LinkProtocol:
        """What gets the socket."""
        return self._protocol((self._remote, self._address))

    def trying(self) -> str:
        """What is logged before an attempt."""
        return f"Connecting to replicas of {texts.quoted_text(self._remote.name)} at {self._address.shown}"

    def failed(self, attempts: int) -> str:
        """What is logged before the error of an attempt."""
        name = texts.quoted_text(self._remote.name)
        return f"Error connecting to replicas of {name} at {self._address.shown} (attempt {attempts})"

    def pause_ns(self, attempts: int) -> int | None:
        """For as long as it is wanted."""
        del attempts
        return _RETRY_NS
