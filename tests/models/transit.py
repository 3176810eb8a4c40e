"""Frames in transit as docs/internals/format.md tells it: packed and opened with `struct`."""

from __future__ import annotations

import struct

from models.records import FRAME, LOCAL, MAGIC, crc32c

UNIT = 1
SEQ_TOP = 2**64 - 2
_HEAD = struct.Struct("<IIQqHHI")
_KINDS = {1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13}  # all but STATE and CHAIN


def packed(data: bytes, salt: int) -> bytes | None:
    """The frame at the beginning of `data`, as it travels."""
    head = _head_of(data, salt)
    if head is None or head[1] > len(data) or head[5] & LOCAL:
        return None
    body = _rekeyed(data[64 : head[1]], head[4], salt, 0)
    if body is None or head[1] - 64 - len(body) > 256:
        return None
    return _frame(head, body, 0, 0)


def opened(data: bytes, no: int, epoch: int, synced_upto: int, salt: int, room: int = 0) -> bytes | None:
    """A packed frame as it lies in a segment, with so much room at its end."""
    head = _head_of(data, 0)
    if head is None:
        return None
    _, length, its_no, first_seq, count, flags, its_synced, its_epoch, _, body_crc = head
    if (length, its_no, its_epoch, its_synced, body_crc) != (len(data), no, epoch, 0, 0):
        return None
    if flags > 7 or (flags and not flags & UNIT):
        return None
    body = _rekeyed(data[64:], count, 0, salt)
    if not body or len(body) != len(data) - 64 or struct.unpack_from("<Q", body, 8)[0] != first_seq:
        return None
    return _frame(head, body + bytes(room), synced_upto, salt)


def _head_of(data: bytes, salt: int) -> tuple[int, ...] | None:
    low = salt & 0xFFFFFFFF
    if len(data) < 64 or struct.unpack_from("<I", data, 60)[0] != crc32c(data[:60], low):
        return None
    head = FRAME.unpack(data[:60])
    return head if head[0] == MAGIC ^ low and head[1] >= 64 and head[1] % 8 == 0 else None


def _frame(head: tuple[int, ...], body: bytes, synced_upto: int, salt: int) -> bytes:
    low = salt & 0xFFFFFFFF
    packed = FRAME.pack(MAGIC ^ low, 64 + len(body), *head[2:6], synced_upto, *head[7:])
    return packed + struct.pack("<I", crc32c(packed, low)) + body


def _rekeyed(body: bytes, count: int, old: int, new: int) -> bytes | None:
    out, at = b"", 0
    while count:
        if len(body) - at < 32:
            return None
        checksum, headers, seq, _ts, subject, flags, payload = _HEAD.unpack_from(body, at)
        kind, end = flags & 15, at + 32 + headers + subject + payload + (8 if flags & 16 else 0)
        stop = end + (at - end) % 8
        if stop > len(body) or flags > 31 or kind not in _KINDS:
            return None
        covered = body[at + 4 : end]
        if crc32c(covered, old & 0xFFFFFFFF) != checksum:
            return None
        if kind == 1:
            if subject == 0 or not 0 < seq <= SEQ_TOP:
                return None
        elif headers or flags & 16:
            return None
        said = body[end - payload : end]
        if kind == 4 and (payload != 8 or not seq <= int.from_bytes(said, "little") <= SEQ_TOP):
            return None
        if (kind == 7 and payload != 20) or (kind == 2 and payload % 8):
            return None
        if (kind == 8 and (subject or not 0 < seq <= SEQ_TOP)) or (kind == 11 and payload):
            return None
        if kind in (9, 10, 11) and not subject:
            return None
        if kind == 8:
            covered = covered[:28] + bytes(payload)
        if kind == 7:
            covered = covered[:-20] + bytes(20)
        out += struct.pack("<I", crc32c(covered, new & 0xFFFFFFFF)) + covered + bytes(stop - end)
        at = stop
        count -= 1
    return out
