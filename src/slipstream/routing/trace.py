"""Message tracing: a message that asks for it tells, by one JSON event, where it came in and to whom it went.

    Nats-Trace-Dest: <subject>    where the event goes; the publisher needs the right to publish there
    Nats-Trace-Only: true         the event alone: nobody gets the message
    traceparent: ...-01           W3C: traced to the account's `msg_trace` destination, a part of them

The event lists hops: `in` ingress, `sm` subject mapping, `se` stream export, `si` service import, `js` JetStream, `eg`
egress. A stored message says `trace disabled`, so that it is not traced again when it is delivered. What
happens in another account is told only if the import or export allows it; else the trace header of the copy that goes
there says `trace disabled`.

What this is not: the way of ordinary messages. The parser sends only messages with such headers here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from slipstream.clock import rfc3339
from slipstream.kernels.wire.receivers import Route, Subscription
from slipstream.protocol.headers import find_header, parse_headers, remove_header, set_header
from slipstream.protocol.trace_request import TRACE_DEST, TraceRequest
from slipstream.routing.route_parts import chosen_part

if TYPE_CHECKING:
    from slipstream.accounts.account import Account, MessageTaker
    from slipstream.protocol.connection import ClientConnection
    from slipstream.routing.services import ServiceRelay

__all__ = ["MessageTrace"]

_CLIENT_KIND = 0


class Deliver(Protocol):
    """Executes a route, as the delivery kernel does."""

    def __call__(
        self, route: Route, publisher: object, subject: bytes, reply: bytes | None, header_size: int, body: bytes, /
    ) -> int: ...


class MessageTrace:
    """One traced message on its way through this server."""

    def __init__(
        self,
        request: TraceRequest,
        publisher: ClientConnection,
        deliver: Deliver,
        now_ns: Callable[[], int],
        account_of: Callable[[Subscription], Account | None],
        service_of: Callable[[Subscription], ServiceRelay | None],
    ) -> None:
        self.request = request
        self.events: list[dict[str, object]] = []
        self._publisher = publisher
        self._deliver = deliver
        self._now_ns = now_ns
        self._account_of = account_of
        self._service_of = service_of

    def publish(
        self, published: bytes, subject: bytes, route: Route, reply: bytes | None, size: int, body: bytes
    ) -> int:
        """Record and deliver. `published` is what the client wrote, `subject` what its mapping made of it."""
        publisher = self._publisher
        assert publisher.account is not None
        self._add(
            "in", kind=_CLIENT_KIND, cid=publisher.cid, name=publisher.name, acc=publisher.account.name, subj=published
        )
        if subject != published:
            self._add("sm", to=subject)
        return self._send(publisher.account, subject, route, reply, size, body)

    def encode(self, server: object, header_size: int, body: bytes) -> bytes:
        """The event as it is published."""
        request = {"header": parse_headers(body[:header_size]), "msgsize": len(body)}
        import msgspec

        return msgspec.json.encode({"server": server, "request": request, "events": self.events})

    def _send(self, home: Account, subject: bytes, route: Route, reply: bytes | None, size: int, body: bytes) -> int:
        sent = 0
        aliases = route.renamed or (None,) * len(route.subscriptions)
        for subscription, alias in zip(route.subscriptions, aliases, strict=True):
            service = self._service_of(subscription)
            if service is not None:
                sent += self._through(service, subject, reply, size, body)
            else:
                sent += self._one(home, Route((subscription,), (), (alias,)), subscription, subject, reply, size, body)
        chosen = chosen_part(route)
        if chosen is None:
            return sent
        if self.request.only:
            for group in route.queues:
                self._egress(home, group[0], subject)
            return sent + len(route.queues)
        before = [[member.delivered for member in group] for group in route.queues]
        sent += self._deliver(chosen, self._publisher, subject, reply, size, body)
        for group, counts in zip(route.queues, before, strict=True):
            for member, count in zip(group, counts, strict=True):
                if member.delivered != count:
                    self._egress(home, member, subject)
        return sent

    def _one(
        self,
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
                size, body = _disabled(size, body)
        taker = owner.takers.get(subscription) if owner is not None and allowed else None
        if taker is not None:
            self._stored(taker, alias or subject, reply, size, body)
            return 1
        if self.request.only:
            delivered = 1
        else:
            delivered = self._deliver(route, self._publisher, subject, reply, size, body)
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
                remote_size, remote_body = _disabled(remote_size, remote_body)
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
        sent = self._send(account, subject, route, reply, size, body)
        for event in self.events[start:]:
            if event["type"] == "eg":
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

    def _add(self, hop: str, /, **fields: object) -> None:
        event: dict[str, object] = {"type": hop, "ts": rfc3339(self._now_ns())}
        for key, value in fields.items():
            if value is not None and value != "":
                event[key] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        self.events.append(event)


def _disabled(header_size: int, body: bytes) -> tuple[int, bytes]:
    """The message as it leaves for an account that may not be traced: it says so, and nothing follows it."""
    if find_header(TRACE_DEST, body[:header_size]) is None:
        return header_size, body
    header_size, body = remove_header(TRACE_DEST, header_size, body)
    return set_header(TRACE_DEST, b"trace disabled", header_size, body)
