"""One leaf link as a state machine, without its socket.

    accepted: GREETED (INFO sent) ──CONNECT──► AUTHENTICATING ──let in──► READY (INFO sent) ──► CLOSED
    dialled:  GREETED ──INFO──► AUTHENTICATING (CONNECT sent) ──INFO──► READY ────────────────► CLOSED
                                     from every state: violation, timeout, peer gone ┘

Until READY nothing but the handshake is understood. Whether a peer is let in, and into which account, is decided by
`LeafNodes`; this is what is said over the link. `link.kind` tells which side is the hub.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from slipstream.accounts.account import most_subscription_cost, subscription_cost
from slipstream.kernels.subjects.subject import is_valid_subscription
from slipstream.kernels.wire.receivers import HUB_LEAF, SPOKE_LEAF
from slipstream.links.end import LinkEnd
from slipstream.links.gateways.addresses import Address
from slipstream.links.leafs.crossing import LOOP_PREFIX
from slipstream.links.leafs.handshake import LeafConnect, LeafInfo
from slipstream.links.leafs.words import words_of
from slipstream.links.presence import LinkMember
from slipstream.protocol import texts
from slipstream.protocol.host import State
from slipstream.protocol.rights import Rights
from slipstream.protocol.texts import CloseReason, error_line
from slipstream.routing.trace import TraceSource
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.auth.identity import Identity
    from slipstream.kernels.wire.receivers import Route
    from slipstream.links.leafs.crossing import Crossing
    from slipstream.links.leafs.interest import LeafInterest
    from slipstream.links.leafs.remotes import LeafRemote
    from slipstream.protocol.peer import Peer
    from slipstream.routing.hub import Hub

__all__ = ["LEAF_LINE_FACTOR", "LeafHost", "LeafLink"]

LEAF_LINE_FACTOR = 16  # lines of a server may be that much longer than those of a client
# Time may heal what a configuration on the other side forbids: try again after that.
PERMISSION_DELAY_NS = 30 * SECOND_NS


class LeafHost(Protocol):
    """What a leaf link needs of the leaf nodes and their server."""

    @property
    def hub(self) -> Hub: ...
    def log(self, level: str, text: str) -> None: ...
    def on_info(self, link: LeafLink, info: LeafInfo) -> None: ...
    def on_connect(self, link: LeafLink, connect: LeafConnect) -> None: ...
    def on_peer_error(self, link: LeafLink, text: str) -> None: ...
    def on_own_loop(self, link: LeafLink) -> None: ...
    def on_pong(self, link: LeafLink) -> None: ...
    def loop_subject(self, account: Account) -> bytes: ...
    def closed(self, link: LeafLink, reason: CloseReason) -> None: ...
    def mapped(self, account: Account, subject: bytes) -> bytes | None:
        """What the account's mappings make of a subject; None: nothing."""
        ...

    def mapped_route(self, account: Account, subject: bytes) -> tuple[bytes, Route] | None:
        """What a mapping makes of a subject, and where that goes; None: nowhere."""
        ...


