"""Frames of one file alone: heads of segments and marks. What was written before there were any is read as ever."""

from __future__ import annotations

import random

import pytest

from models.records import LOCAL, Record, encode_frame
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, SegmentHeader, encode_header, pack_state
from slipstream.kernels.log.record import CONFIG, MARK, STATE
from slipstream.testing.sim_disk import SimDisk
from support.stores import DIRECTORY, UID, commit, fill, new_file_store, payload, reopen, upkeep

SALT = 0x1122334455667788
HEAD = [
    Record(0, 0, b"", b"", pack_state(1, 0, 0), kind=STATE),
    Record(0, 0, b"", b"", b'{"name":"old"}', kind=CONFIG),
]
MESSAGES = [Record(seq, 10 * seq, b"s", b"", b"old %d" % seq) for seq in range(1, 4)]


def written(*frames: bytes) -> SimDisk:
    """A directory with one segment of these frames."""
    disk = SimDisk()
    disk.make_dir("/store")
    disk.make_dir("/store/A")
    disk.make_dir(DIRECTORY)
    path = f"{DIRECTORY}/0000000001.0000.seg"
    disk.create(path)
    disk.write(path, 0, encode_header(SegmentHeader(UID, 1, 1, 0, 1, 0, 0, 0, 0, 0, SALT)) + b"".join(frames))
    disk.sync(path)
    for directory in (DIRECTORY, "/store/A", "/store", "/"):
        disk.sync_dir(directory)
    return disk


def test_a_log_with_numbers_in_their_place_is_read_as_ever() -> None:
    first = encode_frame([*HEAD, *MESSAGES[:2]], no=1, salt=SALT)
    second = encode_frame(MESSAGES[2:], no=2, salt=SALT, synced_upto=1)
    mark = encode_frame([Record(3, 30, b"", b"", b"", kind=MARK)], no=3, salt=SALT, synced_upto=2)
    disk = written(first, second, mark)
    store = reopen(disk)
    assert (store.config, store.first_seq, store.last_seq) == (b'{"name":"old"}', 1, 3)
    assert [store.get(seq).payload for seq in (1, 2, 3)] == [b"old 1", b"old 2", b"old 3"]
    assert store.log.writer.frame_no == 3 and not store.report.damaged_regions
    store.append(4, 40, b"s", b"", b"new")
    commit(store)
    store.close()
    again = reopen(disk.crash(random.Random(1), keep=1.0, torn=False))
    assert [again.get(seq).payload for seq in (3, 4)] == [b"old 3", b"new"]
    assert again.log.writer.frame_no == 4 and not again.report.torn_bytes


def test_a_log_without_them_that_was_torn_ends_before_that() -> None:
    first = encode_frame([*HEAD, *MESSAGES[:2]], no=1, salt=SALT)
    second = encode_frame(MESSAGES[2:], no=2, salt=SALT, synced_upto=1)
    store = reopen(written(first, second[:-8]))
    assert store.last_seq == 2 and store.report.torn_bytes and not store.report.damaged_regions


def test_heads_and_marks_take_no_numbers() -> None:
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=8192)
    commits = 0
    for _ in range(40):
        fill(store, 5)
        commit(store)
        upkeep(store)  # which marks
        commits += 1
    assert len(store.log.segments) > 2
    assert commits <= store.log.writer.frame_no < commits + len(store.log.segments)  # one that rolls may have two
    store.close()
    again = reopen(disk, segment_bytes=8192)
    assert again.log.writer.frame_no == store.log.writer.frame_no
    assert all(again.get(seq).payload == payload(seq) for seq in range(1, 201))


def test_a_head_that_was_torn_is_no_damage() -> None:
    """Its frame repeats a number that is synced; that does not vouch for it."""
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=8192)
    fill(store, 3)
    commit(store)
    store.log.roll()
    job = store.begin_commit()
    job.run()
    segment = store.log.active
    disk.write(segment.path, segment.end - 8, b"broken! ")
    again = reopen(disk, segment_bytes=8192)
    assert again.last_seq == 3 and not again.report.damaged_regions and again.report.torn_bytes
    assert again.config == store.config and not again.lost().seqs


def test_a_head_that_a_mark_vouches_for_is_damaged_not_torn() -> None:
    fact = encode_frame(HEAD, no=0, salt=SALT, flags=LOCAL)
    mark = encode_frame([Record(0, 0, b"", b"", b"", kind=MARK)], no=0, salt=SALT, flags=LOCAL)
    disk = written(fact, mark)
    assert reopen(disk).config == b'{"name":"old"}'
    path = f"{DIRECTORY}/0000000001.0000.seg"
    disk.write(path, HEADER_BYTES + len(fact) - 8, b"broken! ")
    store = reopen(disk)
    assert store.report.damaged_regions and not store.report.torn_bytes


@pytest.mark.parametrize("parts", [1, 2])
def test_a_unit_over_heads_is_whole_or_not_there(parts: int) -> None:
    """Also when the last segment has nothing but its head, or one in the middle has."""
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=8192)
    fill(store, 3)
    commit(store)
    store.begin_atomic()
    for part in range(parts):
        store.append_atomic(4 + part, 50, b"u", b"", b"part")
        store.log.roll()
        store.log.roll()
    commit(store)
    torn = reopen(disk.kill(), segment_bytes=8192)
    assert torn.last_seq == 3 and not torn.report.damaged_regions
    store.end_atomic()
    commit(store)
    again = reopen(disk.kill(), segment_bytes=8192)
    assert again.last_seq == 3 + parts and again.get(4).payload == b"part"
    torn.append(4, 60, b"s", b"", b"other")
    commit(torn)


def test_a_log_that_nobody_vouches_for_is_marked_after_it_was_synced() -> None:
    disk = SimDisk()
    store = new_file_store(disk)
    fill(store, 3)
    commit(store)
    again = reopen(disk.kill())
    end = again.log.writer.position
    upkeep(again)
    assert again.log.writer.position > end
    end = again.log.writer.position
    upkeep(again)
    again.close()
    assert again.log.writer.position == end and again.log.writer.frame_no == 1
