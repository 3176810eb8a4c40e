"""Whole segments on their way to a replica that is too far behind for frames: what there is, and the messages about it.

    manifest ──► who is behind asks for a piece ──► piece ──► ... ──► all files are there

Nothing in any of it is believed: lengths and names are checked here, every file against its digest, and the whole by
opening it before it takes the place of anything (`segment_import`).
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Final

import msgspec

from slipstream.jetstream.store.file.replica.applied_file import APPLIED_NAME
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, parse_name
from slipstream.jetstream.store.limits import STORE_PIECE_BYTES

__all__ = [
    "DIGEST_BYTES",
    "FileEntry",
    "Membership",
    "SegmentManifest",
    "decode_manifest",
    "encode_manifest",
    "manifest_id",
    "pack_piece",
    "pack_wanted",
    "unpack_piece",
    "unpack_wanted",
]

DIGEST_BYTES: Final = 32
_ID_BYTES = 16
_FILES_MAX = 1 << 16
_SIZE_MAX = 0xFFFFFFFF
_NUMBER_END = 1 << 62
_NODE_END = 1 << 64
_MEMBERS_MAX = 64
_WANTED = struct.Struct("<16sIII")
_PIECE = struct.Struct("<16sII")


class Membership(msgspec.Struct, frozen=True, array_like=True):
    """Who is in the group, as `votes.Votes` has it."""

    voters: list[int]
    learners: list[int]
    outgoing: list[int]
    next_learners: list[int]
    auto_leave: bool
    applied_conf: int
    move: int = 0


class FileEntry(msgspec.Struct, frozen=True, array_like=True):
    """One file."""

    name: str
    size: int
    digest: bytes
    """BLAKE2b of all of it."""


class SegmentManifest(msgspec.Struct, frozen=True, array_like=True):
    """A log up to a frame that is committed."""

    uid: bytes
    frame: int
    term: int
    membership: Membership
    files: list[FileEntry]


def encode_manifest(manifest: SegmentManifest) -> bytes:
    """As it is sent."""
    return msgspec.msgpack.encode(manifest)


def decode_manifest(data: bytes) -> SegmentManifest | None:
    """What was sent; None if it cannot be one."""
    try:
        manifest = msgspec.msgpack.decode(data, type=SegmentManifest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    names = {entry.name for entry in manifest.files}
    sound = (
        len(manifest.uid) == 16
        and 0 < manifest.frame < _NUMBER_END
        and 0 <= manifest.term < _NUMBER_END
        and _is_membership(manifest.membership)
        and 2 <= len(manifest.files) <= _FILES_MAX
        and len(names) == len(manifest.files)
        and APPLIED_NAME in names
        and all(_is_entry(entry) for entry in manifest.files)
    )
    return manifest if sound else None


def manifest_id(data: bytes) -> bytes:
    """What the messages about a manifest call it."""
    return blake2b(data, digest_size=_ID_BYTES).digest()


def pack_wanted(id_: bytes, file: int, offset: int, length: int) -> bytes:
    """Ask for a piece."""
    return _WANTED.pack(id_, file, offset, length)


def unpack_wanted(data: bytes) -> tuple[bytes, int, int, int] | None:
    """Manifest, number of the file, offset and length that somebody asks for."""
    if len(data) != _WANTED.size:
        return None
    id_, file, offset, length = _WANTED.unpack(data)
    return (id_, file, offset, length) if 0 < length <= STORE_PIECE_BYTES else None


def pack_piece(id_: bytes, file: int, offset: int, content: bytes) -> bytes:
    """A piece of a file."""
    return _PIECE.pack(id_, file, offset) + content


def unpack_piece(data: bytes) -> tuple[bytes, int, int, bytes] | None:
    """Manifest, number of the file, offset, content."""
    if not _PIECE.size < len(data) <= _PIECE.size + STORE_PIECE_BYTES:
        return None
    return (*_PIECE.unpack_from(data), data[_PIECE.size :])


def _is_entry(entry: FileEntry) -> bool:
    named = entry.name == APPLIED_NAME or parse_name(entry.name) is not None
    return named and HEADER_BYTES < entry.size <= _SIZE_MAX and len(entry.digest) == DIGEST_BYTES


def _is_membership(membership: Membership) -> bool:
    nodes = [membership.voters, membership.learners, membership.outgoing, membership.next_learners]
    return (
        bool(membership.voters)
        and 0 <= membership.applied_conf < _NUMBER_END
        and 0 <= membership.move < _NUMBER_END
        and all(len(some) <= _MEMBERS_MAX and all(0 < node < _NODE_END for node in some) for some in nodes)
    )
