"""The WebSocket port: TLS if configured, an HTTP request, then the NATS protocol in frames.

    accepted ──► TLS handshake ──► upgrade request ──► INFO ──► CONNECT ...
                 └─────────── within handshake_timeout ─┘

A client exists for the server once its request was accepted; before that there is only this protocol object, bounded in
memory by the handshake's limits and in time by `handshake_timeout`.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from slipstream.limits import DEFAULT_HOST
from slipstream.protocol.texts import CloseReason
from slipstream.protocol.websocket import WebSocketConnection, WebSocketState
from slipstream.protocol.ws_handshake import CookieNames, HandshakeSettings
from slipstream.protocol.ws_origin import OriginPolicy
from slipstream.server.clients.listener import address_of
from slipstream.server.clients.tls_protocol import SecurePeer, TlsClientProtocol
from slipstream.server.sockets.acceptor import Acceptor
from slipstream.server.sockets.tls import TlsContext
from slipstream.server.sockets.tls_layer import TlsFacts, TlsFailed

if TYPE_CHECKING:
    from slipstream.config.listener_options import WebsocketOptions
    from slipstream.server.server import Server

__all__ = ["WebsocketDoor", "WebsocketFront", "WebsocketListener", "WebsocketProtocol"]

# What Go's web server says to a request without TLS where TLS is spoken.
_HTTP_ON_HTTPS = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
_HTTP_METHODS = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"OPTIO")


@dataclass(frozen=True, slots=True)
class WebsocketFront:
    """What the port asks of new connections, under one configuration."""

    tls: TlsContext | None
    settings: HandshakeSettings

    @staticmethod
    def from_options(options: WebsocketOptions, *, leafs: bool) -> WebsocketFront:
        """Read the options and the files they name; `leafs`: leaf nodes are let in, too.

        Raises:
            ConfigError: certificates or origins cannot be used.
        """
        tls = None if options.tls is None else TlsContext.for_server(options.tls)
        settings = HandshakeSettings(
            compression=options.compression,
            cookies=CookieNames(options.jwt_cookie, options.user_cookie, options.pass_cookie, options.token_cookie),
            origins=OriginPolicy.from_options(options.same_origin, options.allowed_origins),
            headers=tuple(options.headers.items()),
            tls=tls is not None,
            leafs=leafs,
        )
        return WebsocketFront(tls, settings)


class WebsocketDoor(Protocol):
    """Where sockets come from."""

    @property
    def front(self) -> WebsocketFront: ...
    @property
    def waiting(self) -> set[WebsocketProtocol]: ...


class WebsocketListener:
    """The listener of the `websocket` block."""

    def __init__(self, server: Server) -> None:
        """Read the options.

        Raises:
            ConfigError: certificates or origins cannot be used.
        """
        self.server = server
        options = server.options
        self.front = WebsocketFront.from_options(options.websocket, leafs=bool(options.leafnodes.port))
        self.host = server.options.websocket.host or DEFAULT_HOST
        self.port = server.options.websocket.port
        # Sockets that are not clients yet; the server knows nothing of them.
        self.waiting: set[WebsocketProtocol] = set()
        self._listener: Acceptor | None = None

    @classmethod
    def open(cls, server: Server) -> WebsocketListener:
        """Listen.

        Raises:
            StartError: the port cannot be had.
            ConfigError: certificates or origins cannot be used.
        """
        listener = cls(server)
        listening = server.bind("websocket", listener.host, listener.port)
        listener.port = listening.getsockname()[1]
        server.hub.websocket_host, server.hub.websocket_port = listener.host, listener.port
        listener._listener = Acceptor(server.turns, listening, lambda _: WebsocketProtocol(server, listener))
        server.log("INF", f"Listening for websocket clients on {listener._scheme}://{listener.host}:{listener.port}")
        if listener.front.tls is None:
            server.log("WRN", "Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")
        else:
            for warning in listener.front.tls.warnings:
                server.log("WRN", f"websocket {warning}")
        return listener

    @property
    def url(self) -> str:
        """Where clients on this machine connect."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        return f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def _scheme(self) -> str:
        return "ws" if self.front.tls is None else "wss"

    def use(self, front: WebsocketFront) -> None:
        """Ask this of connections from now on."""
        self.front = front

    def close(self) -> None:
        """Let nobody new in, nor those who are only half in."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for protocol in list(self.waiting):
            protocol.transport.abort()


class WebsocketProtocol(TlsClientProtocol):
    """One socket on the WebSocket port."""

    def __init__(self, server: Server, listener: WebsocketDoor) -> None:
        super().__init__(server)
        self._listener = listener
        # One client sees one configuration, whatever is reloaded meanwhile.
        self._context = listener.front.tls
        self._socket = WebSocketConnection(listener.front.settings, server.options.max_payload, time.time)
        self._facts: TlsFacts | None = None
        self._known = False  # the client is authenticated
        self._plain_request = False  # it began with a plain request where TLS is spoken

    # --- asyncio ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody is there; whether it is a client, its request tells."""
        self.transport = cast(asyncio.Transport, transport)
        waiting = self._listener.waiting
        waiting.add(self)
        if 0 <= self._server.options.max_connections < len(waiting):
            # Those who wait are not counted as clients, but they have to have a limit too.
            self._drop()
            return
        self.steps.start(self._server.options.websocket.handshake_timeout_ns, self._on_handshake_timeout)
        if self._context is not None:
            self.begin_tls(self._context, b"")

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        """Where to read to: the kernel copies payload out of it, so all may share it."""
        # A view: asyncio's TLS fills it in pieces, and a piece of a bytearray would be a copy.
        return memoryview(self._shared)

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came."""
        data = memoryview(self._shared)[:nbytes]
        if self._tls is None:
            self._on_frames(data)
        else:
            self._on_encrypted(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._listener.waiting.discard(self)
        super().connection_lost(exc)

    def take_request(self, request: bytes) -> None:
        """Bytes came before this protocol had the socket."""
        self._on_frames(memoryview(request))

    def resume_writing(self) -> None:
        """Everything handed over is sent: control frames may go on."""
        super().resume_writing()
        self._put_control()

    def start_timers(self) -> None:
        """From here on a client that has to say who it is must not wait too long."""
        server = self._server
        if server.hub.authenticator.is_auth_announced("WEBSOCKET"):
            timeout_ns = server.options.websocket.auth_timeout_ns or server.auth_timeout_ns
            self._timer = server.turns.call_later(timeout_ns, self._on_auth_timeout)
        else:
            self.await_connect()

    def _ping_interval_ns(self) -> int:
        return self._server.hub.options.websocket.ping_interval_ns or super()._ping_interval_ns()

    # --- TLS ----------------------------------------------------------------------------------------------------

    def on_secured(self, facts: TlsFacts) -> None:
        """The TLS handshake is done; the request is next, in what is left of the time."""
        self._facts = facts
        self.steps.start(self._server.options.websocket.handshake_timeout_ns, self._on_handshake_timeout)

    def on_handshake_failed(self, error: TlsFailed) -> None:
        """No TLS. Nobody had been let in yet."""
        text = error.text
        if self._plain_request:
            self.transport.write(_HTTP_ON_HTTPS)
            text = "client sent an HTTP request to an HTTPS server"
        self._log_handshake(f"websocket: TLS handshake error from {self._address}: {text}")
        self._drop()

    def take_plain(self) -> None:
        """Frames inside TLS."""
        assert self._tls is not None
        while not self._ended:
            count = self._tls.read_into(self._shared)
            if not count:
                return
            self._on_frames(memoryview(self._shared)[:count])

    def on_broken(self, error: TlsFailed) -> None:
        """What came cannot be decrypted."""
        if self.connection is None:
            self._drop()
        else:
            super().on_broken(error)

    def _on_encrypted(self, data: memoryview) -> None:
        self._plain_request = self.is_shaking_hands and bytes(data[:5]).startswith(_HTTP_METHODS)
        super()._on_encrypted(data)

    # --- frames -------------------------------------------------------------------------------------------------

    def _on_frames(self, data: memoryview) -> None:
        """Requests first, then frames."""
        if self._ended:
            return
        was_open = self._socket.state is WebSocketState.OPEN
        for payload in self._socket.receive(data):
            self._take_payload(payload)
            if self._ended:
                return
        if was_open:
            self._after_frames()
        else:
            self._after_request()

    def _take_payload(self, payload: bytes) -> None:
        self.give(payload)
        if not self._known and self.connection.account is not None:
            self._known = True
            self._socket.client_is_known(self.connection.parser.max_payload)

    def _after_frames(self) -> None:
        socket = self._socket
        if socket.state is WebSocketState.CLOSED:
            if socket.failure:
                self._server.hub.log("ERR", self.connection, f"read error: {socket.failure}")
            self.connection.close(socket.close_reason or CloseReason.CLIENT_CLOSED)
        elif not self._pressure.blocked:
            self._put_control()

    def _after_request(self) -> None:
        socket = self._socket
        for error in socket.take_handshake_errors():
            self._log_handshake(f"{self._address} - websocket handshake error: {error}")
        self._put_control()
        if socket.state is WebSocketState.CLOSED:
            self._drop()
        elif socket.state is WebSocketState.OPEN:
            self._admit()

    def _admit(self) -> None:
        """The request was accepted: from here on it is a client like any other."""
        self.steps.cancel()
        self._listener.waiting.discard(self)
        upgrade = self._socket.upgrade
        assert upgrade is not None
        if upgrade.is_leaf:
            self._hand_over()
            return
        peer = SecurePeer(*address_of(self.transport), kind="websocket")
        peer.cookies = upgrade.cookies
        peer.forwarded_ip = upgrade.client_ip
        if self._facts is not None:
            peer.learn(self._facts)
        if self.open(peer):
            self.connection.greet()
            self.start_timers()

    def _hand_over(self) -> None:
        """A leaf node asks: from here on the socket belongs to its link."""
        leafs, stream = self._server.leafnodes, self._socket.stream
        if leafs is None or stream is None:
            self._drop()  # the server is starting still
            return
        self._ended = True
        leafs.take(self.transport, self._tls, stream, self._facts)

    # --- writing and closing ------------------------------------------------------------------------------------

    def write(self, chunks: list[bytes | memoryview]) -> None:
        """Put bytes of the NATS protocol on the wire, as frames."""
        self.put(self._socket.wrap(chunks))

    def farewell(self) -> None:
        """A close frame, then the end of TLS."""
        if self.connection is not None:
            self._socket.close(self.connection.close_reason or CloseReason.CLIENT_CLOSED)
        self._put_control()
        super().farewell()

    def _put_control(self) -> None:
        data = self._socket.data_to_send()
        if data:
            self.put([data])

    def _drop(self) -> None:
        """End a socket that never became a client."""
        self.steps.cancel()
        self._ended = True
        super().farewell()
        self.transport.close()

    def _on_handshake_timeout(self) -> None:
        if self.is_shaking_hands:
            self._log_handshake(f"websocket: TLS handshake error from {self._address}: i/o timeout")
        self._ended = True
        self.transport.close()

    @property
    def _address(self) -> str:
        ip, port = address_of(self.transport)
        return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"

    def _log_handshake(self, text: str) -> None:
        self._server.log("ERR", text)
