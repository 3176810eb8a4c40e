"""The other clusters as one server knows them: which connections there are, who is let in, and what is told.

    out    one connection to each other cluster, to any of its servers; again as long as the cluster is known
    in     as many as servers of other clusters have dialled this one

What this is not: sockets (`server.gateways`), what is said over a connection (`outbound`, `inbound`), which clusters
there are (`clusters`), what a server says of itself (`introduction`), what is counted and told (`interest`), what
others want (`wants`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from slipstream.links.admission import PeerLogin, is_admitted
from slipstream.links.gateways.addresses import ADDRESS_MARK
from slipstream.links.gateways.answers import AnswerWays
from slipstream.links.gateways.clusters import KnownClusters
from slipstream.links.gateways.handshake import (
    ALL_COMPLETE,
    ALL_START,
    GOSSIP,
    GatewayConnect,
    GatewayInfo,
)
from slipstream.links.gateways.inbound import InboundGateway
from slipstream.links.gateways.introduction import GatewayIntroduction
from slipstream.links.gateways.outbound import OutboundGateway
from slipstream.links.gateways.replica_gateways import ReplicaGateways
from slipstream.links.gateways.telling import ClusterTelling
from slipstream.links.gateways.wants import RemoteWants
from slipstream.links.traffic import PastTraffic
from slipstream.protocol import texts
from slipstream.protocol.texts import CloseReason

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.config.listener_options import GatewayOptions
    from slipstream.links.gateways.remotes import GatewayAddress, RemoteCluster
    from slipstream.links.presence import LinkMember
    from slipstream.links.routes.handshake import RouteInfo
    from slipstream.links.routes.link import RouteLink
    from slipstream.links.routes.mesh import Mesh
    from slipstream.protocol.peer import Peer
    from slipstream.routing.hub import Hub

__all__ = ["GatewayEdge", "Supercluster"]

GATEWAY_PORT = "attempted to connect to gateway port"
FOREIGN_JETSTREAM = (
    "JetStream of nats-server and of Slipstream cannot be in one supercluster: switch it off on one side"
)


class GatewayEdge(Protocol):
    """What gateways ask of the side that has sockets."""

    def dial(self, remote: RemoteCluster, *, again: bool = False) -> None:
        """Connect to one of a cluster's servers, now or (`again`) after a pause."""
        ...

    def dial_replicas(self, remote: RemoteCluster, address: GatewayAddress, again: bool) -> None:
        """Connect to one server of a cluster, for what replicas say."""
        ...

    def ready(self, link: InboundGateway | OutboundGateway) -> None:
        """The handshake is over."""
        ...

    def close(self, link: InboundGateway | OutboundGateway, reason: CloseReason) -> None:
        """Send what waits, then close the socket."""
        ...

    def log(self, level: str, text: str) -> None: ...


