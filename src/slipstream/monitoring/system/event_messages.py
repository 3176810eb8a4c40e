"""The JSON objects of the system account's events, in nats-server's order of fields."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from slipstream.accounts.account import Account
from slipstream.clock import rfc3339
from slipstream.links.end import LinkEnd
from slipstream.links.leafs.link import LeafLink
from slipstream.monitoring.client_facts import issuer_of, shown_token, user_of
from slipstream.monitoring.endpoints.accstatz import AccountTraffic, MsgBytes, account_stat
from slipstream.monitoring.endpoints.statsz import ServerStats, statsz
from slipstream.monitoring.gotext import round_trip
from slipstream.monitoring.system.envelope import Sender, SenderFacts
from slipstream.protocol.connection import ClientConnection
from slipstream.protocol.texts import CloseReason

__all__ = [
    "account_connections",
    "connected",
    "disconnected",
    "leaf_connected",
    "leaf_disconnected",
    "server_stats",
]

_ADVISORY = "io.nats.server.advisory.v1."


class ClientInfo(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A client."""

    start: str
    host: str = ""
    id: int
    acc: str
    user: str = ""
    name: str = ""
    lang: str = ""
    ver: str = ""
    rtt: int = 0
    stop: str = ""
    jwt: str = ""
    issuer_key: str = ""
    name_tag: str = ""
    tags: Sequence[str] = ()
    kind: str
    client_type: str = ""


class ConnectMessage(msgspec.Struct, kw_only=True):
    """A client came."""

    type: str
    id: str
    timestamp: str
    server: SenderFacts
    client: ClientInfo


class DisconnectMessage(msgspec.Struct, kw_only=True):
    """A client went. Sent and received are seen from the client."""

    type: str
    id: str
    timestamp: str
    server: SenderFacts
    client: ClientInfo
    sent: MsgBytes
    received: MsgBytes
    reason: str


class AccountConnections(msgspec.Struct, kw_only=True):
    """Connections of an account on this server."""

    type: str
    id: str
    timestamp: str
    server: SenderFacts
    acc: str
    name: str
    conns: int
    leafnodes: int
    total_conns: int
    num_subscriptions: int
    sent: AccountTraffic
    received: AccountTraffic
    slow_consumers: int


class ServerStatsMessage(msgspec.Struct):
    """Numbers of the server."""

    server: SenderFacts
    statsz: ServerStats


def connected(sender: Sender, connection: ClientConnection) -> ConnectMessage:
    """A client was let in."""
    return _came(sender, _client(sender, connection))


def disconnected(sender: Sender, connection: ClientConnection, reason: CloseReason, stop_ns: int) -> DisconnectMessage:
    """A client went, or was not let in."""
    return _went(sender, connection, _client(sender, connection), reason, stop_ns, connection.rtt_ns)


def leaf_connected(sender: Sender, link: LeafLink) -> ConnectMessage:
    """A leaf link is open."""
    return _came(sender, _leaf(sender, link))


def leaf_disconnected(sender: Sender, link: LeafLink, reason: CloseReason, stop_ns: int) -> DisconnectMessage:
    """A leaf link is gone."""
    return _went(sender, link.end, _leaf(sender, link), reason, stop_ns, link.end.keepalive.rtt_ns)


def _came(sender: Sender, client: ClientInfo) -> ConnectMessage:
    return ConnectMessage(
        type=f"{_ADVISORY}client_connect",
        id=sender.event_id(),
        timestamp=sender.facts.now(),
        server=sender.server(),
        client=client,
    )


def _went(
    sender: Sender, peer: ClientConnection | LinkEnd, client: ClientInfo, reason: CloseReason, stop_ns: int, rtt_ns: int
) -> DisconnectMessage:
    client.stop, client.rtt = rfc3339(stop_ns), round_trip(rtt_ns)
    return DisconnectMessage(
        type=f"{_ADVISORY}client_disconnect",
        id=sender.event_id(),
        timestamp=client.stop,
        server=sender.server(),
        client=client,
        sent=MsgBytes(peer.parser.msgs, peer.parser.msg_bytes),
        received=MsgBytes(peer.outbox.msgs, peer.outbox.msg_bytes),
        reason=reason.value,
    )


def account_connections(sender: Sender, account: Account) -> AccountConnections:
    """How many connections an account has."""
    return AccountConnections(
        type=f"{_ADVISORY}account_connections",
        id=sender.event_id(),
        timestamp=sender.facts.now(),
        server=sender.server(),
        **msgspec.structs.asdict(account_stat(sender.facts, account)),
    )


def server_stats(sender: Sender) -> ServerStatsMessage:
    """How the server is."""
    return ServerStatsMessage(sender.server(), statsz(sender.facts))


def _leaf(sender: Sender, link: LeafLink) -> ClientInfo:
    account, identity = "" if link.account is None else link.account.name, link.identity
    return ClientInfo(
        start=rfc3339(link.end.start_ns),
        host=link.peer.ip,
        id=link.cid,
        acc=account,
        user="" if identity is None else identity.user,
        # A remote has no name of a client, only one that dialled has.
        name="" if link.solicited else link.end.remote_name,
        ver=link.remote_version,
        name_tag=sender.facts.name_tag_of(account),
        kind="Leafnode",
    )


def _client(sender: Sender, connection: ClientConnection) -> ClientInfo:
    account = sender.facts.account_name_of(connection)
    token = connection.identity.token if connection.identity is not None else None
    return ClientInfo(
        start=rfc3339(connection.start_ns),
        host=connection.peer.ip,
        id=connection.cid,
        acc=account,
        user=user_of(connection),
        name=connection.name,
        lang=connection.lang,
        ver=connection.version,
        jwt=shown_token(connection),
        issuer_key=issuer_of(connection),
        name_tag=sender.facts.name_tag_of(account),
        tags=() if token is None else token.claims.nats.tags or (),
        kind="Client",
        client_type=connection.peer.kind,
    )
