"""One route as a state machine, without its socket.

    accepted: GREETED (INFO sent) ──CONNECT──► AUTHENTICATING ──INFO──► READY ──► CLOSED
    dialled:  GREETED (CONNECT sent) ──INFO──► READY (INFO sent) ──────────────► CLOSED
                                     from every state: violation, timeout, peer gone ┘

Until READY nothing but the handshake is understood. Whether a route is wanted, and which place it has, is the mesh's
decision; this is what is said over it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from slipstream.kernels.subjects.subject import is_valid_subscription
from slipstream.kernels.wire.receivers import ROUTE
from slipstream.links.end import LinkEnd, LinkWords
from slipstream.links.presence import LinkMember
from slipstream.links.routes.handshake import RouteConnect, RouteInfo
from slipstream.protocol import texts
from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.auth.permissions import Permissions
    from slipstream.links.admission import PeerLogin
    from slipstream.links.routes.gateways import RouteGateways
    from slipstream.links.routes.targets import RouteTarget
    from slipstream.protocol.peer import Peer
    from slipstream.routing.hub import Hub

__all__ = ["RouteHost", "RouteLink"]

# INFO names all servers of a cluster: a line of a peer may be longer than one of a client.
ROUTE_LINE_MAX = 64 * 1024
_WORDS = LinkWords("rid", "a route", "Route", "Router")
_UNKNOWN_LOGGED_MAX = 100  # accounts a peer names that are not known here, each logged once


class RouteHost(Protocol):
    """What a route needs of the mesh and its server."""

    @property
    def hub(self) -> Hub: ...
    def log(self, level: str, text: str) -> None: ...
    def on_info(self, link: RouteLink, info: RouteInfo) -> None: ...
    def on_connect(self, link: RouteLink, connect: RouteConnect) -> None: ...
    def on_pong(self, link: RouteLink) -> None: ...
    @property
    def gateways(self) -> RouteGateways: ...
    def on_replica_message(self, link: RouteLink, group: bytes, body: bytes) -> None: ...
    def closed(self, link: RouteLink, reason: CloseReason) -> None: ...
    def account_named(self, name: str) -> Account | None: ...
    @property
    def rights(self) -> Permissions | None: ...


class RouteLink:
    """One connection to another server of the cluster. The parser's sink."""

    def __init__(self, host: RouteHost, peer: Peer, target: RouteTarget | None = None) -> None:
        self.end = end = LinkEnd(
            host.hub,
            self,
            peer,
            _WORDS,
            kind=ROUTE,
            max_payload=-1,
            max_line=max(host.hub.options.max_control_line, ROUTE_LINE_MAX),
            log=host.log,
            on_closed=self._closed,
        )
        # What of the end never changes is the link's, too.
        self.cid, self.peer, self.outbox, self.link, self.parser = end.cid, peer, end.outbox, end.link, end.parser
        self.close, self.refuse, self.log = end.close, end.refuse, end.log
        self.target = target  # of one that this server dialled
        self.dialled = target is not None  # by this server
        self.solicited = target is not None  # it is dialled again when it ends
        self.explicit = target is not None and target.explicit
        self.parser.named_accounts = True
        self.members: dict[bytes, LinkMember] = {}  # by account
        self.login: PeerLogin | None = None  # what a peer that dialled was let in with
        self.remote_id = ""
        self.info: RouteInfo | None = None  # the peer's first one
        self.account = "" if target is None else target.account  # a route for this one alone
        self.place = -1  # in the pool
        self.for_replicas = target is not None and bool(target.replicas_of)  # it carries what replicas say, no more
        self.unpooled = False  # the peer knows no pools: one route has all accounts
        self.reconnects = True
        self.names_differed = False  # of the clusters, and one of the two gives way: it is worth trying again soon
        self.connect_urls: list[str] = []
        self.websocket_urls: list[str] = []
        self.leaf_urls: list[str] = []
        self._host = host
        self._unknown: set[bytes] = set()

    @property
    def subscription_count(self) -> int:
        """How many subjects the peer wants."""
        return sum(len(member) for member in self.members.values())

    # --- life cycle --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The handshake is over: take messages and interest from now on."""
        self.parser.named_accounts = not self.account
        self.parser.arrivals.fast = True
        self.parser.arrivals.addressed = self._host.gateways.are_there
        self.end.begin()

    def _closed(self, reason: CloseReason) -> None:
        members, self.members = self.members, {}
        for member in members.values():
            member.leave(self._host.hub.in_steps)
        self._host.closed(self, reason)

    def inherit(self, other: RouteLink) -> None:
        """Be dialled again when this route ends if another to the same peer would have been."""
        if other.target is not None and self.target is None:
            self.target = other.target
            self.solicited = True
        self.explicit = self.explicit or other.explicit

    def prefix(self, account: str) -> bytes:
        """What stands before a subject: the account, unless the route is its own."""
        return b"" if self.account else account.encode() + b" "

    def forget(self, account: str) -> None:
        """An account is no longer served over this route."""
        member = self.members.pop(account.encode(), None)
        if member is not None:
            self.parser.arrivals.expel(account.encode())
            member.leave(self._host.hub.in_steps)

    def use_rights(self, rights: Permissions | None) -> None:
        """Other permissions of the cluster: drop what the peer may not have any more."""
        for member in self.members.values():
            member.use_rights(rights)

    # --- what the parser calls ---------------------------------------------------------------------------------------

    def on_info(self, text: bytes) -> None:
        """INFO of the peer, the first one or a later one."""
        info = self.end.read(text, RouteInfo, "INFO")
        if info is not None:
            self._host.on_info(self, info)

    def on_connect(self, text: bytes) -> None:
        """CONNECT of a peer that dialled."""
        if self.solicited or self.end.state is not State.GREETED:
            self.refuse(CloseReason.PROTOCOL_VIOLATION, texts.UNKNOWN_OPERATION)
            return
        connect = self.end.read(text, RouteConnect, "CONNECT")
        if connect is not None:
            self._host.on_connect(self, connect)

    def on_ping(self) -> None:
        """The peer asks whether this server lives."""
        self.end.keepalive.answer()

    def on_pong(self) -> None:
        """The peer lives."""
        self.end.keepalive.answered()
        self._host.on_pong(self)

    def on_wanted(self, account: bytes, subjects: list[bytes]) -> None:
        """The peer wants all these subjects, none in a queue group."""
        if self._host.rights is not None or self.for_replicas:
            for subject in subjects:
                if self.end.is_open:
                    self.on_interest(account, subject, None, 1, None)
            return
        member = self._member(account)
        if member is None:
            return
        valid = [subject for subject in subjects if is_valid_subscription(subject)]
        if len(valid) != len(subjects):
            for subject in subjects:
                if not is_valid_subscription(subject):
                    self.end.refuse_subject(subject)
        member.add_all(valid)

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
            self.end.refuse_subject(subject)
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

    def on_addressed(self, account: bytes, subject: bytes, reply: bytes | None, header_size: int, body: bytes) -> None:
        """An answer of another cluster, for a request that was made here."""
        member = self._member(account)
        if member is not None:
            self._host.gateways.addressed(member, subject, reply, header_size, body)

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
        if member is not None:
            member.arrived(self._host.hub, subject, reply, queues, origin, header_size, body)

    def on_peer_error(self, text: bytes) -> None:
        """The peer complains, and mostly ends the route then."""
        self.end.complained(text)

    def on_violation(self, kind: int, line: bytes) -> None:
        """The bytes make no sense or break a limit; the parser takes no more."""
        self.end.violated(kind, line)

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
            member = LinkMember(self.end, account, self.link, self.prefix(account.name), self._host.rights)
            self.members[name] = member
            self.parser.arrivals.admit(wired, account.interest, member)
        return member
