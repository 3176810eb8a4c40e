"""What a replica reads that another has sent as files, or that lies beside its own log."""

from __future__ import annotations

import struct
from collections.abc import Collection

from fuzz import checksums
from fuzz.target import Target, option
from slipstream.jetstream.store.file.replica.applied_file import Applied, decode_applied, encode_applied
from slipstream.jetstream.store.file.replica.segment_transfer import (
    FileEntry,
    Membership,
    SegmentManifest,
    decode_manifest,
    encode_manifest,
    pack_piece,
    pack_wanted,
    unpack_piece,
    unpack_wanted,
)
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, decode_header
from slipstream.jetstream.store.limits import STORE_PIECE_BYTES
from slipstream.replication.raft.groups import Batch, Groups
from slipstream.replication.raft.quiescence import BEATS_GROUP, RestPoint

SALT = 0x1234567_89ABCDEF
UID = bytes(range(16))
_HEADER = encode_applied(Applied(UID, 7, 3, 2, {}), SALT)[:HEADER_BYTES]


def applied(data: bytes) -> None:
    """Read whole or not at all; what is read is written and read as the same."""
    flags, body = option(data)
    content = bytearray(body)
    if not flags & 1:
        checksums.records(content, SALT, with_frames=True)
    found = decode_applied(_HEADER + bytes(content))
    if found is None:
        return
    header = decode_header(_HEADER)
    assert header is not None and found.frame == header.frame_no
    assert all(key and parts for key, parts in found.states.items())
    assert decode_applied(encode_applied(found, 5)) == found


def applied_seeds() -> list[bytes]:
    cases = [
        Applied(UID, 7, 3, 2, {}),
        Applied(UID, 7, 3, 2**63, {b"one": [b"whole", b"change", b""], b"two": [bytes(40)]}),
    ]
    # Frames begin with their magic, as `checksums` looks for it.
    return [b"\0" + b"SFR1" + encode_applied(case, SALT)[HEADER_BYTES + 4 :] for case in cases]


def manifest(data: bytes) -> None:
    """What is taken for a manifest has only names of a log's files, and is sent as the same."""
    found = decode_manifest(data)
    if found is None:
        return
    assert found.frame > 0 and len(found.uid) == 16 and found.membership.voters
    for entry in found.files:
        assert "/" not in entry.name and not entry.name.startswith(".")
        assert HEADER_BYTES < entry.size < 2**32 and len(entry.digest) == 32
    assert decode_manifest(encode_manifest(found)) == found


def manifest_seeds() -> list[bytes]:
    members = Membership([1, 2**63, 3], [4], [], [], False, 7)
    files = [FileEntry("APPLIED", 4200, bytes(32)), FileEntry("0000000001.0000.seg", 2**32 - 1, bytes(32))]
    return [encode_manifest(SegmentManifest(UID, 9, 2, members, files))]


def piece(data: bytes) -> None:
    """A piece is of the length it has; what is asked for is never more than one."""
    if (wanted := unpack_wanted(data)) is not None:
        assert pack_wanted(*wanted) == data and 0 < wanted[3] <= STORE_PIECE_BYTES
    if (found := unpack_piece(data)) is not None:
        assert pack_piece(*found) == data and 0 < len(found[3]) <= STORE_PIECE_BYTES


def piece_seeds() -> list[bytes]:
    return [pack_wanted(UID, 1, 4096, 100), pack_piece(UID, 1, 4096, b"content")]


class _Standing:
    """A follower of node 3 that stands at one point."""

    def __init__(self) -> None:
        self.rests = False

    def tick(self) -> None:
        pass

    def receive(self, message: bytes) -> bool:
        self.rests = False
        return bool(message)

    def unreachable(self, node: int) -> None:
        pass

    def rest_point(self, without: Collection[int]) -> RestPoint | None:
        return None

    def others(self) -> Collection[int]:
        return (2, 3)

    def is_majority(self, nodes: Collection[int]) -> bool:
        return len(nodes) > 0

    def may_rest(self, leader: int, point: RestPoint) -> bool:
        return leader == 3 and point == (1, 2)

    def rest(self) -> None:
        self.rests = True

    def wake(self) -> None:
        self.rests = False


class _NoWire:
    def send(self, to: int, batch: Batch) -> bool:
        return len(batch) > 0


def rest(data: bytes) -> None:
    """Whatever servers say about groups that rest: only a leader's word at the right point has one rest."""
    member = _Standing()
    groups = Groups(_NoWire(), lambda work: work())
    groups.add(7, member, quiescent=member)
    at = 0
    while at + 2 < len(data):
        sender, target, length = data[at] & 3, (7, BEATS_GROUP, 9)[data[at + 1] % 3], data[at + 2] & 31
        message = data[at + 3 : at + 3 + length]
        was = member.rests
        groups.received(sender, [(target, message)])
        if member.rests and not was:
            assert (sender, target, message[1:]) == (3, 7, struct.pack("<QQ", 1, 2))
        at += 3 + length


def rest_seeds() -> list[bytes]:
    return [bytes((3, 0, 17, 16)) + struct.pack("<QQ", 1, 2) + bytes((3, 1, 9, 1)) + bytes(8) + bytes((3, 0, 1, 18))]


TARGETS = (
    Target("rest", rest, rest_seeds, (b"\x10", b"\x11", b"\x12")),
    Target("applied-file", applied, applied_seeds, (b"SFR1",)),
    Target("segment-manifest", manifest, manifest_seeds, (b"APPLIED", b".seg")),
    Target("segment-piece", piece, piece_seeds, ()),
)
