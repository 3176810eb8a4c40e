"""The client port when there is something before CONNECT: a PROXY header, TLS, or both.

    accepted ──► INFO ─────────────────────────► PROXY header ──► first byte? ──► handshake ──► CONNECT
        └──► first byte? ──(none in time)──► INFO     │                 └── no TLS ────────────────►│
                   └── there is one ──────────────────┴──► handshake ──► INFO ──────────────────────┘

The upper line is the usual one. The lower one is `handshake_first`, where the first byte is waited for until the
fallback delay, or for ever. Which steps there are depends on the options; their order is nats-server's. Bytes that come
early wait for the step they belong to.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, cast

from slipstream.limits import PROXY_HEADER_TIMEOUT_NS
from slipstream.protocol.host import State
from slipstream.protocol.proxy import ProxyDecoder, ProxyViolation
from slipstream.protocol.texts import CloseReason
from slipstream.server.clients.listener import address_of
from slipstream.server.clients.tls_protocol import ConnectionRate, SecurePeer, TlsClientProtocol
from slipstream.server.sockets.tls import TlsContext
from slipstream.server.sockets.tls_layer import TLS_RECORD_HANDSHAKE, TlsFacts, TlsFailed
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    import asyncio

    from slipstream.config.options import Options
    from slipstream.server.server import Server

__all__ = ["ClientGate", "GatedClientProtocol"]

_THROTTLED = "Connection throttling is active. Please try again later."


class ClientGate:
    """What the client port asks of new connections, under one configuration: a reload makes a new one."""

    def __init__(self, server: Server, options: Options) -> None:
        """Build the TLS context.

        Raises:
            ConfigError: the certificates cannot be used.
        """
        self.server = server
        self.tls = None if options.tls is None else TlsContext.for_server(options.tls)
        self.proxy = options.proxy_protocol
        self.allow_plain = options.allow_non_tls
        self.rate = ConnectionRate(0 if options.tls is None else options.tls.connection_rate_limit)

    def new_protocol(self) -> GatedClientProtocol:
        """A protocol for an accepted socket."""
        return GatedClientProtocol(self.server, self)

    def announce(self) -> None:
        """Tell the log what clients have to expect."""
        log = self.server.log
        if self.proxy:
            log("INF", "PROXY protocol enabled for client connections")
        if self.tls is None:
            return
        for warning in self.tls.warnings:
            log("WRN", warning)
        options = self.tls.options
        first_only = options.handshake_first and not options.handshake_first_fallback_ns
        available = self.allow_plain and not first_only
        log("INF", f"TLS {'available' if available else 'required'} for client connections")
        if first_only:
            log("WRN", 'Clients that are not using "TLS Handshake First" option will fail to connect')

    def admits_handshake(self) -> bool:
        """Whether one more TLS handshake may begin now; refusals are logged once a second."""
        if self.rate.allows(self.server.clock.monotonic_ns()):
            return True
        if self.rate.refused == 1:
            self.server.turns.call_later(SECOND_NS, self._log_refused)
        return False

    def _log_refused(self) -> None:
        self.server.log("WRN", f"Rejected {self.rate.take_refused()} connections due to TLS rate limiting")


class _Step(Enum):
    """What the next bytes are."""

    FIRST_BYTE = "first byte"  # handshake_first with a fallback: anything means TLS
    PROXY = "proxy header"
    SNIFF = "sniff"  # allow_non_tls: the first byte tells
    TLS = "tls"
    PLAIN = "plain"


class GatedClientProtocol(TlsClientProtocol):
    """One client socket on a gated port."""

    def __init__(self, server: Server, gate: ClientGate) -> None:
        super().__init__(server)
        self._gate = gate
        # One client sees one context, whatever is reloaded meanwhile.
        self._context = gate.tls
        self._proxy = ProxyDecoder() if gate.proxy else None
        self._step = _Step.PLAIN
        self._tls_first = self._context is not None and self._context.options.handshake_first

    @property
    def _peer(self) -> SecurePeer:
        return cast(SecurePeer, self.connection.peer)

    # --- asyncio ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self.transport = cast("asyncio.Transport", transport)
        if not self.open(SecurePeer(*address_of(self.transport))):
            return
        fallback_ns = self._context.options.handshake_first_fallback_ns if self._context is not None else 0
        if not self._tls_first:
            self._greet_in_clear()
            self._expect_proxy()
        elif fallback_ns:
            self._step = _Step.FIRST_BYTE
            self.steps.start(fallback_ns, self._on_no_first_byte)
        else:
            self._expect_proxy()

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        """Where to read to."""
        return super().get_buffer(sizehint) if self._step in (_Step.PLAIN, _Step.TLS) else self._shared

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came."""
        if self._step in (_Step.PLAIN, _Step.TLS):
            super().buffer_updated(nbytes)
        else:
            self._on_early_bytes(bytes(memoryview(self._shared)[:nbytes]))

    # --- steps --------------------------------------------------------------------------------------------------

    def _greet_in_clear(self) -> None:
        """INFO before anything else. Behind a proxy the client's address is not known yet, so INFO tells none."""
        peer = self._peer
        address = peer.ip
        peer.ip = "" if self._proxy is not None else address
        self.connection.greet()
        peer.ip = address
        self.flush()

    def _expect_proxy(self) -> None:
        if self._proxy is None:
            self._expect_tls()
            return
        self._step = _Step.PROXY
        self.steps.start(PROXY_HEADER_TIMEOUT_NS, self._on_proxy_timeout)

    def _expect_tls(self) -> None:
        """What comes after the PROXY header, if there was one."""
        self.steps.cancel()
        if self._context is None:
            self._become_plain()
        elif self._gate.allow_plain and not self._tls_first:
            self._step = _Step.SNIFF
            self.steps.start(self._context.options.timeout_ns, self._become_plain)
        else:
            self._start_tls(b"")

    def _become_plain(self) -> None:
        self.steps.cancel()
        self._step = _Step.PLAIN
        self.start_timers()

    def _start_tls(self, early: bytes) -> None:
        assert self._context is not None
        if not self._gate.admits_handshake():
            self.connection.close(CloseReason.MAX_CONNECTIONS, _THROTTLED)
            return
        self._step = _Step.TLS
        self._log("DBG", "Starting TLS client connection handshake")
        self.steps.start(self._context.options.timeout_ns, self._on_handshake_timeout)
        self.begin_tls(self._context, early)

    def _on_early_bytes(self, data: bytes) -> None:
        """Give bytes to the steps in their order until one wants to keep them or none are left."""
        if self._step is _Step.FIRST_BYTE:
            self.steps.cancel()
            self._expect_proxy()
        if self._proxy is not None and not self._proxy.done:
            try:
                data = self._proxy.receive(data)
            except ProxyViolation as error:
                self._refuse_proxy(error.text)
                return
            if not self._proxy.done:
                return
            if self._proxy.source is not None:
                self._peer.ip, self._peer.port = self._proxy.source.ip, self._proxy.source.port
            self._expect_tls()
        if data and self.connection.state is not State.CLOSED:
            self._on_first_bytes(data)

    def _on_first_bytes(self, data: bytes) -> None:
        """The first bytes of the client itself."""
        if self._step is _Step.SNIFF:
            if data[0] == TLS_RECORD_HANDSHAKE:
                self.steps.cancel()
                self._start_tls(data)
                return
            self._become_plain()
        if self._step is _Step.TLS:
            self._on_encrypted(memoryview(data))
            return
        self.give(data)

    # --- outcomes -----------------------------------------------------------------------------------------------

    def on_secured(self, facts: TlsFacts) -> None:
        """The handshake is done: greet if that was waiting for it."""
        self._peer.learn(facts)
        self._peer.tls_first = self._tls_first
        self._log("DBG", "TLS handshake complete")
        self._log("DBG", f"TLS version {facts.version}, cipher suite {facts.cipher_suite}")
        if self._tls_first:
            self.connection.greet()
        self.start_timers()

    def on_handshake_failed(self, error: TlsFailed) -> None:
        """Somebody did not get in; a port scanner is no error."""
        self._log("DBG" if error.is_probe else "ERR", f"TLS handshake error: {error.text}")
        self.connection.close(CloseReason.TLS_HANDSHAKE_ERROR)

    def _on_handshake_timeout(self) -> None:
        self._log("DBG", "TLS handshake timeout")
        self.connection.close(CloseReason.TLS_HANDSHAKE_ERROR)

    def _on_no_first_byte(self) -> None:
        """A client that waits for INFO: it gets it, and may still ask for TLS."""
        self._tls_first = False
        self._greet_in_clear()
        self._expect_proxy()

    def _on_proxy_timeout(self) -> None:
        self._refuse_proxy("timeout reading PROXY protocol header")

    def _refuse_proxy(self, why: str) -> None:
        ip, port = address_of(self.transport)
        self._server.log("WRN", f"Error reading PROXY protocol header from {ip}:{port}: {why}")
        self.connection.close(CloseReason.PROTOCOL_VIOLATION)

    def _log(self, level: str, text: str) -> None:
        self._server.hub.log(level, self.connection, text)
