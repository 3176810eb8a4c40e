"""Sequences far apart in one segment: whatever was accepted is there after the next start."""

from __future__ import annotations

import pytest

from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.values import ALL, StoredMessage
from slipstream.testing.sim_disk import SimDisk
from support.sealing import both_forms, is_sealed
from support.stores import DIRECTORY, UID, commit, new_file_store, options, payload, reopen, upkeep

at_rest = both_forms()

SEGMENT = 8192
FAR = [1, 2, 2**32 - 20, 2**32 + 3, 2**40, 2**40 + 1, 2**40 + 2**31, 2**62, 2**64 - 2]


def append(store: FileStore, seqs: list[int]) -> None:
    for seq in seqs:
        store.append(seq, 1_000 + seq % 1_000, b"s.%d" % (seq % 3), b"", payload(seq))


def seqs_of(store: FileStore) -> list[int]:
    store.state.index.check()
    reads = store.read_batch(ALL, 0, max_msgs=10_000, max_bytes=1 << 30, up_to_seq=2**64 - 1)
    for read in reads:
        assert isinstance(read, StoredMessage) and read.payload == payload(read.seq)
    return [read.seq for read in reads]


@pytest.mark.parametrize("seqs", [FAR, [1, 2, 2**40], [2**63 - 2, 2**63 - 1, 2**63]])
def test_sequences_far_apart_survive_a_start(seqs: list[int]) -> None:
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=SEGMENT)
    append(store, seqs)
    commit(store)
    again = reopen(disk, segment_bytes=SEGMENT)
    assert seqs_of(again) == seqs
    assert (again.first_seq, again.last_seq, again.lost().seqs) == (seqs[0], seqs[-1], [])


def test_also_when_the_segment_is_closed_and_has_an_index_file() -> None:
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=SEGMENT)
    seqs = FAR[:-1]
    append(store, seqs)
    more = [2**62 + 1 + i for i in range(200)]
    append(store, more)
    commit(store)
    upkeep(store)
    again = reopen(disk, segment_bytes=SEGMENT)
    assert again.report.rebuilt_indexes == 0, "the index file was of use"
    assert seqs_of(again) == seqs + more
    for seq in seqs[::2]:
        assert again.delete(seq)
    commit(again)
    assert seqs_of(reopen(disk, segment_bytes=SEGMENT)) == seqs[1::2] + more


def test_segments_far_apart_are_merged() -> None:
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=SEGMENT)
    every: list[int] = []
    for far in (0, 2**33, 2**41, 2**50):
        every += [far + 1 + i for i in range(100)]
        append(store, every[-100:])
    append(store, [2**51 + i for i in range(100)])
    commit(store)
    kept = every[::25] + [2**51 + i for i in range(100)]
    for seq in every:
        if seq not in kept:
            store.delete(seq)
    commit(store)
    upkeep(store, turns=200)
    assert any(".0001.seg" in path for path in disk.paths()), "segments must have been rewritten"
    assert seqs_of(store) == kept
    again = reopen(disk, segment_bytes=SEGMENT)
    assert seqs_of(again) == kept
    assert again.purge(b"s.1") == sum(seq % 3 == 1 for seq in kept)
    commit(again)
    assert seqs_of(again) == [seq for seq in kept if seq % 3 != 1]


def test_a_first_sequence_far_up() -> None:
    disk = SimDisk()
    store = FileStore.create(disk, DIRECTORY, uid=UID, config=b"", options=options(), first_seq=2**40)
    append(store, [2**40, 2**40 + 2**33])
    commit(store)
    assert seqs_of(reopen(disk)) == [2**40, 2**40 + 2**33]


def test_a_hole_that_spans_everything_is_counted_not_walked() -> None:
    """The record that says so is hurt after the segment was closed: a scrub looks at what is there, not at 2^60."""
    if is_sealed():
        pytest.skip("the record cannot be found in the file; a hurt frame is in tests/crash/test_damage.py")
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=SEGMENT)
    append(store, [1, 2, 2**60, *(2**60 + 1 + i for i in range(200))])
    commit(store)
    path = DIRECTORY + "/0000000001.0000.seg"
    content = disk.content(path)
    skip = content.index((2**60 - 1).to_bytes(8, "little"))
    content[skip] ^= 1
    upkeep(store)
    assert store.lost().seqs == []
    assert seqs_of(store)[:3] == [1, 2, 2**60]
