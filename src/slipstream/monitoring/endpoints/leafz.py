"""/leafz: the leaf links of this server, with what the other servers want."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from slipstream.monitoring.client_facts import text
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.gotext import round_trip_text
from slipstream.monitoring.query import UrlQuery

if TYPE_CHECKING:
    from slipstream.links.leafs.link import LeafLink

__all__ = ["LeafEntry", "Leafz", "LeafzOptions", "leafz", "leafz_options"]


class LeafzOptions(msgspec.Struct, kw_only=True):
    """Which leaf nodes to show."""

    subscriptions: bool = False
    account: str = ""


class LeafEntry(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One leaf link. `is_spoke`: this server is the leaf. `in` is what it received from the other one."""

    id: int
    name: str
    is_spoke: bool
    is_isolated: bool = False
    account: str
    ip: str
    port: int
    rtt: str
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    subscriptions: int
    subscriptions_list: list[str] = []
    compression: str = ""


class Leafz(msgspec.Struct, kw_only=True):
    """The leaf nodes."""

    server_id: str
    now: str
    leafnodes: int
    leafs: list[LeafEntry]


def leafz_options(query: UrlQuery) -> LeafzOptions:
    """The parameters of an HTTP request.

    Raises:
        BadRequest: one of them cannot be read.
    """
    return LeafzOptions(subscriptions=query.flag("subs"), account=query.text("acc"))


def leafz(facts: Facts, options: LeafzOptions) -> Leafz:
    """The leaf nodes as they are now."""
    found = [_entry(link, listed=options.subscriptions) for link in facts.leafs(options.account)]
    return Leafz(server_id=facts.server_id, now=facts.now(), leafnodes=len(found), leafs=found)


def _entry(link: LeafLink, *, listed: bool) -> LeafEntry:
    member = link.member
    wanted = member.subscriptions() if listed and member is not None else []
    return LeafEntry(
        id=link.cid,
        name=link.end.remote_name,
        is_spoke=link.is_spoke,
        is_isolated=link.isolated,
        account="" if link.account is None else link.account.name,
        ip=link.peer.ip,
        port=link.peer.port,
        rtt=round_trip_text(link.end.keepalive.rtt_ns) or "0s",
        in_msgs=link.parser.msgs,
        out_msgs=link.outbox.msgs,
        in_bytes=link.parser.msg_bytes,
        out_bytes=link.outbox.msg_bytes,
        subscriptions=link.subscription_count,
        subscriptions_list=[text(subscription.subject) for subscription in wanted],
        compression=link.end.compression,
    )
