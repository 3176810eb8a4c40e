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

from slipstream.links.documents import LinkInfo, SubjectLists

__all__ = ["LeafConnect", "LeafInfo"]


class LeafInfo(LinkInfo, kw_only=True):
    """INFO on a leaf link."""

    client_id: int = 0
    connect_info: bool = False  # the answer to CONNECT
    remote_account: str = ""
    acc_is_sys: bool = False
    api_lvl: int = 0
    import_: SubjectLists | None = msgspec.field(default=None, name="import")  # what the leaf may receive
    export: SubjectLists | None = None  # what the leaf may send
    info_on_connect: bool = False  # CONNECT will be answered
    leafnode_urls: list[str] | None = None


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
    slipstream_hands_on: bool = False  # as in INFO

    def line(self) -> bytes:
        """As it is sent."""
        return b"CONNECT %b\r\n" % msgspec.json.encode(self)
