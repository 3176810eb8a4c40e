"""Whole segments for a replica that is too far behind: what is sent, what is taken, what counts after a crash."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from models.records import Record
from slipstream.errors import StorageFault
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.replica.segment_export import SegmentExport
from slipstream.jetstream.store.file.replica.segment_import import SegmentImport, replace_by_import
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
from slipstream.jetstream.store.limits import STORE_PIECE_BYTES
from slipstream.testing.sim_disk import SimDisk
from support.replica_nodes import Node, frame, state
from support.stores import DIRECTORY, upkeep

MEMBERS = Membership([1, 2, 3], [], [], [], False, 0)


def message(seq: int, size: int = 200) -> Record:
    return Record(seq, 10 * seq, b"s", b"", b"%d " % seq + b"z" * size)


def grown() -> Node:
    """A log that was rewritten and cut off at its beginning, with frames that are not committed behind."""
    node = Node(segment_bytes=4096 + 2000)
    node.write(*(frame(index, message(index), state(9, b"c", b"%d" % index)) for index in range(1, 41)))
    gone = b"".join(seq.to_bytes(8, "little") for seq in range(12, 41) if seq % 7)
    trim = Record(11, 30, b"", b"", b"", kind=3)
    node.write(frame(41, Record(40, 30, b"", b"", gone, kind=2), trim))
    node.log.commit(41)
    upkeep(node.store)
    node.write(*(frame(index, message(index - 1)) for index in range(42, 60)))
    node.log.commit(50)
    assert node.log.first_index > 1 and node.store.log.segments[0].header.generation
    return node


def exported(node: Node) -> SegmentExport:
    export = node.store.export()
    assert export is not None
    export.prepare(MEMBERS)
    return export


def copied(export: SegmentExport, into: SegmentImport) -> None:
    while into.wanted is not None:
        assert into.take(*into.wanted[:2], export.read(*into.wanted))


def shown(store: FileStore) -> object:
    messages = [(seq, message.payload) for seq in range(1, 100) if (message := store.get(seq)) is not None]
    return messages, store.first_seq, store.committed_seq, store.config, store.journal.entries()


def test_a_replica_begins_anew_with_the_segments_of_another() -> None:
    leader, behind = grown(), Node()
    behind.write(frame(1, message(1)), frame(2, message(2)))
    behind.log.commit(2)
    export = exported(leader)
    assert (export.frame, export.term) == (50, 1) and behind.log.lacks(50, 1)
    into = SegmentImport(behind.disk, DIRECTORY, export.manifest)
    assert into.id == export.id and into.manifest.membership == MEMBERS
    copied(export, into)
    into.finish(behind.options)
    behind.reopen(2)  # the old one, as long as nobody replaces it
    assert behind.store.messages == 2
    assert replace_by_import(behind.disk, DIRECTORY)
    behind.reopen()
    assert shown(behind.store) == shown(leader.store) and not behind.store.lost().seqs
    assert (behind.log.applied_index, behind.log.last_index) == (50, 50)
    assert not replace_by_import(behind.disk, DIRECTORY)
    assert all(name.endswith(".seg") or name == "APPLIED" for name in behind.disk.list_dir(DIRECTORY))
    behind.write(*leader.log.entries(51, 60, 1 << 20))
    for node in (leader, behind):
        node.log.commit(59)
    assert shown(behind.store) == shown(leader.store)
    behind.reopen(59)
    assert shown(behind.store) == shown(leader.store)


def test_segments_stay_while_they_are_copied() -> None:
    node = Node(segment_bytes=4096 + 600)
    node.write(*(frame(index, message(index)) for index in range(1, 21)))
    node.log.commit(20)
    export = exported(node)
    node.write(frame(21, Record(20, 30, b"", b"", b"", kind=3)))
    node.log.commit(21)
    upkeep(node.store)
    assert node.log.first_index == 1
    assert len(export.read(1, 0, 1 << 20)) > 4096
    export.close()
    export.close()
    upkeep(node.store)
    assert node.log.first_index > 1
    with pytest.raises(StorageFault):
        export.read(1, 4096, 100)


def test_who_may_take_a_copy() -> None:
    node = Node()
    node.write(*(frame(index, message(index)) for index in range(1, 6)))
    node.log.commit(3)
    assert not node.log.lacks(3, 1) and not node.log.lacks(2, 9), "it is applied"
    assert not node.log.lacks(5, 1), "it is here"
    assert node.log.lacks(5, 2), "another is here"
    assert node.log.lacks(6, 1)


def test_it_goes_on_after_a_restart_and_takes_nothing_twice() -> None:
    leader, behind = grown(), Node()
    export = exported(leader)
    into = SegmentImport(behind.disk, DIRECTORY, export.manifest)
    files = len(into.manifest.files)
    while into.wanted is not None and into.wanted[0] < 2:
        file, offset, length = into.wanted
        assert not into.take(file + 1, offset, b"x") and not into.take(file, offset + 8, b"x" * length)
        assert into.take(file, offset, export.read(file, offset, length))
        assert not into.take(file, offset, export.read(file, offset, length))
    disk = behind.disk.crash(random.Random(1), keep=0.5, torn=True)
    into = SegmentImport(disk, DIRECTORY, export.manifest)
    assert into.wanted is not None and into.wanted[:2] == (2, 0) and files > 3
    other = exported(leader)  # the same log, another salt of what is applied
    assert other.id != export.id
    into = SegmentImport(disk, DIRECTORY, other.manifest)
    assert into.wanted is not None and into.wanted[:2] == (0, 0)


def test_a_file_that_is_not_what_was_promised_is_asked_for_again() -> None:
    leader, behind = grown(), Node()
    export = exported(leader)
    into = SegmentImport(behind.disk, DIRECTORY, export.manifest)
    assert into.wanted is not None
    content = export.read(*into.wanted)
    with pytest.raises(StorageFault, match="not what was promised"):
        into.take(0, 0, content[:-1] + bytes([content[-1] ^ 1]))
    assert into.wanted == (0, 0, len(content))
    copied(export, into)
    assert into.wanted is None


def test_files_that_are_no_log_do_not_replace_one() -> None:
    leader, behind = grown(), Node()
    export = exported(leader)
    manifest = decode_manifest(export.manifest)
    assert manifest is not None
    lying = [
        encode_manifest(replace_struct(manifest, frame=49)),
        encode_manifest(replace_struct(manifest, term=2)),
        encode_manifest(replace_struct(manifest, uid=bytes(16))),
        encode_manifest(replace_struct(manifest, files=manifest.files[:-1])),
    ]
    for data in lying:
        into = SegmentImport(behind.disk, DIRECTORY, data)
        copied(export, into)
        with pytest.raises(StorageFault):
            into.finish(behind.options)
        assert not replace_by_import(behind.disk, DIRECTORY)
        assert not behind.disk.is_dir(f"{DIRECTORY}.import")
    behind.reopen()


def replace_struct(manifest: SegmentManifest, **changes: Any) -> SegmentManifest:
    return msgspec.structs.replace(manifest, **changes)


def test_manifests_that_cannot_be_one() -> None:
    export = exported(grown())
    manifest = decode_manifest(export.manifest)
    assert manifest is not None
    first = manifest.files[0]
    files = [
        [],
        manifest.files[1:],
        [first, first],
        [first, FileEntry("../../evil", 5000, bytes(32))],
        [first, FileEntry("0000000001.0000.seg", 4096, bytes(32))],
        [first, FileEntry("0000000001.0000.seg", 1 << 32, bytes(32))],
        [first, FileEntry("0000000001.0000.seg", 5000, bytes(31))],
    ]
    for some in files:
        assert decode_manifest(encode_manifest(replace_struct(manifest, files=some))) is None
    changes = [{"uid": b"short"}, {"frame": 0}, {"term": -1}, {"membership": Membership([], [], [], [], False, 0)}]
    for change in changes:
        assert decode_manifest(encode_manifest(replace_struct(manifest, **change))) is None
    assert decode_manifest(b"") is None is decode_manifest(export.manifest[:-1])
    with pytest.raises(StorageFault, match="no manifest"):
        SegmentImport(SimDisk(), DIRECTORY, b"\x90")


def test_messages_about_pieces() -> None:
    id_ = bytes(range(16))
    assert unpack_wanted(pack_wanted(id_, 3, 4096, 5)) == (id_, 3, 4096, 5)
    assert unpack_wanted(b"") is None is unpack_wanted(pack_wanted(id_, 3, 4096, STORE_PIECE_BYTES + 1))
    assert unpack_wanted(pack_wanted(id_, 3, 4096, 0)) is None
    assert unpack_piece(pack_piece(id_, 3, 4096, b"content")) == (id_, 3, 4096, b"content")
    assert unpack_piece(pack_piece(id_, 3, 4096, b"")) is None
    assert unpack_piece(pack_piece(id_, 3, 4096, bytes(STORE_PIECE_BYTES + 1))) is None


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_there_is_one_log(seed: int) -> None:
    """The power may go before any call of the disk: then there is the old log, or, once it was decided, the new one."""
    leader, behind = grown(), Node()
    behind.write(frame(1, message(1)), frame(2, message(2)))
    behind.log.commit(2)
    behind.store.close()
    export = exported(leader)
    old, new, disk = shown(behind.store), shown(leader.store), behind.disk
    rng, decided, seen = random.Random(seed), [False], set()

    def look(now: SimDisk) -> None:
        after = now.crash(rng, keep=rng.choice([0.0, 0.5, 1.0]), torn=True)
        replace_by_import(after, DIRECTORY)
        store = FileStore.open(after, DIRECTORY, replace(behind.options), committed=0)
        found = shown(store)
        assert found in ([new] if decided[0] else [old, new]), "a third one"
        seen.add(found == new)

    disk.before_call = look
    into = SegmentImport(disk, DIRECTORY, export.manifest)
    copied(export, into)
    into.finish(behind.options)
    decided[0] = True
    replace_by_import(disk, DIRECTORY)
    look(disk)
    assert seen == {False, True}
