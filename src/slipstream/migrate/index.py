"""`index.db` of nats-server: what a stream holds, written at a clean stop and now and then.

It alone knows what limits have removed: that is not in the blocks. It counts if it was written after everything else,
which the hash of the last record tells; otherwise the server itself does not believe it and reads the blocks.

    index.db    content (sealed if the stream is encrypted), hash (8)
    content     magic, version, uvarints and varints: messages, bytes, first sequence and time, last sequence and time;
                subjects; blocks; number of the last block, hash of its last record (8)
    block       number, bytes, first sequence, time, last sequence, time, deleted, [with TTL,] [scheduled,] set if any
    set         magic, version, nodes (4), size (4), nodes: base (8), bits (256, or 512 in version 1), height (2)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

from slipstream.kernels.backup.natsblock import hash64

__all__ = ["BlockState", "Index", "decode_index", "decode_sources", "index_content"]

_MAGIC: Final = 11
_VERSIONS: Final = range(1, 5)
_HASH_BYTES: Final = 8
_SET_MAGIC: Final = 22
_SOURCES_VERSION: Final = 1
_NODE_BYTES: Final = {1: 512, 2: 256}  # of bits, by version


@dataclass(frozen=True, slots=True)
class BlockState:
    """What is left of a block."""

    number: int
    first_seq: int
    last_seq: int
    deleted: dict[int, int]  # base → bits
    width: int  # sequences for each base

    @property
    def messages(self) -> int:
        """How many messages it holds."""
        gone = sum(bits.bit_count() for bits in self.deleted.values())
        return max(self.last_seq - self.first_seq + 1 - gone, 0)

    def holds(self, seq: int) -> bool:
        """Whether a message is there."""
        if not self.first_seq <= seq <= self.last_seq:
            return False
        base = seq - seq % self.width
        return not self.deleted.get(base, 0) >> (seq - base) & 1


@dataclass(slots=True)
class Index:
    """A stream as it was when the index was written."""

    messages: int = 0
    size_bytes: int = 0
    first_seq: int = 0
    first_ts_ns: int = 0
    last_seq: int = 0
    last_ts_ns: int = 0
    subjects: dict[bytes, int] = field(default_factory=dict)
    blocks: list[BlockState] = field(default_factory=list)
    last_block: int = 0
    last_hash: bytes = b""


def index_content(data: bytes, stream: str) -> bytes | None:
    """What the hash at the end vouches for; None if it does not."""
    content, digest = data[:-_HASH_BYTES], data[-_HASH_BYTES:]
    return content if hash64(hashlib.sha256(stream.encode()).digest(), content) == digest else None


def decode_index(content: bytes) -> Index | None:
    """An index; None if this is not one."""
    if len(content) < 2 or content[0] != _MAGIC or content[1] not in _VERSIONS:
        return None
    try:
        return _decode(_Reader(content, 2), content[1])
    except (IndexError, ValueError):
        return None


def decode_sources(data: bytes) -> tuple[int, dict[str, int]] | None:
    """`sources.db`: version, count (8), first sequence it does not know of (8), then name, sequence, identity of each.

    Returns:
        The last sequence it knows of, and for each source how far it was read; None if it is something else.
    """
    if not data or data[0] != _SOURCES_VERSION:
        return None
    read = _Reader(data, 1)
    try:
        count, upto = (int.from_bytes(read.bytes(8), "little") for _ in range(2))
        found = {}
        for _ in range(count):
            name = read.bytes(read.number()).decode()
            found[name] = read.number()
            read.bytes(read.number())
    except (IndexError, ValueError):
        return None
    return upto - 1, found


def _decode(read: _Reader, version: int) -> Index:
    index = Index(read.number(), read.number(), read.number(), read.signed(), read.number(), read.signed())
    for _ in range(read.number()):
        length = read.number()
        if not length:
            continue
        subject = read.bytes(length)
        index.subjects[subject] = read.number()
        read.number()  # its first block
        if index.subjects[subject] > 1 or version >= 4:
            read.number()  # its last block
    for _ in range(read.number()):
        number, _size, first_seq, _first_ts, last_seq, _last_ts, deleted = (
            read.number(),
            read.number(),
            read.number(),
            read.signed(),
            read.number(),
            read.signed(),
            read.number(),
        )
        for _ in range(min(version, 3) - 1):
            read.number()
        gone, width = _deleted(read) if deleted else ({}, 1)
        index.blocks.append(BlockState(number, first_seq, last_seq, gone, width))
    index.last_block = read.number()
    index.last_hash = read.bytes(_HASH_BYTES)
    return index


def _deleted(read: _Reader) -> tuple[dict[int, int], int]:
    magic, version = read.bytes(2)
    if magic != _SET_MAGIC or version not in _NODE_BYTES:
        raise ValueError("not a set")
    nodes = int.from_bytes(read.bytes(4), "little")
    read.bytes(4)  # its size
    size = _NODE_BYTES[version]
    found: dict[int, int] = {}
    for _ in range(nodes):
        base = int.from_bytes(read.bytes(8), "little")
        found[base] = int.from_bytes(read.bytes(size), "little")
        read.bytes(2)  # the node's height
    return found, size * 8


class _Reader:
    """Numbers and bytes, one after the other."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def bytes(self, length: int) -> bytes:
        if length > len(self._data) - self._at:
            raise ValueError("cut short")
        self._at += length
        return self._data[self._at - length : self._at]

    def number(self) -> int:
        data, at = self._data, self._at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 127) << shift
            if byte < 128:
                self._at = at
                return number
            shift += 7
            if shift > 63:
                raise ValueError("not a number")

    def signed(self) -> int:
        number = self.number()
        return number >> 1 if not number & 1 else -((number + 1) >> 1)
