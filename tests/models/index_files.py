"""Index files (.sdx) as kernels/log/segindex.pyx draws them, taken apart, and what must be true of one."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from models.records import crc32c

HEAD_WORDS = 18
MAGIC = int.from_bytes(b"SLPSDX01", "little")
DENSE, WIDE = 1, 2
NO_SUBJECT = 0xFFFFFFFF
LENGTH_MASK, LENGTH_EXPIRES = 0x3FFFFFFF, 0x40000000
SEQ_TOP = 2**64 - 2
COUNT_MAX = 0xFFFFFFF0
RECORD_HEAD = 32

Message = tuple[int, int, int, bytes | None]
"""Sequence, offset, length with flags, subject; no subject when it was erased."""


@dataclass
class IndexFile:
    """The parts of an index file, each as it lies there."""

    words: list[int]
    seqs: list[int]
    offs: list[int]
    lens: list[int]
    sids: list[int]
    ends: list[int]
    names: bytes
    pairs: list[tuple[int, int]]  # expiries, then holes
    controls: bytes


def take_apart(data: bytes) -> IndexFile:
    """Of a file that was written as it should be."""
    words = list(struct.unpack_from("<18Q", data))
    n, m, total, expiries, holes = words[4:9]
    at = HEAD_WORDS * 8

    def numbers(code: str, count: int) -> list[int]:
        nonlocal at
        found = list(struct.unpack_from(f"<{count}{code}", data, at))
        at += struct.calcsize(f"<{count}{code}")
        return found

    seqs = [] if words[2] == DENSE else numbers("Q" if words[2] == WIDE else "I", n)
    arrays = [numbers("I", n) for _ in range(3)]
    ends = numbers("I", m)
    names = data[at : at + total]
    at += total
    pairs = [(numbers("Q", 1)[0], numbers("Q", 1)[0]) for _ in range(expiries + holes)]
    return IndexFile(words, seqs, *arrays, ends, names, pairs, data[at:-4])


def put_together(file: IndexFile, salt: int) -> bytes:
    """With a checksum that holds, whatever the parts say."""
    code = "Q" if file.words[2] == WIDE else "I"
    seqs = [] if file.words[2] == DENSE else file.seqs
    body = struct.pack("<18Q", *file.words)
    body += struct.pack(f"<{len(seqs)}{code}", *(seq & (2**64 - 1 if code == "Q" else 2**32 - 1) for seq in seqs))
    for array in (file.offs, file.lens, file.sids, file.ends):
        body += struct.pack(f"<{len(array)}I", *array)
    body += file.names + b"".join(struct.pack("<QQ", *pair) for pair in file.pairs) + file.controls
    return body + struct.pack("<I", crc32c(body, salt & 0xFFFFFFFF))


def messages_of(data: bytes, salt: int) -> list[Message] | None:
    """What a file with an intact checksum says; None when it says what cannot be."""
    words = struct.unpack_from("<18Q", data)
    magic, key, form, base, n, m, total, expiries, holes, first_seq, last_seq = words[:11]
    good_end, controls, last_frame_no = words[14:17]
    if magic != MAGIC or key != salt or form > WIDE or n > COUNT_MAX or m > COUNT_MAX:
        return None
    if max(good_end, last_frame_no) >= 1 << 62:
        return None
    width = {0: 4, DENSE: 0, WIDE: 8}[form]
    if HEAD_WORDS * 8 + n * (12 + width) + m * 4 + total + (expiries + holes) * 16 + controls + 4 != len(data):
        return None
    file = take_apart(data)
    seqs = {0: [(base + d) % 2**64 for d in file.seqs], DENSE: [(base + i) % 2**64 for i in range(n)], WIDE: file.seqs}
    mine = seqs[form]
    if not 1 <= first_seq <= SEQ_TOP or last_seq > SEQ_TOP:
        return None
    if mine and (mine[0] != base or mine[0] < first_seq or mine[-1] > last_seq or mine != sorted(set(mine))):
        return None
    starts = [0, *file.ends]
    if starts[-1] != total or any(not 1 <= b - a <= 65535 for a, b in zip(starts, file.ends, strict=False)):
        return None
    names = [file.names[a:b] for a, b in zip(starts, file.ends, strict=False)]
    out: list[Message] = []
    for seq, off, length, sid in zip(mine, file.offs, file.lens, file.sids, strict=True):
        whole = (length & LENGTH_MASK) + (8 if length & LENGTH_EXPIRES else 0)
        if length & LENGTH_MASK < RECORD_HEAD + (sid != NO_SUBJECT) or off + whole > good_end:
            return None
        if sid != NO_SUBJECT and sid >= m:
            return None
        out.append((seq, off, length, None if sid == NO_SUBJECT else names[sid]))
    if {sid for sid in file.sids if sid != NO_SUBJECT} != set(range(m)):
        return None
    if any(not first_seq <= lo <= hi <= last_seq for lo, hi in file.pairs[expiries:]):
        return None
    return out
