"""Frames both ways over an open WebSocket, for either side of its handshake.

    OPEN ──close frame either way, or a fault──► CLOSED

The NATS stream has no use for message borders: payload comes out as it arrives, and operations may be cut anywhere.
Text and binary frames are the same. In CLOSED nothing more is read, `data_to_send` holds what has still to be sent, and
`failure` says what was wrong, if something was.

Invariants: nothing is kept of uncompressed payload; of a compressed message no more than one step of its output is in
memory; at most one close frame is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slipstream.kernels.wire import wsframes
from slipstream.kernels.wire.wsframes import FrameReader, masked
from slipstream.protocol import ws_frames
from slipstream.protocol.limits import (
    WEBSOCKET_COMPRESS_MIN_BYTES,
    WEBSOCKET_CONTROL_BYTES_MAX,
)
from slipstream.protocol.texts import CloseReason
from slipstream.protocol.ws_frames import InflateFailed, Inflater, close_frame, control_frame, deflated, frame_head

__all__ = ["WebSocketStream"]


class WebSocketStream:
    """What both sides say once the handshake is over.

    Args:
        reads_masked: the peer has to mask its frames.
        compressed: permessage-deflate was agreed upon, without context takeover on either side.
        max_payload: bytes of the largest NATS message, which bounds inflation.
        new_mask: gives a key for each frame that is sent; None: this side does not mask.
        frame_bytes_max: of outgoing frames; 0: any size.
        fragments: whether compressed messages may be cut into frames, too.
        message_bytes_max: of what is compressed as one message; 0: any size.
    """

    def __init__(
        self,
        *,
        reads_masked: bool,
        compressed: bool,
        max_payload: int,
        new_mask: Callable[[], bytes] | None = None,
        frame_bytes_max: int = 0,
        fragments: bool = True,
        message_bytes_max: int = 0,
    ) -> None:
        self.is_open = True
        self.is_compressed = compressed
        self.failure = ""  # what the peer did wrong with frames, for the log
        self.close_reason: CloseReason | None = None  # when the peer or a fault closed it
        self._reader = FrameReader(reads_masked, compressed)
        self._inflater = Inflater(max_payload) if compressed else None
        self._new_mask = new_mask
        self._frame_bytes_max = frame_bytes_max
        self._fragments = fragments
        self._message_bytes_max = message_bytes_max
        self._output = bytearray()

    # --- incoming -----------------------------------------------------------------------------------------------

    def receive(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Read bytes from the socket; yields bytes of the NATS stream.

        Take each piece before asking for the next: a compressed message is inflated only as far as it is taken. It may
        be closed after every step.
        """
        if not self.is_open:
            return
        for kind, payload in self._reader.feed(data):
            if kind == wsframes.DATA:
                yield payload
            elif kind in (wsframes.COMPRESSED, wsframes.COMPRESSED_END):
                yield from self._inflate(payload, last=kind == wsframes.COMPRESSED_END)
            elif kind == wsframes.PING:
                # A peer that pings and does not read gets no more answers than this.
                if len(self._output) < WEBSOCKET_CONTROL_BYTES_MAX:
                    self._output += self._control(control_frame(wsframes.PONG, payload))
            elif kind == wsframes.CLOSE:
                self._peer_closes(payload)
            elif kind >= wsframes.FAULT:
                self._fail(ws_frames.CLOSE_PROTOCOL_ERROR, ws_frames.FAULT_TEXTS[kind].format(*payload))
            if not self.is_open:
                return

    def peer_is_known(self, max_payload: int) -> None:
        """The peer is authenticated: the limits of strangers no longer hold."""
        if self._inflater is not None:
            self._inflater.client_is_known()
            self._inflater.set_max_payload(max_payload)

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
        if self.is_open:
            self.failure = text
            self._close(close_frame(code, text), reason)

    def _close(self, frame: bytes, reason: CloseReason) -> None:
        self._output += self._control(frame)
        self.is_open = False
        self.close_reason = reason
        self._inflater = None

    # --- outgoing -----------------------------------------------------------------------------------------------

    def data_to_send(self) -> bytes:
        """Control frames to be sent, once."""
        if not self._output:
            return b""
        data = bytes(self._output)
        self._output.clear()
        return data

    def wrap(self, chunks: list[bytes | memoryview]) -> list[bytes | memoryview]:
        """Bytes of the NATS stream as frames, in pieces to be written one after another."""
        size = sum(map(len, chunks))
        if not size:
            return []
        if self.is_compressed and size > WEBSOCKET_COMPRESS_MIN_BYTES:
            return self._compressed(chunks, size)
        limit = self._frame_bytes_max
        if limit and size > limit:
            return [part for piece in _cut(b"".join(chunks), limit) for part in self._frame([piece], len(piece))]
        return self._frame(chunks, size)

    def _compressed(self, chunks: list[bytes | memoryview], size: int) -> list[bytes | memoryview]:
        limit = self._message_bytes_max
        if limit and size > limit:
            pieces = _cut(b"".join(chunks), limit)
            return [part for piece in pieces for part in self._message(deflated([piece]))]
        return self._message(deflated(chunks))

    def _message(self, body: bytes) -> list[bytes | memoryview]:
        """A compressed message as one frame, or as fragments; only the first says compressed."""
        limit = self._frame_bytes_max if self._fragments else 0
        pieces = list(_cut(body, limit or len(body)))
        parts: list[bytes | memoryview] = []
        for index, piece in enumerate(pieces):
            opcode = ws_frames.OPCODE_CONTINUATION if index else ws_frames.OPCODE_BINARY
            final = index == len(pieces) - 1
            parts += self._frame([piece], len(piece), opcode=opcode, final=final, compressed=index == 0)
        return parts

    def _frame(
        self,
        chunks: list[bytes | memoryview],
        size: int,
        *,
        opcode: int = ws_frames.OPCODE_BINARY,
        final: bool = True,
        compressed: bool = False,
    ) -> list[bytes | memoryview]:
        if self._new_mask is None:
            return [frame_head(opcode, size, final=final, compressed=compressed), *chunks]
        key = self._new_mask()
        return [frame_head(opcode, size, final=final, compressed=compressed, masked=True) + key, masked(chunks, key)]

    def _control(self, frame: bytes) -> bytes:
        if self._new_mask is None:
            return frame
        key = self._new_mask()
        return bytes((frame[0], frame[1] | ws_frames.MASK_BIT)) + key + masked([frame[2:]], key)

    def close(self, reason: CloseReason) -> None:
        """End it from this side: adds the close frame, unless one was sent."""
        if self.is_open:
            self._close(close_frame(ws_frames.close_code_of(reason), reason.value), reason)


def _cut(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]
