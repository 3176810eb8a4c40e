"""Message tracing: a message that asks for it tells, by one JSON event, where it came in and to whom it went.

    Nats-Trace-Dest: <subject>    where the event goes; the publisher needs the right to publish there
    Nats-Trace-Only: true         the event alone: nobody gets the message
    Nats-Trace-Hop: 1.2           written by servers: the way by which it came to this one
    traceparent: ...-01           W3C: traced to the account's `msg_trace` destination, a part of them

The event lists hops: `in` ingress, `sm` subject mapping, `se` stream export, `si` service import, `js` JetStream, `eg`
egress. Each server tells of what happens there; an egress to another server has the name of a hop, by which the event
of that server is known. A stored message says `trace disabled`, so that it is not traced again at its delivery. What
happens in another account is told only if the import or export allows it; else the trace header of the copy that goes
there says `trace disabled`.

What this is not: the way of ordinary messages. The parser sends only messages with such headers here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple

from slipstream.clock import rfc3339
from slipstream.kernels.wire.receivers import GATEWAY, HUB_LEAF, ROUTE, SPOKE_LEAF, Elsewhere, Link, Route, Subscription
from slipstream.protocol.headers import find_header, parse_headers, remove_header, set_header
from slipstream.protocol.trace_request import TRACE_DEST, TRACE_HOP, TraceRequest, untraced
from slipstream.routing.route_parts import chosen_part

if TYPE_CHECKING:
    from slipstream.accounts.account import Account, MessageTaker
    from slipstream.accounts.member import Member
    from slipstream.kernels.wire.delivery import Delivery
    from slipstream.routing.services import ServiceRelay

__all__ = ["FROM_HERE", "MessageTrace", "TraceSource"]

_CLIENT_KIND: Final = 0
_LEAF_KIND: Final = 4
_LINK_KINDS: Final = {ROUTE: 1, GATEWAY: 2, HUB_LEAF: _LEAF_KIND, SPOKE_LEAF: _LEAF_KIND}
# What an egress says of a server that is too old to trace.
_NOT_TOLD: Final = (
    "Message delivered but remote does not support message tracing so no trace event generated from there"
)
_NOT_SENT: Final = "Not delivered because remote does not support message tracing"


class TraceSource(NamedTuple):
    """How a message came to this server: over a link, with the queue groups that are chosen from and its cluster."""

    link: Link | None = None
    queues: tuple[bytes, ...] | None = None
    origin: bytes | None = None

    @property
    def is_handed_on(self) -> bool:
        """Whether it is for one queue group alone, which is named twice: all others have had it."""
        return self.queues is not None and len(self.queues) > 1 and self.queues[0] == self.queues[1]


FROM_HERE: Final = TraceSource()


class MessageTrace:
    """One traced message on its way through this server."""

    def __init__(
        self,
        request: TraceRequest,
        publisher: Member,
        delivery: Delivery,
        now_ns: Callable[[], int],
        pick: Callable[[int], int],
        account_of: Callable[[Subscription], Account | None],
        service_of: Callable[[Subscription], ServiceRelay | None],
    ) -> None:
        self.request = request
        self.events: list[dict[str, object]] = []
        self.hops = 0  # other servers that the message went to
        self._publisher = publisher
        self._delivery = delivery
        self._now_ns = now_ns
        self._pick = pick
        self._account_of = account_of
        self._service_of = service_of

    def publish(
        self,
        source: TraceSource,
        published: bytes,
        subject: bytes,
        route: Route,
        reply: bytes | None,
        size: int,
        body: bytes,
    ) -> int:
        """Record and deliver. `published` is what the client wrote, `subject` what its mapping made of it."""
        publisher = self._publisher
        assert publisher.account is not None
        kind = _CLIENT_KIND if source.link is None else _LINK_KINDS[source.link.kind]
        self._add("in", kind=kind, cid=publisher.cid, name=publisher.name, acc=publisher.account.name, subj=published)
        if subject != published:
            self._add("sm", to=subject)
        return self._send(source, publisher.account, subject, route, reply, size, body)

    def encode(self, server: object, header_size: int, body: bytes) -> bytes:
        """The event as it is published."""
        request = {"header": parse_headers(body[:header_size]), "msgsize": len(body)}
        import msgspec

        hops = {"hops": self.hops} if self.hops else {}
        return msgspec.json.encode({"server": server, "request": request, **hops, "events": self.events})

    def _send(
        self,
        source: TraceSource,
        home: Account,
        subject: bytes,
        route: Route,
        reply: bytes | None,
        size: int,
        body: bytes,
    ) -> int:
        sent = 0
        plain = () if source.is_handed_on else route.subscriptions
        for subscription, alias in zip(plain, route.renamed or repeat(None), strict=False):
            service = self._service_of(subscription)
            if service is not None:
                sent += self._through(service, subject, reply, size, body)
            else:
                one = Route((subscription,), (), (alias,))
                sent += self._one(source, home, one, subscription, subject, reply, size, body)
        if self.request.only:
            chosen, members = self._drawn(source, route)
            for member in members:
                self._egress(home, member, subject)
            sent += len(members)
        else:
            chosen = chosen_part(route)
        return sent if chosen is None else sent + self._choose(source, home, chosen, subject, reply, size, body)

    def _choose(
        self,
        source: TraceSource,
        home: Account,
        chosen: Route,
        subject: bytes,
        reply: bytes | None,
        size: int,
        body: bytes,
    ) -> int:
        """Queue groups and other servers: the kernel chooses; members here are told of before other servers are."""
        away: list[tuple[Subscription, str, str | None]] = []

        def hop(subscription: Subscription) -> tuple[int, bytes] | None:
            self.hops += 1
            before = self.request.hop.decode("utf-8", "replace")
            name = f"{before}.{self.hops}" if before else str(self.hops)
            error = None
            if not subscription.client.understands_traces:
                error = _NOT_SENT if self.request.only else _NOT_TOLD
            away.append((subscription, name, error))
            if error == _NOT_SENT:
                return None
            return set_header(TRACE_HOP, name.encode(), *remove_header(TRACE_HOP, size, body))

        before = [[member.delivered for member in group] for group in chosen.queues]
        link, queues, origin = source
        sent = self._delivery.deliver_traced(
            chosen, link, self._publisher, queues, origin, subject, reply, size, body, hop
        )
        for group, counts in zip(chosen.queues, before, strict=True):
            for member, count in zip(group, counts, strict=True):
                if member.delivered != count:
                    self._egress(home, member, subject)
        for subscription, name, error in away:
            self._left(home, subscription, name, error)
        return sent

    def _drawn(self, source: TraceSource, route: Route) -> tuple[Route | None, list[Subscription]]:
        """What leaves for other servers though nobody here gets it, and who of the queue groups here would."""
        link, queues, _ = source
        groups, members = {group.local: group for group in route.elsewhere or ()}, list[Subscription]()
        away = [group for group in route.elsewhere or () if group.local < 0]
        for at, here in enumerate(route.queues):
            if link is not None and (queues is None or here[0].queue not in queues):
                continue
            group = groups.get(at)
            # Who is elsewhere counts like who is here, unless another server has chosen this one already.
            weight = 0 if group is None or (link is not None and link.kind in (ROUTE, SPOKE_LEAF)) else group.weight
            ticket = self._pick(len(here) + weight)
            if ticket < len(here):
                members.append(here[ticket])
            elif group is not None:
                names = group.spare_names
                away.append(Elsewhere(group.queue, -1, group.members, group.spare, names, group.beyond))
        if not route.links and not away:
            return None, members
        left = tuple(away) or None
        return Route(links=route.links, link_names=route.link_names, elsewhere=left, via=route.via), members

    def _deliver(
        self, source: TraceSource, route: Route, subject: bytes, reply: bytes | None, size: int, body: bytes
    ) -> int:
        link, _, origin = source
        if link is None:
            return self._delivery.deliver(route, self._publisher, subject, reply, size, body)
        return self._delivery.deliver_arrived(route, link, self._publisher, None, origin, subject, reply, size, body)

    def _one(
        self,
        source: TraceSource,
        home: Account,
        route: Route,
        subscription: Subscription,
        subject: bytes,
        reply: bytes | None,
        size: int,
        body: bytes,
    ) -> int:
        owner = home if subscription in home.takers else self._account_of(subscription)
        crosses = owner is not None and owner is not home
        alias = route.renamed[0] if route.renamed else None
        allowed = True
        if crosses:
            assert owner is not None
            allowed = owner.allows_trace_of(home.name, subject)
            if allowed:
                self._add("se", acc=owner.name, to=alias or subject)
            else:
                size, body = _closed_to_traces(size, body)
        taker = owner.takers.get(subscription) if owner is not None and allowed else None
        if taker is not None:
            self._stored(taker, alias or subject, reply, size, body)
            return 1
        if self.request.only:
            delivered = 1
        else:
            delivered = self._deliver(source, route, subject, reply, size, body)
        if delivered and allowed:
            self._egress(home, subscription, subject)
        return delivered

    def _stored(self, taker: MessageTaker, subject: bytes, reply: bytes | None, size: int, body: bytes) -> None:
        """A stream takes it, refuses it, or nobody wants it there."""
        stored, unwanted, error = taker.take(subject, reply, body[:size], body[size:], only=self.request.only)
        self._add("js", stream=taker.name, subject=stored or None, nointerest=unwanted or None, error=error)

    def _through(self, service: ServiceRelay, subject: bytes, reply: bytes | None, size: int, body: bytes) -> int:
        """A service import: the request goes on in the exporting account, traced if that account agrees."""

        def publish(remote: bytes, way_back: bytes | None, remote_size: int, remote_body: bytes) -> int:
            self._add("si", acc=service.exporter.name, **{"from": subject}, to=remote)
            if not service.allow_trace:
                remote_size, remote_body = _closed_to_traces(remote_size, remote_body)
                return 0 if self.request.only else service.exporter.publish(remote, way_back, remote_size, remote_body)
            route = service.exporter.interest.find_route(remote)
            if self.request.by_client:
                # Traces of what the service does with the message find back to this account.
                remote_size, remote_body = remove_header(TRACE_DEST, remote_size, remote_body)
                remote_size, remote_body = set_header(
                    TRACE_DEST, service.way_back(self.request.dest), remote_size, remote_body
                )
            return self._send_into(service.exporter, remote, route, way_back, remote_size, remote_body)

        if reply is not None:
            reply = self._publisher.answerable(reply)
        return int(service.request(self._publisher, subject, reply, size, body, publish))

    def _send_into(
        self, account: Account, subject: bytes, route: Route, reply: bytes | None, size: int, body: bytes
    ) -> int:
        start = len(self.events)
        sent = self._send(FROM_HERE, account, subject, route, reply, size, body)
        for event in self.events[start:]:
            if event["type"] == "eg" and event["kind"] in (_CLIENT_KIND, _LEAF_KIND):
                event.setdefault("acc", account.name)
        return sent

    def _egress(self, home: Account, subscription: Subscription, subject: bytes) -> None:
        client = subscription.client
        if client is None:
            return
        account = self._account_of(subscription)
        acc = account.name if account is not None and account is not home else None
        self._add(
            "eg",
            kind=_CLIENT_KIND,
            cid=client.cid,
            name=client.name,
            acc=acc,
            sub=subscription.subject,
            queue=subscription.queue,
        )

    def _left(self, home: Account, subscription: Subscription, hop: str, error: str | None) -> None:
        """A copy, or what is known of it, left for another server."""
        assert subscription.link is not None
        member, kind = subscription.client, _LINK_KINDS[subscription.link.kind]
        account = member.account if kind == _LEAF_KIND else None
        acc = account.name if account is not None and account is not home else None
        self._add("eg", kind=kind, cid=member.cid, name=member.name, hop=hop, acc=acc, error=error)

    def _add(self, step: str, /, **fields: object) -> None:
        event: dict[str, object] = {"type": step, "ts": rfc3339(self._now_ns())}
        for key, value in fields.items():
            if value is not None and value != "":
                event[key] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        self.events.append(event)


def _closed_to_traces(header_size: int, body: bytes) -> tuple[int, bytes]:
    """The message as it leaves for an account that may not be traced: it says so, and nothing follows it."""
    if find_header(TRACE_DEST, body[:header_size]) is None:
        return header_size, body
    return untraced(header_size, body)
