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

__all__ = [
    "GOSSIP_DEFAULT",
    "GOSSIP_DISABLED",
    "GOSSIP_OVERRIDE",
    "PROTO",
    "RouteConnect",
    "RouteInfo",
    "SubjectLists",
]

PROTO = 1  # version of the protocol between servers: with accounts and changes of INFO
# What a server that is told of another one does with that: pass it on once, never, or always.
GOSSIP_DEFAULT, GOSSIP_DISABLED, GOSSIP_OVERRIDE = 0, 1, 2


class SubjectLists(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What a server lets in or out over its routes."""

    allow: list[str] | None = None
    deny: list[str] | None = None


class RouteInfo(msgspec.Struct, omit_defaults=True, kw_only=True):
    """INFO on a route. Fields at their default are left out."""

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    proto: int = 0
    git_commit: str = ""
    go: str = ""
    host: str = ""
    port: int = 0
    headers: bool = False
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    max_payload: int = 0
    jetstream: bool = False
    ip: str = ""
    nonce: str = ""
    cluster: str = ""
    cluster_dynamic: bool = False
    domain: str = ""
    connect_urls: list[str] | None = None
    ws_connect_urls: list[str] | None = None
    ldm: bool = False
    compression: str = ""
    lnoc: bool = False
    lnocu: bool = False
    route_pool_size: int = 0
    route_pool_idx: int = 0
    route_account: str = ""
    route_acc_add_reqid: str = ""
    gossip_mode: int = 0
    gateway: str = ""
    slipstream_replication: bool = False  # the server takes part in replication
    slipstream_replicas: bool = False  # this link is for what replicas say
    imports: SubjectLists | None = msgspec.field(default=None, name="import")
    exports: SubjectLists | None = msgspec.field(default=None, name="export")

    def line(self) -> bytes:
        """As it is sent."""
        return b"INFO %b\r\n" % msgspec.json.encode(self)


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
