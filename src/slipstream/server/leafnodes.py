"""The leaf node port, for now only its door: every connection is refused with an error and a warning in the log.

Test harnesses configure a leaf node listener on every server they start, used or not. A port that is bound and says no
serves them, and tells an operator more than a configuration that is ignored.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from slipstream.limits import LISTEN_BACKLOG
from slipstream.protocol.texts import error_line

if TYPE_CHECKING:
    from slipstream.server.server import Server

__all__ = ["LeafnodeListener"]

_REFUSAL = "leafnode connections are not supported by this server"


class _Refuser(asyncio.Protocol):
    def __init__(self, server: Server) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername") or ("", 0)
        self._server.log("WRN", f"{peer[0]}:{peer[1]} - Leafnode connection refused: {_REFUSAL}")
        cast(asyncio.Transport, transport).write(error_line(_REFUSAL))
        transport.close()


class LeafnodeListener:
    """A bound leaf node port."""

    def __init__(self, listener: asyncio.Server, port: int) -> None:
        self._listener = listener
        self.port = port

    @classmethod
    async def open(cls, server: Server) -> LeafnodeListener:
        """Bind the port that the options name.

        Raises:
            StartError: the address cannot be had.
        """
        options = server.options.leafnodes
        host = options.host or server.options.host
        listening = server.bind("leafnode port", host, options.port)
        port = listening.getsockname()[1]
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: _Refuser(server), sock=listening, backlog=LISTEN_BACKLOG)
        server.log("INF", f"Listening for leafnode connections on {host}:{port}")
        return cls(listener, port)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()
