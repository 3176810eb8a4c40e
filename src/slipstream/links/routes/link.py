"""One route as a state machine, without its socket.

    accepted: GREETED (INFO sent) ──CONNECT──► AUTHENTICATING ──INFO──► READY ──► CLOSED
    dialled:  GREETED (CONNECT sent) ──INFO──► READY (INFO sent) ──────────────► CLOSED
                                     from every state: violation, timeout, peer gone ┘

Until READY nothing but the handshake is understood. Whether a route is wanted, and which place it has, is the mesh's
decision; this is what is said over it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import msgspec

from slipstream.errors import UNREADABLE
from slipstream.kernels.subjects.subject import is_valid_subscription
from slipstream.kernels.wire import linkparser as wire
from slipstream.kernels.wire.interest import ROUTE, Link
from slipstream.kernels.wire.linkparser import LinkParser
from slipstream.kernels.wire.outbox import Outbox
from slipstream.links.presence import LinkMember
from slipstream.links.routes.handshake import RouteConnect, RouteInfo
from slipstream.protocol import texts
from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason, error_line

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.auth.permissions import Permissions
    from slipstream.config.options import Options
    from slipstream.kernels.wire.delivery import Delivery
    from slipstream.kernels.wire.interest import Interest
    from slipstream.kernels.wire.outbox import FlushQueue
    from slipstream.links.routes.targets import RouteTarget
    from slipstream.protocol.peer import Peer

__all__ = ["RouteHost", "RouteLink"]

_PING = b"PING\r\n"
_PONG = b"PONG\r\n"
# INFO names all servers of a cluster: a line of a peer may be longer than one of a client.
ROUTE_LINE_MAX = 64 * 1024
_ERROR_SHOWN = 256  # characters of a peer's complaint that the log shows
_LINE_SHOWN = 64  # bytes of a line that nobody understands
_UNKNOWN_LOGGED_MAX = 100  # accounts a peer names that are not known here, each logged once


class RouteHost(Protocol):
    """What a route needs of the mesh and its server."""

    @property
    def options(self) -> Options: ...
    @property
    def delivery(self) -> Delivery: ...
    @property
    def flush_queue(self) -> FlushQueue: ...
    def now_ns(self) -> int: ...
    def log(self, level: str, link: RouteLink, text: str) -> None: ...
    def on_info(self, link: RouteLink, info: RouteInfo) -> None: ...
    def on_connect(self, link: RouteLink, connect: RouteConnect) -> None: ...
    def on_pong(self, link: RouteLink) -> None: ...
    def on_replica_message(self, link: RouteLink, group: bytes, body: bytes) -> None: ...
    def closed(self, link: RouteLink, reason: CloseReason) -> None: ...
    def in_steps(self, work: Iterator[None]) -> None: ...
    def account_named(self, name: str) -> Account | None: ...
    @property
    def rights(self) -> Permissions | None: ...


class RouteLink:
    """One connection to another server of the cluster. The parser's sink."""

    def __init__(self, host: RouteHost, cid: int, peer: Peer, target: RouteTarget | None = None) -> None:
        options = host.options
        self.cid = cid
        self.peer = peer
        self.target = target  # of one that this server dialled
        self.solicited = target is not None
        self.explicit = target is not None and target.explicit
        self.start_ns = self.last_activity_ns = self.last_read_ns = host.now_ns()
        self.state = State.GREETED
        self.close_reason: CloseReason | None = None
        self.outbox = Outbox(host.flush_queue, self, options.max_pending)
        self.link = Link(ROUTE, self.outbox)
        self.parser = LinkParser(self, self.link, host.delivery, -1, max(options.max_control_line, ROUTE_LINE_MAX))
        self.parser.named_accounts = True
        self.members: dict[bytes, LinkMember] = {}  # by account
        self.remote_id = ""
        self.remote_name = ""
        self.info: RouteInfo | None = None  # the peer's first one
        self.account = "" if target is None else target.account  # a route for this one alone
        self.place = -1  # in the pool
        self.for_replicas = target is not None and bool(target.replicas_of)  # it carries what replicas say, no more
        self.unpooled = False  # the peer knows no pools: one route has all accounts
        self.reconnects = True
        self.compression = ""  # as the peers agreed; empty before
        self.connect_urls: list[str] = []
        self.websocket_urls: list[str] = []
        self.pings_out = 0
        self.ping_sent_ns = 0
        self.rtt_ns = 0
        self.edge: object = None  # the transport side; only the edge looks at it
        self._host = host
        self._unknown: set[bytes] = set()

    @property
    def subscription_count(self) -> int:
        """How many subjects the peer wants."""
        return sum(len(member) for member in self.members.values())

    # --- life cycle --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The handshake is over: take messages and interest from now on."""
        self.state = State.READY
        self.parser.named_accounts = not self.account
        self.parser.fast = True
        self.parser.ready = True

    def take_replica_messages(self, nobody: Interest, largest: int) -> None:
        """Messages are of replicas from now on: each is named by its group, and no account has part in it."""
        self.state = State.READY
        self.outbox.limit = max(self.outbox.limit, 2 * largest)
        self.parser.max_payload = largest
        self.parser.named_accounts = self.parser.fast = False
        self.parser.admit(b"", nobody, None)
        self.parser.ready = True

    def close(self, reason: CloseReason, error: str | None = None) -> None:
        """End the route: say why if there is a text for it, and forget what the peer wanted."""
        if self.state is State.CLOSED:
            return
        if error is not None:
            self.outbox.write(error_line(error))
        self.state = State.CLOSED
        self.close_reason = reason
        self.parser.stop()
        members, self.members = self.members, {}
        for member in members.values():
            member.leave(self._host.in_steps)
        self._host.closed(self, reason)

    def refuse(self, reason: CloseReason, error: str) -> None:
        """End the route with an error that is logged here, too."""
        self.log("ERR", error)
        self.close(reason, error)

    def overflowed(self, limit: int) -> None:
        """End a peer that has not read the more than `limit` bytes that wait for it."""
        self.log("INF", f"Slow Consumer Detected: MaxPending of {limit} Exceeded")
        self.close(CloseReason.SLOW_CONSUMER_PENDING)

    def log(self, level: str, text: str) -> None:
        """A log line about this route."""
        self._host.log(level, self, text)

    def send_ping(self) -> None:
        """Ask whether the peer lives."""
        self.pings_out += 1
        self.ping_sent_ns = self._host.now_ns()
        self.outbox.write(_PING)

    def prefix(self, account: str) -> bytes:
        """What stands before a subject: the account, unless the route is its own."""
        return b"" if self.account else account.encode() + b" "

    def forget(self, account: str) -> None:
        """An account is no longer served over this route."""
        member = self.members.pop(account.encode(), None)
        if member is not None:
            self.parser.expel(account.encode())
            member.leave(self._host.in_steps)

    def use_rights(self, rights: Permissions | None) -> None:
        """Other permissions of the cluster: drop what the peer may not have any more."""
        for member in self.members.values():
            member.use_rights(rights)

    # --- what the parser calls ---------------------------------------------------------------------------------------

    def on_info(self, text: bytes) -> None:
        """INFO of the peer, the first one or a later one."""
        try:
            info = msgspec.json.decode(text, type=RouteInfo)
        except UNREADABLE as error:
            self.log("ERR", f"Error in INFO of a route: {texts.escaped(str(error))}")
            self.close(CloseReason.PROTOCOL_VIOLATION)
            return
        self._host.on_info(self, info)

    def on_connect(self, text: bytes) -> None:
        """CONNECT of a peer that dialled."""
        if self.solicited or self.state is not State.GREETED:
            self.refuse(CloseReason.PROTOCOL_VIOLATION, texts.UNKNOWN_OPERATION)
            return
        try:
            connect = msgspec.json.decode(text, type=RouteConnect)
        except UNREADABLE as error:
            self.log("ERR", f"Error in CONNECT of a route: {texts.escaped(str(error))}")
            self.close(CloseReason.PROTOCOL_VIOLATION)
            return
        self._host.on_connect(self, connect)

    def on_ping(self) -> None:
        """The peer asks whether this server lives."""
        self.outbox.write(_PONG)

    def on_pong(self) -> None:
        """The peer lives."""
        self.pings_out = 0
        if self.ping_sent_ns:
            self.rtt_ns = max(self._host.now_ns() - self.ping_sent_ns, 1)
        self._host.on_pong(self)

    def on_interest(
        self, account: bytes, subject: bytes, queue: bytes | None, weight: int, origin: bytes | None
    ) -> None:
        """The peer wants a subject."""
        if self.for_replicas:
            self.refuse(CloseReason.PROTOCOL_VIOLATION, texts.UNKNOWN_OPERATION)
            return
        member = self._member(account)
        if member is None:
            return
        if not is_valid_subscription(subject):
            self.outbox.write(error_line("Invalid Subscription"))
            self.log("ERR", f"Could not insert subscription: invalid subject {texts.quoted(subject)}")
            return
        rights = self._host.rights
        if rights is None:
            member.add(subject, queue, weight, origin)
        elif rights.may_subscribe(subject):
            member.add(subject, queue, weight, origin, checked=rights.needs_delivery_check(subject))
        else:
            self.log("DBG", f"Can not export {texts.quoted(subject)}, ignoring remote subscription request")

    def on_interest_gone(self, account: bytes, subject: bytes, queue: bytes | None, origin: bytes | None) -> None:
        """The peer no longer wants a subject."""
        member = self.members.get(account or self.account.encode())
        if member is not None:
            member.remove(subject, queue, origin)

    def on_unknown_account(self, account: bytes) -> bool:
        """A message for an account that this route has not seen yet."""
        return self._member(account) is not None

    def may_publish(self, _account: bytes, _subject: bytes) -> bool:
        """Never asked: rights were checked where the client is."""
        return True

    def on_message(
        self,
        account: bytes,
        subject: bytes,
        reply: bytes | None,
        queues: tuple[bytes, ...] | None,
        origin: bytes | None,
        header_size: int,
        body: bytes,
    ) -> None:
        """A message that the parser does not deliver by itself."""
        if self.for_replicas:
            self._host.on_replica_message(self, subject, body)
            return
        member = self._member(account)
        if member is not None and member.account is not None:
            route = member.account.interest.find_arrival_route(subject)
            self._host.delivery.deliver_arrived(
                route, self.link, member, queues, origin, subject, reply, header_size, body
            )

    def on_peer_error(self, text: bytes) -> None:
        """The peer complains, and mostly ends the route then."""
        self.log("ERR", f"Route Error {texts.escaped(text.decode('utf-8', 'replace')[:_ERROR_SHOWN])}")

    def on_violation(self, kind: int, line: bytes) -> None:
        """The bytes make no sense or break a limit; the parser takes no more."""
        shown = texts.escaped(line[:_LINE_SHOWN].decode("utf-8", "replace"))
        if kind == wire.EARLY_OPERATION:
            self.log("ERR", f"Route operation before its handshake: '{shown}'")
            self.close(CloseReason.AUTHENTICATION_VIOLATION, texts.AUTHORIZATION_VIOLATION)
        elif kind == wire.CONTROL_LINE_TOO_LONG:
            self.refuse(CloseReason.MAX_CONTROL_LINE, texts.MAXIMUM_CONTROL_LINE)
        else:
            self.log("ERR", f"Router parser ERROR: proto='{shown}...'")
            self.close(CloseReason.PROTOCOL_VIOLATION, texts.UNKNOWN_OPERATION)

    def _member(self, name: bytes) -> LinkMember | None:
        """The peer in an account; None for one that is not known here."""
        wired = name
        name = name or self.account.encode()
        member = self.members.get(name)
        if member is None:
            account = self._host.account_named(name.decode("utf-8", "replace"))
            if account is None:
                if name not in self._unknown and len(self._unknown) < _UNKNOWN_LOGGED_MAX:
                    self._unknown.add(name)
                    self.log("ERR", f"Unknown account {texts.quoted(name)} of a route")
                return None
            member = LinkMember(self, account, self.link, self.prefix(account.name), self._host.rights)
            self.members[name] = member
            self.parser.admit(wired, account.interest, member)
        return member
