"""Decides where a published subject goes in one account: the one place that authorises a delivery.

Consulted when a subject is published for the first time and after every change of interest; the kernel repeats the
answer. What it looks at, in this order:

1. subject mappings: the message travels under another subject, or each message is decided anew (`dynamic`);
2. local subscriptions, minus those whose client may not receive this concrete subject;
3. subscriptions of accounts that import the subject as a stream: their clients see it under their local name;
4. service imports of this account: a request leaves for the exporting account;
5. what other servers want, in this account. They import streams for themselves, leaf nodes excepted.

What another server of the cluster passes on has been through mappings and service imports there (`plan_arrival`).

An account that has none of this, and no client with narrower permissions than its subscriptions, needs no planner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slipstream.accounts.account import IMPORTING_SID
from slipstream.kernels.subjects.subject import matches
from slipstream.kernels.wire.farparts import far_parts
from slipstream.kernels.wire.receivers import GATEWAY, ROUTE, Route, Subscription

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.accounts.imports import StreamImport
    from slipstream.routing.services import ServiceRelay
    from slipstream.subjects.mapping import AccountMappings

__all__ = ["Planner", "StreamLink"]


_ADDRESS = b"_GR_."  # of another cluster: no mapping, import or service has to do with it


class StreamLink:
    """One stream import seen from the exporting side: which account gets what, and under which name."""

    __slots__ = ("importer", "stream_import")

    def __init__(self, importer: Account, stream_import: StreamImport) -> None:
        self.importer = importer
        self.stream_import = stream_import


class Planner:
    """Makes the routes of one account."""

    def __init__(
        self,
        account: Account,
        *,
        mappings: AccountMappings | None = None,
        links: Sequence[StreamLink] = (),
        services: Sequence[ServiceRelay] = (),
    ) -> None:
        self._account = account
        self.mappings = mappings
        self._links = tuple(links)
        self._services = tuple(services)

    @property
    def is_needed(self) -> bool:
        """Whether routes are more than what interest itself says, whoever subscribes."""
        return self.mappings is not None or bool(self._links) or bool(self._services)

    def plan(self, subject: bytes) -> Route:
        """The route of a subject as it was published."""
        if self.mappings is not None and not subject.startswith(_ADDRESS):
            mapping = self.mappings.find(subject)
            if mapping is not None:
                if not mapping.is_static:
                    return Route(dynamic=True)
                destination = mapping.destination(subject)
                return self.plan_mapped(destination, renamed=destination)
        return self.plan_mapped(subject)

    def plan_arrival(self, subject: bytes) -> Route:
        """The route of a message that another server of the cluster passes on."""
        return self.plan_mapped(subject, services=False)

    @property
    def changes_arrivals(self) -> bool:
        """Whether what another server passes on goes elsewhere than what is published here."""
        return self.mappings is not None or bool(self._services)

    def plan_mapped(self, subject: bytes, *, renamed: bytes | None = None, services: bool = True) -> Route:
        """The route of a subject that no mapping touches (any more)."""
        far: list[tuple[Subscription, bytes | None]] = []
        plain: list[tuple[Subscription, bytes | None]] = []
        groups: dict[bytes, list[tuple[Subscription, bytes | None]]] = {}

        def take(subscription: Subscription, name: bytes, alias: bytes | None) -> None:
            if subscription.checked and subscription.client.permissions.denies_delivery(name, subscription.queue):
                return
            if subscription.link is not None:
                far.append((subscription, alias))
            elif subscription.queue is None:
                plain.append((subscription, alias))
            else:
                groups.setdefault(subscription.queue, []).append((subscription, alias))

        for subscription in self._account.interest.match(subject):
            take(subscription, subject, None)
        is_address = subject.startswith(_ADDRESS)
        for link in () if is_address else self._links:
            local = link.stream_import.local_subject(subject)
            if local is not None:
                for subscription in link.importer.interest.match(local):
                    # What the importing account's clients and streams asked for: other listeners stay at home, and
                    # other servers of the cluster, and other clusters, ask in the exporting account.
                    other = subscription.link
                    if other is not None and other.kind in (ROUTE, GATEWAY):
                        continue
                    if subscription.client is not None or subscription.sid == IMPORTING_SID:
                        take(subscription, local, local)
        if services and not is_address:
            plain.extend(
                (service.subscription, None) for service in self._services if matches(service.subject, subject)
            )
        links = link_names = elsewhere = None
        if far:
            links, link_names, elsewhere = far_parts(far, groups)

        return Route(
            tuple(s for s, _ in plain),
            tuple(tuple(s for s, _ in members) for members in groups.values()),
            _aliases(plain),
            None if not self._links else tuple(tuple(a for _, a in members) for members in groups.values()),
            renamed,
            links=links,
            link_names=link_names,
            elsewhere=elsewhere,
        )


def _aliases(entries: list[tuple[Subscription, bytes | None]]) -> tuple[bytes | None, ...] | None:
    aliases = tuple(alias for _, alias in entries)
    return aliases if any(alias is not None for alias in aliases) else None
