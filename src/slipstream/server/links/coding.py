"""What stands between a link's socket and the protocol: frames of WebSocket, frames of S2, or both.

    socket ──► [TLS] ──► [S2] ──► [WebSocket] ──► parser

S2 is around the frames of WebSocket, and not inside them, because nats-server has it so.

Little may become much on the way, so whoever reads takes a piece at a time, and decides when it goes on.
"""

from __future__ import annotations

from slipstream.jetstream.backup.errors import BadBackup
from slipstream.protocol.texts import CloseReason
from slipstream.protocol.ws_call import WebSocketRefused
from slipstream.server.errors import LinkUnreadable
from slipstream.server.links.compression import LinkCompression
from slipstream.server.links.websocket import LinkWebsocket

__all__ = ["LinkCoding"]


class LinkCoding:
    """The layers of one link, TLS aside."""

    __slots__ = ("_compression", "_websocket")

    def __init__(self, websocket: LinkWebsocket | None = None) -> None:
        self._websocket = websocket
        self._compression: LinkCompression | None = None

    @property
    def is_compressed(self) -> bool:
        """Whether frames of S2 are spoken."""
        return self._compression is not None

    @property
    def is_deflated(self) -> bool:
        """Whether frames of WebSocket are compressed."""
        return self._websocket is not None and self._websocket.is_deflated

    def compress(self, mode: str) -> None:
        """Send and read frames of S2 from here on, or change the level."""
        if self._compression is None:
            self._compression = LinkCompression(mode)
        else:
            self._compression.mode = mode

    def peer_is_known(self) -> None:
        """The handshake is over: the limits of strangers no longer hold."""
        if self._websocket is not None:
            self._websocket.peer_is_known()

    # --- incoming ---------------------------------------------------------------------------------------------------

    def receive(self, data: bytes | memoryview) -> None:
        """Take bytes from the wire. Afterwards take what is in them with `next_content`."""
        if self._compression is not None:
            self._compression.receive(data)
        else:
            assert self._websocket is not None
            self._websocket.receive(data)

    def next_content(self) -> bytes | None:
        """Some more of what the peer said; None when all is read that came.

        Raises:
            LinkUnreadable: it makes no sense, or the peer has closed its WebSocket.
        """
        try:
            while True:
                if self._websocket is not None:
                    content = self._websocket.next_content()
                    if content is not None or self._compression is None:
                        return content
                assert self._compression is not None
                content = self._compression.next_content()
                if content is None or self._websocket is None:
                    return content
                self._websocket.receive(content)
        except BadBackup as error:
            raise LinkUnreadable(
                f"read error: compressed bytes make no sense ({error})", CloseReason.READ_ERROR
            ) from error
        except WebSocketRefused as error:
            raise LinkUnreadable(f"Error soliciting websocket connection: {error}", CloseReason.READ_ERROR) from error

    # --- outgoing ---------------------------------------------------------------------------------------------------

    def wrap(self, chunks: list[bytes | memoryview]) -> list[bytes | memoryview]:
        """Bytes of the protocol as they go over the wire."""
        if self._websocket is not None:
            chunks = self._websocket.wrap(chunks)
        if self._compression is not None and chunks:
            chunks = [self._compression.pack(chunks)]
        return chunks

    def control(self) -> bytes:
        """What the layers themselves have to say, once: a request, answers to pings, a close frame."""
        data = b"" if self._websocket is None else self._websocket.control()
        return data if self._compression is None or not data else self._compression.pack([data])

    def farewell(self, reason: CloseReason) -> None:
        """The link ends: `control` has the last words afterwards."""
        if self._websocket is not None:
            self._websocket.close(reason)
