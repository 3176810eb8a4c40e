"""The manifest: a small summary of a stream's directory, kept in two files that are written in turn.

It is never needed to read an intact log. It holds what a damaged one would lose: the configuration, the identity, the
highest sequence known, and which segments should be there, so that a missing file is noticed and a sequence is never
given out twice. A crash while one slot is written leaves the other.

What this is not: the point where anything is committed; it may be older than the log, and then the log is right.
"""

from __future__ import annotations

import struct

import msgspec

from slipstream.dataclass import dataclass
from slipstream.errors import UNREADABLE
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.kernels.log.record import crc32c

__all__ = ["Manifest", "SegmentEntry", "read_manifest", "write_manifest"]

_SLOTS = ("MANIFEST.0", "MANIFEST.1")
_HEAD = struct.Struct("<8sII")
_MAGIC = b"SLIPMAN1"
_UID_BYTES = 16


class SegmentEntry(msgspec.Struct, array_like=True, frozen=True):
    """One segment that should be in the directory."""

    no: int
    generation: int
    first_seq: int
    last_seq: int
    salt: int


class Manifest(msgspec.Struct, frozen=True):
    """What both slots hold, the newer one deciding."""

    version: int
    """Grows with every write; even ones lie in slot 0."""
    uid: bytes
    config: bytes
    first_seq: int
    last_seq: int
    last_ts_ns: int
    segments: list[SegmentEntry]
    lost: list[tuple[int, int]]
    """Ranges of sequences whose loss was found and reported."""


@dataclass(frozen=True, slots=True)
class ReadManifest:
    """What reading both slots gave."""

    manifest: Manifest | None
    damaged: list[str]
    """Names of slots that exist and cannot be read."""


def read_manifest(disk: Disk, directory: str) -> ReadManifest:
    """The newest intact slot."""
    best: Manifest | None = None
    damaged = []
    present = set(disk.list_dir(directory))
    for name in _SLOTS:
        if name not in present:
            continue
        path = f"{directory}/{name}"
        found = _decode(disk.read(path, 0, disk.size(path)))
        if found is None:
            damaged.append(name)
        elif best is None or found.version > best.version:
            best = found
    return ReadManifest(best, damaged)


def write_manifest(disk: Disk, directory: str, manifest: Manifest, *, doubtful: bool = True, sync: bool = True) -> None:
    """Write the slot that does not hold the version before.

    Args:
        disk: where.
        directory: of the stream.
        manifest: what to write.
        doubtful: whether the other slot may not be on stable storage; then that is made sure of first, because of the
            two one must always be.
        sync: whether to wait until this slot is; the log is, so that nothing depends on it.
    """
    body = msgspec.msgpack.encode(manifest)
    name, other = _SLOTS[manifest.version % 2], _SLOTS[1 - manifest.version % 2]
    path = f"{directory}/{name}"
    present = disk.list_dir(directory)
    if doubtful and other in present:
        disk.sync(f"{directory}/{other}")
        disk.sync_dir(directory)
    if name not in present:
        disk.create(path)
    disk.truncate(path, 0)
    disk.write(path, 0, _HEAD.pack(_MAGIC, len(body), crc32c(body)) + body)
    if sync:
        disk.sync(path)
        if name not in present:
            disk.sync_dir(directory)


def _decode(data: bytes) -> Manifest | None:
    if len(data) < _HEAD.size:
        return None
    magic, length, crc = _HEAD.unpack_from(data)
    body = data[_HEAD.size : _HEAD.size + length]
    if magic != _MAGIC or len(body) != length or crc32c(body) != crc:
        return None
    try:
        found = msgspec.msgpack.decode(body, type=Manifest)
    except UNREADABLE:
        return None
    return found if _is_sound(found) else None


def _is_sound(found: Manifest) -> bool:
    """Whether all numbers are such as can be: an intact checksum does not say who made it."""
    top = 2**64 - 2  # every sequence has a successor
    return (
        len(found.uid) == _UID_BYTES
        and 0 <= found.version < 2**63
        and 0 <= found.first_seq <= top + 1
        and 0 <= found.last_seq <= top
        and -(2**63) <= found.last_ts_ns < 2**63
        and all(1 <= lo <= hi <= top for lo, hi in found.lost)
        and all(
            1 <= one.no < 2**63
            and 0 <= one.generation < 2**32
            and 1 <= one.first_seq <= one.last_seq + 1 <= top + 1
            and 0 <= one.salt < 2**64
            for one in found.segments
        )
    )
