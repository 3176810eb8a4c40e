"""Checksums made right in bytes that were changed, so that what they guard is reached."""

from __future__ import annotations

import struct

from models.records import FRAME, MAGIC
from slipstream.kernels.log.record import crc32c

RECORD_HEAD = 32
FRAME_HEAD = FRAME.size + 4
_LENGTHS = struct.Struct("<I16xHHI")  # of headers and subject, flags, length of the payload; behind the checksum
_EXPIRES = 16


def records(data: bytearray, salt: int, at: int = 0, *, with_frames: bool = False) -> list[tuple[int, int]]:
    """Give every record its checksum, and every frame its own; where each record begins and ends.

    A record is as long as it says, if there are so many bytes; else the next is looked for eight bytes further.
    """
    found = []
    low = salt & 0xFFFFFFFF
    while len(data) - at >= RECORD_HEAD:
        if with_frames and data[at : at + 4] == b"SFR1" and len(data) - at >= FRAME_HEAD:
            struct.pack_into("<I", data, at, MAGIC ^ low)
            struct.pack_into("<I", data, at + FRAME.size, crc32c(bytes(data[at : at + FRAME.size]), low))
            at += FRAME_HEAD
            continue
        headers, subject, flags, payload = _LENGTHS.unpack_from(data, at + 4)
        total = RECORD_HEAD + headers + subject + payload + (8 if flags & _EXPIRES else 0)
        if total > len(data) - at:
            at += 8
            continue
        struct.pack_into("<I", data, at, crc32c(bytes(data[at + 4 : at + total]), low))
        found.append((at, at + total))
        at += total + -total % 8
    return found


def last_word(data: bytes, salt: int) -> bytes:
    """The bytes with their checksum in place of the last four."""
    body = data[:-4]
    return body + struct.pack("<I", crc32c(body, salt & 0xFFFFFFFF))


def tar(data: bytearray) -> None:
    """Give every head of a tar its checksum, as far as its sizes can be followed."""
    at = 0
    while len(data) - at >= 512:
        head = data[at : at + 512]
        total = sum(head[:148]) + sum(head[156:]) + 8 * ord(" ")
        data[at + 148 : at + 156] = b"%06o\0 " % total
        try:
            size = int(bytes(head[124:136]).rstrip(b"\0 ") or b"0", 8)
        except ValueError:
            return
        at += 512 + max(-(-size // 512) * 512, 0)
