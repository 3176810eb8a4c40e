"""What only a file store does: open again, and keep its directory in order."""

from __future__ import annotations

import errno
import random

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file import FileStore, segment_bytes_for
from slipstream.jetstream.store.file.jobs import CommitJob
from slipstream.jetstream.store.file.segments.compaction import CompactionJob
from slipstream.jetstream.store.file.upkeep import IndexFileJob
from slipstream.jetstream.store.limits import STORE_UNINDEXED_SEGMENTS_MAX
from slipstream.testing.sim_disk import SimDisk
from support.sealing import both_forms
from support.stores import DIRECTORY, UID, commit, fill, new_file_store, options, payload, reopen, upkeep

at_rest = both_forms()

SEGMENT = 8192


def test_open_again_gives_the_same_stream() -> None:
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=SEGMENT)
    fill(store, 200)
    store.append(201, 201_000, b"ttl", b"", b"x", 777)
    store.delete(100)
    store.set_config(b"changed")
    store.journal.put(b"c", b"state")
    store.journal.add(b"c", b"+1")
    commit(store)
    upkeep(store)
    again = reopen(disk, segment_bytes=SEGMENT)
    for name in ("first_seq", "last_seq", "messages", "size_bytes", "num_subjects", "first_ts_ns", "last_ts_ns"):
        assert getattr(again, name) == getattr(store, name), name
    assert again.committed_seq == 201
    assert list(again.expiries()) == [(201, 777)]
    assert again.config == b"changed"
    assert again.journal.entries() == {b"c": [b"state", b"+1"]}
    assert again.report.rebuilt_indexes == 0, "closed segments were opened by their index files"
    assert again.get(150).payload == payload(150)


def test_a_stream_of_which_all_was_erased_keeps_its_place() -> None:
    disk = SimDisk()
    store = new_file_store(disk)
    fill(store, 3)
    commit(store)
    for seq in (1, 2, 3):
        store.erase(seq)
    commit(store)
    again = reopen(disk)
    assert (again.first_seq, again.last_seq, again.messages) == (4, 3, 0)


def test_purge_gives_space_back_and_sequences_go_on() -> None:
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=300_000)
    fill(store, 8_000)
    commit(store)
    used = disk.used()
    store.purge()
    commit(store)
    upkeep(store)
    assert disk.used() < used // 3
    again = reopen(disk, segment_bytes=300_000)
    assert (again.first_seq, again.last_seq) == (8_001, 8_000)


def test_a_few_large_messages_that_are_deleted_give_their_space_back() -> None:
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=300_000)
    for seq in range(1, 4_001):
        store.append(seq, seq, b"s.%d" % seq, b"", b"x" * (20_000 if seq % 50 == 0 else 10))
        if seq % 100 == 0:
            commit(store)
    upkeep(store)
    used = disk.used()
    for seq in range(50, 4_001, 50):
        store.delete(seq)
        commit(store)
        upkeep(store)
    assert store.messages == 3_920
    assert disk.used() < used // 2
    again = reopen(disk, segment_bytes=300_000)
    assert again.messages == 3_920


def test_unsynced_commits_are_covered_by_the_next_sync() -> None:
    disk = SimDisk()
    store = new_file_store(disk)
    fill(store, 3)
    assert commit(store, sync=False).last_seq == 3
    synced: list[str] = []
    real = disk.sync
    disk.sync = lambda path: (synced.append(path), real(path))[1]  # type: ignore[method-assign]
    assert commit(store, sync=True) is not None
    assert len(synced) == 1
    assert commit(store, sync=True) is None


def test_create_refuses_a_directory_in_use() -> None:
    disk = SimDisk()
    fill(new_file_store(disk), 1)
    before = disk.paths()
    with pytest.raises(StorageFault):
        FileStore.create(disk, DIRECTORY, uid=UID, config=b"", options=options())
    assert disk.paths() == before
    with pytest.raises(ValueError):
        FileStore.create(disk, DIRECTORY + "2", uid=b"short", config=b"", options=options())


