"""Listeners for clients that come with HTTP: WebSocket, and requests of the HTTP API."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstream.config.options import Options
    from slipstream.server.clients.http_api import RestListener
    from slipstream.server.clients.websocket import WebsocketListener
    from slipstream.server.server import Server

__all__ = ["HttpApiPort", "WebsocketPort"]


class WebsocketPort:
    """The `websocket` block."""

    name = "websocket"

    def __init__(self, server: Server) -> None:
        self._server = server
        self.opened: WebsocketListener | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return "" if self.opened is None else self.opened.url

    async def open(self) -> int:
        """See `ListenerRow.open`."""
        if not self._server.options.websocket.port:
            return 0
        from slipstream.server.clients.websocket import WebsocketListener

        self.opened = WebsocketListener.open(self._server)
        return self.opened.port

    def prepare(self, options: Options) -> Callable[[Options], None] | None:
        """See `ListenerRow.prepare`."""
        opened = self.opened
        if opened is None:
            return None
        front = opened.front.from_options(options.websocket, leafs=bool(options.leafnodes.port))
        return lambda _before: opened.use(front)

    def close(self) -> None:
        """See `ClientRow.close`."""
        if self.opened is not None:
            self.opened.close()


class HttpApiPort:
    """The `http_api` block."""

    name = "http_api"

    def __init__(self, server: Server) -> None:
        self._server = server
        self.opened: RestListener | None = None

    @property
    def url(self) -> str:
        """Where requests are sent."""
        return "" if self.opened is None else self.opened.url

    async def open(self) -> int:
        """See `ListenerRow.open`."""
        if not self._server.options.http_api.port:
            return 0
        from slipstream.server.clients.http_api import RestListener

        self.opened = await RestListener.open(self._server)
        return self.opened.port

    def prepare(self, options: Options) -> Callable[[Options], None] | None:
        """See `ListenerRow.prepare`; this block does not change while the server runs."""
        return None

    def close(self) -> None:
        """See `ClientRow.close`."""
        if self.opened is not None:
            self.opened.close()
