"""The WebSocket of a leaf link: asked for by this side, or accepted on the WebSocket port."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slipstream.protocol.limits import WEBSOCKET_LINK_MESSAGE_BYTES, WEBSOCKET_MESSAGE_BYTES_MAX
from slipstream.protocol.texts import CloseReason
from slipstream.protocol.ws_call import WebSocketCall
from slipstream.protocol.ws_stream import WebSocketStream
from slipstream.server.errors import LinkUnreadable

__all__ = ["LinkWebsocket"]


class LinkWebsocket:
    """Frames of one link, after the request that asks for them.

    Args:
        stream: of a WebSocket that is open already.
        call: a request that is to be sent first.
        new_mask: keys for the frames of this side, when it asks.
        on_open: is told whether frames are compressed, when the other side has agreed.
    """

    __slots__ = ("_call", "_content", "_control", "_new_mask", "_on_open", "_stream")

    def __init__(
        self,
        stream: WebSocketStream | None = None,
        *,
        call: WebSocketCall | None = None,
        new_mask: Callable[[], bytes] | None = None,
        on_open: Callable[[bool], None] | None = None,
    ) -> None:
        self._stream = stream
        self._call = call
        self._new_mask = new_mask
        self._on_open = on_open
        self._control = b"" if call is None else call.request
        self._content: list[Iterator[bytes]] = []  # reads whose content was not taken to its end

    @property
    def is_deflated(self) -> bool:
        """Whether frames are compressed."""
        return self._stream is not None and self._stream.is_compressed

    def peer_is_known(self) -> None:
        """The limits of strangers no longer hold; another server may send all it has as one message."""
        if self._stream is not None:
            self._stream.peer_is_known(WEBSOCKET_MESSAGE_BYTES_MAX)

    def receive(self, data: bytes | memoryview) -> None:
        """Take bytes from the wire; `next_content` has what is in them."""
        # The buffer that they are in is used again before all of them are read.
        self._content.append(self._read(bytes(data)))

    def next_content(self) -> bytes | None:
        """Some more payload; None when all is read that came.

        Raises:
            WebSocketRefused: the other side does not agree to a WebSocket.
            LinkUnreadable: the WebSocket was closed, by the peer or for what it did.
        """
        while self._content:
            payload = next(self._content[0], None)
            if payload is not None:
                return payload
            self._content.pop(0)
            stream = self._stream
            if stream is not None and not stream.is_open:
                self._content.clear()
                text = f"read error: {stream.failure}" if stream.failure else ""
                raise LinkUnreadable(text, stream.close_reason or CloseReason.CLIENT_CLOSED)
        return None

    def _read(self, data: bytes) -> Iterator[bytes]:
        if self._call is not None:
            agreement = self._call.receive(data)
            if agreement is None:
                return
            self._call = None
            self._stream = WebSocketStream(
                reads_masked=False,
                compressed=agreement.compressed,
                max_payload=WEBSOCKET_MESSAGE_BYTES_MAX,
                new_mask=self._new_mask if agreement.masked else None,
                message_bytes_max=WEBSOCKET_LINK_MESSAGE_BYTES,
            )
            if self._on_open is not None:
                self._on_open(agreement.compressed)
            data = agreement.rest
        if self._stream is not None and data:
            yield from self._stream.receive(data)

    def wrap(self, chunks: list[bytes | memoryview]) -> list[bytes | memoryview]:
        """Bytes of the protocol as frames; before the other side has agreed there is nobody to tell."""
        return [] if self._stream is None or not self._stream.is_open else self._stream.wrap(chunks)

    def control(self) -> bytes:
        """The request, then control frames, once."""
        data, self._control = self._control, b""
        return data if self._stream is None else data + self._stream.data_to_send()

    def close(self, reason: CloseReason) -> None:
        """End it from this side."""
        if self._stream is not None:
            self._stream.close(reason)