def test_files_of_another_stream_are_not_read() -> None:
    disk = SimDisk()
    store = new_file_store(disk)
    fill(store, 3)
    commit(store)
    FileStore.create(disk, "/store/A/other", uid=bytes(16), config=b"other", options=options(seed=9))
    stray = bytes(disk.content("/store/A/other/0000000001.0000.seg"))
    disk.create(DIRECTORY + "/0000000002.0000.seg")
    disk.write(DIRECTORY + "/0000000002.0000.seg", 0, stray)
    again = reopen(disk)
    assert again.messages == 3 and again.config == b'{"name":"S"}'
    assert again.report.unusable_files == [DIRECTORY + "/0000000002.0000.seg"]
    fill(again, 1)
    assert commit(again).fault is None


def test_journal_is_rewritten_when_mostly_outdated() -> None:
    disk = SimDisk()
    store = new_file_store(disk)
    for i in range(60):
        store.journal.put(b"consumer", b"%d" % i + bytes(50_000))
        commit(store)
    assert disk.size(DIRECTORY + "/consumers.log") < 2_000_000
    assert reopen(disk).journal.entries()[b"consumer"][0].startswith(b"59\0")


def test_closed_store_does_nothing_more() -> None:
    disk = SimDisk()
    store = new_file_store(disk)
    fill(store, 3)
    store.close()
    calls = disk.calls
    assert store.begin_commit() is None and store.begin_upkeep() is None
    store.close()
    assert disk.calls == calls
    assert reopen(disk).messages == 3


def test_segment_size_follows_max_bytes() -> None:
    assert segment_bytes_for(-1) == segment_bytes_for(1 << 40) == 64 << 20
    assert segment_bytes_for(1000) == 256 << 10
    assert segment_bytes_for(80 << 20) == 10 << 20


def test_a_note_that_was_removed_stays_removed_when_segments_are_rewritten() -> None:
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=8192)
    store.put_note(b"gone", b"1")
    store.put_note(b"kept", b"2")
    fill(store, 60)
    commit(store)
    first_part = store.last_seq
    fill(store, 60)
    store.put_note(b"gone", b"")
    commit(store)
    fill(store, 300)
    commit(store)
    for seq in range(first_part + 1, store.last_seq - 100):
        store.delete(seq)
    commit(store)
    upkeep(store)
    commit(store)
    upkeep(store)
    assert any(".0001.seg" in path for path in disk.paths()), "a segment must have been rewritten"
    assert any("0000000001.0000.seg" in path for path in disk.paths()), "and the first one not"
    assert reopen(disk, segment_bytes=8192).notes() == store.notes() == {b"kept": b"2"}


@pytest.mark.parametrize("call", ["write", "sync", "allocate"])
def test_a_commit_that_ends_with_any_error_did_not_happen(call: str) -> None:
    disk = SimDisk()
    store = new_file_store(disk)
    fill(store, 3)
    commit(store)

    def out_of_memory(*_: object) -> None:
        raise MemoryError

    store.append(4, 4_000, b"s", b"", bytes(100_000))
    setattr(disk, call, out_of_memory)
    done = commit(store)
    assert (done.last_seq, done.fault is not None) == (3, True)
    assert store.last_seq == 3


def test_a_rewrite_that_was_not_worth_it_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left alone until fewer messages live in it, and then tried again."""
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=8192)
    fill(store, 200)
    commit(store)
    for seq in range(1, 90):
        if seq % 9:
            store.delete(seq)
    commit(store)
    in_vain: list[CompactionJob] = []
    with monkeypatch.context() as patch:
        patch.setattr(CompactionJob, "_body", lambda job, _: in_vain.append(job))
        upkeep(store)
    assert 0 < len(in_vain) < 5, "the same is not tried again and again"
    assert not any(segment.damaged for segment in store.log.segments)
    assert store.scrub_next(), "segments that are not damaged are still read back"
    assert upkeep(store) == 1
    for seq in range(9, 90, 9):
        store.delete(seq)
    commit(store)
    upkeep(store)
    commit(store)
    upkeep(store)
    assert not any(path.endswith("0000000001.0000.seg") for path in disk.paths())
    assert store.messages == 111 and reopen(disk, segment_bytes=8192).messages == 111


def test_an_erasure_beside_a_rewrite_that_came_to_nothing_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was made with the rewrite in flight, which copied nothing: who waits for the erasure is answered."""
    store = new_file_store(SimDisk(), segment_bytes=8192)
    fill(store, 200)
    commit(store)
    for seq in range(1, 90):
        if seq % 9:
            store.delete(seq)
    commit(store)
    monkeypatch.setattr(CompactionJob, "_body", lambda *_: None)
    job = store.begin_upkeep()
    while job is not None and not isinstance(job, CompactionJob):
        job.run()
        store.finish_upkeep(job)
        job = store.begin_upkeep()
    assert job is not None
    assert store.erase(18)
    commit(store)
    job.run()
    store.finish_upkeep(job)
    commit(store)
    assert store.erasing == 0 and store.erased == (1, 1)


