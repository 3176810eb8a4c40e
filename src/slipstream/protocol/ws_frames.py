"""What goes over an open WebSocket: outgoing frames, close frames and their codes, inflation within limits.

Incoming frames are read by `kernels.wire.wsframes`, outgoing ones are put together by `ws_stream`. A close frame's
payload is a 16-bit code and a text of at most 123 bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from slipstream.errors import SlipstreamError
from slipstream.kernels.wire import wsframes
from slipstream.protocol.limits import (
    WEBSOCKET_EARLY_BYTES_MAX,
    WEBSOCKET_EARLY_RATIO_FROM_BYTES,
    WEBSOCKET_EARLY_RATIO_MAX,
    WEBSOCKET_EARLY_STEP_BYTES,
    WEBSOCKET_INFLATE_STEP_BYTES,
    WEBSOCKET_MESSAGE_BYTES_MAX,
    WEBSOCKET_MESSAGE_PAYLOADS_MAX,
)
from slipstream.protocol.texts import CloseReason

__all__ = [
    "CLOSE_INVALID_PAYLOAD",
    "CLOSE_MESSAGE_TOO_BIG",
    "CLOSE_PROTOCOL_ERROR",
    "FAULT_TEXTS",
    "InflateFailed",
    "Inflater",
    "close_code_of",
    "close_frame",
    "control_frame",
    "deflated",
    "frame_head",
    "is_valid_close_code",
]

OPCODE_CONTINUATION = 0
OPCODE_BINARY = 2
FINAL_BIT = 0x80
COMPRESSED_BIT = 0x40
MASK_BIT = 0x80  # of the second byte
CONTROL_PAYLOAD_BYTES_MAX = 125
_CLOSE_TEXT_BYTES_MAX = CONTROL_PAYLOAD_BYTES_MAX - 2

CLOSE_NORMAL = 1000
CLOSE_GOING_AWAY = 1001
CLOSE_PROTOCOL_ERROR = 1002
CLOSE_INVALID_PAYLOAD = 1007
CLOSE_POLICY_VIOLATION = 1008
CLOSE_MESSAGE_TOO_BIG = 1009
CLOSE_INTERNAL_ERROR = 1011
CLOSE_TLS_HANDSHAKE = 1015

# What the frame reader found, in nats-server's words.
FAULT_TEXTS = {
    wsframes.RESERVED_BITS: "RSV2 and RSV3 must be clear",
    wsframes.COMPRESSION_NOT_NEGOTIATED: "compressed frame received without negotiated permessage-deflate",
    wsframes.MASK_MISSING: "mask bit missing",
    wsframes.CONTROL_TOO_LONG: "control frame length bigger than maximum allowed of 125 bytes",
    wsframes.CONTROL_FRAGMENTED: "control frame does not have final bit set",
    wsframes.CONTROL_COMPRESSED: "control frame must not be compressed",
    wsframes.MESSAGE_INTERLEAVED: "new message started before final frame for previous message was received",
    wsframes.CONTINUATION_INVALID: "invalid continuation frame",
    wsframes.UNKNOWN_OPCODE: "unknown opcode {}",
    wsframes.LENGTH_INVALID: "invalid 64-bit payload length",
}

_CLOSE_CODES = {
    CloseReason.CLIENT_CLOSED: CLOSE_NORMAL,
    CloseReason.AUTHENTICATION_TIMEOUT: CLOSE_POLICY_VIOLATION,
    CloseReason.AUTHENTICATION_VIOLATION: CLOSE_POLICY_VIOLATION,
    CloseReason.SLOW_CONSUMER_PENDING: CLOSE_POLICY_VIOLATION,
    CloseReason.SLOW_CONSUMER_WRITE_DEADLINE: CLOSE_POLICY_VIOLATION,
    CloseReason.MAX_ACCOUNT_CONNECTIONS: CLOSE_POLICY_VIOLATION,
    CloseReason.MAX_CONNECTIONS: CLOSE_POLICY_VIOLATION,
    CloseReason.MAX_CONTROL_LINE: CLOSE_POLICY_VIOLATION,
    CloseReason.MAX_SUBSCRIPTIONS: CLOSE_POLICY_VIOLATION,
    CloseReason.MISSING_ACCOUNT: CLOSE_POLICY_VIOLATION,
    CloseReason.AUTHENTICATION_EXPIRED: CLOSE_POLICY_VIOLATION,
    CloseReason.REVOCATION: CLOSE_POLICY_VIOLATION,
    CloseReason.TLS_HANDSHAKE_ERROR: CLOSE_TLS_HANDSHAKE,
    CloseReason.PARSE_ERROR: CLOSE_PROTOCOL_ERROR,
    CloseReason.PROTOCOL_VIOLATION: CLOSE_PROTOCOL_ERROR,
    CloseReason.BAD_CLIENT_PROTOCOL_VERSION: CLOSE_PROTOCOL_ERROR,
    CloseReason.MAX_PAYLOAD: CLOSE_MESSAGE_TOO_BIG,
    CloseReason.WRITE_ERROR: CLOSE_GOING_AWAY,
    CloseReason.READ_ERROR: CLOSE_GOING_AWAY,
    CloseReason.STALE_CONNECTION: CLOSE_GOING_AWAY,
    CloseReason.SERVER_SHUTDOWN: CLOSE_GOING_AWAY,
}

# Ends a deflate stream whose last empty block the sender left out (RFC 7692, 7.2.2).
_DEFLATE_TAIL = b"\x00\x00\xff\xff"


def close_code_of(reason: CloseReason) -> int:
    """The code of the close frame for the end of a connection."""
    return _CLOSE_CODES.get(reason, CLOSE_INTERNAL_ERROR)


def is_valid_close_code(code: int) -> bool:
    """Whether a peer may send it: registered and not reserved, or private."""
    return (1000 <= code <= 1015 and code not in (1004, 1005, 1006, 1015)) or 3000 <= code < 5000


def frame_head(opcode: int, size: int, *, final: bool = True, compressed: bool = False, masked: bool = False) -> bytes:
    """The bytes before the payload of an outgoing frame; the key of one that is masked follows them."""
    first = opcode | (FINAL_BIT if final else 0) | (COMPRESSED_BIT if compressed else 0)
    mask = MASK_BIT if masked else 0
    if size <= CONTROL_PAYLOAD_BYTES_MAX:
        return bytes((first, mask | size))
    if size < 1 << 16:
        return bytes((first, mask | 126, size >> 8, size & 0xFF))
    return bytes((first, mask | 127)) + size.to_bytes(8, "big")


def control_frame(opcode: int, payload: bytes) -> bytes:
    """A ping, pong or close frame."""
    assert len(payload) <= CONTROL_PAYLOAD_BYTES_MAX
    return frame_head(opcode, len(payload)) + payload


def close_frame(code: int, text: str) -> bytes:
    """A close frame; a text that is too long ends in dots."""
    body = text.encode()
    if len(body) > _CLOSE_TEXT_BYTES_MAX:
        body = body[: _CLOSE_TEXT_BYTES_MAX - 3].decode("utf-8", "ignore").encode() + b"..."
    return control_frame(wsframes.CLOSE, code.to_bytes(2, "big") + body)


def deflated(chunks: Sequence[bytes | memoryview]) -> bytes:
    """The payload of one compressed message. Nothing is remembered from one to the next, as negotiated."""
    stream = zlib.compressobj(zlib.Z_BEST_SPEED, zlib.DEFLATED, -zlib.MAX_WBITS)
    parts = [stream.compress(chunk) for chunk in chunks]
    parts.append(stream.flush(zlib.Z_SYNC_FLUSH))
    return b"".join(parts)[: -len(_DEFLATE_TAIL)]


class InflateFailed(SlipstreamError):
    """A compressed message is damaged, or becomes too large."""

    def __init__(self, text: str, *, too_large: bool) -> None:
        super().__init__(text)
        self.too_large = too_large


class Inflater:
    """Inflates the messages of one peer, a step at a time, within limits.

    Output is produced when it is asked for, so no more than one step of it is in memory. Before the client is known a
    connection may inflate little, and at a modest ratio. Afterwards one message may become several payloads long; its
    ratio is not judged, since a client may well send a megabyte of zeros.
    """

    def __init__(self, max_payload: int) -> None:
        self._stream: zlib._Decompress | None = None  # of the message being read
        self._received = 0  # bytes of that message, compressed
        self._inflated = 0  # bytes of that message, inflated
        self._early = 0  # inflated bytes of the connection while the client is unknown
        self._known = False
        self._message_max = 0
        self.set_max_payload(max_payload)

    def set_max_payload(self, max_payload: int) -> None:
        """Use another payload limit for the messages to come."""
        self._message_max = min(max_payload * WEBSOCKET_MESSAGE_PAYLOADS_MAX, WEBSOCKET_MESSAGE_BYTES_MAX)

    def client_is_known(self) -> None:
        """Lift the early limits."""
        self._known = True

    def inflate(self, piece: bytes, *, last: bool) -> Iterator[bytes]:
        """Inflate a piece of a message; take all that comes before giving the next one.

        Raises:
            InflateFailed: the message is damaged or too large.
        """
        if self._stream is None:
            self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
            self._received = self._inflated = 0
        self._received += len(piece)
        if last:
            piece += _DEFLATE_TAIL
        while not self._stream.eof:
            step = self._step()
            try:
                output = self._stream.decompress(piece, step)
            except zlib.error as error:
                raise InflateFailed(str(error), too_large=False) from error
            piece = self._stream.unconsumed_tail
            self._inflated += len(output)
            self._check(len(output))
            if output:
                yield output
            # A full step may have left output behind although all input is taken.
            if not piece and len(output) < step:
                break
        if last:
            self._stream = None

    def _step(self) -> int:
        """How much to inflate at once; of a stranger little, so that its CONNECT counts before its limit is reached."""
        return WEBSOCKET_INFLATE_STEP_BYTES if self._known else WEBSOCKET_EARLY_STEP_BYTES

    def _check(self, size: int) -> None:
        if self._known:
            if self._inflated > self._message_max:
                raise InflateFailed("maximum payload exceeded", too_large=True)
            return
        self._early += size
        ratio_broken = (
            self._inflated > WEBSOCKET_EARLY_RATIO_FROM_BYTES
            and self._inflated > self._received * WEBSOCKET_EARLY_RATIO_MAX
        )
        if ratio_broken or self._early > WEBSOCKET_EARLY_BYTES_MAX:
            raise InflateFailed("maximum payload exceeded", too_large=True)
