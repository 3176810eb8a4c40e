"""Packed segments that somebody has changed: a block is what was packed there, or nothing of it is shown."""

from __future__ import annotations

import random
from functools import cache

from fuzz.target import Target
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, SegmentHeader, encode_header
from slipstream.jetstream.store.packed.blocks import BLOCK_BYTES, find_blocks, read_block, read_table
from slipstream.jetstream.store.packed.codecs import Codec, unpack
from slipstream.jetstream.store.packed.disk import PackedDisk
from slipstream.testing.sim_disk import SimDisk

SALT = 7
PATH = "/s/0000000001.0000.seg"
BODY = b"".join(b"record %06d of this segment;" % number for number in range(3000))


@cache
def _made() -> bytes:
    disk = SimDisk()
    disk.make_dir("/s")
    disk.create(PATH)
    header = SegmentHeader(bytes(16), 1, 1, 0, 1, 0, 0, 0, 0, 0, SALT, codec=int(Codec.S2))
    PackedDisk(disk).write(PATH, 0, encode_header(header) + BODY)
    return bytes(disk.content(PATH))


def segment(data: bytes) -> None:
    """Whatever is behind the header: each block reads as it was, or as 0xFF."""
    disk = SimDisk()
    disk.make_dir("/s")
    disk.create(PATH)
    disk.content(PATH)[:] = _made()[:HEADER_BYTES] + data
    packed = PackedDisk(disk)
    size = packed.size(PATH)
    shown = packed.read(PATH, HEADER_BYTES, size)
    assert len(shown) == max(size - HEADER_BYTES, 0)
    for at in range(0, len(shown), BLOCK_BYTES):
        block = shown[at : at + BLOCK_BYTES]
        assert block == BODY[at : at + BLOCK_BYTES] or not block.strip(b"\xff")


def patch(data: bytes) -> None:
    """Whatever lies beside it as frames on their way: it is opened, and what was not touched is there."""
    disk = SimDisk()
    disk.make_dir("/s")
    disk.create(PATH)
    disk.content(PATH)[:] = _made()
    disk.create(f"{PATH}.patch")
    disk.content(f"{PATH}.patch")[:] = data
    assert PackedDisk(disk).size(PATH) >= HEADER_BYTES


def block(data: bytes) -> None:
    """Any bytes as a frame, a table, or the body of a codec."""
    read_block(data, 0, SALT)
    read_table(data, SALT, len(data))
    find_blocks(data, SALT)
    for codec in (*Codec, 9):
        found = unpack(int(codec), data, BLOCK_BYTES)
        assert found is None or codec == Codec.STORED or len(found) <= BLOCK_BYTES


def _bodies() -> list[bytes]:
    rest = _made()[HEADER_BYTES:]
    return [rest, rest[: len(rest) // 2], random.Random(1).randbytes(200), b""]


TARGETS = (
    Target("packed-segment", segment, _bodies, (b"SFR1",)),
    Target("packed-patch", patch, lambda: [b"SLIPPAT1", b""], (b"SLIPPAT1",)),
    Target("packed-block", block, _bodies, (b"SFR1",)),
)
