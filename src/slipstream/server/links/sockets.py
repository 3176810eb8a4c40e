"""The sockets of all links of one kind: their listener, who dials, which are open, and how they end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason
from slipstream.server.links.protocol import LinkProtocol
from slipstream.server.sockets.acceptor import Acceptor
from slipstream.server.sockets.dialer import Dialer

if TYPE_CHECKING:
    from slipstream.kernels.wire.outbox import Outbox
    from slipstream.links.end import LinkEnd
    from slipstream.server.server import Server

__all__ = ["LinkSockets"]

_ABORT = (CloseReason.SLOW_CONSUMER_PENDING, CloseReason.SLOW_CONSUMER_WRITE_DEADLINE)

KindOfLink = TypeVar("KindOfLink")


class LinkSockets(Generic[KindOfLink]):
    """Sockets of routes, or of leaf links, and so on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._bound: tuple[socket.socket, Callable[[], asyncio.BufferedProtocol]] | None = None  # nobody is let in yet
        self._listener: Acceptor | None = None
        self.dialer = Dialer(server)
        self.open: dict[LinkEnd, KindOfLink] = {}  # with a socket, READY or not
        self.closed = False

    def listen(
        self, port_name: str, what: str, host: str, port: int, protocol: Callable[[], asyncio.BufferedProtocol]
    ) -> int:
        """Bind the port and give it; who connects waits until `let_in`.

        Args:
            port_name: what the port is for, where it cannot be had.
            what: what connects to it, for the log.
            host: to bind to.
            port: to bind to, -1 for one that is free.
            protocol: what gets the sockets of peers.

        Raises:
            StartError: the address cannot be had.
        """
        server = self._server
        listening = server.bind(port_name, host, port)
        bound: int = listening.getsockname()[1]
        self._bound = listening, protocol
        shown = f"[{host}]" if ":" in host else host
        server.log("INF", f"Listening for {what} connections on {shown}:{bound}")
        return bound

    def let_in(self) -> None:
        """All ports are open, so that a peer can be told of them: greet who connected, and who will."""
        if self._bound is not None:
            (listening, protocol), self._bound = self._bound, None
            self._listener = Acceptor(self._server.turns, listening, lambda _: protocol())

    def start_pings(self, end: LinkEnd) -> None:
        """The handshake is over: ask from now on whether the peer lives."""
        if isinstance(end.edge, LinkProtocol):
            end.edge.start_pings()

    def compress(self, end: LinkEnd, mode: str) -> None:
        """Compress from here on, or at another level."""
        if isinstance(end.edge, LinkProtocol):
            end.edge.compress(mode)

    def await_step(self, end: LinkEnd, delay_ns: int, too_slow: Callable[[], object]) -> None:
        """Give a peer so much time for the next step of its handshake."""

        def over() -> None:
            if end.state not in (State.READY, State.CLOSED):
                too_slow()

        if isinstance(end.edge, LinkProtocol):
            end.edge.steps.start(delay_ns, over)

    def close(self, end: LinkEnd, reason: CloseReason) -> None:
        """Close the socket of a link that ended; who did not read gets no last words."""
        edge = end.edge
        if isinstance(edge, LinkProtocol):
            if reason in _ABORT:
                edge.abort()
            else:
                edge.finish()

    def lost(self, end: LinkEnd) -> None:
        """A socket is gone."""
        self.open.pop(end, None)

    def outboxes(self) -> list[Outbox]:
        """Of all links."""
        return [end.outbox for end in self.open]

    def close_listener(self) -> None:
        """Let no further server in."""
        if self._bound is not None:
            self._bound[0].close()
            self._bound = None
        if self._listener is not None:
            self._listener.close()

    def stop(self) -> None:
        """End all links and dial no more."""
        self.closed = True
        self.close_listener()
        self.dialer.stop()
        for end in list(self.open):
            end.close(CloseReason.SERVER_SHUTDOWN)
