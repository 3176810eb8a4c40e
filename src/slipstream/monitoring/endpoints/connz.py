"""/connz: open and closed connections, filtered, sorted and cut into pages.

Only the connections of the page are turned into entries; filters and sort keys look at the connections themselves.
Offsets and limits of any size are safe: a page is a slice, and a large one is built in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import msgspec

from slipstream.clock import rfc3339
from slipstream.config.options import GLOBAL_ACCOUNT
from slipstream.kernels.subjects.subject import overlaps
from slipstream.kernels.wire.receivers import Subscription
from slipstream.monitoring.client_facts import issuer_of, shown_token, text, user_of
from slipstream.monitoring.endpoints.connz_leafs import LeafRow
from slipstream.monitoring.endpoints.subsz import SubscriptionDetail, detail_of
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.gotext import round_trip_text, uptime
from slipstream.monitoring.limits import MONITOR_PAGE, MONITOR_STEP_ENTRIES
from slipstream.monitoring.query import BadRequest, UrlQuery
from slipstream.monitoring.worker import Steps
from slipstream.protocol.connection import ClientConnection
from slipstream.routing.hub import ClosedConnection

if TYPE_CHECKING:
    from slipstream.kernels.links.linkparser import LinkParser
    from slipstream.kernels.wire.outbox import Outbox
    from slipstream.kernels.wire.parser import Parser
    from slipstream.protocol.peer import Peer

__all__ = ["Connz", "ConnzOptions", "connz", "connz_options"]

_OPEN, _CLOSED, _ALL = 0, 1, 2
_STATES = {"": _OPEN, "open": _OPEN, "closed": _CLOSED, "any": _ALL, "all": _ALL}


class ConnzOptions(msgspec.Struct, kw_only=True):
    """What to show. The names are those of a `$SYS` request; HTTP has shorter ones for some."""

    sort: str = ""
    auth: bool = False
    subscriptions: bool = False
    subscriptions_detail: bool = False
    offset: int = 0
    limit: int = 0
    cid: int = 0
    mqtt_client: str = ""
    state: int = _OPEN
    user: str = ""
    acc: str = ""
    filter_subject: str = ""


class PeerCertificateInfo(msgspec.Struct, omit_defaults=True):
    """A certificate the client showed."""

    subject: str = ""
    spki_sha256: str = ""
    cert_sha256: str = ""


class ProxyInfo(msgspec.Struct):
    """The trusted proxy that a client came through."""

    key: str


class ConnectionInfo(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One connection. `in` is what the server received from the client."""

    cid: int
    kind: str
    type: str = ""
    ip: str
    port: int
    start: str
    last_activity: str
    stop: str = ""
    reason: str = ""
    rtt: str = ""
    uptime: str
    idle: str
    pending_bytes: int
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    stalls: int = 0
    subscriptions: int
    name: str = ""
    lang: str = ""
    version: str = ""
    tls_version: str = ""
    tls_cipher_suite: str = ""
    tls_peer_certs: list[PeerCertificateInfo] = []
    tls_first: bool = False
    authorized_user: str = ""
    account: str = ""
    subscriptions_list: list[str] = []
    subscriptions_list_detail: list[SubscriptionDetail] = []
    jwt: str = ""
    issuer_key: str = ""
    name_tag: str = ""
    tags: list[str] = []
    proxy: ProxyInfo | None = None


class Connz(msgspec.Struct, kw_only=True):
    """A page of connections."""

    server_id: str
    now: str
    num_connections: int
    total: int
    offset: int
    limit: int
    connections: list[ConnectionInfo] | None


class _Row:
    """A candidate for the page: an open connection, or a closed one with its record."""

    __slots__ = ("cid", "closed", "connection", "outbox", "parser")

    def __init__(self, connection: ClientConnection, closed: ClosedConnection | None = None) -> None:
        self.connection = connection
        self.cid, self.outbox, self.parser = connection.cid, connection.outbox, connection.parser
        self.closed = closed

    @property
    def subscription_count(self) -> int:
        return len(self.connection.subscriptions) if self.closed is None else self.closed.subscription_count

    @property
    def start_ns(self) -> int:
        return self.connection.start_ns

    @property
    def last_activity_ns(self) -> int:
        return self.connection.last_activity_ns

    @property
    def rtt_ns(self) -> int:
        return self.connection.rtt_ns

    @property
    def user(self) -> str:
        return user_of(self.connection)

    def stop_ns(self, now_ns: int) -> int:
        return now_ns if self.closed is None else self.closed.stop_ns

    def subscriptions(self) -> Iterable[Subscription]:
        return self.connection.subscriptions.values() if self.closed is None else self.closed.subscriptions


