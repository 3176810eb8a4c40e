"""The two JSON documents of a gateway: INFO and CONNECT, as nats-server writes and reads them.

    accepting side (inbound)                    dialling side (outbound)
    INFO {name, URLs of the cluster} ──────────►
                                     ◄───────── CONNECT {name, credentials}
                                     ◄───────── INFO {name, URLs of the cluster}
    RS+ of queue groups              ─────────►
    INFO {other clusters}            ─────────►                                      gossip
    INFO {account: all follows}, RS+ .., INFO {account: that was all}  ─────────►    for each account
                                     ◄───────── RMSG ..

Interest goes one way over a connection and messages the other. So two clusters that talk to each other have at least
two connections: each server dials one server of each other cluster.
"""

from __future__ import annotations

from typing import Final

import msgspec

from slipstream.links.documents import LinkInfo

__all__ = ["ALL_COMPLETE", "ALL_START", "GOSSIP", "GatewayConnect", "GatewayInfo"]

# What a later INFO is about.
GOSSIP: Final = 1
ALL_START: Final = 2
ALL_COMPLETE: Final = 3


class GatewayInfo(LinkInfo, kw_only=True):
    """INFO on a gateway."""

    gateway: str = ""
    gateway_urls: list[str] | None = None
    gateway_url: str = ""
    gateway_cmd: int = 0
    gateway_cmd_payload: bytes | None = None  # the account that a command is about
    gateway_nrp: bool = False  # addresses are `_GR_.`, and not the older `$GR.`
    gateway_iom: bool = False  # all interest is told right away, for all accounts
    slipstream_replication: bool = False  # the server takes part in replication


class GatewayConnect(msgspec.Struct, kw_only=True):
    """CONNECT on a gateway."""

    verbose: bool = False
    pedantic: bool = False
    user: str = ""
    password: str = msgspec.field(default="", name="pass")
    tls_required: bool = False
    name: str = ""
    gateway: str = ""
    slipstream_replicas: bool = False  # the connection is for what replicas say

    def line(self) -> bytes:
        """As it is sent."""
        return b"CONNECT %b\r\n" % msgspec.json.encode(self)
