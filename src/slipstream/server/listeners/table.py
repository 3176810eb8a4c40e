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
    from slipstream.server.link_sockets import LinkSockets
    from slipstream.server.server import Server

__all__ = ["LinkPort", "Listeners", "ServerPort"]


class ServerPort(Protocol):
    """A row of the table."""

    @property
    def name(self) -> str:
        """As the configuration has it."""
        ...

    @property
    def url(self) -> str:
        """Where it is reached, for the file of ports; empty: nobody is told."""
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

    def close(self) -> None:
        """Let nobody new in. Once more does no harm."""
        ...


class LinkPort(ServerPort, Protocol):
    """A row for connections to other servers, which are dialled too."""

    @property
    def sockets(self) -> LinkSockets[Any] | None:
        """Of the connections; None: there is no such listener."""
        ...

    def start(self) -> None:
        """Dial: clients can connect."""
        ...

    def accounts_changed(self, names: Iterable[str]) -> None:
        """Accounts of operator mode came or changed."""
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
        self._links: tuple[LinkPort, ...] = (self.gateways, self.routes, self.leafnodes)
        self._all: tuple[ServerPort, ...] = (
            self.monitoring, *self._links, self.websocket, self.http_api, self.clients
        )  # fmt: skip

    async def open(self) -> None:
        """Open all that the options ask for, then dial.

        Raises:
            StartError: a port cannot be had.
            ConfigError: a file that the options name cannot be used.
        """
        for row in self._all:
            port = await row.open()
            if port and self.monitoring.opened is not None:
                self.monitoring.opened.facts.ports[row.name] = port
        for link in self._links:
            link.start()

    def prepare(self, options: Options) -> Callable[[Options], None]:
        """Read what other options need; gives what then changes, called with the options of before.

        Raises:
            ConfigError: a file that the options name cannot be used; nothing has changed.
        """
        changes = [row.prepare(options) for row in self._all]

        def change(before: Options) -> None:
            for one in changes:
                if one is not None:
                    one(before)

        return change

    def accounts_changed(self, names: Iterable[str]) -> None:
        """Accounts of operator mode came or changed."""
        for link in self._links:
            link.accounts_changed(names)

    def urls(self) -> dict[str, list[str]]:
        """Where this server is reached, for the file of ports."""
        return {row.name: [row.url] for row in (self.clients, *self._all[:-1]) if row.url}

    def outboxes(self) -> list[Outbox]:
        """Of all links to other servers."""
        return [outbox for sockets in self._sockets() for outbox in sockets.outboxes()]

    def close(self) -> None:
        """Let nobody new in."""
        for row in reversed(self._all):
            row.close()

    def end_links(self) -> None:
        """End the connections to other servers, and dial no more."""
        for sockets in self._sockets():
            sockets.stop()

    async def stop(self) -> None:
        """Close everything, monitoring too, which tells of the end until then."""
        self.close()
        self.end_links()
        await self.monitoring.stop()

    def _sockets(self) -> list[LinkSockets[Any]]:
        return [link.sockets for link in self._links if link.sockets is not None]