# Sort word → (key, descending). Keys get the row and the time.
_SORTS: dict[str, tuple[Callable[[_Row | LeafRow, int], int | str], bool]] = {
    "cid": (lambda row, _: row.cid, False),
    "start": (lambda row, _: row.cid, False),
    "subs": (lambda row, _: row.subscription_count, True),
    "pending": (lambda row, _: row.outbox.pending, True),
    "msgs_to": (lambda row, _: row.outbox.msgs, True),
    "msgs_from": (lambda row, _: row.parser.msgs, True),
    "bytes_to": (lambda row, _: row.outbox.msg_bytes, True),
    "bytes_from": (lambda row, _: row.parser.msg_bytes, True),
    "last": (lambda row, _: row.last_activity_ns, True),
    "idle": (lambda row, now_ns: now_ns - row.last_activity_ns, True),
    "uptime": (lambda row, now_ns: row.stop_ns(now_ns) - row.start_ns, False),
    "rtt": (lambda row, _: row.rtt_ns, True),
    "stop": (lambda row, now_ns: row.stop_ns(now_ns), True),
    "reason": (lambda row, _: "" if row.closed is None else row.closed.reason.value, False),
}
_CLOSED_SORTS = ("stop", "reason")


def connz_options(query: UrlQuery) -> ConnzOptions:
    """The parameters of an HTTP request.

    Raises:
        BadRequest: one of them cannot be read.
    """
    auth = query.flag("auth")
    detail = query.text("subs").lower() == "detail"
    subscriptions = not detail and query.flag("subs")
    offset, limit, cid = query.integer("offset"), query.integer("limit"), query.unsigned("cid")
    state = _STATES.get(query.text("state").lower())
    if state is None:
        raise BadRequest(f"Error decoding state for {query.text('state')}")
    return ConnzOptions(
        sort=query.text("sort"),
        auth=auth,
        subscriptions=subscriptions,
        subscriptions_detail=detail,
        offset=offset,
        limit=limit,
        cid=cid,
        mqtt_client=query.text("mqtt_client"),
        state=state,
        user=query.text("user"),
        acc=query.text("acc"),
    )


def connz(facts: Facts, options: ConnzOptions) -> Steps[Connz]:
    """A page of connections, built in steps.

    Raises:
        BadRequest: the options do not go together.
    """
    sort = options.sort or "cid"
    if sort not in _SORTS:
        raise BadRequest(f"invalid sorting option: {sort}")
    if sort in _CLOSED_SORTS and options.state != _CLOSED:
        raise BadRequest(f"sort by {sort} only valid on closed connections")
    if options.filter_subject not in ("", ">") and not options.acc:
        raise BadRequest("filter by subject only valid with account filtering")
    now_ns = facts.now_ns()
    offset = max(options.offset, 0)
    limit = 1 if options.cid else options.limit if options.limit > 0 else MONITOR_PAGE
    page = Connz(
        server_id=facts.server_id,
        now=rfc3339(now_ns),
        num_connections=0,
        total=0,
        offset=offset,
        limit=limit,
        connections=[],
    )
    if options.acc and options.acc not in facts.accounts:
        # So answers nats-server about an account it does not know.
        page.server_id, page.connections = "", None
        return page
    candidates = _candidates(facts, options)
    page.total = len(candidates)
    if len(candidates) > MONITOR_STEP_ENTRIES:
        yield 0
    rows = _filtered(candidates, options)
    key, descending = _SORTS[sort]
    rows.sort(key=lambda row: key(row, now_ns), reverse=descending)
    chosen = rows[offset : offset + limit]
    entries: list[ConnectionInfo] = []
    for at in range(0, len(chosen), MONITOR_STEP_ENTRIES):
        if at:
            yield 0
        entries += [_entry(facts, row, now_ns, options) for row in chosen[at : at + MONITOR_STEP_ENTRIES]]
    page.connections, page.num_connections = entries, len(entries)
    return page


def _candidates(facts: Facts, options: ConnzOptions) -> list[_Row | LeafRow]:
    """Every connection of the state and account asked for, open leaf links included."""
    rows: list[_Row | LeafRow] = []
    if options.state in (_OPEN, _ALL):
        connections: Iterable[ClientConnection] = (
            facts.connections_of(options.acc) if options.acc else facts.hub.connections.values()
        )
        rows += [_Row(connection) for connection in connections]
        rows += [LeafRow(link) for link in facts.leafs(options.acc)]
    if options.state in (_CLOSED, _ALL):
        rows += [
            _Row(closed.connection, closed)
            for closed in facts.hub.closed_connections
            if not options.acc or facts.account_name_of(closed.connection) == options.acc
        ]
    return rows


