"""Where the dashboard's page gets in: a WebSocket on the monitoring port, for the page that this port served.

A request is accepted only with an Origin that is the port's own, so no other page of the browser gets in; on loopback
the origin must also be an address or `localhost`, because any other name can be made to lead to this machine by who
owns it. Behind the door is the same login as at every other port, with credentials from CONNECT alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from slipstream.config.addresses import is_loopback

if TYPE_CHECKING:
    from slipstream.server.clients.websocket import WebsocketFront, WebsocketProtocol
    from slipstream.server.server import Server

__all__ = ["DashboardDoor"]


class DashboardDoor:
    """Makes clients of connections to the monitoring port."""

    def __init__(self, server: Server) -> None:
        self.waiting: set[WebsocketProtocol] = set()
        self._server = server
        self._front: WebsocketFront | None = None

    @property
    def front(self) -> WebsocketFront:
        """What is asked of requests; made with the first: a start does not wait for WebSockets."""
        if self._front is None:
            from slipstream.protocol.ws_handshake import HandshakeSettings
            from slipstream.protocol.ws_origin import OriginPolicy
            from slipstream.server.clients.websocket import WebsocketFront

            options = self._server.options
            local = is_loopback(options.http_host or options.host)
            origins = OriginPolicy(same=True, required=True, here=local)
            # TLS, if there is any, was spoken before the request came.
            self._front = WebsocketFront(None, HandshakeSettings(origins=origins, tls=bool(options.https_port)))
        return self._front

    def take(self, transport: asyncio.Transport, request: bytes) -> None:
        """Go on with a connection on which this request for a WebSocket came."""
        from slipstream.server.clients.websocket import WebsocketProtocol

        protocol = WebsocketProtocol(self._server, self)
        # The other protocol reads in another way: the loop changes it while nothing is read.
        transport.pause_reading()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if not transport.is_closing():
            transport.resume_reading()
            protocol.take_request(request)

    def close(self) -> None:
        """Let nobody in who is only half in."""
        for protocol in list(self.waiting):
            protocol.transport.abort()