class LeafLink:
    """One connection to another server, of one account here with one there. The parser's sink."""

    def __init__(self, host: LeafHost, peer: Peer, remote: LeafRemote | None = None) -> None:
        options = host.hub.options
        is_spoke = remote is not None and not remote.options.hub
        self.end = end = LinkEnd(
            host.hub,
            self,
            peer,
            words_of(peer),
            kind=SPOKE_LEAF if is_spoke else HUB_LEAF,
            max_payload=options.max_payload,
            max_line=LEAF_LINE_FACTOR * options.max_control_line,
            log=host.log,
            on_closed=self._closed,
        )
        # What of the end never changes is the link's, too.
        self.cid, self.peer, self.outbox, self.link, self.parser = end.cid, peer, end.outbox, end.link, end.parser
        self.close, self.refuse, self.log = end.close, end.refuse, end.log
        self.remote = remote  # of one that this server dialled
        self.account: Account | None = None
        self.member: LinkMember | None = None
        self.interest: LeafInterest | None = None
        self.crossing: Crossing | None = None
        self.identity: Identity | None = None
        self.nonce = ""
        self.remote_version = ""
        self.remote_cluster = ""
        self.remote_domain = ""
        self.remote_account = ""
        self.isolated = False
        self.answers_connect = False  # the peer will say INFO once more
        self.has_info = False
        self.secured = False
        self.is_deflated = False  # by the WebSocket that it goes over
        self._host = host
        self._rights: Rights | None = None

    def opened_websocket(self, *, deflated: bool) -> None:
        """The WebSocket that the link goes over is open; one that compresses leaves nothing to S2."""
        self.log("DBG", f"Leafnode compression={'true' if deflated else 'false'}")
        self.is_deflated = deflated

    @property
    def solicited(self) -> bool:
        """Whether this server dialled."""
        return self.remote is not None

    @property
    def is_spoke(self) -> bool:
        """Whether this server is the leaf, and the peer the hub."""
        return self.link.kind == SPOKE_LEAF

    @property
    def subscription_count(self) -> int:
        """How many subjects the peer wants."""
        return 0 if self.member is None else len(self.member)

    # --- life cycle --------------------------------------------------------------------------------------------------

    def named(self, name: str, cluster: str, domain: str) -> None:
        """The peer told who it is."""
        self.end.remote_name, self.remote_cluster, self.remote_domain = name, cluster, domain
        self.link.cluster = cluster.encode() or None

    def bind(self, account: Account, crossing: Crossing, identity: Identity | None) -> None:
        """Take part in an account from now on; `begin` follows."""
        self.account, self.crossing, self.identity = account, crossing, identity
        self._rights = Rights(crossing.permissions, self._host.hub.now_ns)
        self.member = LinkMember(
            self.end, account, self.link, identity=identity, rights=self._rights, mapped=self._host.mapped
        )
        parser = self.parser
        parser.arrivals.restricted = True
        if self._rights.may_respond:
            parser.arrivals.verdicts = None  # an answer is allowed once
        parser.arrivals.admit(b"", account.interest, self.member)
        self.heed_traces()

    def heed_traces(self) -> None:
        """Look at requests with W3C headers, if the account traces these: the account at the other end need not."""
        self.parser.arrivals.traceparents = self.account is not None and self.account.msg_trace is not None

    def begin(self, interest: LeafInterest) -> None:
        """The handshake is over: take messages and interest from now on."""
        self.interest = interest
        self.end.begin()

    def _closed(self, reason: CloseReason) -> None:
        if self.interest is not None:
            self.interest.end()
        if self.member is not None:
            self.member.leave(self._host.hub.in_steps)
        self._host.closed(self, reason)

    # --- what the parser calls ---------------------------------------------------------------------------------------

    def on_info(self, text: bytes) -> None:
        """INFO of the peer, the first one or a later one."""
        info = self.end.read(text, LeafInfo, "INFO")
        if info is not None:
            self._host.on_info(self, info)

    def on_connect(self, text: bytes) -> None:
        """CONNECT of a peer that dialled."""
        if self.solicited or self.end.state is not State.GREETED:
            self.refuse(CloseReason.PROTOCOL_VIOLATION, texts.UNKNOWN_OPERATION)
            return
        connect = self.end.read(text, LeafConnect, "CONNECT")
        if connect is not None:
            self.end.authenticating()
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
        member, crossing = self.member, self.crossing
        assert member is not None and crossing is not None
        if self._has_room(len(subjects), sum(map(len, subjects))) and all(map(crossing.wants_freely, subjects)):
            member.add_all(subjects)
            return
        for subject in subjects:
            if self.end.is_open:
                self.on_interest(account, subject, None, 1, None)

    def _has_room(self, count: int, size: int) -> bool:
        """Whether so many subjects of so many bytes fit for sure, whatever they are."""
        member, account, hub = self.member, self.account, self._host.hub
        assert member is not None and account is not None and self._rights is not None
        limits = (account.limits.max_subscriptions, hub.options.max_subscriptions or -1)
        if self._rights.may_respond or any(0 <= limit < len(member) + count for limit in limits):
            return False
        return account.subscription_bytes + most_subscription_cost(count, size) <= hub.subscription_bytes_max

    def on_interest(
        self, _account: bytes, subject: bytes, queue: bytes | None, weight: int, _origin: bytes | None
    ) -> None:
        """The peer wants a subject."""
        member, crossing, account = self.member, self.crossing, self.account
        assert member is not None and crossing is not None and account is not None
        if subject.startswith(LOOP_PREFIX) and subject == self._host.loop_subject(account):
            self._host.on_own_loop(self)
            return
        if not is_valid_subscription(subject):
            self.end.refuse_subject(subject)
            return
        if not crossing.may_want(subject, queue):
            if queue is None or not crossing.is_of_other_groups(subject):
                self._overstepped("Subscription", subject)
            return
        if not member.has(subject, queue):
            limits = (account.limits.max_subscriptions, self._host.hub.options.max_subscriptions or -1)
            too_many = any(0 <= limit <= len(member) for limit in limits)
            if (
                too_many
                or account.subscription_bytes + subscription_cost(subject) > self._host.hub.subscription_bytes_max
            ):
                self.log("ERR", texts.MAXIMUM_SUBSCRIPTIONS)
                self.outbox.write(error_line(texts.MAXIMUM_SUBSCRIPTIONS))
                return
        assert self._rights is not None
        member.add(
            subject,
            queue,
            weight,
            None,
            checked=crossing.permissions.needs_delivery_check(subject, queue),
            watched=self._rights.may_respond,
        )

    def on_interest_gone(self, _account: bytes, subject: bytes, queue: bytes | None, _origin: bytes | None) -> None:
        """The peer no longer wants a subject."""
        if self.member is not None:
            self.member.remove(subject, queue, None)

    def on_unknown_account(self, _account: bytes) -> bool:
        """Messages name no account here, and the one there is was admitted."""
        return False

    def may_publish(self, _account: bytes, subject: bytes) -> bool:
        """Whether a message of the peer is taken; asked for each subject once, if no answers have to be counted."""
        assert self.crossing is not None and self._rights is not None
        address = Address.read(subject)
        if address is not None:
            subject = address.subject  # that an answer leads to another cluster gives no rights
        if self.crossing.may_send(subject) or self._rights.may_publish(subject) is None:
            return True
        if self.crossing.oversteps(subject):
            self._overstepped("Publish", subject)
        return False

    def on_message(
        self,
        _account: bytes,
        subject: bytes,
        reply: bytes | None,
        queues: tuple[bytes, ...] | None,
        origin: bytes | None,
        header_size: int,
        body: bytes,
    ) -> None:
        """A message whose mapping is drawn anew each time, or one that is traced."""
        assert self.account is not None and self.member is not None
        found = self._host.mapped_route(self.account, subject)
        if found is None:
            return
        published = subject
        subject, route = found
        if queues is None and subject != published:
            # The peer could not know the groups that a mapping leads to.
            groups = [members[0].queue for members in route.queues]
            groups += [group.queue for group in route.elsewhere or () if group.queue not in groups]
            queues = tuple(group for group in groups if group is not None)
        hub, source = self._host.hub, TraceSource(self.link, queues, origin)
        if header_size and hub.trace_arrival(self.member, source, published, subject, route, reply, header_size, body):
            return
        hub.delivery.deliver_arrived(route, self.link, self.member, queues, origin, subject, reply, header_size, body)

    def on_peer_error(self, text: bytes) -> None:
        """The peer complains, and mostly ends the link then."""
        self._host.on_peer_error(self, self.end.complained(text))

    def on_violation(self, kind: int, line: bytes) -> None:
        """The bytes make no sense or break a limit; the parser takes no more."""
        self.end.violated(kind, line)

    def _overstepped(self, what: str, subject: bytes) -> None:
        """The peer does what it may not: a hub ends its link, a leaf passes over it."""
        if self.is_spoke:
            return
        if self.remote is not None:
            self.remote.delay_ns = PERMISSION_DELAY_NS
        self.log("ERR", f"{what} Violation on {texts.quoted(subject)} - Check other side configuration")
        preposition = "Publish to" if what == "Publish" else "Subscription to"
        self.close(CloseReason.PROTOCOL_VIOLATION, f"Permissions Violation for {preposition} {texts.quoted(subject)}")
