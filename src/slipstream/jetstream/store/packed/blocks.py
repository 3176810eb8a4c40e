"""Bytes of a packed segment: its plain bytes in blocks, each in a frame of its own.

    header of the segment (4096)    frame 0: the table    frame 1: block 0    frame 2: block 1    ...

A frame has the head of any frame, with other meanings, so that a disk that seals frames seals these as well:

    0 magic   4 length   8 number   16 where the block lies in the segment   24 its length there   28 flag 16
    32 bytes of the body that count   40 codec of the body   48 zero   56 checksum of the body   60 checksum of the head

The table says where the frames of the blocks are. If it cannot be read, they are looked for: each says what it is.

What this is not: files (`packed_file`), or a decision about what is packed (`store.file.reforms`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from slipstream.dataclass import dataclass
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES
from slipstream.jetstream.store.packed.codecs import Codec, pack, unpack
from slipstream.kernels.log.record import FRAME_HEAD_BYTES, crc32c

__all__ = ["BLOCK_BYTES", "BlockPlace", "BlockTable", "encode_block_frame", "find_blocks", "pack_segment", "read_block"]

BLOCK_BYTES: Final = 65536
"""Of a segment, in one block: what one point read has to unpack, and what one flipped bit costs."""
_MAGIC: Final = 0x31524653
_HEAD: Final = struct.Struct("<IIQQIIQQQI")
_CRC: Final = struct.Struct("<I")
_PACKED: Final = 16
_TABLE: Final = struct.Struct("<QI")
_ENTRY: Final = struct.Struct("<II")
_ALIGN: Final = 8
_SIZE_END: Final = 1 << 32  # of a segment


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """Where the frame of a block is in the file."""

    offset: int
    length: int


@dataclass(slots=True)
class BlockTable:
    """What a packed segment holds, and where."""

    size: int
    """Bytes of the segment, unpacked, with its header."""
    places: list[BlockPlace | None]
    """Of each block; None if it was not found."""

    def encode(self) -> bytes:
        """The body of frame 0."""
        entries = [_ENTRY.pack(place.offset, place.length) if place else _ENTRY.pack(0, 0) for place in self.places]
        return _TABLE.pack(self.size, len(self.places)) + b"".join(entries)

    @classmethod
    def decode(cls, body: bytes, file_size: int) -> BlockTable | None:
        """The table in a body; None if it is not one."""
        if len(body) < _TABLE.size:
            return None
        size, count = _TABLE.unpack_from(body)
        if (
            not HEADER_BYTES <= size < _SIZE_END
            or count != _blocks_of(size)
            or len(body) != _TABLE.size + count * _ENTRY.size
        ):
            return None
        places: list[BlockPlace | None] = []
        for offset, length in _ENTRY.iter_unpack(body[_TABLE.size :]):
            if not offset:
                places.append(None)
            elif offset >= HEADER_BYTES and length >= FRAME_HEAD_BYTES and offset + length <= file_size:
                places.append(BlockPlace(offset, length))
            else:
                return None
        return cls(size, places)


def pack_segment(header: bytes, body: bytes, salt: int, codec: Codec, room: int) -> bytes:
    """The file for a segment with this header and these frames behind it; `room` is left at the end of each frame."""
    frames = []
    for number, start in enumerate(range(0, len(body), BLOCK_BYTES), 1):
        piece = body[start : start + BLOCK_BYTES]
        frames.append(encode_block_frame(number, HEADER_BYTES + start, piece, salt, codec, room))
    table = BlockTable(HEADER_BYTES + len(body), [BlockPlace(0, 0)] * len(frames))
    at = HEADER_BYTES + len(_frame(0, 0, 0, table.encode(), Codec.STORED, salt, room))
    for number, frame in enumerate(frames):
        table.places[number] = BlockPlace(at, len(frame))
        at += len(frame)
    return b"".join((header, encode_table_frame(table, salt, room), *frames))


def encode_table_frame(table: BlockTable, salt: int, room: int) -> bytes:
    """Frame 0. Its length depends on the number of blocks alone."""
    return _frame(0, 0, 0, table.encode(), Codec.STORED, salt, room)


def encode_block_frame(
    number: int, at: int, piece: bytes, salt: int, codec: Codec, room: int, length: int = 0
) -> bytes:
    """The frame of one block, as long as `length` if it would be shorter."""
    body = pack(codec, piece)
    if len(body) >= len(piece):
        body, codec = piece, Codec.STORED
    return _frame(number, at, len(piece), body, codec, salt, room, length)


def void_frame(number: int, length: int, salt: int, room: int) -> bytes:
    """A frame that holds nothing, in the place of one that is elsewhere now."""
    return _frame(number, 0, 0, b"", Codec.STORED, salt, room, length)


def _frame(number: int, at: int, size: int, body: bytes, codec: Codec, salt: int, room: int, least: int = 0) -> bytes:
    length = FRAME_HEAD_BYTES + len(body) + room
    length = max(length + -length % _ALIGN, least)
    low = salt & 0xFFFFFFFF
    head = _HEAD.pack(_MAGIC ^ low, length, number, at, size, _PACKED, len(body), int(codec), 0, crc32c(body, low))
    return (head + _CRC.pack(crc32c(head, low)) + body).ljust(length, b"\0")


@dataclass(frozen=True, slots=True)
class _Read:
    number: int
    at: int
    size: int
    length: int
    codec: int
    body: bytes


def _read(data: bytes | memoryview, start: int, salt: int) -> _Read | None:
    """The frame that begins there, if it is whole."""
    low = salt & 0xFFFFFFFF
    head = bytes(data[start : start + FRAME_HEAD_BYTES])
    if len(head) < FRAME_HEAD_BYTES or _CRC.unpack_from(head, _HEAD.size)[0] != crc32c(head[: _HEAD.size], low):
        return None
    magic, length, number, at, size, flags, used, codec, _, stated = _HEAD.unpack_from(head)
    if magic != _MAGIC ^ low or flags != _PACKED or used > length - FRAME_HEAD_BYTES or start + length > len(data):
        return None
    body = bytes(data[start + FRAME_HEAD_BYTES : start + FRAME_HEAD_BYTES + used])
    return _Read(number, at, size, length, codec, body) if crc32c(body, low) == stated else None


def read_block(frame: bytes | memoryview, index: int, salt: int) -> bytes | None:
    """The plain bytes of a block, from its frame; None if they cannot be had."""
    found = _read(frame, 0, salt)
    if found is None or found.number != index + 1 or found.at != HEADER_BYTES + index * BLOCK_BYTES:
        return None
    if not 0 < found.size <= BLOCK_BYTES:
        return None
    piece = unpack(found.codec, found.body, found.size)
    return piece if piece is not None and len(piece) == found.size else None


def block_in(frame: bytes, salt: int) -> tuple[int, bytes]:
    """Which block a frame holds, and its plain bytes; empty if it holds none."""
    found = _read(frame, 0, salt)
    if found is None or not found.number:
        return -1, b""
    return found.number - 1, read_block(frame, found.number - 1, salt) or b""


def read_table(data: bytes, salt: int, file_size: int) -> BlockTable | None:
    """The table, from the bytes behind the header."""
    found = _read(data, 0, salt)
    return BlockTable.decode(found.body, file_size) if found is not None and found.number == 0 else None


def table_length(head: bytes) -> int:
    """How long frame 0 says it is."""
    return int(_HEAD.unpack_from(head)[1]) if len(head) >= _HEAD.size else 0


def find_blocks(data: bytes, salt: int) -> BlockTable:
    """The table of a file whose own is gone: every frame that is whole, the last one of each number."""
    found = {
        one.number: (start, one)
        for start, one in _whole_frames(data, salt)
        if one.number
        and 0 < one.size <= BLOCK_BYTES
        and one.at == HEADER_BYTES + (one.number - 1) * BLOCK_BYTES
        and one.at + one.size < _SIZE_END
    }
    size = max((one.at + one.size for _, one in found.values()), default=max(len(data), HEADER_BYTES))
    places: list[BlockPlace | None] = [None] * _blocks_of(size)
    for number, (start, one) in found.items():
        places[number - 1] = BlockPlace(start, one.length)
    return BlockTable(size, places)


def _whole_frames(data: bytes, salt: int) -> Iterator[tuple[int, _Read]]:
    magic = (_MAGIC ^ (salt & 0xFFFFFFFF)).to_bytes(4, "little")
    at = data.find(magic, HEADER_BYTES)
    while at >= 0:
        found = _read(data, at, salt)
        if found is not None:
            yield at, found
        at = data.find(magic, at + (found.length if found is not None else 1))


def _blocks_of(size: int) -> int:
    return -(-(size - HEADER_BYTES) // BLOCK_BYTES)
