"""Publishes of clients that are not in the kernels' way: mapped for each message, logged, or traced."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import TYPE_CHECKING, Final, Protocol

from slipstream.accounts.member import Member
from slipstream.kernels.subjects.subject import is_valid_publish
from slipstream.kernels.wire.receivers import Route
from slipstream.protocol import texts
from slipstream.protocol.trace_request import SAMPLED_OUT, TraceRequest, trace_request, untraced
from slipstream.routing.route_parts import chosen_part, queue_aliases
from slipstream.routing.services import REPLY_PREFIX

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.ids import RandomSource
    from slipstream.kernels.wire.delivery import Delivery
    from slipstream.kernels.wire.receivers import Subscription
    from slipstream.protocol.connection import ClientConnection
    from slipstream.routing.topology import Topology
    from slipstream.routing.trace import TraceSource

__all__ = ["Passing", "Publishes"]

_BETWEEN_SERVERS: Final = (b"_GR_.", b"$GR.")
_OF_RAFT: Final = b"$NRG."


class Passing(Member, Protocol):
    """Another server in one account, which passes messages of its clients on."""

    def log(self, level: str, text: str) -> None:
        """A log line about it."""
        ...


class Publishes:
    """Of all clients of a server."""

    def __init__(
        self,
        delivery: Delivery,
        topology: Topology,
        now_ns: Callable[[], int],
        rng: RandomSource,
        log: Callable[[str, ClientConnection, str], None],
        describe_server: Callable[[], object],
    ) -> None:
        self._delivery = delivery
        self._topology = topology
        self._now_ns = now_ns
        self._rng = rng
        self._log = log
        self._describe_server = describe_server

    def publish(
        self, connection: ClientConnection, subject: bytes, reply: bytes | None, header_size: int, body: bytes
    ) -> int:
        """Publish for a client to a subject that is mapped already; returns how many got the message."""
        account = connection.account
        assert account is not None
        route = self._route(account, subject)
        if connection.tracing:
            return self._deliver_logged(route, connection, subject, reply, header_size, body)
        return self._delivery.deliver(route, connection, subject, reply, header_size, body)

    def _deliver_logged(
        self, route: Route, connection: ClientConnection, subject: bytes, reply: bytes | None, size: int, body: bytes
    ) -> int:
        """Deliver one receiver after the other, and log each copy."""
        sent = 0
        for one, alias in zip(route.subscriptions, route.renamed or repeat(None), strict=False):
            sent += self._deliver_part(
                Route((one,), (), (alias,)), ((one, alias),), connection, subject, reply, size, body
            )
        chosen = chosen_part(route)
        if chosen is not None:
            members = tuple(
                pair
                for group, aliases in zip(route.queues, queue_aliases(route), strict=True)
                for pair in zip(group, aliases, strict=True)
            )
            sent += self._deliver_part(chosen, members, connection, subject, reply, size, body)
        return sent

    def _deliver_part(
        self,
        part: Route,
        members: tuple[tuple[Subscription, bytes | None], ...],
        connection: ClientConnection,
        subject: bytes,
        reply: bytes | None,
        size: int,
        body: bytes,
    ) -> int:
        before = [member.delivered for member, _ in members]
        sent = self._delivery.deliver(part, connection, subject, reply, size, body)
        for (member, alias), count in zip(members, before, strict=True):
            if member.delivered != count and member.client is not None:
                member.client.trace_delivery(member, alias or subject, reply, size, body)
        return sent

    def trace_request(self, connection: ClientConnection, header: bytes) -> TraceRequest | None:
        """Whether a message is to be traced."""
        assert connection.account is not None
        return trace_request(header, connection.account, self._rng.randrange)

    def publish_traced(
        self,
        connection: ClientConnection,
        traced: TraceRequest,
        published: bytes,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        body: bytes,
    ) -> int:
        """Publish and tell where the message went."""
        account = connection.account
        assert account is not None
        if traced is SAMPLED_OUT:
            return self.publish(connection, subject, reply, *untraced(header_size, body))
        if not is_valid_publish(traced.dest):
            self._log("ERR", connection, _no_subject(traced.dest))
            return 1 if traced.only else self.publish(connection, subject, reply, header_size, body)
        route = self._route(account, subject)
        from slipstream.routing.trace import FROM_HERE

        return self._traced(traced, connection, FROM_HERE, published, subject, route, reply, header_size, body)

    def trace_arrival(
        self,
        member: Passing,
        source: TraceSource,
        published: bytes,
        subject: bytes,
        route: Route,
        reply: bytes | None,
        header_size: int,
        body: bytes,
    ) -> bool:
        """Deliver a message of another server and tell where it went; False: it is not traced, and was not delivered.

        Args:
            member: the other server in the account of the message.
            source: how it came.
            published: its subject there.
            subject: what a mapping made of it.
            route: where that goes.
            reply: where answers go.
            header_size: of the header in front of the body.
            body: header and payload.
        """
        account = member.account
        if account is None:
            return True
        traced = trace_request(body[:header_size], account, None)
        if traced is None:
            return False
        if not is_valid_publish(traced.dest):
            member.log("ERR", _no_subject(traced.dest))
            return traced.only
        if not self._may_trace_to(member, account, traced):
            member.log("ERR", f"Publish Violation - Subject {texts.quoted(traced.dest)}")
            return True
        self._traced(traced, member, source, published, subject, route, reply, header_size, body)
        return True

    def _traced(
        self,
        traced: TraceRequest,
        publisher: Member,
        source: TraceSource,
        published: bytes,
        subject: bytes,
        route: Route,
        reply: bytes | None,
        header_size: int,
        body: bytes,
    ) -> int:
        from slipstream.routing.trace import MessageTrace

        account, topology = publisher.account, self._topology
        assert account is not None
        trace = MessageTrace(
            traced, publisher, self._delivery, self._now_ns, self._rng.randrange, self._owner, topology.service_of
        )
        sent = trace.publish(source, published, subject, route, reply, header_size, body)
        account.publish(traced.dest, None, 0, trace.encode(self._describe_server(), header_size, body))
        return sent

    @staticmethod
    def _may_trace_to(member: Passing, account: Account, traced: TraceRequest) -> bool:
        """Whether a server that passes a message on may have its trace sent there."""
        if traced.dest.startswith(_BETWEEN_SERVERS) or (traced.dest.startswith(_OF_RAFT) and not account.is_system):
            return False
        return not traced.by_client or traced.dest.startswith(REPLY_PREFIX) or member.grants(traced.dest)

    def _owner(self, subscription: Subscription) -> Account | None:
        """The account of a client's or a stream's subscription; traced messages are few enough to look for it."""
        client: ClientConnection | None = subscription.client
        if client is not None:
            return client.account
        return next((account for account in self._topology.accounts.values() if subscription in account.takers), None)

    def _route(self, account: Account, subject: bytes) -> Route:
        if account.maps_subjects:
            return self._topology.planned(account, subject)
        return account.interest.find_route(subject)

    def mapped(self, connection: ClientConnection, subject: bytes) -> bytes | None:
        """What the account's mappings make of a subject; None when this message is to be dropped."""
        account = connection.account
        assert account is not None
        return self._topology.roll(account, subject) if account.maps_subjects else subject


def _no_subject(dest: bytes) -> str:
    """What the log says; a header may hold what would end a protocol line."""
    return f"Destination {texts.quoted(dest)} is not valid, won't be able to trace events"