class Supercluster:
    """The gateways of one server."""

    def __init__(self, hub: Hub, edge: GatewayEdge) -> None:
        options = hub.options.gateway
        self.hub = hub
        self._edge = edge
        self.name = options.name
        self.outbound: dict[str, OutboundGateway] = {}  # by cluster
        self.clusters = KnownClusters(self.name, options.gateways, edge.dial)
        self.introduction = GatewayIntroduction(hub, self.name)
        self.past = PastTraffic()
        self.on_account_known: dict[str, Callable[[], None]] = {}
        """What is done when another cluster has told all that it wants in an account, or hears what is wanted here."""
        self.replica_gateways = ReplicaGateways(edge.dial_replicas, edge.ready)
        """For replicas of other clusters."""
        self._foreign: set[str] = set()  # clusters with a JetStream that cannot be joined with that of this server
        self._mesh: Mesh | None = None
        self._answers = AnswerWays(hub, self.name)
        self._telling = ClusterTelling(hub, self.name, self._subscribed)

    @property
    def inbound(self) -> dict[int, InboundGateway]:
        """Connections from other clusters, by number."""
        return self._telling.links

    @property
    def url(self) -> str:
        """Where other clusters reach this server."""
        return self.introduction.url

    @property
    def _options(self) -> GatewayOptions:
        return self.hub.options.gateway

    def join(self, mesh: Mesh) -> None:
        """There are other servers of the same cluster."""
        self._mesh = mesh
        self.replica_gateways.links = mesh.replicas
        mesh.listeners.append(self)

    def watch_accounts(self) -> None:
        """Accounts may have come: count what they want, and take part in them."""
        for account in list(self.hub.accounts.values()):
            if self._telling.watch(account):
                for link in self.outbound.values():
                    if link.wants is not None:
                        link.wants.join(account)

    def _subscribed(self, account: str, subject: bytes) -> None:
        if self.outbound:
            self._answers.subscribed(account, subject)

    # --- as a host of links ------------------------------------------------------------------------------------------

    def log(self, level: str, text: str) -> None:
        """A log line."""
        self._edge.log(level, text)

    def account_named(self, name: str) -> Account | None:
        """An account of this server."""
        return self.hub.accounts.get(name)

    # --- connections that others dialled -----------------------------------------------------------------------------

    def accept(self, peer: Peer) -> InboundGateway:
        """A server of another cluster dialled: greet it."""
        link = InboundGateway(self, peer)
        link.outbox.write(self.introduction.info().line())
        link.log("INF", "Processing inbound gateway connection")
        return link

    def on_inbound_connect(self, link: InboundGateway, connect: GatewayConnect) -> None:
        """It says who it is."""
        options = self._options
        asked, given = PeerLogin(options.user, options.password), PeerLogin(connect.user, connect.password)
        if not is_admitted(options.tls, asked, self.clusters.hosts(), given, link.peer.certificate):
            link.log("ERR", "authentication error")
            link.close(CloseReason.AUTHENTICATION_VIOLATION, texts.AUTHORIZATION_VIOLATION)
        elif not connect.gateway:
            link.refuse(CloseReason.WRONG_PORT, GATEWAY_PORT)
        elif options.reject_unknown_cluster and connect.gateway not in self.clusters.remotes:
            link.log("ERR", f"Rejecting connection from gateway {texts.quoted_text(connect.gateway)}")
            link.close(CloseReason.WRONG_GATEWAY, f"Connection to gateway {texts.quoted_text(self.name)} rejected")
        elif connect.gateway in self._foreign:
            link.refuse(CloseReason.WRONG_GATEWAY, FOREIGN_JETSTREAM)
        else:
            link.end.remote_cluster, link.for_replicas = connect.gateway, connect.slipstream_replicas
            link.end.authenticating()

    def on_inbound_info(self, link: InboundGateway, info: GatewayInfo) -> None:
        """It tells about itself: tell it all interest, and which clusters there are."""
        link.remote_id, link.end.remote_name = info.server_id, info.server_name
        if info.gateway != link.cluster:
            # Who was let in under one name speaks for no other cluster: that one would be dialled.
            said, other = texts.quoted_text(link.cluster), texts.quoted_text(info.gateway)
            link.refuse(CloseReason.WRONG_GATEWAY, f"Gateway {said} claims to be {other}")
            return
        if self._has_name(info.server_name):
            link.log("ERR", f"Remote server has a duplicate name: {texts.quoted_text(info.server_name)}")
            link.close(CloseReason.DUPLICATE_SERVER_NAME)
            return
        if link.for_replicas:
            self.replica_gateways.begin(link, takes_part=True)
            return
        link.begin()
        shown = texts.escaped(info.server_id)
        link.log("INF", f"Inbound gateway connection from {texts.quoted_text(info.gateway)} ({shown}) registered")
        self._edge.ready(link)
        self._telling.begin(link)
        for known in self.on_account_known.values():
            known()
        self.clusters.heard_of(info.gateway, info.gateway_urls)
        for name, remote in self.clusters.remotes.items():
            urls = remote.urls()
            if name != info.gateway and urls:
                link.outbox.write(self.introduction.gossip(name, urls).line())

    def _has_name(self, name: str) -> bool:
        """Whether a server of this cluster is called like that."""
        routes = () if self._mesh is None else self._mesh.roster.first_routes()
        return name == self.hub.identity.name or any(route.end.remote_name == name for route in routes)

    def _tell_urls(self) -> None:
        self._telling.tell(self.introduction.info().line())

    # --- connections that this server dialled ------------------------------------------------------------------------

    def dialled(
        self, peer: Peer, remote: RemoteCluster, address: GatewayAddress, *, for_replicas: bool = False
    ) -> OutboundGateway:
        """A server was reached; it speaks first."""
        link = OutboundGateway(self, peer, remote, address, for_replicas=for_replicas)
        level = "DBG" if for_replicas else "INF"
        link.log(level, f"Creating outbound gateway connection to {texts.quoted_text(remote.name)}")
        return link

    def on_outbound_info(self, link: OutboundGateway, info: GatewayInfo) -> None:
        """The peer tells about itself, its cluster, another cluster, or an account."""
        name, is_first = texts.quoted_text(link.remote.name), not link.remote_id
        if not info.gateway:
            link.refuse(CloseReason.WRONG_PORT, f"Attempt to connect to gateway {name} using wrong port")
            return
        if info.gateway != link.remote.name:
            if not is_first and info.gateway_cmd == GOSSIP:
                if info.gateway in self.clusters.remotes or not self._options.reject_unknown_cluster:
                    self.clusters.heard_of(info.gateway, info.gateway_urls)
                return
            other = texts.quoted_text(info.gateway)
            link.log("ERR", f"Failing connection to gateway {name}, remote gateway name is {other}")
            own = texts.quoted_text(self.name)
            text = f"Connection from {own} rejected, wanted to connect to {name}, this is {other}"
            link.close(CloseReason.WRONG_GATEWAY, text)
        elif info.gateway_cmd and not is_first:
            self._on_command(link, info)
        elif self._has_name(info.server_name):
            link.log("ERR", f"Remote server has a duplicate name: {texts.quoted_text(info.server_name)}")
            link.close(CloseReason.DUPLICATE_SERVER_NAME)
        elif link.for_replicas:
            if is_first:
                self._introduce(link, info)
                self.replica_gateways.begin(link, takes_part=info.slipstream_replication)
        else:
            if info.gateway_urls:
                link.remote.update(info.gateway_urls)
            if is_first:
                link.remote.has_streams = info.slipstream_replication
            if link.remote.has_streams:
                self.replica_gateways.meet(link.remote)
            if not is_first or self._begin_outbound(link, info):
                self._tell_routes(link.remote.name, info.gateway_urls or [])

    def _introduce(self, link: OutboundGateway, info: GatewayInfo) -> None:
        link.remote_id, link.end.remote_name = info.server_id, info.server_name
        link.end.understands_traces = info.understands_traces
        link.end.told_of(info.server_id, hands_on=info.slipstream_hands_on)
        link.outbox.write(self.introduction.connect(link).line())
        link.outbox.write(self.introduction.info().line())

    def _begin_outbound(self, link: OutboundGateway, info: GatewayInfo) -> bool:
        self._introduce(link, info)
        link.link.headers = info.headers and not self.hub.options.no_header_support
        if link.remote.name in self.outbound:
            link.reconnects = False
            link.close(CloseReason.WRONG_GATEWAY)
            return False
        self.outbound[link.remote.name] = link
        link.watches_jetstream = self.hub.options.replicates and not info.slipstream_replication
        link.link.readdress = self._answers.readdressed
        addresses = b"%b%b.>" % (ADDRESS_MARK, link.remote.hash)
        link.begin(RemoteWants(link.end, addresses, self.account_named, tells_all=info.gateway_iom))
        name, shown = texts.quoted_text(link.remote.name), texts.escaped(info.server_id)
        link.log("INF", f"Outbound gateway connection to {name} ({shown}) registered")
        self._edge.ready(link)
        return True

    def _on_command(self, link: OutboundGateway, info: GatewayInfo) -> None:
        if info.gateway_cmd not in (ALL_START, ALL_COMPLETE):
            name = texts.quoted_text(link.remote.name)
            self.log("WRN", f"Received unknown command {info.gateway_cmd} from gateway {name}")
            return
        word = "start" if info.gateway_cmd == ALL_START else "complete"
        if not info.gateway_cmd_payload:
            text = f"Account absent from receive-all-subscriptions-{word} command"
            link.refuse(CloseReason.PROTOCOL_VIOLATION, text)
        elif link.wants is not None:
            if word == "start":
                link.wants.all_start(info.gateway_cmd_payload)
                return
            link.wants.all_complete(info.gateway_cmd_payload)
            if link.watches_jetstream and info.gateway_cmd_payload == self.hub.options.system_account_name.encode():
                self._foreign.discard(link.remote.name)  # it has none, or no more
            known = self.on_account_known.get(info.gateway_cmd_payload.decode("utf-8", "replace"))
            if known is not None:
                known()

    def on_foreign_jetstream(self, link: OutboundGateway) -> None:
        """The other cluster has JetStream of nats-server: an API that two of them answer is refused, on both sides."""
        self._foreign.add(link.remote.name)
        for inbound in list(self.inbound.values()):
            if inbound.cluster == link.remote.name:
                inbound.refuse(CloseReason.WRONG_GATEWAY, FOREIGN_JETSTREAM)
        link.refuse(CloseReason.WRONG_GATEWAY, FOREIGN_JETSTREAM)

    def on_replica_message(self, link: InboundGateway | OutboundGateway, group: bytes, body: bytes) -> None:
        """A replica of another cluster says something."""
        self.replica_gateways.message(link, group, body)

    def on_outbound_pong(self, link: OutboundGateway) -> None:
        """A cluster's distance is known, or has changed: which queue group is asked first may have, too."""
        before = self._by_distance()
        link.link.distance = link.end.keepalive.rtt_ns
        if self._by_distance() != before:
            for account in list(self.hub.accounts.values()):
                account.interest.forget_all()

    def _by_distance(self) -> list[str]:
        return sorted(self.outbound, key=lambda name: self.outbound[name].link.distance)

    # --- who hears of whom -------------------------------------------------------------------------------------------

    def given_up(self, remote: RemoteCluster) -> bool:
        """A cluster that was heard of cannot be reached: forget it, unless it has reached this server."""
        if any(link.cluster == remote.name for link in self.inbound.values()):
            return False
        self.clusters.forget(remote)
        return True

    def _tell_routes(self, cluster: str, urls: list[str]) -> None:
        if self._mesh is not None:
            line = self.introduction.gossip_at_home(cluster, urls).line()
            for route in self._mesh.roster.first_routes():
                route.outbox.write(line)

    # --- as servers of the own cluster know it -----------------------------------------------------------------------

    def route_opened(self, route: RouteLink, info: RouteInfo) -> None:
        """The first route to a server: it is told of the clusters that are connected."""
        if info.gateway_url and self.introduction.urls.add(info.gateway_url, info.server_id):
            self._tell_urls()
        for name, link in self.outbound.items():
            urls = link.remote.urls()
            if urls:
                route.outbox.write(self.introduction.gossip_at_home(name, urls).line())

    def told_by_route(self, info: RouteInfo, server_id: str) -> None:
        """A server of the own cluster knows of another cluster."""
        if info.gateway_cmd == GOSSIP:
            self.clusters.heard_of(info.gateway, info.gateway_urls)
        else:
            self.log("ERR", f"Unknown command {info.gateway_cmd} from server {texts.escaped(server_id)}")

    def peer_came(self, server_id: str) -> None:
        """A server of the own cluster is there; `route_opened` says more."""

    def peer_gone(self, server_id: str) -> None:
        """A server of the own cluster is gone: so is its URL."""
        if self.introduction.urls.drop(server_id):
            self._tell_urls()

    def on_addressed(
        self, member: LinkMember, subject: bytes, reply: bytes | None, header_size: int, body: bytes, *, routed: bool
    ) -> None:
        """An answer with an address; one that a server of the own cluster passes on (`routed`) is for this one."""
        self._answers.came(None if routed else self._mesh, member, subject, reply, header_size, body)

    # --- the end of a connection -------------------------------------------------------------------------------------

    def inbound_closed(self, link: InboundGateway, reason: CloseReason) -> None:
        """A connection ended; called once for each."""
        self._closed(link, reason)
        if link.for_replicas:
            self.replica_gateways.closed(link)
        self.inbound.pop(link.cid, None)

    def outbound_closed(self, link: OutboundGateway, reason: CloseReason) -> None:
        """The same; the cluster is dialled again."""
        self._closed(link, reason)
        if link.for_replicas:
            self.replica_gateways.closed(link)
            if reason is not CloseReason.SERVER_SHUTDOWN:
                self.replica_gateways.again(link)
            return
        if self.outbound.get(link.remote.name) is link:
            del self.outbound[link.remote.name]
        if not link.reconnects or reason is CloseReason.SERVER_SHUTDOWN:
            return
        name = texts.quoted_text(link.remote.name)
        if self.clusters.knows(link.remote):
            self.log("DBG", f"Attempting reconnect for gateway {name}")
            self._edge.dial(link.remote, again=True)
        else:
            self.log("DBG", f"Gateway {name} not in configuration, not attempting reconnect")

    def _closed(self, link: InboundGateway | OutboundGateway, reason: CloseReason) -> None:
        remote = f" - Remote: {texts.escaped(link.end.remote_name)}" if link.end.remote_name else ""
        link.log("INF", f"Gateway connection closed: {reason.value}{remote}")
        self.past.add(link.end)
        self._edge.close(link, reason)
