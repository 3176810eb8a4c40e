"""Answers across clusters: the address that a reply leaves with, and the end of the way of an answer that has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slipstream.kernels.wire.receivers import Route, Subscription
from slipstream.links.gateways.addresses import ADDRESS_MARK, Address, short_hash
from slipstream.links.gateways.recent import RecentInterest

if TYPE_CHECKING:
    from slipstream.kernels.wire.delivery import Delivery
    from slipstream.links.presence import LinkMember
    from slipstream.links.routes.link import RouteLink
    from slipstream.links.routes.mesh import Mesh
    from slipstream.routing.hub import Hub

__all__ = ["AnswerWays"]

_SERVICE_REPLY: Final = b"_R_."


class AnswerWays:
    """Requests and answers of one server.

    Args:
        hub: identity, clock, delivery.
        cluster: the name of this one.
    """

    def __init__(self, hub: Hub, cluster: str) -> None:
        self._delivery: Delivery = hub.delivery
        self._cluster, self._server = short_hash(cluster), short_hash(hub.identity.id)
        self._recent = RecentInterest(Address.prefix(self._cluster, self._server), hub.clock.monotonic_ns)

    def subscribed(self, account: str, subject: bytes) -> None:
        """Somebody at this server subscribed; other clusters will hear of it."""
        self._recent.add(account.encode(), subject)

    def readdressed(self, subscription: Subscription, reply: bytes) -> bytes:
        """A reply as it leaves over a link; one with an address has found its way."""
        return reply if reply.startswith(ADDRESS_MARK) else self._recent.addressed(subscription.sid[:-1], reply)

    def came(
        self,
        mesh: Mesh | None,
        member: LinkMember,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        body: bytes,
    ) -> None:
        """An answer with an address: it goes on to the server that is named, or to whoever waits for it here.

        Args:
            mesh: other servers of the cluster that it may go on to; None: this is the one that is named.
            member: who passes it on, in the account.
            subject: with the address.
            reply: of the answer.
            header_size: of the header in front of the body.
            body: header and payload.
        """
        address = Address.read(subject)
        if address is None or address.cluster != self._cluster or member.account is None:
            return
        route = None
        if mesh is not None and address.server != self._server:
            route = _route_to(mesh, address.server, member.account.name)
        if route is None:
            self._arrived(member, address.subject, reply, header_size, body)
            return
        # As it is, and whatever the server there wants.
        to = Subscription(subject, None, route.prefix(member.account.name), route.outbox, None, None, route.link)
        self._delivery.deliver(Route(links=(to,)), member, subject, reply, header_size, body)

    def _arrived(self, member: LinkMember, subject: bytes, reply: bytes | None, header_size: int, body: bytes) -> None:
        """The answer is where it was asked for: whoever wants its subject gets it, in whatever cluster.

        Answers to requests of other accounts are known to this server alone.
        """
        assert member.account is not None
        route = member.account.interest.find_arrival_route(subject)
        if subject.startswith(_SERVICE_REPLY):
            self._delivery.deliver_arrived(
                route, member.owner.link, member, None, None, subject, reply, header_size, body
            )
        else:
            self._delivery.deliver(route, member, subject, reply, header_size, body)


def _route_to(mesh: Mesh, server: bytes, account: str) -> RouteLink | None:
    """The route of an account to the server that addresses name like that."""
    routes = mesh.roster.of_account(account, mesh.telling.pool_size)
    return next((link for link in routes if short_hash(link.remote_id) == server), None)