def test_a_store_that_has_not_changed_is_closed_without_a_call_of_the_disk() -> None:
    disk = SimDisk()
    store = new_file_store(disk)
    fill(store, 3)
    commit(store)
    store.close()
    store = reopen(disk)
    before = disk.calls
    store.close()
    assert disk.calls == before


def test_a_store_that_has_changed_is_closed_without_waiting_for_the_manifest() -> None:
    disk = SimDisk()
    store = new_file_store(disk)
    fill(store, 3)
    commit(store)
    upkeep(store)
    store = reopen(disk)
    fill(store, 1)
    commit(store)
    store.close()
    # A power cut now: the log has everything, and one of the two slots is whole.
    for seed in range(20):
        crashed = disk.crash(random.Random(seed), keep=0.5, torn=True)
        again = reopen(crashed)
        assert again.last_seq == 4
        upkeep(again)
        assert reopen(crashed.crash(random.Random(seed), keep=0.5, torn=True)).last_seq == 4


def test_what_cannot_be_made_sure_of_at_a_start_is_a_fault_and_repaired() -> None:
    disk = SimDisk()
    store = new_file_store(disk)
    fill(store, 3)
    commit(store, sync=False)
    left = disk.kill()
    left.faults[left.calls + 1] = errno.EIO
    again = reopen(left)
    assert again.fault is not None
    with pytest.raises(StorageFault):
        again.append(4, 4_000, b"s", b"", b"")
    upkeep(again)
    assert again.fault is None and again.messages == 0, "what the device did not take is not there"
    fill(again, 2)
    assert commit(again).fault is None
    assert reopen(left.crash(random.Random(1), keep=0.0, torn=False)).last_seq == again.last_seq


def test_a_start_after_a_clean_stop_syncs_nothing() -> None:
    disk = SimDisk()
    store = new_file_store(disk)
    fill(store, 3)
    store.journal.put(b"c", b"state")
    commit(store)
    store.close()
    again = reopen(disk)
    again.journal.add(b"c", b"+1")
    commit(again)
    again.close()
    calls = disk.calls
    last = reopen(disk)
    assert disk.calls == calls, "nothing was synced or written"
    assert last.messages == 3 and last.journal.entries() == {b"c": [b"state", b"+1"]}


def test_index_files_wait_for_a_quiet_moment() -> None:
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=SEGMENT)
    fill(store, 100)
    commit(store)
    upkeep(store)

    def pieces_beside_a_commit() -> list[type]:
        store.append(store.last_seq + 1, store.last_ts_ns + 1, b"s", b"", b"x")
        under_way = store.begin_commit()
        assert under_way is not None
        kinds: list[type] = []
        while (job := store.begin_upkeep()) is not None:
            kinds.append(type(job))
            job.run()
            store.finish_upkeep(job)
        under_way.run()
        store.finish_commit(under_way)
        return kinds

    def waiting() -> int:
        return sum(not segment.indexed for segment in store.log.closed_segments())

    fill(store, 200)
    commit(store)
    assert 1 < waiting() <= STORE_UNINDEXED_SEGMENTS_MAX
    assert IndexFileJob not in pieces_beside_a_commit()
    fill(store, 600)
    commit(store)
    assert waiting() > STORE_UNINDEXED_SEGMENTS_MAX
    assert IndexFileJob in pieces_beside_a_commit()
    assert waiting() == STORE_UNINDEXED_SEGMENTS_MAX, "more than so many do not wait"
    upkeep(store)
    assert waiting() == 0


