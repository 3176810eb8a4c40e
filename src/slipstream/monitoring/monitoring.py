"""Monitoring of one server: the HTTP port if one is configured, and the services and events of the system account.

Starting it costs a few subscriptions and two timers; what answers and what is sent is imported when first needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from slipstream.config.addresses import is_loopback
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.system.events import Events
from slipstream.monitoring.system.requests import Requests
from slipstream.monitoring.worker import Worker

if TYPE_CHECKING:
    import ssl

    from slipstream.links.gateways.supercluster import Supercluster
    from slipstream.links.leafs.nodes import LeafNodes
    from slipstream.links.routes.mesh import Mesh
    from slipstream.monitoring.facts import Monitored
    from slipstream.monitoring.http import MonitoringListener, SocketDoor
    from slipstream.monitoring.system.claims import ClaimsService, TokenStore
    from slipstream.monitoring.system.envelope import Sender
    from slipstream.monitoring.system.remote_connections import RemoteConnections
    from slipstream.routing.operators import OperatorMode

__all__ = ["Monitoring"]


class Monitoring:
    """What a server shows of itself. Whoever runs JetStream or more listeners adds them to `facts`."""

    def __init__(self, server: Monitored) -> None:
        self.facts = Facts(server)
        self.listener: MonitoringListener | None = None
        self._sender: Sender | None = None
        self._events = Events(self.facts, self._ready_sender)
        self._worker = Worker(server)
        self.facts.queues["System recvQ"] = self._worker.__len__
        self._requests = Requests(self.facts, self._events, self._ready_sender, self._worker)
        self._has_system_account = False
        self._claims: ClaimsService | None = None
        self._remote: RemoteConnections | None = None

    @property
    def url(self) -> str:
        """Where monitoring is asked over HTTP; empty when that is off."""
        if self.listener is None:
            return ""
        options = self.facts.options
        host = options.http_host or options.host
        if host in ("", "0.0.0.0", "::"):
            host = "127.0.0.1"
        return f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{self.listener.port}"

    @property
    def _scheme(self) -> str:
        return "https" if self.facts.options.https_port else "http"

    async def start(self, ssl_context: ssl.SSLContext | None = None, door: SocketDoor | None = None) -> None:
        """Open the port if one is configured, and listen in the accounts.

        Args:
            ssl_context: for `https_port`.
            door: lets the dashboard's page in.

        Raises:
            StartError: the port cannot be had.
        """
        options, server = self.facts.options, self.facts.server
        if options.http_port or options.https_port:
            from slipstream.monitoring.http import MonitoringListener

            host = options.http_host or options.host
            listening = server.bind("monitor", host, options.https_port or options.http_port)
            self.listener = MonitoringListener(self.facts, self._worker, door)
            await self.listener.start(listening, ssl_context if options.https_port else None)
            shown = f"[{host}]" if ":" in host else host
            server.log("INF", f"Starting {self._scheme} monitor on {shown}:{self.listener.port}")
            if door is not None:
                self._announce_dashboard(host)
        if self.facts.hub.system_account is not None:
            self._has_system_account = True
            self._requests.start()
            self._events.start()

    def _announce_dashboard(self, host: str) -> None:
        from slipstream.monitoring.endpoints.dashboard import PATH, base_path

        server, path = self.facts.server, f"{base_path(self.facts.options.http_base_path)}{PATH}"
        server.log("INF", f"Dashboard at {self.url}{path}")
        if self._scheme == "http" and not is_loopback(host):
            server.log("WRN", "Dashboard without TLS: what users type to log in can be read on the way")

    def serve_claims(self, operators: OperatorMode, store: TokenStore | None) -> None:
        """Take tokens of accounts over the system account."""
        system = self.facts.hub.system_account
        if system is None:
            return
        from slipstream.monitoring.system.claims import ClaimsService

        server = self.facts.server
        self._claims = ClaimsService(
            operators, store, self._ready_sender, server.turns, server.log, server.record_action
        )
        self._claims.start(system)

    def join_cluster(self, mesh: Mesh) -> None:
        """There may be other servers: count with them, and ask them, too."""
        remote = self._counted_elsewhere()
        if remote is not None:
            mesh.listeners.append(remote)

    def join_supercluster(self, supercluster: Supercluster) -> None:
        """There may be other clusters: the same."""
        remote, system = self._counted_elsewhere(), self.facts.hub.system_account
        if remote is not None and system is not None:
            supercluster.on_account_known[system.name] = remote.ask

    def _counted_elsewhere(self) -> RemoteConnections | None:
        system = self.facts.hub.system_account
        if system is not None and self._remote is None:
            from slipstream.monitoring.system.remote_connections import RemoteConnections

            self._remote = remote = RemoteConnections(self.facts, system)
            self.facts.far_count = lambda: remote.far_count
            self._requests.join_cluster(system)
        return self._remote

    def watch_leafs(self, leafs: LeafNodes) -> None:
        """Tell the system account of leaf nodes, too."""
        if self._has_system_account:
            self._events.watch_leafs(leafs)

    def reloaded(self) -> None:
        """The server uses other options, perhaps other accounts, from now on."""
        self.facts.reloaded()
        if self._has_system_account:
            self._requests.start()

    def accounts_changed(self, names: Iterable[str]) -> None:
        """Accounts of operator mode came or changed."""
        if self._has_system_account:
            for name in names:
                self._requests.listen(self.facts.accounts[name])

    def introduction(self) -> object:
        """This server as the events of the system account describe it."""
        return self._ready_sender().server()

    def announce_lame_duck(self) -> None:
        """Tell the system account that the server is about to leave."""
        self._events.announce("LAMEDUCK")

    def announce_shutdown(self) -> None:
        """Tell the system account that the server leaves; the last event."""
        self._events.announce("SHUTDOWN")
        self._events.stop()

    async def stop(self) -> None:
        """Close the port and listen no more."""
        self._events.stop()
        self._requests.stop()
        if self._claims is not None:
            self._claims.stop()
        if self._remote is not None:
            self._remote.stop()
        self._worker.stop()
        if self.listener is not None:
            await self.listener.stop()
            self.listener = None

    def _ready_sender(self) -> Sender:
        if self._sender is None:
            from slipstream.monitoring.system.envelope import Sender

            self._sender = Sender(self.facts)
        return self._sender
