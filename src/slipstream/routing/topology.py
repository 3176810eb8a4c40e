"""The accounts of a server and how they are wired together, as the configuration says.

Accounts outlive a reload when their name stays, with their connections and subscriptions; everything between them
(mappings, imports, exports, limits) is built anew.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from slipstream.accounts.account import Account
from slipstream.accounts.graph import AccountGraph, ResolvedAccount, build_accounts
from slipstream.ids import RandomSource, new_nuid
from slipstream.routing.planner import Planner, StreamLink
from slipstream.routing.services import Asked, ResponseTable, ServiceRelay

if TYPE_CHECKING:
    from slipstream.accounts.member import Member
    from slipstream.clock import Clock
    from slipstream.config.account_options import LatencyOptions
    from slipstream.config.options import Options
    from slipstream.kernels.wire.delivery import Delivery
    from slipstream.kernels.wire.receivers import Route, Subscription
    from slipstream.routing.latency import LatencyReporter

__all__ = ["Topology"]

ClientInfo = Callable[["Member"], Mapping[str, object]]

_TOKEN_BYTES = 12  # 96 bits: a reply subject cannot be guessed


class Topology:
    """Accounts by name, and the planners that route between them."""

    def __init__(
        self,
        options: Options,
        delivery: Delivery,
        clock: Clock,
        rng: RandomSource,
        request_info: tuple[ClientInfo, ClientInfo],
    ) -> None:
        """Build the accounts.

        Args:
            options: the configuration, already checked.
            delivery: executes routes.
            clock: for response deadlines.
            rng: for weighted mappings and reply tokens.
            request_info: who asks, as services see it: for imports that share it, and for others.

        Raises:
            ConfigError: imports and exports do not fit together.
        """
        self.accounts: dict[str, Account] = {}
        self._delivery = delivery
        self._clock = clock
        self._rng = rng
        self._shared_info, self._short_info = request_info
        self._planners: dict[str, Planner] = {}
        self._responses: dict[str, ResponseTable] = {}
        # What is between the accounts: by exporter and importer, and by importer.
        self._links: dict[str, dict[str, list[StreamLink]]] = {}
        self._imported_from: dict[str, set[str]] = {}
        self._service_imports: dict[str, list[ServiceRelay]] = {}
        self._services: dict[int, ServiceRelay] = {}  # by the id of their subscription
        self._asked: Asked = []
        self._claimed: set[str] = set()  # accounts of operator mode, which no configuration names
        self.graph = AccountGraph({})
        self.reload(options)

    def reload(self, options: Options) -> None:
        """Rebuild from other options; accounts of operator mode stay.

        Raises:
            ConfigError: imports and exports do not fit together; nothing has changed then.
        """
        built = build_accounts(options)
        claimed = {name: resolved for name, resolved in self.graph.accounts.items() if name in self._claimed}
        graph = AccountGraph({**built.accounts, **claimed})
        self.graph = graph
        for name in list(self.accounts):
            if name not in graph.accounts:
                del self.accounts[name]
                self._responses.pop(name, None)
        for resolved in graph.accounts.values():
            self._take(resolved, remembers_routes=not options.disable_sublist_cache)
        self._links.clear()
        self._imported_from.clear()
        self._service_imports.clear()
        self._services.clear()
        self._wire(graph.accounts.keys())

    def update(self, changed: Mapping[str, ResolvedAccount], *, remembers_routes: bool) -> list[str]:
        """Take over accounts of operator mode that came or changed; gives the names of those that are new.

        Costs as much as these accounts and what they share, however many others there are.
        """
        before = self.graph.accounts
        exporters = {
            stream.exporter
            for name, resolved in changed.items()
            for account in (before.get(name), resolved)
            for stream in (account.stream_imports if account is not None else ())
        }
        new = [name for name in changed if name not in self.accounts]
        before.update(changed)
        self._claimed.update(changed)
        for resolved in changed.values():
            self._take(resolved, remembers_routes=remembers_routes)
        self._wire(changed.keys() | exporters)
        return new

    def _take(self, resolved: ResolvedAccount, *, remembers_routes: bool) -> None:
        name = resolved.name
        account = self.accounts.get(name)
        if account is None:
            account = Account(name, self._delivery, is_system=resolved.is_system, remembers_routes=remembers_routes)
            self.accounts[name] = account
            self._responses[name] = ResponseTable(account, self._clock.monotonic_ns, self._new_token, self._shared_info)
        account.limits = resolved.options.limits
        account.msg_trace = resolved.options.msg_trace
        account.traced_imports = [stream for stream in resolved.stream_imports if stream.allow_trace]

    def service_of(self, subscription: Subscription) -> ServiceRelay | None:
        """The service import behind an internal subscription of a route, if it is one."""
        return self._services.get(id(subscription))

    def roll(self, account: Account, subject: bytes) -> bytes | None:
        """The destination that a weighted mapping gives this message; None when it is to be dropped."""
        mappings = self._planners[account.name].mappings
        mapping = None if mappings is None else mappings.find(subject)
        return subject if mapping is None else mapping.choose(subject, self._rng.randrange)

    def planned(self, account: Account, subject: bytes) -> Route:
        """The route of a subject after its mapping."""
        return self._planners[account.name].plan_mapped(subject)

    def _wire(self, names: Collection[str]) -> None:
        """Connect these accounts with all others, and leave alone what is between the others."""
        resolved = self.graph.accounts
        for name in names:
            self._import(resolved[name])
        for name in names:
            account = self.accounts[name]
            links = [link for found in self._links.get(name, {}).values() for link in found]
            planner = Planner(
                account, mappings=resolved[name].mappings, links=links, services=self._service_imports[name]
            )
            self._planners[name] = planner
            account.use_planner(planner.plan, always=planner.is_needed)
            account.maps_subjects = resolved[name].mappings is not None
            account.interest.arrival_planner = planner.plan_arrival if planner.changes_arrivals else None
            # What its clients subscribe to decides where messages of the accounts that it imports from go.
            account.interest_listeners = [
                self.accounts[stream.exporter].interest_changed_elsewhere for stream in resolved[name].stream_imports
            ]

    def _import(self, resolved: ResolvedAccount) -> None:
        name, account = resolved.name, self.accounts[resolved.name]
        for exporter in self._imported_from.pop(name, ()):
            self._links[exporter].pop(name, None)
        self._imported_from[name] = {stream.exporter for stream in resolved.stream_imports}
        for stream in resolved.stream_imports:
            self._links.setdefault(stream.exporter, {}).setdefault(name, []).append(StreamLink(account, stream))
        for earlier in self._service_imports.get(name, ()):
            self._services.pop(id(earlier.subscription), None)
        services = [
            ServiceRelay(
                account,
                self.accounts[service.exporter],
                service.subject,
                service.remote_subject,
                self._responses[service.exporter],
                single=service.response_type == "single",
                threshold_ns=service.response_threshold_ns,
                request_info=self._shared_info if service.share else self._short_info,
                asked=self._asked,
                latency=self._reporter(service.latency, service.exporter),
                allow_trace=service.allow_trace,
            )
            for service in resolved.service_imports
        ]
        self._service_imports[name] = services
        self._services.update({id(service.subscription): service for service in services})

    def connection_closed(self, connection: Member) -> None:
        """A client left: requests of it that are being measured end without an answer."""
        for responses in self._responses.values():
            responses.requester_left(connection)

    def _reporter(self, latency: LatencyOptions | None, exporter: str) -> LatencyReporter | None:
        if latency is None:
            return None
        from slipstream.routing.latency import LatencyReporter

        return LatencyReporter(
            latency, self.accounts[exporter], self._clock.now_ns, self._rng.randrange, lambda: new_nuid(self._rng)
        )

    def _new_token(self) -> bytes:
        return base64.urlsafe_b64encode(self._rng.randbytes(_TOKEN_BYTES))
