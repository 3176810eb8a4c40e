"""Another server inside one account: what it wants there, and who publishes what it passes on.

Its interest is one subscription for each subject and queue group, with the weight that it names. It is the client of
these subscriptions and the publisher of its messages. Over a route it may do all, since rights were checked where
clients are; over a leaf link it has the rights of the user that it came in as.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from slipstream.kernels.wire.receivers import GATEWAY, ROUTE, Presence, Subscription
from slipstream.links.gateways.addresses import Address
from slipstream.routing.trace import TraceSource
from slipstream.subjects.outside import outside_only

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.auth.identity import Identity
    from slipstream.auth.permissions import Permissions
    from slipstream.kernels.links.linkparser import LinkParser
    from slipstream.kernels.wire.outbox import Outbox
    from slipstream.kernels.wire.receivers import Link
    from slipstream.links.end import LinkEnd
    from slipstream.protocol.peer import Peer
    from slipstream.protocol.rights import Rights
    from slipstream.routing.hub import Hub

__all__ = ["DeliveryRule", "LinkMember"]

_SERVER_REPLIES = (b"_R_.", b"$JS.ACK.")  # ways back of requests and deliveries, which servers make
_AT_ONCE = 1_000  # subscriptions of a peer that leaves; more are taken out in steps


class DeliveryRule(Protocol):
    """Says what leaves over a link."""

    def denies_delivery(self, subject: bytes, queue: bytes | None = None) -> bool: ...


class LinkMember:
    """One link in one account."""

    lang = version = ""
    no_responders = False

    def __init__(
        self,
        owner: LinkEnd,
        account: Account,
        link: Link,
        sid: bytes = b"",
        permissions: DeliveryRule | None = None,
        *,
        identity: Identity | None = None,
        rights: Rights | None = None,
        mapped: Callable[[Account, bytes], bytes | None] | None = None,
    ) -> None:
        """Nothing is wanted yet.

        Args:
            owner: the end of the link.
            account: where it takes part.
            link: over which messages leave.
            sid: what stands before a subject there: the account, or nothing.
            permissions: what may leave over the link, asked for subscriptions that are `checked`.
            identity: as whom the peer came in, if it was asked.
            rights: what it may do, with what may leave; None: everything.
            mapped: what the account's mappings make of a subject; None: nothing.
        """
        self.owner = owner
        self.account: Account | None = account
        self.identity = identity
        self.rights = rights
        self._mapped = mapped
        self.presence = Presence()
        self._home = account
        self._link = link
        self._sid = sid
        self.permissions: DeliveryRule | None = permissions if rights is None else rights.permissions
        self._subscriptions: dict[bytes, Subscription] = {}

    def __len__(self) -> int:
        return len(self._subscriptions)

    @property
    def cid(self) -> int:
        """Number of the connection."""
        return self.owner.cid

    @property
    def peer(self) -> Peer:
        """The other end."""
        return self.owner.peer

    @property
    def name(self) -> str:
        """The other server."""
        return self.owner.remote_name

    @property
    def start_ns(self) -> int:
        """Since when."""
        return self.owner.start_ns

    @property
    def rtt_ns(self) -> int:
        """How far away it is."""
        return self.owner.keepalive.rtt_ns

    @property
    def parser(self) -> LinkParser:
        """What it sent."""
        return self.owner.parser

    @property
    def outbox(self) -> Outbox:
        """What it got."""
        return self.owner.outbox

    @property
    def understands_traces(self) -> bool:
        """Whether it tells where a traced message goes there."""
        return self.owner.understands_traces

    def log(self, level: str, text: str) -> None:
        """A log line about the link."""
        self.owner.log(level, text)

    @property
    def is_route(self) -> bool:
        """Whether it is a server of the same cluster, which has answered its clients itself."""
        return self._link.kind == ROUTE

    @property
    def is_gateway(self) -> bool:
        """Whether it is a server of another cluster."""
        return self._link.kind == GATEWAY

    def grants(self, subject: bytes) -> bool:
        """Whether it may publish to a subject; rights of a route's clients were checked there."""
        return self.rights is None or self.rights.permissions.may_publish_all(subject)

    def answerable(self, reply: bytes, crossed: bool = False) -> bytes:
        """A reply that a client of it named, as the server itself may use it: see `ClientConnection.answerable`."""
        if self.rights is None or reply.startswith(_SERVER_REPLIES):
            return reply
        address = Address.read(reply)
        subject = reply if address is None else address.subject  # that it leads to another cluster gives no rights
        if crossed:
            return outside_only(subject)
        # Rights are those to what a mapping makes of it, as for a publish.
        destination = subject if self._mapped is None else self._mapped(self._home, subject)
        self.rights.remember_answers(subject)
        return reply if destination is not None and self.grants(destination) else outside_only(subject)

    def on_no_responders(self, subject: bytes, reply: bytes) -> None:
        """Nobody took a request: the server that passed it on knows by its own interest."""

    def on_delivered(self, _subscription: Subscription, reply: bytes | None) -> None:
        """Something left over the link: who may answer requests may answer this one."""
        if self.rights is not None and reply is not None:
            address = Address.read(reply)
            self.rights.request_came(reply if address is None else address.subject)

    def subscriptions(self) -> list[Subscription]:
        """What the peer wants, for monitoring."""
        return list(self._subscriptions.values())

    def has(self, subject: bytes, queue: bytes | None, origin: bytes | None = None) -> bool:
        """Whether the peer has asked for it."""
        return _key(subject, queue, origin) in self._subscriptions

    def add(
        self,
        subject: bytes,
        queue: bytes | None,
        weight: int,
        origin: bytes | None,
        *,
        checked: bool = False,
        watched: bool = False,
    ) -> None:
        """The peer wants a subject, or has another number of members in a queue group."""
        key = _key(subject, queue, origin)
        known = self._subscriptions.get(key)
        if known is not None:
            if queue is not None and known.weight != weight:
                self._home.reweigh(known, weight)
            return
        subscription = Subscription(
            subject, queue, self._sid, self._link.outbox, self, None, self._link, max(weight, 1), origin
        )
        subscription.presence = self.presence
        subscription.checked = checked
        subscription.watched = watched
        subscription.echo = False
        self._subscriptions[key] = subscription
        self._home.add(subscription)

    def add_all(self, subjects: list[bytes]) -> None:
        """The peer wants all these subjects, none in a queue group, and nothing has to be asked about them."""
        self._home.add_wanted(subjects, self._subscriptions, self._link, self, self._sid, self.presence)

    def remove(self, subject: bytes, queue: bytes | None, origin: bytes | None) -> None:
        """The peer no longer wants it."""
        subscription = self._subscriptions.pop(_key(subject, queue, origin), None)
        if subscription is not None:
            self._home.remove(subscription)

    def recheck(self, needs_check: Callable[[bytes], bool]) -> None:
        """Other rights: decide anew which subscriptions have to be asked about for each message."""
        for subscription in list(self._subscriptions.values()):
            checked = needs_check(subscription.subject)
            if checked != subscription.checked:
                self._home.remove(subscription)
                subscription.checked, subscription.closed = checked, False
                self._home.add(subscription)
        self._home.interest.forget_all()

    def use_rights(self, rights: Permissions | None) -> None:
        """Other rights: what may not be had any more goes, the rest is asked about as need be."""
        self.permissions = rights
        if rights is not None:
            for key, subscription in list(self._subscriptions.items()):
                if not rights.may_subscribe(subscription.subject):
                    del self._subscriptions[key]
                    self._home.remove(subscription)
        self.recheck(lambda subject: rights is not None and rights.needs_delivery_check(subject))

    def arrived(
        self,
        hub: Hub,
        subject: bytes,
        reply: bytes | None,
        queues: tuple[bytes, ...] | None,
        origin: bytes | None,
        header_size: int,
        body: bytes,
    ) -> None:
        """Deliver a message that the peer passed on, which no other server gets from here."""
        if self.account is None:
            return
        route = self.account.interest.find_arrival_route(subject)
        if header_size:
            source = TraceSource(self._link, queues, origin)
            if hub.trace_arrival(self, source, subject, subject, route, reply, header_size, body):
                return
        hub.delivery.deliver_arrived(route, self._link, self, queues, origin, subject, reply, header_size, body)

    def leave(self, in_steps: Callable[[Iterator[None]], None]) -> None:
        """The link is gone: so is all that the peer wanted, many subscriptions bit by bit."""
        subscriptions, self._subscriptions = self._subscriptions, {}
        if len(subscriptions) > _AT_ONCE:
            in_steps(self._home.depart(self.presence, subscriptions))
            return
        for subscription in subscriptions.values():
            self._home.remove(subscription)


def _key(subject: bytes, queue: bytes | None, origin: bytes | None) -> bytes:
    """A plain subject is its own key: it has no blanks."""
    return subject if queue is None and origin is None else b"%b %b %b" % (subject, queue or b"", origin or b"")
