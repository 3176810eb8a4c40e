"""The client port: plain sockets, or a gate before them for TLS and PROXY headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slipstream.server.sockets.acceptor import Acceptor
from slipstream.server.sockets.binding import host_port

if TYPE_CHECKING:
    import socket

    from slipstream.config.options import Options
    from slipstream.server.clients.gate import ClientGate
    from slipstream.server.clients.listener import ClientProtocol
    from slipstream.server.server import Server

__all__ = ["ClientPort"]


class ClientPort:
    """Where clients of the NATS protocol connect; every server has it."""

    name = "nats"

    def __init__(self, server: Server) -> None:
        self._server = server
        self._acceptor: Acceptor | None = None
        self._gate: ClientGate | None = None

    @property
    def url(self) -> str:
        """Where clients on this machine connect."""
        host = self._server.options.host
        if host in ("", "0.0.0.0", "::"):
            host = "127.0.0.1"
        return f"nats://{host_port(host, self._server.hub.port)}"

    async def open(self) -> int:
        """See `ListenerRow.open`."""
        server, options = self._server, self._server.options
        listening = server.bind("port", options.host, options.port)
        hub = server.hub
        hub.host, hub.port = options.host, listening.getsockname()[1]
        self._gate = self._gate_for(options)
        self._acceptor = Acceptor(server.turns, listening, self._new_client)
        server.log("INF", f"Listening for client connections on {host_port(options.host, hub.port)}")
        if self._gate is not None:
            self._gate.announce()
        return hub.port

    def _gate_for(self, options: Options) -> ClientGate | None:
        """What stands before the port, if it is more than a plain socket."""
        if options.tls is None and not options.proxy_protocol:
            return None
        from slipstream.server.clients.gate import ClientGate

        return ClientGate(self._server, options)

    def _new_client(self, accepted: socket.socket) -> ClientProtocol:
        if self._gate is not None:
            return self._gate.new_protocol()
        from slipstream.server.clients.listener import ClientProtocol  # no start waits for it

        client = ClientProtocol(self._server)
        client.greet_on(accepted)
        return client

    def prepare(self, options: Options) -> Callable[[Options], None]:
        """See `ListenerRow.prepare`."""
        gate = self._gate_for(options)

        def change(_before: Options) -> None:
            self._gate = gate

        return change

    def close(self) -> None:
        """See `ClientRow.close`."""
        if self._acceptor is not None:
            self._acceptor.close()
