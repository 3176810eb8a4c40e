"""The servers of a cluster as one of them knows them: which routes there are, and which are wanted.

    peer ──► pool: `pool_size` routes, each with the accounts whose name hashes to its place
         └─► pinned: one route more for each account that is configured to have its own

Each server is connected to each other one: whoever hears of a server that it does not know dials it (gossip). Two that
dial each other at once drop one of two routes, or both, and try again after different pauses.

What this is not: sockets (`server.routes`), what is said over a route (`link`), interest (`interest`).

Invariant: a link is READY exactly when it is in a pool or among the pinned ones.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from slipstream.links.routes.handshake import (
    GOSSIP_DISABLED,
    GOSSIP_OVERRIDE,
    PROTO,
    RouteConnect,
    RouteInfo,
)
from slipstream.links.routes.interest import LocalInterest, Wanted, wanted_line
from slipstream.links.routes.link import RouteLink
from slipstream.links.routes.targets import RouteTarget, route_target
from slipstream.protocol import texts
from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason
from slipstream.version import PRODUCT_VERSION, SERVER_VERSION

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.accounts.imports import StreamImport
    from slipstream.config.listener_options import ClusterOptions
    from slipstream.config.options import Options
    from slipstream.kernels.wire.delivery import Delivery
    from slipstream.kernels.wire.outbox import FlushQueue
    from slipstream.protocol.peer import Peer
    from slipstream.routing.hub import Hub

__all__ = ["Mesh", "MeshEdge", "pool_place"]

ROUTE_PORT = "attempted to connect to route port"
_POOL_MAX = 1_024  # routes that a peer may ask for


class MeshEdge(Protocol):
    """What the mesh asks of the side that has sockets."""

    def dial(self, target: RouteTarget, *, again: bool = False) -> None:
        """Connect, now or (`again`) after a pause, unless a route to it is not wanted any more."""
        ...

    def ready(self, link: RouteLink) -> None:
        """The handshake is over."""
        ...

    def close(self, link: RouteLink, reason: CloseReason) -> None:
        """Send what waits, then close the socket."""
        ...

    def urls_changed(self) -> None:
        """Clients have to be told where they may connect."""
        ...

    def log(self, level: str, text: str) -> None: ...


def pool_place(pool_size: int, account: str) -> int:
    """Which route of a pool an account has; all servers find the same."""
    if pool_size <= 1:
        return 0
    mixed = 2166136261
    for byte in account.encode():
        mixed = (mixed ^ byte) * 16777619 & 0xFFFFFFFF
    return mixed % pool_size


class Mesh:
    """The routes of one server."""

    def __init__(self, hub: Hub, edge: MeshEdge, cluster: str, *, dynamic: bool) -> None:
        """No route yet.

        Args:
            hub: accounts, delivery, options.
            edge: sockets.
            cluster: the name of the cluster.
            dynamic: whether it was made up, and gives way to that of others.
        """
        self._hub = hub
        self._edge = edge
        self.cluster = cluster
        self.dynamic = dynamic
        self.host, self.port = "", 0  # where it listens
        self.own_urls: list[str] = []  # for clients
        self.own_websocket_urls: list[str] = []
        self.pools: dict[str, list[RouteLink | None]] = {}
        self.pinned: dict[str, dict[str, RouteLink]] = {name: {} for name in hub.options.cluster.accounts}
        self.interest = LocalInterest(self._imports, self._tell)
        # Traffic of routes that are gone.
        self.closed_in_msgs = self.closed_in_bytes = self.closed_out_msgs = self.closed_out_bytes = 0
        self._next: dict[RouteLink, RouteTarget] = {}  # one more route to dial when this one has answered

    # --- as a host of links ------------------------------------------------------------------------------------------

    @property
    def options(self) -> Options:
        """The configuration."""
        return self._hub.options

    @property
    def delivery(self) -> Delivery:
        """Of the server."""
        return self._hub.delivery

    @property
    def flush_queue(self) -> FlushQueue:
        """Of the server."""
        return self._hub.flush_queue

    def now_ns(self) -> int:
        """Wall clock."""
        return self._hub.now_ns()

    def in_steps(self, work: Iterator[None]) -> None:
        """Do the first step of some work now, and the others when everybody else had a turn."""
        self._hub.in_steps(work)

    def account_named(self, name: str) -> Account | None:
        """An account of this server."""
        return self._hub.accounts.get(name)

    def log(self, level: str, link: RouteLink, text: str) -> None:
        """A log line about one route."""
        self._edge.log(level, f"{link.peer.ip}:{link.peer.port} - rid:{link.cid} - {text}")

    # --- all routes --------------------------------------------------------------------------------------------------

    def routes(self) -> list[RouteLink]:
        """All that are READY."""
        pooled = [link for pool in self.pools.values() for link in pool if link is not None]
        return pooled + [link for links in self.pinned.values() for link in links.values()]

    def first_routes(self) -> list[RouteLink]:
        """One to each peer."""
        found = (next((link for link in pool if link is not None), None) for pool in self.pools.values())
        return [link for link in found if link is not None]

    def watch_accounts(self) -> None:
        """Count the interest of accounts that came."""
        for account in list(self._hub.accounts.values()):
            self.interest.watch(account)

    @property
    def _options(self) -> ClusterOptions:
        return self._hub.options.cluster

    @property
    def _pool_size(self) -> int:
        return max(self._options.pool_size, 1)

    def _imports(self, account: str) -> tuple[StreamImport, ...]:
        resolved = self._hub.topology.graph.accounts.get(account)
        return () if resolved is None else tuple(resolved.stream_imports)

    # --- interest ----------------------------------------------------------------------------------------------------

    def _tell(self, account: str, wanted: Wanted, count: int) -> None:
        for link in self._routes_of(account):
            link.outbox.write(wanted_line(link.prefix(account), wanted, count))

    def _routes_of(self, account: str) -> list[RouteLink]:
        """Those over which interest of an account is told."""
        unpooled = [link for link in self.first_routes() if link.unpooled]
        if account in self.pinned:
            return [*self.pinned[account].values(), *unpooled]
        place = pool_place(self._pool_size, account)
        found = [pool[place] for pool in self.pools.values() if place < len(pool)]
        return [link for link in found if link is not None and not link.unpooled] + unpooled

    def _announce(self, link: RouteLink) -> Iterator[None]:
        names = list(self._hub.accounts)
        if link.account:
            names = [link.account]
        elif not link.unpooled:
            size = self._pool_size
            names = [name for name in names if name not in self.pinned and pool_place(size, name) == link.place]
        for piece in self.interest.lines(names, link.prefix):
            if link.state is State.CLOSED:
                return
            link.outbox.write(piece)
            yield

    # --- handshake ---------------------------------------------------------------------------------------------------

    def accept(self, peer: Peer) -> RouteLink:
        """A server dialled: greet it."""
        link = RouteLink(self, self._hub.next_cid(), peer)
        link.outbox.write(self._info(link).line())
        self.log("INF", link, "Route connection created")
        return link

    def dialled(self, peer: Peer, target: RouteTarget) -> RouteLink:
        """A server was reached: say who this is."""
        link = RouteLink(self, self._hub.next_cid(), peer, target)
        connect = RouteConnect(
            user=target.user,
            password=target.password,
            headers=not self.options.no_header_support,
            name=self._hub.identity.id,
            cluster=self.cluster,
            cluster_dynamic=self.dynamic,
            lnoc=True,
        )
        link.outbox.write(connect.line())
        self.log("INF", link, "Route connection created")
        return link

    def _info(self, link: RouteLink | None) -> RouteInfo:
        options, identity = self._options, self._hub.identity
        info = RouteInfo(
            server_id=identity.id,
            server_name=identity.name,
            version=SERVER_VERSION,
            proto=PROTO,
            go="python",
            git_commit=f"slipstream-{PRODUCT_VERSION}",
            host=self.host,
            port=self.port,
            headers=not self.options.no_header_support,
            auth_required=bool(options.user),
            max_payload=self.options.max_payload,
            ip=f"nats-route://{options.advertise}/" if options.advertise else "",
            cluster=self.cluster,
            cluster_dynamic=self.dynamic,
            connect_urls=self.own_urls or None,
            ws_connect_urls=self.own_websocket_urls or None,
            ldm=self._hub.lame_duck,
            lnoc=True,
            route_pool_size=max(options.pool_size, 0),
        )
        if link is not None:
            info.nonce = self._hub.new_nonce()
            info.compression = "off"
            info.route_account = link.account
            info.route_pool_idx = max(link.place, 0)
            info.gossip_mode = 0 if link.target is None else link.target.gossip_mode
        return info

    def on_connect(self, link: RouteLink, connect: RouteConnect) -> None:
        """A peer that dialled says who it is."""
        options = self._options
        if connect.lang:
            link.refuse(CloseReason.WRONG_PORT, ROUTE_PORT)
            return
        if connect.gateway:
            name = texts.quoted_text(connect.gateway)
            link.refuse(CloseReason.WRONG_GATEWAY, f"Rejecting connection from gateway {name} on the Route port")
            return
        if options.user and not (_same(connect.user, options.user) and _same(connect.password, options.password)):
            self.log("ERR", link, "authentication error")
            link.close(CloseReason.AUTHENTICATION_VIOLATION, texts.AUTHORIZATION_VIOLATION)
            return
        if connect.cluster != self.cluster and not self._renamed(
            connect.cluster, connect.name, dynamic=connect.cluster_dynamic
        ):
            theirs, ours = texts.quoted_text(connect.cluster), texts.quoted_text(self.cluster)
            text = f"Rejecting connection, cluster name {theirs} does not match {ours}"
            link.refuse(CloseReason.CLUSTER_NAME_CONFLICT, text)
            return
        link.remote_id = connect.name
        link.link.headers = connect.headers and not self.options.no_header_support
        link.state = State.AUTHENTICATING

    def _renamed(self, cluster: str, keep: str, *, dynamic: bool) -> bool:
        """Take the name of another cluster, if this one's was made up and the other counts more."""
        if not self.dynamic or (dynamic and self.cluster >= cluster):
            return False
        self.cluster = cluster
        self.dynamic = dynamic
        for link in self.routes():
            if link.remote_id != keep:
                link.close(CloseReason.CLUSTER_NAME_CONFLICT)
        self._edge.urls_changed()
        return True

    def on_info(self, link: RouteLink, info: RouteInfo) -> None:
        """The peer tells about itself, or about another server."""
        if link.state is State.GREETED and not link.solicited:
            link.close(CloseReason.AUTHENTICATION_VIOLATION, texts.AUTHORIZATION_VIOLATION)
            return
        if info.server_id == self._hub.identity.id:
            link.remote_id = info.server_id
            link.reconnects = False
            if link.info is None:
                link.close(CloseReason.DUPLICATE_ROUTE)
            return
        if (
            info.cluster
            and info.cluster != self.cluster
            and not self._renamed(info.cluster, info.server_id, dynamic=info.cluster_dynamic)
        ):
            link.close(CloseReason.CLUSTER_NAME_CONFLICT)
            return
        if link.info is not None:
            self._on_later_info(link, info)
            return
        if not link.solicited and info.server_name == self._hub.identity.name:
            self.log("ERR", link, f"Remote server has a duplicate name: {texts.quoted_text(info.server_name)}")
            link.close(CloseReason.DUPLICATE_SERVER_NAME)
            return
        link.info = info
        link.remote_id, link.remote_name = info.server_id, info.server_name
        if link.solicited:
            link.link.headers = info.headers and not self.options.no_header_support
        elif info.route_account:
            link.account = info.route_account
        if not info.ip:
            host = f"[{link.peer.ip}]" if ":" in link.peer.ip else link.peer.ip
            info.ip = f"nats-route://{host}:{info.port}/"
        self._register(link, info)

    def _register(self, link: RouteLink, info: RouteInfo) -> None:
        own_size = self._options.pool_size
        pooled = info.route_pool_size > 0 and own_size >= 0
        size = min(max(self._pool_size, info.route_pool_size), _POOL_MAX)
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
        if not problem and link.account and link.account not in self.pinned:
            problem = f"No route for account {texts.quoted_text(link.account)}"
        if problem:
            link.refuse(CloseReason.PROTOCOL_VIOLATION, problem)
            return
        if link.account:
            added = self._pin(link, info)
        else:
            added = self._pool(link, info, size if pooled else 1)
        if not added:
            self._edge.log("DBG", f"Detected duplicate remote route {texts.quoted_text(info.server_id)}")
            link.close(CloseReason.DUPLICATE_ROUTE)

    def _pin(self, link: RouteLink, info: RouteInfo) -> bool:
        links = self.pinned[link.account]
        if info.server_id in links:
            self._inherit(links[info.server_id], link)
            return False
        links[info.server_id] = link
        self._begin(link)
        if len(links) > 1:
            self._gossip(link, info)
        return True

    def _pool(self, link: RouteLink, info: RouteInfo, size: int) -> bool:
        pool = self.pools.get(info.server_id)
        is_first = pool is None
        if pool is None:
            pool = [None] * size
        pool.extend([None] * (size - len(pool)))
        if link.solicited:
            place = next((at for at, other in enumerate(pool) if other is None), -1)
        else:
            place = 0 if link.unpooled else info.route_pool_idx
        if place < 0 or pool[place] is not None:
            first = next(other for other in pool if other is not None)
            self._inherit(first, link)
            link.reconnects = False
            return False
        self.pools[info.server_id] = pool
        pool[place] = link
        link.place = place
        link.connect_urls = info.connect_urls or []
        link.websocket_urls = info.ws_connect_urls or []
        known = next((other for other in pool if other is not None and other.solicited), None)
        if known is not None:
            for other in pool:
                if other is not None:
                    self._inherit(other, known)
        self._begin(link)
        if is_first:
            if len(self.pools) > 1:
                self._gossip(link, info)
            self._edge.urls_changed()
        if link.solicited and link.target is not None and None in pool:
            # Credentials were right if this is answered: dial the next one of the pool then.
            self._next[link] = link.target.again()
            link.send_ping()
        return True

    def _inherit(self, kept: RouteLink, dropped: RouteLink) -> None:
        """Of two routes one stays: it is redialled if the other would have been."""
        if dropped.target is not None and kept.target is None:
            kept.target = dropped.target
            kept.solicited = True
        kept.explicit = kept.explicit or dropped.explicit

    def _begin(self, link: RouteLink) -> None:
        if link.target is not None:
            link.outbox.write(self._info(link).line())
        link.begin()
        self._edge.ready(link)
        self._hub.in_steps(self._announce(link))

    def on_pong(self, link: RouteLink) -> None:
        """A peer answered: it takes one more route."""
        target = self._next.pop(link, None)
        pool = self.pools.get(link.remote_id)
        if target is not None and pool is not None and None in pool:
            self._edge.dial(target)

    # --- gossip ------------------------------------------------------------------------------------------------------

    def _gossip(self, link: RouteLink, info: RouteInfo) -> None:
        """Tell the others of a server that is new here."""
        by_gossip = link.solicited and not link.explicit
        mode = 0 if link.target is None else link.target.gossip_mode
        if (by_gossip and mode != GOSSIP_OVERRIDE) or info.gossip_mode == GOSSIP_DISABLED:
            return
        info.nonce = ""
        told = set[str]()
        others = [*self.pinned.get(link.account, {}).values(), *self.first_routes()]
        for other in others:
            if other.remote_id == info.server_id or other.remote_id in told or (link.account and other.unpooled):
                continue
            told.add(other.remote_id)
            if link.explicit if link.solicited else other.explicit:
                info.gossip_mode = GOSSIP_OVERRIDE
            else:
                info.gossip_mode = 0 if link.solicited else GOSSIP_DISABLED
            other.outbox.write(info.line())

    def _on_later_info(self, link: RouteLink, info: RouteInfo) -> None:
        if info.route_acc_add_reqid or info.gateway:
            return
        if info.server_id != link.remote_id:
            self._on_gossip(info)
        elif info.ldm and (link.connect_urls or link.websocket_urls):
            for other in self.pools.get(link.remote_id, ()):
                if other is not None:
                    other.connect_urls, other.websocket_urls = [], []
            self._edge.urls_changed()

    def _on_gossip(self, info: RouteInfo) -> None:
        """Another server is told of: connect to it, unless that was done, or is configured."""
        options = self._options
        if info.route_account:
            links = self.pinned.get(info.route_account)
            if options.pool_size <= 0 or links is None or info.server_id in links:
                return
        elif info.server_id in self.pools:
            return
        credentials = (options.user, options.password) if info.auth_required else ("", "")
        target = route_target(
            info.ip, explicit=False, account=info.route_account, gossip_mode=info.gossip_mode, credentials=credentials
        )
        if target is None:
            self._edge.log("ERR", f"Error in URL of a route: {texts.escaped(info.ip[:256])}")
            return
        addresses = {target.address, f"{info.host}:{info.port}".lower()}
        configured = (route_target(url, explicit=True) for url in options.routes)
        if not any(other is not None and other.address in addresses for other in configured):
            self._edge.dial(target)

    # --- the end of a route ------------------------------------------------------------------------------------------

    def closed(self, link: RouteLink, reason: CloseReason) -> None:
        """A route ended, and forgot what its peer wanted; called once for each."""
        self.log("INF" if link.place >= 0 or link.account else "DBG", link, f"Router connection closed: {reason.value}")
        self._next.pop(link, None)
        self.closed_in_msgs += link.parser.msgs
        self.closed_in_bytes += link.parser.msg_bytes
        self.closed_out_msgs += link.outbox.msgs
        self.closed_out_bytes += link.outbox.msg_bytes
        was_known = False
        if link.account and self.pinned.get(link.account, {}).get(link.remote_id) is link:
            del self.pinned[link.account][link.remote_id]
            was_known = True
        pool = self.pools.get(link.remote_id)
        if pool is not None and 0 <= link.place < len(pool) and pool[link.place] is link:
            pool[link.place] = None
            was_known = True
            if not any(pool):
                del self.pools[link.remote_id]
                self._edge.urls_changed()
        self._edge.close(link, reason)
        if link.target is None or not link.reconnects or reason is CloseReason.SERVER_SHUTDOWN:
            return
        if link.explicit or was_known:
            self._edge.dial(link.target.again(account=link.account), again=True)

    def is_wanted(self, target: RouteTarget) -> bool:
        """Whether a route is still to be dialled: those that were configured as long as they are."""
        if target.account and target.account not in self.pinned:
            return False
        return not target.explicit or target.url in self._options.routes

    def client_urls(self) -> tuple[list[str], list[str]]:
        """Where clients and WebSocket clients may connect: here and at all peers."""
        urls, websocket = list(self.own_urls), list(self.own_websocket_urls)
        for link in self.first_routes():
            urls += [url for url in link.connect_urls if url not in urls]
            websocket += [url for url in link.websocket_urls if url not in websocket]
        return urls, websocket

    def say_goodbye(self) -> None:
        """This server is about to leave: peers stop telling their clients of it."""
        line = self._info(None).line()
        for link in self.routes():
            link.outbox.write(line)

    def close_all(self, reason: CloseReason) -> None:
        """End all routes."""
        for link in self.routes():
            link.close(reason)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
