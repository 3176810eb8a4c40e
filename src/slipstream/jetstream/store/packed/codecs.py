"""How the bytes of a block are packed. Every codec is a pure function of one block."""

from __future__ import annotations

from enum import IntEnum

from slipstream.kernels.backup.s2block import decode_block, encode_block

__all__ = ["Codec", "pack", "unpack"]


class Codec(IntEnum):
    """Codecs, as files name them."""

    NONE = 0
    """Of a segment: it is not packed. Blocks do not have it."""
    STORED = 1
    """As they are: of blocks that would not get smaller, and of segments that are packed to be sealed."""
    S2 = 2


def pack(codec: Codec, piece: bytes) -> bytes:
    """A block as it is stored."""
    return encode_block(piece) if codec is Codec.S2 else piece


def unpack(codec: int, body: bytes, size: int) -> bytes | None:
    """The block again, of this size; None if it cannot be had."""
    if codec == Codec.STORED:
        return body
    if codec != Codec.S2:
        return None
    try:
        return decode_block(body, size)
    except ValueError:
        return None
