"""How the bytes of a block are packed. Every codec is a pure function of one block."""

from __future__ import annotations

import errno
from enum import IntEnum
from functools import cache
from importlib import import_module
from types import ModuleType

from slipstream.kernels.backup.s2block import decode_block, encode_block

__all__ = ["Codec", "is_known", "pack", "unpack"]


class Codec(IntEnum):
    """Codecs, as files name them."""

    NONE = 0
    """Of a segment: it is not packed. Blocks do not have it."""
    STORED = 1
    """As they are: of blocks that would not get smaller, and of segments that are packed to be sealed."""
    S2 = 2
    ZSTD = 3
    """With the package `zstandard`, which a server may not have."""


def is_known(codec: Codec) -> bool:
    """Whether it can be used here."""
    return codec is not Codec.ZSTD or _zstandard() is not None


def pack(codec: Codec, piece: bytes) -> bytes:
    """A block as it is stored.

    Raises:
        OSError: the package for it is missing.
    """
    if codec is Codec.ZSTD:
        return bytes(_needed().ZstdCompressor().compress(piece))
    return encode_block(piece) if codec is Codec.S2 else piece


def unpack(codec: int, body: bytes, size: int) -> bytes | None:
    """The block again, of this size; None if it cannot be had.

    Raises:
        OSError: the package for it is missing: that is no damage.
    """
    if codec == Codec.STORED:
        return body
    if codec == Codec.ZSTD:
        zstandard = _needed()
        try:
            return bytes(zstandard.ZstdDecompressor().decompress(body, max_output_size=size))
        except zstandard.ZstdError:
            return None
    if codec != Codec.S2:
        return None
    try:
        return decode_block(body, size)
    except ValueError:
        return None


@cache
def _zstandard() -> ModuleType | None:
    try:
        return import_module("zstandard")
    except ImportError:
        return None


def _needed() -> ModuleType:
    found = _zstandard()
    if found is None:
        raise OSError(errno.ENOTSUP, "compressed with zstd: the package zstandard is missing")
    return found
