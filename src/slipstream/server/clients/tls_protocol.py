"""A client socket that speaks TLS, from the handshake to the goodbye.

The plain protocol below stays what it is: it lends buffers and gives bytes to write, and does not know that they are
encrypted on the way. Until `begin_tls` this class does nothing at all.

While a handshake is under way nothing else is sent: output waits in the outbox. A handshake that fails or takes too
long ends the connection without a word, as in nats-server: its `-ERR` never leaves the process either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from slipstream.protocol.peer import Peer
from slipstream.protocol.texts import CloseReason
from slipstream.server.clients.listener import ClientProtocol
from slipstream.server.sockets.step_timer import StepTimer
from slipstream.server.sockets.tls_layer import TlsFacts, TlsFailed, TlsLayer
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.auth.tls_map import PeerCertificate
    from slipstream.protocol.ws_handshake import Cookies
    from slipstream.server.server import Server
    from slipstream.server.sockets.tls import TlsContext

__all__ = ["ConnectionRate", "SecurePeer", "TlsClientProtocol"]


class SecurePeer(Peer):
    """A peer about whom more is known than its address."""

    __slots__ = ("certificate", "cookies", "forwarded_ip", "tls", "tls_first")

    def __init__(self, ip: str, port: int, kind: str = "nats") -> None:
        super().__init__(ip, port, kind)
        self.tls: TlsFacts | None = None
        self.tls_first = False
        self.certificate: PeerCertificate | None = None
        self.cookies: Cookies | None = None
        self.forwarded_ip = ""

    def learn(self, facts: TlsFacts) -> None:
        """Keep what a handshake found out."""
        self.tls = facts
        self.certificate = facts.certificate


class ConnectionRate:
    """`connection_rate_limit`: how many TLS handshakes may begin in a second."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.refused = 0  # since the last `take_refused`
        self._begun = 0
        self._window_end_ns = 0

    def allows(self, now_ns: int) -> bool:
        """Whether one more may begin now."""
        if not self.limit:
            return True
        if now_ns >= self._window_end_ns:
            self._begun = 0
            self._window_end_ns = now_ns + SECOND_NS
        self._begun += 1
        if self._begun <= self.limit:
            return True
        self.refused += 1
        return False

    def take_refused(self) -> int:
        """How many were refused since the last call."""
        refused, self.refused = self.refused, 0
        return refused


class TlsClientProtocol(ClientProtocol, ABC):
    """One client socket that may speak TLS; a subclass knows what comes before and after the handshake."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._tls: TlsLayer | None = None
        self._ended = False  # finished or lost
        self.steps = StepTimer(server.turns)  # of whatever comes before the NATS protocol

    # --- for subclasses -----------------------------------------------------------------------------------------

    def begin_tls(self, context: TlsContext, early: bytes) -> None:
        """Speak TLS from here on; `early` are bytes that came already."""
        self._tls = TlsLayer(context)
        if early:
            self._on_encrypted(memoryview(early))

    @abstractmethod
    def on_secured(self, facts: TlsFacts) -> None:
        """The handshake is done; plain bytes come next."""

    @abstractmethod
    def on_handshake_failed(self, error: TlsFailed) -> None:
        """The handshake cannot be done: log it and close."""

    def take_plain(self) -> None:
        """Plain bytes may have come: hand them on."""
        assert self._tls is not None
        while not self._ended:
            count = self._tls.read_into(super().get_buffer(-1))
            if not count:
                return
            super().buffer_updated(count)

    def give(self, data: bytes) -> None:
        """Give plain bytes that were read elsewhere to the parser, as it has room for them."""
        view = memoryview(data)
        while view and not self._ended:
            target = memoryview(super().get_buffer(-1))
            count = min(len(target), len(view))
            target[:count] = view[:count]
            super().buffer_updated(count)
            view = view[count:]

    @property
    def is_shaking_hands(self) -> bool:
        """Whether only the handshake may use the wire."""
        return self._tls is not None and not self._tls.is_open

    def put(self, chunks: list[bytes | memoryview]) -> None:
        """Put bytes on the wire, encrypted when that is due."""
        if self._tls is not None:
            self.transport.write(self._tls.encrypt(chunks))
        elif chunks:
            self.transport.writelines(chunks)

    def farewell(self) -> None:
        """Say goodbye in the protocols around the NATS protocol."""
        if self._tls is not None:
            goodbye = self._tls.close()
            if goodbye:
                self.transport.write(goodbye)

    # --- asyncio ------------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        """Where to read to: encrypted bytes go to the buffer that all share, since OpenSSL copies them at once."""
        return super().get_buffer(sizehint) if self._tls is None else self._shared

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came."""
        if self._tls is None:
            super().buffer_updated(nbytes)
        else:
            self._on_encrypted(memoryview(self._shared)[:nbytes])

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self.steps.cancel()
        if self.is_shaking_hands and not self._ended:
            self.on_handshake_failed(TlsFailed("EOF"))
        self._ended = True
        super().connection_lost(exc)

    # --- reading ------------------------------------------------------------------------------------------------

    def _on_encrypted(self, data: memoryview) -> None:
        tls = self._tls
        assert tls is not None
        if self._ended:
            return
        try:
            tls.receive(data)
            if not tls.is_open:
                done = tls.shake_hands()
                self.transport.write(tls.data_to_send())
                if not done:
                    return
                self.steps.cancel()
                self.on_secured(tls.facts())
            self.take_plain()
        except EOFError:
            self.transport.close()
        except TlsFailed as error:
            if tls.is_open:
                self.on_broken(error)
            else:
                # An alert tells the peer what is wrong with its handshake.
                self.transport.write(tls.data_to_send())
                self.on_handshake_failed(error)

    def on_broken(self, error: TlsFailed) -> None:
        """What came cannot be decrypted."""
        self._server.hub.log("ERR", self.connection, f"read error: {error.text}")
        self.connection.close(CloseReason.READ_ERROR)

    # --- writing ------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send what waits, unless the transport is busy or a handshake is under way."""
        if not self.is_shaking_hands:
            super().flush()

    def write(self, chunks: list[bytes | memoryview]) -> None:
        """Put bytes of the NATS protocol on the wire."""
        self.put(chunks)

    def finish(self) -> None:
        """Send the last words and close. In the middle of a handshake there are none."""
        self.steps.cancel()
        self._ended = True
        outbox = self.connection.outbox
        if self.is_shaking_hands:
            outbox.close()
        elif not self._pressure.blocked:
            chunks = outbox.take()
            if chunks:
                self.write(chunks)
            self.farewell()
        super().finish()

    def abort(self) -> None:
        """Close at once; what waits is dropped."""
        self.steps.cancel()
        self._ended = True
        super().abort()
