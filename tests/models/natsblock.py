"""HighwayHash-64 and nats-server's records in plain Python: the specification of `kernels.backup.natsblock`."""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1
_MUL0 = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_MUL1 = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)
# Which byte of the sixteen of two lanes goes where.
_ZIPPER = (3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7)
_HEAD = struct.Struct("<IQqH")
_HASH_BYTES = 8
_RECORD_BYTES_MAX = 32 * 1024 * 1024

Record = tuple[int, int, bytes, bytes | None, bytes]


class _Hash:
    def __init__(self, key: bytes) -> None:
        lanes = struct.unpack("<4Q", key)
        self.v0 = [mul ^ lane for mul, lane in zip(_MUL0, lanes, strict=True)]
        self.v1 = [mul ^ _swapped(lane) for mul, lane in zip(_MUL1, lanes, strict=True)]
        self.mul0, self.mul1 = list(_MUL0), list(_MUL1)

    def mix(self, lanes: tuple[int, ...]) -> None:
        for i, lane in enumerate(lanes):
            self.v1[i] = self.v1[i] + self.mul0[i] + lane & _MASK
            self.mul0[i] ^= (self.v1[i] & 0xFFFFFFFF) * (self.v0[i] >> 32)
            self.v0[i] = self.v0[i] + self.mul1[i] & _MASK
            self.mul1[i] ^= (self.v0[i] & 0xFFFFFFFF) * (self.v1[i] >> 32)
        for target, source in ((self.v0, self.v1), (self.v1, self.v0)):
            for pair in (0, 2):
                pool = struct.pack("<2Q", *source[pair : pair + 2])
                for i, added in enumerate(struct.unpack("<2Q", bytes(pool[place] for place in _ZIPPER))):
                    target[pair + i] = target[pair + i] + added & _MASK

    def last(self, rest: bytes) -> None:
        size = len(rest)
        self.v0 = [lane + (size << 32) + size & _MASK for lane in self.v0]
        self.v1 = [_rotated(lane & 0xFFFFFFFF, size) | _rotated(lane >> 32, size) << 32 for lane in self.v1]
        whole = size & ~3
        packet = bytearray(rest[:whole].ljust(32, b"\0"))
        if size & 16:
            packet[28:] = rest[-4:]
        elif size & 3:
            packet[16:19] = rest[whole], rest[whole + (size & 3) // 2], rest[-1]
        self.mix(struct.unpack("<4Q", packet))

    def finish(self) -> bytes:
        for _ in range(4):
            self.mix(tuple(_swapped(self.v0[place]) for place in (2, 3, 0, 1)))
        return struct.pack("<Q", self.v0[0] + self.v1[0] + self.mul0[0] + self.mul1[0] & _MASK)


def _swapped(lane: int) -> int:
    return lane >> 32 | (lane << 32 & _MASK)


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & 0xFFFFFFFF


def hash64(key: bytes, data: bytes) -> bytes:
    """HighwayHash-64 of some bytes."""
    state = _Hash(key)
    whole = len(data) & ~31
    for at in range(0, whole, 32):
        state.mix(struct.unpack_from("<4Q", data, at))
    if len(data) > whole:
        state.last(data[whole:])
    return state.finish()


def record(key: bytes, seq: int, ts: int, subject: bytes, headers: bytes, payload: bytes) -> bytes:
    """A record as nats-server writes it."""
    length = _HEAD.size + len(subject) + len(headers) + len(payload) + _HASH_BYTES + (4 if headers else 0)
    digest = hash64(key, struct.pack("<Qq", seq, ts) + subject + headers + payload)
    head = _HEAD.pack(length | (1 << 31 if headers else 0), seq, ts, len(subject))
    return b"".join((head, subject, struct.pack("<I", len(headers)) if headers else b"", headers, payload, digest))


def _record_at(block: bytes, key: bytes, at: int) -> tuple[Record, int] | None:
    if len(block) - at < _HEAD.size + _HASH_BYTES:
        return None
    length, seq, ts, subject_size = _HEAD.unpack_from(block, at)
    with_headers, length = bool(length >> 31), length & 0x7FFFFFFF
    body = block[at + _HEAD.size : at + length - _HASH_BYTES]
    if length > min(_RECORD_BYTES_MAX, len(block) - at) or length < _HEAD.size + _HASH_BYTES:
        return None
    if subject_size + 4 * with_headers > len(body):
        return None
    subject, rest = body[:subject_size], body[subject_size:]
    size, rest = (int.from_bytes(rest[:4], "little"), rest[4:]) if with_headers else (0, rest)
    if hash64(key, block[at + 4 : at + 20] + subject + rest) != block[at + length - _HASH_BYTES : at + length]:
        return None
    if size > len(rest):
        return (seq, ts, subject, None, rest), at + length
    return (seq, ts, subject, rest[:size], rest[size:]), at + length


def records(block: bytes, key: bytes, at: int, count_max: int) -> tuple[list[Record], int]:
    """Records until one does not hold, and where that is."""
    found: list[Record] = []
    while at < len(block) and len(found) < count_max:
        one = _record_at(block, key, at)
        if one is None:
            break
        found.append(one[0])
        at = one[1]
    return found, at


def next_record(block: bytes, key: bytes, at: int) -> int:
    """Where the next record begins that holds."""
    while at < len(block) and _record_at(block, key, at) is None:
        at += 1
    return min(at, len(block))
