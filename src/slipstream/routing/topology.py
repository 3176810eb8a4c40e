"""The accounts of a server and how they are wired together, as the configuration says.

Accounts outlive a reload when their name stays, with their connections and subscriptions; everything between them
(mappings, imports, exports, limits) is built anew.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from slipstream.accounts.account import Account
from slipstream.accounts.graph import AccountGraph, build_accounts
from slipstream.ids import new_nuid
from slipstream.routing.planner import Planner, StreamLink
from slipstream.routing.services import Asked, ResponseTable, ServiceImport

if TYPE_CHECKING:
    import random

    from slipstream.clock import Clock
    from slipstream.config.account_options import LatencyOptions
    from slipstream.config.options import Options
    from slipstream.kernels.wire.delivery import Delivery
    from slipstream.kernels.wire.interest import Route, Subscription
    from slipstream.protocol.connection import ClientConnection
    from slipstream.routing.latency import LatencyReporter

__all__ = ["Topology"]

ClientInfo = Callable[["ClientConnection"], Mapping[str, object]]

_TOKEN_BYTES = 12  # 96 bits: a reply subject cannot be guessed


class Topology:
    """Accounts by name, and the planners that route between them."""

    def __init__(
        self,
        options: Options,
        delivery: Delivery,
        clock: Clock,
        rng: random.Random,
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
        self.graph: AccountGraph
        self.reload(options)

    def reload(self, options: Options) -> None:
        """Rebuild from other options.

        Raises:
            ConfigError: imports and exports do not fit together; nothing has changed then.
        """
        graph = build_accounts(options)
        self.graph = graph
        for name in list(self.accounts):
            if name not in graph.accounts:
                del self.accounts[name]
                self._responses.pop(name, None)
        for name, resolved in graph.accounts.items():
            account = self.accounts.get(name)
            if account is None:
                account = Account(
                    name,
                    self._delivery,
                    is_system=resolved.is_system,
                    remembers_routes=not options.disable_sublist_cache,
                )
                self.accounts[name] = account
                self._responses[name] = ResponseTable(
                    account, self._clock.monotonic_ns, self._new_token, self._shared_info
                )
            account.limits = resolved.options.limits
            account.msg_trace = resolved.options.msg_trace
            account.traced_imports = [stream for stream in resolved.stream_imports if stream.allow_trace]
        self._wire(graph)

    def service_of(self, subscription: Subscription) -> ServiceImport | None:
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

    def _wire(self, graph: AccountGraph) -> None:
        links: defaultdict[str, list[StreamLink]] = defaultdict(list)
        services: defaultdict[str, list[ServiceImport]] = defaultdict(list)
        self._services: dict[int, ServiceImport] = {}
        asked: Asked = []
        for name, resolved in graph.accounts.items():
            account = self.accounts[name]
            for stream in resolved.stream_imports:
                links[stream.exporter].append(StreamLink(account, stream))
            for service in resolved.service_imports:
                services[name].append(
                    ServiceImport(
                        account,
                        self.accounts[service.exporter],
                        service.subject,
                        service.remote_subject,
                        self._responses[service.exporter],
                        single=service.response_type == "single",
                        threshold_ns=service.response_threshold_ns,
                        request_info=self._shared_info if service.share else self._short_info,
                        asked=asked,
                        latency=self._reporter(service.latency, service.exporter),
                        allow_trace=service.allow_trace,
                    )
                )
        for found_services in services.values():
            self._services.update({id(service.subscription): service for service in found_services})
        for name, resolved in graph.accounts.items():
            account = self.accounts[name]
            planner = Planner(account, mappings=resolved.mappings, links=links[name], services=services[name])
            self._planners[name] = planner
            account.use_planner(planner.plan, always=planner.is_needed)
            account.maps_subjects = resolved.mappings is not None
            account.interest_listeners = []
        for exporter, found in links.items():
            for link in found:
                # What an importer's clients subscribe to decides where the exporter's messages go.
                link.importer.interest_listeners.append(self.accounts[exporter].interest_changed_elsewhere)

    def connection_closed(self, connection: ClientConnection) -> None:
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
