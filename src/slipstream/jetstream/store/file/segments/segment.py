"""Layout of a segment file: names, header, and the payloads of control records.

    0     header (212 bytes used)      2048  the same header again      4096  frames, see kernels/log/record.pyx

A segment describes itself: stream, place in the log, salt. `no` counts segments of a stream without gaps; a segment
that was rewritten by compaction has a higher `generation`, and covers the numbers `no` to `last_no` when several were
merged. The header also says where the segment before it ended, so bytes behind that end mean nothing.

What this is not: reading or writing files; everything here is a function of bytes. Drawn in docs/internals/format.md.
"""

from __future__ import annotations

import re
import struct

from slipstream.dataclass import dataclass
from slipstream.kernels.log.record import crc32c

__all__ = [
    "GONE_MAGIC",
    "HEADER_BYTES",
    "EraseIntent",
    "SegmentHeader",
    "decode_header",
    "encode_header",
    "is_gone",
    "is_named",
    "pack_erase",
    "pack_seq",
    "pack_state",
    "parse_name",
    "segment_name",
    "unpack_erase",
    "unpack_state",
]

HEADER_BYTES = 4096
GONE_MAGIC = b"SLIPGONE"
"""Begins a file whose data key was destroyed: its name is about to go."""
_COPY_AT = 2048
_MAGIC = b"SLIPSEG1"
_VERSION = 1
_PACKED_VERSION = 2  # so that who does not know of packed segments does not take one for damaged
# magic, version, codec, uid, no, last_no, generation, prev_generation, first_seq, created_ns, prev_no, prev_end,
# frame_no, salt, cipher id, key id, wrapped key (room), root hash of the segment before (room)
_HEADER = struct.Struct("<8sII16sQQIIQqQQQQII64s32s")
_CRC = struct.Struct("<I")
_NAME = re.compile(r"(\d{10})\.(\d{4,10})\.seg")
_STATE = struct.Struct("<QQq")
_ERASE = struct.Struct("<QIII")
_SEQ_TOP = 2**64 - 2  # every sequence has a successor
_FRAME_NO_END = 2**62  # no log has as many frames, or as many segments


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """What a segment says about itself."""

    uid: bytes
    """Identity of the stream, 16 bytes: a file of another stream is never taken for one of this."""
    no: int
    """Place in the log, from 1."""
    last_no: int
    """Last place it covers; equal to `no` unless compaction merged several."""
    generation: int
    """How often it was rewritten."""
    first_seq: int
    """Sequence expected first: one above the last of the segment before."""
    created_ns: int
    prev_no: int
    """The segment before, 0 for none; `prev_end` holds only while it has `prev_generation`."""
    prev_generation: int
    prev_end: int
    """Offset where the log in the segment before ends."""
    frame_no: int
    """Number of the last frame before this segment."""
    salt: int
    """Random 64 bits that key every checksum in the file."""
    cipher: int = 0
    """How its frames are sealed, 0 for not at all; as are the next two."""
    key_id: int = 0
    """Which main key has wrapped the data key."""
    wrapped: bytes = b""
    """The data key, wrapped."""
    codec: int = 0
    """How it is packed, 0 for not at all."""


@dataclass(frozen=True, slots=True)
class EraseIntent:
    """Where a message lies that is to be overwritten."""

    no: int
    generation: int
    offset: int
    length: int
    """Length of the record with the flags of the index."""


def segment_name(no: int, generation: int) -> str:
    """File name of a segment."""
    return f"{no:010d}.{generation:04d}.seg"


def parse_name(name: str) -> tuple[int, int] | None:
    """`(no, generation)` of a segment's file name; None for any other name."""
    found = _NAME.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def is_named(header: SegmentHeader, parsed: tuple[int, int]) -> bool:
    """Whether a header says what the name of its file does, and numbers that a segment can have."""
    return (
        (header.no, header.generation) == parsed
        and header.no <= header.last_no < _FRAME_NO_END
        and 1 <= header.first_seq <= _SEQ_TOP
        and header.frame_no < _FRAME_NO_END
    )


def encode_header(header: SegmentHeader, wrapped: bytes = b"") -> bytes:
    """The first 4096 bytes of the file; `wrapped`: the data key of a sealed one."""
    packed = _HEADER.pack(
        _MAGIC,
        _PACKED_VERSION if header.codec else _VERSION,
        header.codec,
        header.uid,
        header.no,
        header.last_no,
        header.generation,
        header.prev_generation,
        header.first_seq,
        header.created_ns,
        header.prev_no,
        header.prev_end,
        header.frame_no,
        header.salt,
        header.cipher,
        header.key_id,
        wrapped,
        b"",
    )
    copy = (packed + _CRC.pack(crc32c(packed))).ljust(_COPY_AT, b"\0")
    return copy + copy


def decode_header(data: bytes) -> SegmentHeader | None:
    """The header from whichever copy is intact; None when neither is."""
    for start in (0, _COPY_AT):
        packed = data[start : start + _HEADER.size]
        stated = data[start + _HEADER.size : start + _HEADER.size + _CRC.size]
        if len(packed) < _HEADER.size or len(stated) < _CRC.size or _CRC.unpack(stated)[0] != crc32c(packed):
            continue
        fields = _HEADER.unpack(packed)
        if fields[0] != _MAGIC or fields[1] != (_PACKED_VERSION if fields[2] else _VERSION):
            continue
        _, _, _, uid, no, last_no, generation, prev_generation, first_seq, created, prev_no, prev_end, frame, salt = (
            fields[:14]
        )
        return SegmentHeader(
            uid,
            no,
            last_no,
            generation,
            first_seq,
            created,
            prev_no,
            prev_generation,
            prev_end,
            frame,
            salt,
            cipher=fields[14],
            key_id=fields[15],
            wrapped=fields[16],
            codec=fields[2],
        )
    return None


def is_gone(head: bytes) -> bool:
    """Whether a file that begins with this means nothing any more: its data key was destroyed on purpose."""
    return head[: len(GONE_MAGIC)] == GONE_MAGIC


def pack_state(first_seq: int, last_seq: int, last_ts_ns: int) -> bytes:
    """Payload of a STATE record."""
    return _STATE.pack(first_seq, last_seq, last_ts_ns)


def unpack_state(payload: bytes) -> tuple[int, int, int]:
    """`(first_seq, last_seq, last_ts_ns)`."""
    first_seq, last_seq, last_ts_ns = _STATE.unpack(payload)
    return first_seq, last_seq, last_ts_ns


def pack_erase(intent: EraseIntent) -> bytes:
    """Payload of an ERASE record."""
    return _ERASE.pack(intent.no, intent.generation, intent.offset, intent.length)


def unpack_erase(payload: bytes) -> EraseIntent:
    """The intent in an ERASE record."""
    return EraseIntent(*_ERASE.unpack(payload))


def pack_seq(seq: int) -> bytes:
    """A sequence as SKIP and TOMBS records hold it."""
    return seq.to_bytes(8, "little")
