"""The content of one block of nats-server: compressed or not, damaged or not.

    block   records (`kernels.natsblock`), or
            `cmp`, algorithm (1), uvarint size, S2 stream of all but the last 8 bytes, the last 8 bytes

A damaged record ends what nats-server reads of a block. Here the search goes on at the next record whose hash holds, so
that damage costs what it hit and nothing behind it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from slipstream.kernels.backup.natsblock import next_record, records
from slipstream.kernels.backup.s2block import decode_block
from slipstream.kernels.log.record import crc32c

__all__ = ["ERASED", "TOMBSTONE", "Hole", "Record", "block_key", "decompressed", "scan"]

Record = tuple[int, int, bytes, bytes, bytes]
"""Sequence (with flags as long as it comes from a block), time, subject, headers, payload."""

ERASED: Final = 1 << 63
TOMBSTONE: Final = 1 << 62
_BATCH_RECORDS: Final = 4096  # turned into objects at a time: some megabytes
_HEAD_BYTES: Final = 22
_TAIL_BYTES: Final = 8  # the hash of the last record, which is not compressed
_S2: Final = 1
_CHUNK_COMPRESSED, _CHUNK_PLAIN, _CHUNK_SKIPPABLE = 0x00, 0x01, 0x80
_SUBJECT: Final = re.compile(rb"[^\x00-\x20\x7f]+")  # what the protocol can carry
_EMPTY_LINE: Final = b"\r\n\r\n"
_CONTENT_BYTES_MAX: Final = 4 * 1024 * 1024  # of a chunk of S2


@dataclass(frozen=True, slots=True)
class Hole:
    """A stretch of a block that cannot be read."""

    at: int
    length: int
    reason: str
    is_torn: bool = False  # the block ends in the middle of a record, as after a crash


def block_key(stream: str, number: int) -> bytes:
    """The key of the hashes in a block."""
    return hashlib.sha256(f"{stream}-{number}".encode()).digest()


def decompressed(block: bytes) -> list[bytes | Hole]:
    """The content of a block in one piece, or in pieces with what is missing between them."""
    if block[:3] != b"cmp" or len(block) < 5:
        return [block]
    at, size, shift = 4, 0, 0
    while at < len(block) and shift < 64:
        byte = block[at]
        size |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    if block[3] != _S2 or len(block) - at < _TAIL_BYTES:
        return [Hole(0, len(block), f"compressed in an unknown way ({block[3]})")]
    pieces: list[bytes | Hole] = []
    whole = bytearray()
    read = 0
    tail = len(block) - _TAIL_BYTES
    for found, following in _chunks(block, at, tail):
        if isinstance(found, Hole):
            if whole:
                pieces.append(bytes(whole))
                whole.clear()
            pieces.append(found)
            continue
        whole += found
        read += len(found)
        if read + _TAIL_BYTES >= size:
            # All there. Behind it may be an erased record of an older server, which wrote it where it would have been
            # without compression.
            tail = following
            break
    pieces.append(bytes(whole) + block[tail : tail + _TAIL_BYTES])
    return pieces


def _chunks(block: bytes, at: int, end: int) -> Iterator[tuple[bytes | Hole, int]]:
    """What is in each chunk of an S2 stream, and where the next begins."""
    while at < end:
        kind, length = block[at], int.from_bytes(block[at + 1 : at + 4], "little")
        if end - at < 4 or length > end - at - 4:
            yield Hole(at, end - at, "its compressed content is cut off"), end
            return
        body, following = block[at + 4 : at + 4 + length], at + 4 + length
        if kind in (_CHUNK_COMPRESSED, _CHUNK_PLAIN):
            try:
                content = body[4:] if kind == _CHUNK_PLAIN else decode_block(body[4:], _CONTENT_BYTES_MAX)
                is_right = _masked(crc32c(content)) == int.from_bytes(body[:4], "little")
            except ValueError:
                is_right = False
            yield (content if is_right else Hole(at, length + 4, "its compressed content is damaged")), following
        elif kind < _CHUNK_SKIPPABLE:
            yield Hole(at, end - at, "its compressed content makes no sense"), end
            return
        at = following


def _masked(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def scan(block: bytes, key: bytes) -> Iterator[list[Record] | Hole]:
    """The records of a block in order, as they stand there, and what cannot be read between them."""
    for piece in decompressed(block):
        if isinstance(piece, Hole):
            yield piece
        else:
            yield from _scan_piece(piece, key)


def _scan_piece(piece: bytes, key: bytes) -> Iterator[list[Record] | Hole]:
    at, end = 0, len(piece)
    while at < end:
        found, reached = records(piece, key, at, _BATCH_RECORDS)
        if found:
            yield from _judged(found, at)
        at = reached
        if at < end and len(found) < _BATCH_RECORDS:
            following = next_record(piece, key, at + 1)
            is_torn = following == end and _is_cut_off(piece, at)
            reason = "it ends within a record" if is_torn else "a checksum does not fit"
            yield Hole(at, following - at, reason, is_torn)
            at = following


def _judged(found: list[tuple[int, int, bytes, bytes | None, bytes]], at: int) -> Iterator[list[Record] | Hole]:
    """Hashes do not cover the lengths of subject and headers: what looks wrong there is damage as well."""
    good: list[Record] = []
    for record in found:
        seq, _, subject, headers, _ = record
        if seq & (ERASED | TOMBSTONE) or seq == 0:
            good.append((seq, record[1], b"", b"", b""))
        elif headers is None or not _SUBJECT.fullmatch(subject) or _ends_elsewhere(headers, record[4]):
            if good:
                yield good
                good = []
            yield Hole(at, 0, f"message {seq} has a wrong length inside")
        else:
            good.append((seq, record[1], subject, headers, record[4]))
    if good:
        yield good


def _ends_elsewhere(headers: bytes, payload: bytes) -> bool:
    """Whether the empty line that ends headers is not where their length says. (Who publishes may leave it out.)"""
    return bool(headers) and not headers.endswith(_EMPTY_LINE) and _EMPTY_LINE in headers + payload


def _is_cut_off(piece: bytes, at: int) -> bool:
    """Whether what begins here would need more bytes than there are, or was never written."""
    left = len(piece) - at
    if left < _HEAD_BYTES or not any(piece[at:]):
        return True
    return (int.from_bytes(piece[at : at + 4], "little") & 0x7FFFFFFF) > left
