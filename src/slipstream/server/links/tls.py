"""TLS of one link to another server, as either side of the handshake: nothing else is sent until that is done.

begin ──► shaking hands ──► on_secured, open ──► goodbye
              └── failed or too late ──► the link is closed, with an alert for the peer
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from slipstream.protocol.texts import CloseReason
from slipstream.server.sockets.tls_layer import TlsFacts, TlsFailed, TlsLayer

if TYPE_CHECKING:
    from slipstream.links.end import LinkEnd
    from slipstream.server.sockets.step_timer import StepTimer

__all__ = ["LinkTls"]


class SecuredSocket(Protocol):
    """The socket below."""

    @property
    def transport(self) -> asyncio.Transport: ...
    @property
    def end(self) -> LinkEnd: ...
    @property
    def has_ended(self) -> bool: ...
    @property
    def steps(self) -> StepTimer: ...

    def take_plain(self) -> None:
        """Read what is decrypted."""
        ...

    def flush(self) -> None:
        """Send what waited for the handshake."""
        ...


class LinkTls:
    """Reads and writes records.

    Args:
        socket: below it.
        layer: OpenSSL's side; open already, where somebody else shook hands.
        on_secured: what comes after the handshake.
    """

    __slots__ = ("_on_secured", "_socket", "layer")

    def __init__(
        self, socket: SecuredSocket, layer: TlsLayer, on_secured: Callable[[TlsFacts], object] | None = None
    ) -> None:
        self._socket = socket
        self.layer = layer
        self._on_secured = on_secured

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done."""
        return self.layer.is_open

    def begin(self, *, speaks_first: bool, timeout_ns: int, early: bytes) -> None:
        """Shake hands.

        Args:
            speaks_first: this side dialled.
            timeout_ns: for the handshake.
            early: bytes that came already.
        """
        self._socket.end.log("DBG", f"Starting TLS {'client' if speaks_first else 'server'} handshake")
        self._socket.steps.start(timeout_ns, self._too_slow)
        if speaks_first:
            self._shake_hands()
        if early:
            self.receive(memoryview(early))

    def receive(self, data: memoryview) -> None:
        """Encrypted bytes came."""
        socket, layer = self._socket, self.layer
        if socket.has_ended:
            return
        try:
            layer.receive(data)
            if layer.is_open or self._shake_hands():
                socket.take_plain()
        except EOFError:
            socket.transport.close()
        except TlsFailed as error:
            if layer.is_open:
                socket.end.log("ERR", f"read error: {error.text}")
                socket.end.close(CloseReason.READ_ERROR)
            else:
                self._failed(error)

    def _shake_hands(self) -> bool:
        socket, layer = self._socket, self.layer
        try:
            done = layer.shake_hands()
        except TlsFailed as error:
            self._failed(error)
            return False
        socket.transport.write(layer.data_to_send())
        if not done:
            return False
        socket.steps.cancel()
        facts = layer.facts()
        socket.end.log("DBG", "TLS handshake complete")
        socket.end.log("DBG", f"TLS version {facts.version}, cipher suite {facts.cipher_suite}")
        assert self._on_secured is not None
        self._on_secured(facts)
        socket.flush()
        return True

    def _failed(self, error: TlsFailed) -> None:
        # An alert tells the peer what is wrong.
        self._socket.transport.write(self.layer.data_to_send())
        self._socket.end.log("ERR", f"TLS handshake error: {error.text}")
        self._socket.end.close(CloseReason.TLS_HANDSHAKE_ERROR)

    def _too_slow(self) -> None:
        self._socket.end.log("ERR", "TLS handshake error: timeout")
        self._socket.end.close(CloseReason.TLS_HANDSHAKE_ERROR)

    def write(self, chunks: list[bytes | memoryview]) -> None:
        """Send plain bytes."""
        self._socket.transport.write(self.layer.encrypt(chunks))

    def say_goodbye(self) -> None:
        """Nothing more is sent."""
        goodbye = self.layer.close()
        if goodbye:
            self._socket.transport.write(goodbye)
