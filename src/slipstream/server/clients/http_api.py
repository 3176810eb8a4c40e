"""The port of the HTTP API (ADR 81): who may connect, and what all its connections share."""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from slipstream.limits import LISTEN_BACKLOG, TLS_TIMEOUT_NS
from slipstream.monitoring.http import http_date
from slipstream.protocol.ws_origin import OriginPolicy
from slipstream.rest.http_side import ALWAYS
from slipstream.rest.known_heads import KnownAnswers
from slipstream.server.clients.http_connection import RestProtocol
from slipstream.server.sockets.tls import TlsContext
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.server.server import Server

__all__ = ["RestListener"]


class RestListener:
    """The listener of the `http_api` block."""

    def __init__(self, server: Server) -> None:
        """Read the options.

        Raises:
            ConfigError: a certificate or an origin cannot be used.
        """
        options = server.options.http_api
        self.server = server
        self.host, self.port = options.host, options.port
        self.tls = None if options.tls is None else TlsContext.for_server(options.tls)
        self.origins = OriginPolicy.from_options(False, options.allowed_origins)
        self.connections: set[RestProtocol] = set()
        self.answers = KnownAnswers()
        self._date = (0, "")  # a second, and how HTTP writes it
        self._taken = ("", b"")  # a date, and the answer of that time to a publish
        self._listener: asyncio.Server | None = None

    @classmethod
    async def open(cls, server: Server) -> RestListener:
        """Listen.

        Raises:
            StartError: the port cannot be had.
            ConfigError: a certificate or an origin cannot be used.
        """
        listener = cls(server)
        listening = server.bind("http_api", listener.host, listener.port)
        listener.port = listening.getsockname()[1]
        listener._listener = await asyncio.get_running_loop().create_server(
            lambda: RestProtocol(listener),
            sock=listening,
            backlog=LISTEN_BACKLOG,
            ssl=None if listener.tls is None else listener.tls.context,
            ssl_handshake_timeout=None if listener.tls is None else TLS_TIMEOUT_NS / SECOND_NS,
        )
        server.log("INF", f"Listening for HTTP API requests on {listener.url}")
        return listener

    def date(self) -> str:
        """Now, as HTTP writes it."""
        second = int(time.time())
        if self._date[0] != second:
            self._date = second, http_date()
        return self._date[1]

    @property
    def taken(self) -> bytes:
        """The whole answer to a publish that was taken."""
        date = self.date()
        if self._taken[0] != date:
            self._taken = date, self.answers.head(HTTPStatus.NO_CONTENT, ALWAYS, date)
        return self._taken[1]

    @property
    def url(self) -> str:
        """Where programs on this machine ask."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    def close(self) -> None:
        """Let nobody new in, and nobody ask for more."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in list(self.connections):
            connection.abort()
