"""Monitoring as a listener: its HTTP port, the dashboard's way in, and what the system account is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slipstream.server.errors import StartError

if TYPE_CHECKING:
    import ssl

    from slipstream.config.options import Options
    from slipstream.monitoring.monitoring import Monitoring
    from slipstream.server.clients.dashboard import DashboardDoor
    from slipstream.server.server import Server

__all__ = ["MonitoringPort"]


class MonitoringPort:
    """There with an HTTP port, a system account, or both."""

    name = "monitoring"

    def __init__(self, server: Server) -> None:
        self._server = server
        self._door: DashboardDoor | None = None
        self.opened: Monitoring | None = None

    @property
    def url(self) -> str:
        """Where it is asked over HTTP; empty when that is off."""
        return "" if self.opened is None else self.opened.url

    async def open(self) -> int:
        """See `ListenerRow.open`."""
        server, options = self._server, self._server.options
        if not (options.http_port or options.https_port or options.system_account_name):
            return 0
        from slipstream.monitoring.monitoring import Monitoring

        self.opened = opened = Monitoring(server)
        if options.serves_dashboard:
            from slipstream.server.clients.dashboard import DashboardDoor

            self._door = DashboardDoor(server)
        await opened.start(_https_context(options), self._door)
        server.hub.describe_server = opened.introduction
        server.jetstream_switch.show()
        self._serve_claims(opened)
        return 0 if opened.listener is None else opened.listener.port

    def _serve_claims(self, opened: Monitoring) -> None:
        operators = self._server.hub.logins.operators
        if operators is None:
            return
        from slipstream.server.logins.resolvers import DirectoryResolver

        resolver = operators.resolver
        opened.serve_claims(operators, resolver if isinstance(resolver, DirectoryResolver) else None)

    def prepare(self, options: Options) -> Callable[[Options], None] | None:
        """See `ListenerRow.prepare`; what it shows follows by itself."""
        return None

    def close(self) -> None:
        """The page gets in no more; questions are answered until the end, so that the end can be watched."""
        if self._door is not None:
            self._door.close()

    async def stop(self) -> None:
        """Answer no more."""
        if self.opened is not None:
            await self.opened.stop()


def _https_context(options: Options) -> ssl.SSLContext | None:
    if options.http_port and options.https_port:
        ports = f"HTTP ({options.http_port}) and HTTPs ({options.https_port}) ports"
        raise StartError(f"Can't start monitoring: can't specify both {ports}")
    if not options.https_port:
        return None
    if options.tls is None:
        raise StartError("TLS cert and key required for HTTPS")
    from slipstream.server.sockets.tls import TlsContext

    return TlsContext.for_server(options.tls).context