def _filtered(rows: list[_Row | LeafRow], options: ConnzOptions) -> list[_Row | LeafRow]:
    if options.mqtt_client:
        return []  # no connection is an MQTT client
    if options.cid:
        # The open one of an id that is somehow in both lists.
        return [row for row in rows if row.cid == options.cid][:1]
    if options.user:
        rows = [row for row in rows if row.user == options.user]
    if options.filter_subject not in ("", ">"):
        wanted = options.filter_subject.encode("utf-8", "surrogateescape")
        rows = [row for row in rows if row.closed is not None or _listens(row, wanted)]
    return rows


def _listens(row: _Row | LeafRow, subject: bytes) -> bool:
    return any(overlaps(subscription.subject, subject) for subscription in row.subscriptions())


class _Measured(Protocol):
    """What clients and links have in common."""

    @property
    def cid(self) -> int: ...
    @property
    def peer(self) -> Peer: ...
    @property
    def outbox(self) -> Outbox: ...
    @property
    def parser(self) -> Parser | LinkParser: ...
    @property
    def start_ns(self) -> int: ...
    @property
    def last_activity_ns(self) -> int: ...
    @property
    def rtt_ns(self) -> int: ...


def _measured(kind: str, of: _Measured, subscriptions: int, until_ns: int) -> ConnectionInfo:
    return ConnectionInfo(
        cid=of.cid,
        kind=kind,
        ip=of.peer.ip,
        port=of.peer.port,
        start=rfc3339(of.start_ns),
        last_activity=rfc3339(of.last_activity_ns),
        rtt=round_trip_text(of.rtt_ns),
        uptime=uptime(until_ns - of.start_ns),
        idle=uptime(until_ns - of.last_activity_ns),
        pending_bytes=of.outbox.pending,
        in_msgs=of.parser.msgs,
        out_msgs=of.outbox.msgs,
        in_bytes=of.parser.msg_bytes,
        out_bytes=of.outbox.msg_bytes,
        subscriptions=subscriptions,
    )


def _leaf_entry(facts: Facts, row: LeafRow, now_ns: int, options: ConnzOptions) -> ConnectionInfo:
    wanted = row.subscriptions()
    entry = _measured("Leafnode", row, row.subscription_count, now_ns)
    entry.name, entry.version = row.name, row.link.remote_version
    if options.subscriptions_detail:
        entry.subscriptions_list_detail = [detail_of(subscription, "") for subscription in wanted]
    elif options.subscriptions:
        entry.subscriptions_list = [text(subscription.subject) for subscription in wanted]
    if options.auth:
        entry.authorized_user, entry.name_tag = row.user, facts.name_tag_of(row.account)
        if row.account != GLOBAL_ACCOUNT:
            entry.account = row.account
    return entry


def _entry(facts: Facts, row: _Row | LeafRow, now_ns: int, options: ConnzOptions) -> ConnectionInfo:
    if isinstance(row, LeafRow):
        return _leaf_entry(facts, row, now_ns, options)
    connection, closed = row.connection, row.closed
    stop_ns = row.stop_ns(now_ns)
    peer = connection.peer
    entry = _measured("Client", connection, row.subscription_count, stop_ns)
    entry.type, entry.stalls, entry.tls_first = peer.kind, connection.stalls, peer.tls_first
    entry.name, entry.lang, entry.version = connection.name, connection.lang, connection.version
    if peer.tls is not None:
        entry.tls_version, entry.tls_cipher_suite = peer.tls.version, peer.tls.cipher_suite
    if connection.proxy:
        entry.proxy = ProxyInfo(connection.proxy)
    if closed is not None:
        entry.stop, entry.reason = rfc3339(stop_ns), closed.reason.value
    subscriptions = tuple(connection.subscriptions.values()) if closed is None else closed.subscriptions
    if options.subscriptions_detail:
        account = "" if closed is None else facts.account_name_of(connection)
        entry.subscriptions_list_detail = [detail_of(subscription, account) for subscription in subscriptions]
    elif options.subscriptions:
        entry.subscriptions_list = [text(subscription.subject) for subscription in subscriptions]
    if options.auth:
        _add_identity(facts, connection, entry, is_open=closed is None)
    return entry


def _add_identity(facts: Facts, connection: ClientConnection, entry: ConnectionInfo, *, is_open: bool) -> None:
    account = facts.account_name_of(connection)
    entry.authorized_user = user_of(connection)
    entry.issuer_key = issuer_of(connection)
    if account != GLOBAL_ACCOUNT:
        entry.account = account
    if is_open or account != GLOBAL_ACCOUNT:
        entry.name_tag = facts.name_tag_of(account)
    token = connection.identity.token if connection.identity is not None else None
    if token is not None:
        entry.jwt, entry.tags = shown_token(connection), token.claims.nats.tags or []
    tls = connection.peer.tls
    if tls is not None:
        entry.tls_peer_certs = [
            PeerCertificateInfo(shown.subject, shown.key_sha256, shown.sha256) for shown in tls.chain
        ]
