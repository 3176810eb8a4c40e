"""The servers of a cluster as one of them knows them: which routes are wanted, and who is let in.

Each server is connected to each other one: whoever hears of a server that it does not know dials it (`gossip`). Of the
routes of two that dial each other at once one stays, the same on both sides (`Roster.give_way`).

What this is not: sockets (`server.routes`), what is said over a route (`link`), interest (`interest`), which routes
there are (`roster`), which are dialled (`dials`).

Invariant: a link is READY exactly when it is on the roster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from slipstream.links.admission import PeerLogin, is_admitted
from slipstream.links.compressing import Compressing
from slipstream.links.compression import configured_mode
from slipstream.links.routes.changes import RouteChanges
from slipstream.links.routes.dials import RouteDials
from slipstream.links.routes.gateways import RouteGateways
from slipstream.links.routes.gossip import Gossip
from slipstream.links.routes.handshake import RouteConnect, RouteInfo
from slipstream.links.routes.introduction import Introduction
from slipstream.links.routes.link import RouteLink
from slipstream.links.routes.replica_links import ReplicaLinks
from slipstream.links.routes.roster import Roster
from slipstream.links.routes.targets import RouteTarget, route_target
from slipstream.links.routes.telling import InterestTelling
from slipstream.links.traffic import PastTraffic
from slipstream.protocol import texts
from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.auth.permissions import Permissions
    from slipstream.config.listener_options import ClusterOptions
    from slipstream.links.end import LinkEnd
    from slipstream.links.routes.gateways import MeshGateways
    from slipstream.protocol.peer import Peer
    from slipstream.routing.hub import Hub

__all__ = ["Mesh", "MeshEdge", "PeerListener"]

ROUTE_PORT = "attempted to connect to route port"
_POOL_MAX = 1_024  # routes that a peer may ask for


_FOREIGN_JETSTREAM = "JetStream of nats-server and of Slipstream cannot be in one cluster: switch it off on one side"


class PeerListener(Protocol):
    """Whoever follows which servers there are."""

    def peer_came(self, server_id: str) -> None: ...
    def peer_gone(self, server_id: str) -> None: ...


class MeshEdge(Protocol):
    """What the mesh asks of the side that has sockets."""

    def dial(self, target: RouteTarget, *, again: bool = False, soon: bool = False) -> None:
        """Connect, now or (`again`) after a pause (`soon`: a short one), unless a route to it is no longer wanted."""
        ...

    def ready(self, link: RouteLink) -> None:
        """The handshake is over."""
        ...

    def compress(self, end: LinkEnd, mode: str) -> None:
        """Send what waits as it is, and frames of S2 from here on; or change the level."""
        ...

    def close(self, link: RouteLink, reason: CloseReason) -> None:
        """Send what waits, then close the socket."""
        ...

    def at_end_of_turn(self, work: Callable[[], None]) -> None:
        """Call when what was read in this turn is handled."""
        ...

    def urls_changed(self) -> None:
        """Clients have to be told where they may connect."""
        ...

    def log(self, level: str, text: str) -> None: ...


class Mesh:
    """The routes of one server."""

    def __init__(
        self,
        hub: Hub,
        edge: MeshEdge,
        cluster: str,
        *,
        dynamic: bool,
        replicates: bool = False,
        gateways: MeshGateways | None = None,
    ) -> None:
        """No route yet.

        Args:
            hub: accounts, delivery, options.
            edge: sockets.
            cluster: the name of the cluster.
            dynamic: whether it was made up, and gives way to that of others.
            replicates: whether it takes part in replication.
            gateways: to other clusters; None: there are none.
        """
        self.hub = hub
        self._edge = edge
        self.gateways = RouteGateways(gateways, edge.log)
        self.introduction = Introduction(
            hub, cluster, dynamic=dynamic, replicates=replicates, gateway_url=self.gateways.url
        )
        self.replicas = ReplicaLinks(edge.dial, edge.at_end_of_turn) if replicates else None
        self.roster = Roster(hub.options.cluster.accounts)
        self.telling = InterestTelling(hub, self.roster)
        self.past = PastTraffic()
        self._compressing = Compressing(hub.now_ns, edge.compress)
        self.changes = RouteChanges(self)
        self.listeners: list[PeerListener] = []
        self.dials = RouteDials(self.roster, self.introduction, lambda: self._options, edge.dial)
        self._gossip = Gossip(self.roster, lambda: self._options, edge.dial, edge.log)

    # --- as a host of links ------------------------------------------------------------------------------------------

    def account_named(self, name: str) -> Account | None:
        """An account of this server."""
        return self.hub.accounts.get(name)

    def account_names(self) -> list[str]:
        """All accounts of this server."""
        return list(self.hub.accounts)

    def log(self, level: str, text: str) -> None:
        """A log line."""
        self._edge.log(level, text)

    @property
    def rights(self) -> Permissions | None:
        """What may cross: `import` as publishing, `export` as subscribing."""
        return self.telling.rights

    @property
    def _options(self) -> ClusterOptions:
        return self.hub.options.cluster

    # --- handshake ---------------------------------------------------------------------------------------------------

    def accept(self, peer: Peer) -> RouteLink:
        """A server dialled: greet it."""
        link = RouteLink(self, peer)
        link.outbox.write(self.introduction.info(link).line())
        link.log("INF", "Route connection created")
        return link

    def dialled(self, peer: Peer, target: RouteTarget) -> RouteLink:
        """A server was reached: say who this is."""
        link = RouteLink(self, peer, target)
        link.outbox.write(self.introduction.connect(target).line())
        link.log("INF", "Route connection created")
        return link

    def on_connect(self, link: RouteLink, connect: RouteConnect) -> None:
        """A peer that dialled says who it is."""
        if connect.lang:
            link.refuse(CloseReason.WRONG_PORT, ROUTE_PORT)
            return
        if connect.gateway:
            name = texts.quoted_text(connect.gateway)
            link.refuse(CloseReason.WRONG_GATEWAY, f"Rejecting connection from gateway {name} on the Route port")
            return
        login = PeerLogin(connect.user, connect.password)
        if not self.admits(link, login):
            self.turn_away(link)
            return
        link.login = login
        if connect.cluster != self.introduction.cluster and not self._renamed(
            connect.cluster, connect.name, dynamic=connect.cluster_dynamic
        ):
            theirs, ours = texts.quoted_text(connect.cluster), texts.quoted_text(self.introduction.cluster)
            text = f"Rejecting connection, cluster name {theirs} does not match {ours}"
            link.refuse(CloseReason.CLUSTER_NAME_CONFLICT, text)
            return
        link.remote_id = connect.name
        link.link.headers = connect.headers and not self.hub.options.no_header_support
        link.end.authenticating()

    def admits(self, link: RouteLink, login: PeerLogin) -> bool:
        """Whether a peer that dialled may come in, by the options that hold now."""
        options = self._options
        targets = (route_target(url, explicit=True) for url in options.routes)
        hosts = (target.host for target in targets if target is not None)
        asked = PeerLogin(options.user, options.password)
        return is_admitted(options.tls, asked, hosts, login, link.peer.certificate)

    def turn_away(self, link: RouteLink) -> None:
        """A peer may not come in, or not any more."""
        link.log("ERR", "authentication error")
        link.close(CloseReason.AUTHENTICATION_VIOLATION, texts.AUTHORIZATION_VIOLATION)

    def _renamed(self, cluster: str, keep: str, *, dynamic: bool) -> bool:
        """Take the name of another cluster, if it counts more; peers that know the old one have to ask again."""
        if not self.introduction.renamed(cluster, dynamic=dynamic):
            return False
        for link in self.roster.routes():
            if link.remote_id != keep:
                link.close(CloseReason.CLUSTER_NAME_CONFLICT)
        self._edge.urls_changed()
        return True

    def on_info(self, link: RouteLink, info: RouteInfo) -> None:
        """The peer tells about itself, or about another server."""
        if link.end.state is State.GREETED and not link.solicited:
            link.close(CloseReason.AUTHENTICATION_VIOLATION, texts.AUTHORIZATION_VIOLATION)
            return
        if info.server_id == self.hub.identity.id:
            link.remote_id = info.server_id
            link.reconnects = False
            if link.target is not None:
                self.dials.leads_here(link.target)
            if link.info is None:
                link.close(CloseReason.DUPLICATE_ROUTE)
            return
        if info.cluster and info.cluster != self.introduction.cluster:
            renamed = self._renamed(info.cluster, info.server_id, dynamic=info.cluster_dynamic)
            # The peer refuses what was said under the old name, or takes this one, by the CONNECT that it has read.
            link.names_differed = renamed or info.cluster_dynamic
            if not renamed:
                link.close(CloseReason.CLUSTER_NAME_CONFLICT)
                return
        if link.info is not None:
            self._on_later_info(link, info)
            return
        if not link.solicited and info.server_name == self.hub.identity.name:
            link.log("ERR", f"Remote server has a duplicate name: {texts.quoted_text(info.server_name)}")
            link.close(CloseReason.DUPLICATE_SERVER_NAME)
            return
        if self.replicas is not None and info.jetstream and not info.slipstream_replication:
            link.refuse(CloseReason.PROTOCOL_VIOLATION, _FOREIGN_JETSTREAM)
            return
        options = self._options.compression
        if not link.end.compression and self._compressing.begins(
            link.end,
            configured_mode(options),
            info.compression,
            options,
            lambda: self.introduction.info(link).line(),
            solicited=link.solicited,
        ):
            return  # the peer says it all again, compressed
        link.info = info
        link.remote_id, link.end.remote_name = info.server_id, info.server_name
        link.end.understands_traces = info.understands_traces
        link.end.told_of(info.server_id, hands_on=info.slipstream_hands_on)
        if link.solicited:
            link.link.headers = info.headers and not self.hub.options.no_header_support
        elif info.route_account:
            link.account = info.route_account
        else:
            link.for_replicas = info.slipstream_replicas
        if not info.ip:
            host = f"[{link.peer.ip}]" if ":" in link.peer.ip else link.peer.ip
            info.ip = f"nats-route://{host}:{info.port}/"
        if link.for_replicas:
            self._register_replicas(link, info)
        else:
            self._register(link, info)

    def _register_replicas(self, link: RouteLink, info: RouteInfo) -> None:
        if self.replicas is None:
            link.refuse(CloseReason.PROTOCOL_VIOLATION, "Replication is not configured")
            return
        if link.dialled and not info.slipstream_replication:
            link.reconnects = False  # it takes no part any more; when it does, the route to it will tell
            link.close(CloseReason.ROUTE_REMOVED)
            return
        if link.target is not None:
            link.outbox.write(self.introduction.info(link).line())
        self.replicas.began(link)
        if link.end.is_open:
            self._edge.ready(link)

    def on_replica_message(self, link: RouteLink, group: bytes, body: bytes) -> None:
        """A replica of another server says something."""
        if self.replicas is not None:
            self.replicas.message(link, group, body)

    def _register(self, link: RouteLink, info: RouteInfo) -> None:
        own_size = self._options.pool_size
        pooled = info.route_pool_size > 0 and own_size >= 0
        size = min(max(self.telling.pool_size, info.route_pool_size), _POOL_MAX)
        problem = ""
        if not pooled:
            if link.account:
                name = texts.quoted_text(link.account)
                problem = f"Not possible to have a dedicated route for account {name} between those servers"
                link.reconnects = False
            link.unpooled = True
        elif link.solicited:
            if info.route_pool_idx:
                problem = f"Route pool index should not be set but is set to {info.route_pool_idx}"
        elif not 0 <= info.route_pool_idx < size:
            problem = f"Invalid route pool index: {info.route_pool_idx} - pool size is {info.route_pool_size}"
        if not problem and link.account and link.account not in self.roster.pinned:
            problem = f"No route for account {texts.quoted_text(link.account)}"
        if problem:
            link.refuse(CloseReason.PROTOCOL_VIOLATION, problem)
            return
        crossed = self.roster.give_way(link, info, self.hub.identity.id)
        if link.account:
            added = self._pin(link, info)
        else:
            added = self._pool(link, info, size if pooled else 1)
        if crossed is not None:
            link.inherit(crossed)
            crossed.reconnects = False
            crossed.close(CloseReason.DUPLICATE_ROUTE)
            if not link.account:
                self.gateways.opened(link, info)  # what was told over the other one is lost
        if not added:
            link.reconnects = False  # the one that is there is dialled again when it goes
            self._edge.log("DBG", f"Detected duplicate remote route {texts.quoted_text(info.server_id)}")
            link.close(CloseReason.DUPLICATE_ROUTE)

    def _pin(self, link: RouteLink, info: RouteInfo) -> bool:
        if not self.roster.pin(link):
            return False
        self._begin(link)
        if len(self.roster.pinned[link.account]) > 1:
            self._gossip.tell(link, info)
        return True

    def _pool(self, link: RouteLink, info: RouteInfo, size: int) -> bool:
        is_first = info.server_id not in self.roster.pools
        if not self.roster.enter(link, size, info.route_pool_idx):
            return False
        link.connect_urls = info.connect_urls or []
        link.websocket_urls = info.ws_connect_urls or []
        link.leaf_urls = info.leafnode_urls or []
        self._begin(link)
        dials_more = link.solicited
        self.roster.share_target(info.server_id)
        if is_first:
            if len(self.roster.pools) > 1:
                self._gossip.tell(link, info)
            self._edge.urls_changed()
            self.gateways.opened(link, info)
            for listener in self.listeners:
                listener.peer_came(info.server_id)
        if self.replicas is not None:
            self.replicas.route_began(link, info)
        if dials_more:
            self.dials.fill(link)
        return True

    def _begin(self, link: RouteLink) -> None:
        if link.target is not None:
            link.outbox.write(self.introduction.info(link).line())
        link.begin()
        self.telling.routes_changed()
        self._edge.ready(link)
        self.telling.announce(link)

    def on_pong(self, link: RouteLink) -> None:
        """A peer answered: it takes one more route; and its distance may ask for another level of compression."""
        options = self._options.compression
        self._compressing.retune(link.end, configured_mode(options), options)
        self.dials.answered(link)

    def _on_later_info(self, link: RouteLink, info: RouteInfo) -> None:
        if info.route_acc_add_reqid:
            for target in self.changes.account_moves(link, info):
                self._edge.dial(target)
        elif info.gateway:
            self.gateways.told(link, info)
        elif info.server_id != link.remote_id:
            self._gossip.heard(info)
        elif not info.ldm:
            self.changes.peer_changed(link, info)
        elif link.connect_urls or link.websocket_urls:
            for other in self.roster.pools.get(link.remote_id, ()):
                if other is not None:
                    other.connect_urls, other.websocket_urls = [], []
            self._edge.urls_changed()

    # --- the end of a route ------------------------------------------------------------------------------------------

    def closed(self, link: RouteLink, reason: CloseReason) -> None:
        """A route ended, and forgot what its peer wanted; called once for each."""
        link.log("INF" if link.place >= 0 or link.account else "DBG", f"Router connection closed: {reason.value}")
        self.dials.forget(link)
        self.past.add(link.end)
        if self.replicas is not None and link.for_replicas:
            self.replicas.closed(link)
        was_known, peer_gone = self.roster.drop(link)
        self.telling.routes_changed()
        if peer_gone:
            self._edge.urls_changed()
            for listener in self.listeners:
                listener.peer_gone(link.remote_id)
        self._edge.close(link, reason)
        if reason is not CloseReason.SERVER_SHUTDOWN:
            self.dials.again(link, was_known=was_known)

    # --- what others are told ----------------------------------------------------------------------------------------

    def client_urls(self) -> tuple[list[str], list[str]]:
        """Where clients and WebSocket clients may connect: here and at all peers."""
        urls, websocket = list(self.introduction.own_urls), list(self.introduction.own_websocket_urls)
        for link in self.roster.first_routes():
            urls += [url for url in link.connect_urls if url not in urls]
            websocket += [url for url in link.websocket_urls if url not in websocket]
        return urls, websocket

    def leaf_urls(self) -> list[str]:
        """Where peers listen for leafs."""
        return list(dict.fromkeys(url for link in self.roster.first_routes() for url in link.leaf_urls))

    def say_goodbye(self) -> None:
        """This server is about to leave: peers stop telling their clients of it."""
        line = self.introduction.info(None).line()
        for link in self.roster.routes():
            link.outbox.write(line)

    def close_all(self, reason: CloseReason) -> None:
        """End all routes."""
        for link in self.roster.routes():
            link.close(reason)
