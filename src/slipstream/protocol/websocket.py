"""A WebSocket that carries the bytes of the NATS protocol, without its socket.

    HANDSHAKING ──upgrade accepted──► OPEN ──close frame either way, or a fault──► CLOSED
         └──refused for good──────────────────────────────────────────────────────────┘

The NATS stream has no use for message borders: payload comes out as it arrives, and operations may be cut anywhere.
Text and binary frames are the same. In CLOSED nothing more is read, `data_to_send` holds what has still to be sent, and
`failure` says what was wrong, if something was.

Invariants: nothing is kept of uncompressed payload; of a compressed message no more than one step of its output is in
memory; at most one close frame is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum

from slipstream.kernels.wire import wsframes
from slipstream.kernels.wire.wsframes import FrameReader
from slipstream.protocol import ws_frames
from slipstream.protocol.limits import (
    WEBSOCKET_BROWSER_FRAME_BYTES,
    WEBSOCKET_COMPRESS_MIN_BYTES,
    WEBSOCKET_CONTROL_BYTES_MAX,
)
from slipstream.protocol.texts import CloseReason
from slipstream.protocol.ws_frames import InflateFailed, Inflater, close_frame, control_frame, deflated, frame_head
from slipstream.protocol.ws_handshake import Handshake, HandshakeSettings, Upgrade

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
        self.state = WebSocketState.HANDSHAKING
        self.upgrade: Upgrade | None = None  # what the request said, from OPEN on
        self.failure = ""  # what the peer did wrong with frames, for the log
        self.close_reason: CloseReason | None = None  # why it is CLOSED, when the peer or a fault closed it
        self._max_payload = max_payload
        self._handshake: Handshake | None = Handshake(settings, now_s)
        self._reader: FrameReader | None = None
        self._inflater: Inflater | None = None
        self._frame_bytes_max = 0  # of outgoing frames; 0: any size
        self._output = bytearray()
        self._handshake_errors: list[str] = []

    # --- incoming -----------------------------------------------------------------------------------------------

    def receive(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Read bytes from the socket; yields bytes of the NATS stream.

        Take each piece before asking for the next: a compressed message is inflated only as far as it is taken. `state`
        may change with every step.
        """
        if self._handshake is not None:
            self._shake_hands(data)
            return
        if self.state is not WebSocketState.OPEN:
            return
        assert self._reader is not None
        for kind, payload in self._reader.feed(data):
            if kind == wsframes.DATA:
                yield payload
            elif kind in (wsframes.COMPRESSED, wsframes.COMPRESSED_END):
                yield from self._inflate(payload, last=kind == wsframes.COMPRESSED_END)
            elif kind == wsframes.PING:
                # A peer that pings and does not read gets no more answers than this.
                if len(self._output) < WEBSOCKET_CONTROL_BYTES_MAX:
                    self._output += control_frame(wsframes.PONG, payload)
            elif kind == wsframes.CLOSE:
                self._peer_closes(payload)
            elif kind >= wsframes.FAULT:
                self._fail(ws_frames.CLOSE_PROTOCOL_ERROR, ws_frames.FAULT_TEXTS[kind].format(*payload))
            if self.state is not WebSocketState.OPEN:
                return

    def client_is_known(self, max_payload: int) -> None:
        """The client is authenticated: the limits of strangers no longer hold."""
        if self._inflater is not None:
            self._inflater.client_is_known()
            self._inflater.set_max_payload(max_payload)

    def take_handshake_errors(self) -> list[str]:
        """Why requests were refused, for the log; each is returned once."""
        errors, self._handshake_errors = self._handshake_errors, []
        return errors

    def _shake_hands(self, data: bytes | memoryview) -> None:
        handshake = self._handshake
        assert handshake is not None
        handshake.receive(data)
        self._output += handshake.data_to_send()
        self._handshake_errors += handshake.errors
        handshake.errors = []
        if handshake.closed:
            self.state = WebSocketState.CLOSED
            self._handshake = None
        elif handshake.upgrade is not None:
            self.upgrade = upgrade = handshake.upgrade
            self.state = WebSocketState.OPEN
            self._handshake = None
            self._reader = FrameReader(upgrade.masked, upgrade.compressed)
            if upgrade.compressed:
                self._inflater = Inflater(self._max_payload)
            if upgrade.is_browser:
                self._frame_bytes_max = WEBSOCKET_BROWSER_FRAME_BYTES

    def _inflate(self, piece: bytes, *, last: bool) -> Iterator[bytes]:
        assert self._inflater is not None
        try:
            yield from self._inflater.inflate(piece, last=last)
        except InflateFailed as error:
            if error.too_large:
                self._fail(ws_frames.CLOSE_MESSAGE_TOO_BIG, str(error), CloseReason.MAX_PAYLOAD)
            else:
                self._fail(ws_frames.CLOSE_PROTOCOL_ERROR, str(error))

    def _peer_closes(self, payload: bytes) -> None:
        """Answer a close frame with what it said, unless it is malformed."""
        if len(payload) == 1:
            self._fail(ws_frames.CLOSE_PROTOCOL_ERROR, "close frame payload cannot be 1 byte")
            return
        answer = control_frame(wsframes.CLOSE, payload)
        if payload:
            code = int.from_bytes(payload[:2], "big")
            if not ws_frames.is_valid_close_code(code):
                self._fail(ws_frames.CLOSE_PROTOCOL_ERROR, f"invalid close status code {code}")
                return
            try:
                payload[2:].decode()
            except UnicodeDecodeError:
                answer = close_frame(ws_frames.CLOSE_INVALID_PAYLOAD, "invalid utf8 body in close frame")
        self._close(answer, CloseReason.CLIENT_CLOSED)

    def _fail(self, code: int, text: str, reason: CloseReason = CloseReason.READ_ERROR) -> None:
        if self.state is WebSocketState.OPEN:
            self.failure = text
            self._close(close_frame(code, text), reason)

    def _close(self, frame: bytes, reason: CloseReason) -> None:
        self._output += frame
        self.state = WebSocketState.CLOSED
        self.close_reason = reason
        self._inflater = None

    # --- outgoing -----------------------------------------------------------------------------------------------

    def data_to_send(self) -> bytes:
        """Handshake answers and control frames to be sent, once."""
        if not self._output:
            return b""
        data = bytes(self._output)
        self._output.clear()
        return data

    def wrap(self, chunks: list[bytes | memoryview]) -> list[bytes | memoryview]:
        """Bytes of the NATS stream as frames, in pieces to be written one after another."""
        assert self.upgrade is not None
        size = sum(map(len, chunks))
        if not size:
            return []
        if self.upgrade.compressed and size > WEBSOCKET_COMPRESS_MIN_BYTES:
            limit = 0 if self.upgrade.is_safari else self._frame_bytes_max
            return [*_fragments(deflated(chunks), limit)]
        if self._frame_bytes_max and size > self._frame_bytes_max:
            pieces = _cut(b"".join(chunks), self._frame_bytes_max)
            return [part for piece in pieces for part in (frame_head(ws_frames.OPCODE_BINARY, len(piece)), piece)]
        return [frame_head(ws_frames.OPCODE_BINARY, size), *chunks]

    def close(self, reason: CloseReason) -> None:
        """End it from this side: adds the close frame, unless one was sent."""
        if self.state is WebSocketState.OPEN:
            self._close(close_frame(ws_frames.close_code_of(reason), reason.value), reason)
        self.state = WebSocketState.CLOSED


def _fragments(message: bytes, limit: int) -> list[bytes]:
    """A compressed message as one frame, or as fragments of at most `limit` bytes; only the first says compressed."""
    pieces = list(_cut(message, limit or len(message)))
    parts: list[bytes] = []
    for index, piece in enumerate(pieces):
        opcode = ws_frames.OPCODE_CONTINUATION if index else ws_frames.OPCODE_BINARY
        final = index == len(pieces) - 1
        parts += [frame_head(opcode, len(piece), final=final, compressed=index == 0), piece]
    return parts


def _cut(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]