def test_a_segment_that_begins_with_much() -> None:
    """Its header is a write of its own, and all of it comes back, after a stop and after a crash in between."""
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=16 << 20)
    large = random.Random(2).randbytes(9 << 20)
    for seq in (1, 2):
        store.append(seq, seq, b"s", b"", large)
    commit(store)
    assert len(store.log.segments) == 2
    assert store.get(2).payload == large
    again = reopen(disk, segment_bytes=16 << 20)
    assert [again.get(seq).payload == large for seq in (1, 2)] == [True, True]
    again.append(3, 3, b"s", b"", large)
    job = again.begin_commit()
    assert isinstance(job, CommitJob)
    job.writes = [write for write in job.writes if len(write.data) < len(large)]  # the header, and then it dies
    job.run()
    last = reopen(disk, segment_bytes=16 << 20)
    assert (last.last_seq, last.get(2).payload == large) == (2, True)
    last.append(3, 3, b"s", b"", b"x")
    commit(last)
    assert reopen(disk, segment_bytes=16 << 20).get(3).payload == b"x"


@pytest.mark.parametrize("survive", [1, 4, 9])
def test_what_waits_for_a_commit_is_kept_in_blocks(survive: int) -> None:
    """Each is a write of its own; after a crash between two of them the log ends there, without damage."""
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=300_000)
    store.log.writer.block_max = 10_000
    fill(store, 100, size=1_000)
    job = store.begin_commit()
    assert isinstance(job, CommitJob)
    assert [write.offset + len(write.data) for write in job.writes[:-1]] == [write.offset for write in job.writes[1:]]
    assert len(job.writes) == 10 and max(len(write.data) for write in job.writes) < 13_000
    job.run()
    store.finish_commit(job)
    assert [store.get(seq).payload for seq in (1, 50, 100)] == [payload(seq, 1_000) for seq in (1, 50, 100)]
    again = reopen(disk, segment_bytes=300_000)
    assert [again.get(seq).payload for seq in (1, 50, 100)] == [payload(seq, 1_000) for seq in (1, 50, 100)]
    again.log.writer.block_max = 10_000
    fill(again, 100, size=1_000)
    job = again.begin_commit()
    assert isinstance(job, CommitJob)
    del job.writes[survive:]
    job.run()
    last = reopen(disk, segment_bytes=300_000)
    assert 100 < last.last_seq < 200 and not last.report.damaged_regions
    assert last.get(last.last_seq).payload == payload(last.last_seq, 1_000)


@pytest.mark.parametrize("segment_bytes", range(20_000, 20_400, 40))
def test_a_block_may_end_where_its_segment_does(segment_bytes: int) -> None:
    """What closes a block may take room, too: what seals its last frame, the head of the next one."""
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=segment_bytes)
    store.log.writer.block_max = 2_000
    fill(store, 300, size=60)
    commit(store)
    again = reopen(disk, segment_bytes=segment_bytes)
    assert [again.get(seq).payload for seq in (1, 150, 300)] == [payload(seq, 60) for seq in (1, 150, 300)]


def test_the_link_of_a_commit_that_was_cut_off_is_not_the_end_of_the_chain() -> None:
    """Its last frame came to the disk and one before it did not: the chain ends where the log does, or before."""
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=16 << 20, chained=True)
    fill(store, 3)
    commit(store)
    for seq in range(4, 9):
        store.append(seq, seq * 1_000, b"s", b"", payload(seq, 300_000))
    job = store.begin_commit()
    assert isinstance(job, CommitJob)
    job.write()
    (write,) = job.writes
    torn = write.offset + 400_000
    disk.content(write.segment.path)[torn : torn + 8_192] = bytes(8_192)
    again = reopen(disk, segment_bytes=16 << 20)
    assert again.last_seq == 4
    assert again.chain_head is not None and again.chain_head.last_seq == 3


def test_where_a_torn_frame_was_cut_is_no_damage() -> None:
    disk = SimDisk()
    store = new_file_store(disk)
    fill(store, 3)
    commit(store)
    fill(store, 3)
    commit(store)
    segment = store.log.segments[-1]
    disk.truncate(segment.path, segment.end - 40)  # amid the last message, as a power cut leaves what nobody synced
    for added in range(2):
        disk = disk.kill()
        store = reopen(disk)
        assert store.last_seq in (3 + added, 5 + added)  # a sealed frame goes as a whole
        assert store.report.damaged_regions == []
        fill(store, 1)
        commit(store)
    upkeep(store)
    assert reopen(disk).report.rebuilt_indexes == 0, "there is an index file of what was cut"
