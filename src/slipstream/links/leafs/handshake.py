"""The two JSON documents of a leaf link: INFO and CONNECT, as nats-server writes and reads them.

    accepting side                               dialling side
    INFO {nonce, domain, cluster} ─────────────►
                [TLS]             ◄────────────► [TLS]
                                  ◄───────────── CONNECT {name, cluster, domain, credentials}
    INFO {account, rights} ───────────────────►
    LS+ ...                       ◄────────────► LS+ ...

What comes from a peer is read leniently: unknown fields are skipped, ones of a wrong type refuse the document.
"""

from __future__ import annotations

import msgspec

__all__ = ["LEAF_PROTO", "LeafConnect", "LeafInfo", "LeafSubjects"]

LEAF_PROTO = 1  # version of the protocol between servers: without traces of messages


class LeafSubjects(msgspec.Struct, omit_defaults=True):
    """Subjects that may or may not cross. No `allow` list allows everything, an empty one nothing."""

    allow: list[str] | None = None
    deny: list[str] | None = None


class LeafInfo(msgspec.Struct, omit_defaults=True, kw_only=True):
    """INFO on a leaf link. Fields at their default are left out."""

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
    client_id: int = 0
    nonce: str = ""
    cluster: str = ""
    domain: str = ""
    ws_connect_urls: list[str] | None = None
    ldm: bool = False
    compression: str = ""
    connect_info: bool = False  # the answer to CONNECT
    remote_account: str = ""
    acc_is_sys: bool = False
    api_lvl: int = 0
    import_: LeafSubjects | None = msgspec.field(default=None, name="import")  # what the leaf may receive
    export: LeafSubjects | None = None  # what the leaf may send
    info_on_connect: bool = False  # CONNECT will be answered
    leafnode_urls: list[str] | None = None

    def line(self) -> bytes:
        """As it is sent."""
        return b"INFO %b\r\n" % msgspec.json.encode(self)


class LeafConnect(msgspec.Struct, omit_defaults=True, kw_only=True):
    """CONNECT on a leaf link. The peer's credentials are among it."""

    version: str = ""
    nkey: str = ""
    jwt: str = ""
    sig: str = ""
    user: str = ""
    password: str = msgspec.field(default="", name="pass")
    auth_token: str = ""
    server_id: str = ""
    domain: str = ""
    name: str = ""
    is_hub: bool = False
    cluster: str = ""
    headers: bool = False
    jetstream: bool = False
    deny_pub: list[str] | None = None
    isolate: bool = False
    compress_mode: str = ""
    gateway: str = ""
    remote_account: str = ""
    protocol: int = 0
    lang: str = ""  # of a client that came to the wrong port
    account: str = ""
    new_account: bool = False
    proxy_sig: str = ""

    def line(self) -> bytes:
        """As it is sent."""
        return b"CONNECT %b\r\n" % msgspec.json.encode(self)
