"""The two JSON documents of a route: INFO and CONNECT, as nats-server writes and reads them.

    accepting side                              dialling side
    INFO {cluster, pool size} ────────────────►
                              ◄──────────────── CONNECT {name, cluster, credentials}
                              ◄──────────────── INFO {place in the pool, or account}
    RS+ ...                   ◄───────────────► RS+ ...

Later INFOs tell of other servers (gossip), or that the peer is about to leave. What comes from a peer is read
leniently: unknown fields are skipped, ones of a wrong type refuse the document.
"""

from __future__ import annotations

import msgspec

from slipstream.links.documents import LinkInfo, SubjectLists

__all__ = [
    "GOSSIP_DEFAULT",
    "GOSSIP_DISABLED",
    "GOSSIP_OVERRIDE",
    "RouteConnect",
    "RouteInfo",
]

# What a server that is told of another one does with that: pass it on once, never, or always.
GOSSIP_DEFAULT, GOSSIP_DISABLED, GOSSIP_OVERRIDE = 0, 1, 2


class RouteInfo(LinkInfo, kw_only=True):
    """INFO on a route."""

    cluster_dynamic: bool = False
    connect_urls: list[str] | None = None
    lnoc: bool = False
    lnocu: bool = False
    leafnode_urls: list[str] | None = None  # where the server listens for leafs
    route_pool_size: int = 0
    route_pool_idx: int = 0
    route_account: str = ""
    route_acc_add_reqid: str = ""
    gossip_mode: int = 0
    gateway: str = ""  # the name of another cluster that the peer tells of
    gateway_urls: list[str] | None = None  # where that one is reached
    gateway_cmd: int = 0
    gateway_url: str = ""  # where the peer itself is reached by other clusters
    slipstream_replication: bool = False  # the server takes part in replication
    slipstream_replicas: bool = False  # this link is for what replicas say
    slipstream_crossing: bool = False  # of two routes that cross, the one stays that the smaller id has dialled
    imports: SubjectLists | None = msgspec.field(default=None, name="import")
    exports: SubjectLists | None = msgspec.field(default=None, name="export")


class RouteConnect(msgspec.Struct, kw_only=True):
    """CONNECT on a route."""

    echo: bool = True
    verbose: bool = False
    pedantic: bool = False
    user: str = ""
    password: str = msgspec.field(default="", name="pass")
    tls_required: bool = False
    headers: bool = False
    name: str = ""
    cluster: str = ""
    cluster_dynamic: bool = False
    lnoc: bool = False
    lnocu: bool = False
    gateway: str = ""
    lang: str = ""

    def line(self) -> bytes:
        """As it is sent."""
        return b"CONNECT %b\r\n" % msgspec.json.encode(self)
