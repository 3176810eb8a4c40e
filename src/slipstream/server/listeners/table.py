"""All listeners of a server, in the order in which they open.

    monitoring ──► gateways ──► routes ──► leaf nodes ──► WebSocket ──► HTTP API ──► clients ──► links are dialled

Gateways come before routes, which tell other servers of the cluster where this one is reached. Clients come last: who
gets in finds everything there. Other servers are dialled when clients can connect, so that they can be told where.

A reload has two steps: each row reads the files that the new options name and may refuse them; only when all have, each
changes. What one row opens, it keeps in `opened`; None: it is not configured, or not open yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from slipstream.server.listeners.clients import ClientPort
from slipstream.server.listeners.links import GatewayPort, LeafnodePort, RoutePort
from slipstream.server.listeners.monitoring import MonitoringPort
from slipstream.server.listeners.web import HttpApiPort, WebsocketPort

if TYPE_CHECKING:
    from slipstream.config.options import Options
    from slipstream.kernels.wire.outbox import Outbox
    from slipstream.server.links.sockets import LinkSockets
    from slipstream.server.server import Server

__all__ = ["ClientRow", "LinkRow", "ListenerRow", "Listeners", "OpenLinks"]


class ListenerRow(Protocol):
    """A row of the table."""

    @property
    def name(self) -> str:
        """As the configuration has it."""
        ...

    async def open(self) -> int:
        """Listen, if the options say so; gives the port, or 0.

        Raises:
            StartError: the port cannot be had.
            ConfigError: a file that the options name cannot be used.
        """
        ...

    def prepare(self, options: Options) -> Callable[[Options], None] | None:
        """Read what other options need; gives what then changes, called with the options of before.

        Raises:
            ConfigError: a file that the options name cannot be used.
        """
        ...


class ClientRow(ListenerRow, Protocol):
    """A row for clients, whatever they speak. Who got in is the hub's."""

    @property
    def url(self) -> str:
        """Where it is reached, for the file of ports; empty: nowhere."""
        ...

    def close(self) -> None:
        """Let nobody new in. Once more does no harm."""
        ...


class OpenLinks(Protocol):
    """Connections to other servers of one kind."""

    @property
    def sockets(self) -> LinkSockets[Any]:
        """Of them, and of their listener."""
        ...

    def start(self) -> None:
        """Dial: clients can connect."""
        ...

    def accounts_changed(self, names: Iterable[str]) -> None:
        """Accounts of operator mode came or changed."""
        ...


class LinkRow(ListenerRow, Protocol):
    """A row for other servers."""

    @property
    def opened(self) -> OpenLinks | None:
        """What it opened."""
        ...


class Listeners:
    """Opens them, changes them, closes them."""

    def __init__(self, server: Server) -> None:
        """Nothing is open yet."""
        self.monitoring = MonitoringPort(server)
        self.gateways = GatewayPort(server)
        self.routes = RoutePort(server)
        self.leafnodes = LeafnodePort(server)
        self.websocket = WebsocketPort(server)
        self.http_api = HttpApiPort(server)
        self.clients = ClientPort(server)
        self._link_rows: tuple[LinkRow, ...] = (self.gateways, self.routes, self.leafnodes)
        self._client_rows: tuple[ClientRow, ...] = (self.clients, self.monitoring, self.websocket, self.http_api)
        self._rows: tuple[ListenerRow, ...] = (
            self.monitoring, *self._link_rows, self.websocket, self.http_api, self.clients
        )  # fmt: skip

    async def open(self) -> None:
        """Open all that the options ask for, then dial.

        Raises:
            StartError: a port cannot be had.
            ConfigError: a file that the options name cannot be used.
        """
        for row in self._rows:
            port = await row.open()
            if port and self.monitoring.opened is not None:
                self.monitoring.opened.facts.ports[row.name] = port
        for links in self._links():
            links.start()
            links.sockets.let_in()

    def prepare(self, options: Options) -> Callable[[Options], None]:
        """Read what other options need; gives what then changes, called with the options of before.

        Raises:
            ConfigError: a file that the options name cannot be used; nothing has changed.
        """
        changes = [row.prepare(options) for row in self._rows]

        def change(before: Options) -> None:
            for one in changes:
                if one is not None:
                    one(before)

        return change

    def accounts_changed(self, names: Iterable[str]) -> None:
        """Accounts of operator mode came or changed."""
        for links in self._links():
            links.accounts_changed(names)

    def urls(self) -> dict[str, list[str]]:
        """Where this server is reached, for the file of ports."""
        found = {row.name: [row.url] for row in self._client_rows if row.url}
        if self.routes.opened is not None:
            found[self.routes.name] = [self.routes.opened.url]
        return found

    def outboxes(self) -> list[Outbox]:
        """Of all links to other servers."""
        return [outbox for links in self._links() for outbox in links.sockets.outboxes()]

    def close(self) -> None:
        """Let nobody new in."""
        for row in self._client_rows:
            row.close()
        for links in self._links():
            links.sockets.close_listener()

    def end_links(self) -> None:
        """End the connections to other servers, and dial no more."""
        for links in self._links():
            links.sockets.stop()

    async def stop(self) -> None:
        """Close everything, monitoring too, which tells of the end until then."""
        self.close()
        self.end_links()
        await self.monitoring.stop()

    def _links(self) -> list[OpenLinks]:
        return [row.opened for row in self._link_rows if row.opened is not None]
