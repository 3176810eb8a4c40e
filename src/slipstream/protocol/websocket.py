"""A WebSocket that carries the bytes of the NATS protocol, without its socket, on the side that was asked.

    HANDSHAKING ──upgrade accepted──► OPEN ──close frame either way, or a fault──► CLOSED
         └──refused for good──────────────────────────────────────────────────────────┘

What goes over it once it is OPEN is `ws_stream`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum

from slipstream.protocol.limits import WEBSOCKET_BROWSER_FRAME_BYTES, WEBSOCKET_LINK_MESSAGE_BYTES
from slipstream.protocol.texts import CloseReason
from slipstream.protocol.ws_handshake import Handshake, HandshakeSettings, Upgrade
from slipstream.protocol.ws_stream import WebSocketStream

__all__ = ["WebSocketConnection", "WebSocketState"]


class WebSocketState(Enum):
    """Where a WebSocket is in its life."""

    HANDSHAKING = "handshaking"
    OPEN = "open"
    CLOSED = "closed"


class WebSocketConnection:
    """One WebSocket, from the HTTP request to the close frame."""

    def __init__(self, settings: HandshakeSettings, max_payload: int, now_s: Callable[[], float]) -> None:
        """Wait for the request.

        Args:
            settings: what is accepted.
            max_payload: bytes of the largest message, which bounds inflation.
            now_s: the time for HTTP answers, in seconds since the epoch.
        """
        self.upgrade: Upgrade | None = None  # what the request said, from OPEN on
        self.stream: WebSocketStream | None = None  # from OPEN on
        self._max_payload = max_payload
        self._handshake: Handshake | None = Handshake(settings, now_s)
        self._output = bytearray()  # answers to requests
        self._handshake_errors: list[str] = []

    @property
    def state(self) -> WebSocketState:
        """Where it is in its life."""
        if self._handshake is not None:
            return WebSocketState.HANDSHAKING
        return WebSocketState.OPEN if self.stream is not None and self.stream.is_open else WebSocketState.CLOSED

    @property
    def failure(self) -> str:
        """What the peer did wrong with frames, for the log."""
        return "" if self.stream is None else self.stream.failure

    @property
    def close_reason(self) -> CloseReason | None:
        """Why it is CLOSED, when the peer or a fault closed it."""
        return None if self.stream is None else self.stream.close_reason

    def receive(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Read bytes from the socket; yields bytes of the NATS stream, see `WebSocketStream.receive`."""
        if self._handshake is not None:
            self._shake_hands(self._handshake, data)
            return
        if self.stream is not None:
            yield from self.stream.receive(data)

    def client_is_known(self, max_payload: int) -> None:
        """The client is authenticated: the limits of strangers no longer hold."""
        if self.stream is not None:
            self.stream.peer_is_known(max_payload)

    def take_handshake_errors(self) -> list[str]:
        """Why requests were refused, for the log; each is returned once."""
        errors, self._handshake_errors = self._handshake_errors, []
        return errors

    def _shake_hands(self, handshake: Handshake, data: bytes | memoryview) -> None:
        handshake.receive(data)
        self._output += handshake.data_to_send()
        self._handshake_errors += handshake.errors
        handshake.errors = []
        if handshake.closed:
            self._handshake = None
        elif handshake.upgrade is not None:
            self.upgrade = upgrade = handshake.upgrade
            self._handshake = None
            self.stream = WebSocketStream(
                reads_masked=upgrade.masked,
                compressed=upgrade.compressed,
                max_payload=self._max_payload,
                frame_bytes_max=WEBSOCKET_BROWSER_FRAME_BYTES if upgrade.is_browser else 0,
                fragments=not upgrade.is_safari,
                message_bytes_max=WEBSOCKET_LINK_MESSAGE_BYTES if upgrade.is_leaf else 0,
            )

    def data_to_send(self) -> bytes:
        """Handshake answers and control frames to be sent, once."""
        data = b"" if self.stream is None else self.stream.data_to_send()
        if self._output:
            data = bytes(self._output) + data
            self._output.clear()
        return data

    def wrap(self, chunks: list[bytes | memoryview]) -> list[bytes | memoryview]:
        """Bytes of the NATS stream as frames, in pieces to be written one after another."""
        assert self.stream is not None
        return self.stream.wrap(chunks)

    def close(self, reason: CloseReason) -> None:
        """End it from this side: adds the close frame, unless one was sent."""
        self._handshake = None
        if self.stream is not None:
            self.stream.close(reason)
