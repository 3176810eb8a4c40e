"""Frames and records as docs/internals/format.md draws them, written and read with `struct`."""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEAD = struct.Struct("<IIQqHHI")
FRAME = struct.Struct("<IIQQIIQQqI")
MAGIC = int.from_bytes(b"SFR1", "little")
MSG, EXPIRES = 1, 16
LOCAL = 8


def crc32c(data: bytes, crc: int = 0) -> int:
    """CRC-32C, a bit at a time."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@dataclass(frozen=True)
class Record:
    """One record."""

    seq: int
    ts: int
    subject: bytes
    headers: bytes
    payload: bytes
    kind: int = MSG
    expires: int = 0


def encode_record(record: Record, salt: int) -> bytes:
    """The record with padding."""
    flags = record.kind | (EXPIRES if record.expires else 0)
    head = HEAD.pack(0, len(record.headers), record.seq, record.ts, len(record.subject), flags, len(record.payload))
    body = struct.pack("<q", record.expires) if record.expires else b""
    covered = head[4:] + body + record.subject + record.headers + record.payload
    whole = struct.pack("<I", crc32c(covered, salt & 0xFFFFFFFF)) + covered
    return whole + bytes(-len(whole) % 8)


def encode_frame(
    records: list[Record],
    *,
    no: int,
    salt: int,
    synced_upto: int = 0,
    epoch: int = 0,
    flags: int = 0,
    room: int = 0,
) -> bytes:
    """One frame, with so much room at its end."""
    body = b"".join(encode_record(record, salt) for record in records) + bytes(room)
    low = salt & 0xFFFFFFFF
    head = FRAME.pack(
        MAGIC ^ low, 64 + len(body), no, records[0].seq, len(records), flags, synced_upto, epoch, records[0].ts, 0
    )
    return head + struct.pack("<I", crc32c(head, low)) + body
