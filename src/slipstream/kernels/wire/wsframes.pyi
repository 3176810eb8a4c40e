"""Incoming WebSocket frames: bytes in, unmasked payload out; and masks for the payload that a client sends."""

from typing import Final

from typing_extensions import Buffer

DATA: Final = 0
COMPRESSED: Final = 1
COMPRESSED_END: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
FAULT: Final = 16
RESERVED_BITS: Final = 16
COMPRESSION_NOT_NEGOTIATED: Final = 17
MASK_MISSING: Final = 18
CONTROL_TOO_LONG: Final = 19
CONTROL_FRAGMENTED: Final = 20
CONTROL_COMPRESSED: Final = 21
MESSAGE_INTERLEAVED: Final = 22
CONTINUATION_INVALID: Final = 23
UNKNOWN_OPCODE: Final = 24
LENGTH_INVALID: Final = 25

class FrameReader:
    """Reads the frames one peer sends. After a close frame or a fault it is dead and reads nothing more."""

    def __init__(self, require_mask: bool, allow_compressed: bool) -> None: ...
    @property
    def dead(self) -> bool: ...
    def feed(self, data: Buffer) -> list[tuple[int, bytes]]:
        """Read the next bytes; returns (kind, payload) in order, a fault last."""

def masked(chunks: list[bytes | memoryview], key: bytes) -> bytes:
    """The chunks as one payload, masked with a key of four bytes: what a client sends."""
