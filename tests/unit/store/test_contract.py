"""What every store must do, run over each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import ALL, StoredMessage, StoreUnavailable, SubjectState
from support.stores import MAKERS, commit, fill, payload, upkeep


@pytest.fixture(params=sorted(MAKERS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A fresh store of each kind."""
    return MAKERS[request.param](str(tmp_path / "stream"))


def test_empty(store: Store) -> None:
    assert (store.first_seq, store.last_seq, store.messages, store.size_bytes) == (1, 0, 0, 0)
    assert (store.first_ts_ns, store.last_ts_ns, store.num_subjects, store.num_deleted) == (0, 0, 0, 0)
    assert store.get(1) is None and store.get(0) is None
    assert store.next_matching(ALL, 0) is None
    assert store.load_last(b">") is None
    assert store.seq_for_time(5) == 1
    assert store.config == b'{"name":"S"}'
    assert store.lost().seqs == []
    assert store.fault is None


def test_append_and_get_give_back_every_part(store: Store) -> None:
    store.append(1, 100, b"a.b", b"NATS/1.0\r\nK: v\r\n\r\n", b"body", 999)
    store.append(2, 200, b"a.c", b"", b"")
    assert store.get(1) == StoredMessage(1, 100, b"a.b", b"NATS/1.0\r\nK: v\r\n\r\n", b"body", 999)
    assert store.get(2) == StoredMessage(2, 200, b"a.c", b"", b"")
    commit(store)
    assert store.get(1) == StoredMessage(1, 100, b"a.b", b"NATS/1.0\r\nK: v\r\n\r\n", b"body", 999)
    assert store.first_ts_ns == 100 and store.last_ts_ns == 200


def test_commit_moves_committed_seq(store: Store) -> None:
    fill(store, 5)
    assert store.committed_seq == 0 and store.last_seq == 5
    job = store.begin_commit()
    assert job is not None
    assert store.begin_commit() is None, "one commit at a time"
    fill(store, 2)
    job.run()
    done = store.finish_commit(job)
    assert done.last_seq == 5 and done.fault is None
    assert store.committed_seq == 5 and store.last_seq == 7
    assert [message.seq for message in _read(store, 1)] == [1, 2, 3, 4, 5, 6, 7]
    assert commit(store).last_seq == 7
    assert commit(store) is None


def test_sizes_follow_the_stated_formula(store: Store) -> None:
    store.append(1, 1, b"subject", b"", b"12345")
    store.append(2, 1, b"subject", b"NATS/1.0\r\n\r\n", b"12345")
    expected = store.message_bytes(7, 0, 5) + store.message_bytes(7, 12, 5)
    assert store.assigned.size_bytes == expected and store.size_bytes == 0
    commit(store)
    assert store.size_bytes == expected
    store.delete(1)
    assert store.assigned.size_bytes == store.message_bytes(7, 12, 5) and store.size_bytes == expected
    commit(store)
    assert store.size_bytes == store.message_bytes(7, 12, 5)


def test_readers_see_a_replacement_in_one_instant(store: Store) -> None:
    """The old message is there until its successor is, for every question a reader may ask."""
    store.append(1, 1_000, b"k", b"", b"old")
    store.append(2, 2_000, b"other", b"", b"")
    commit(store)
    before = look(store)
    store.append(3, 3_000, b"k", b"", b"new")
    assert store.delete(1) and not store.delete(1)
    assert store.assigned.subject_state(b"k") == SubjectState(3, 3, 1) and store.assigned.last_seq_of(b"*") == 3
    assert (store.assigned.first_seq, store.assigned.messages) == (2, 2)
    assert look(store) == before and not store.is_settled
    job = store.begin_commit()
    assert job is not None
    store.append(4, 4_000, b"k", b"", b"newer")
    assert store.delete(3)
    assert look(store) == before
    job.run()
    assert look(store) == before
    store.finish_commit(job)
    assert store.load_last(b"k").payload == b"new" and store.get(1) is None
    assert (store.first_seq, store.messages, store.num_subjects) == (2, 2, 2)
    commit(store)
    assert store.load_last(b"k").payload == b"newer" and store.is_settled
    assert (store.first_seq, store.messages, store.num_deleted) == (2, 2, 1)


def look(store: Store) -> tuple[object, ...]:
    """What a reader can find out about the stream."""
    last = store.committed_seq
    return (
        [message.seq for message in store.read_batch(ALL, 1, max_msgs=9, max_bytes=1 << 20, up_to_seq=last)],
        store.load_last(b"k"),
        store.load_last(b">"),
        store.get(1),
        store.last_per_subject(ALL, last),
        store.count_matching(ALL, 0, last),
        store.filtered_state((b"k",), 0),
        store.subjects_matching(b">"),
        store.deleted(9),
        (store.first_seq, last, store.messages, store.size_bytes, store.num_subjects, store.num_deleted),
        (store.first_ts_ns, store.committed_ts_ns),
    )


@pytest.mark.parametrize("below", [3, 4, 5, 8])
def test_readers_see_a_purge_when_it_is_committed(store: Store, below: int) -> None:
    for seq in range(1, 5):
        store.append(seq, seq, b"k", b"", payload(seq))
    commit(store)
    before = look(store)
    assert store.trim_to(below) == min(below - 1, 4)
    assert look(store) == before
    last = store.assigned.last_seq
    assert (store.assigned.first_seq, last) == (below, max(below - 1, 4))
    store.append(last + 1, 9, b"k", b"", b"next")
    assert look(store) == before
    commit(store)
    assert (store.first_seq, store.last_seq) == (below, last + 1)
    assert store.messages == last + 2 - below


def test_sequences_must_grow_and_may_skip(store: Store) -> None:
    store.append(5, 1, b"a", b"", b"")
    assert (store.assigned.first_seq, store.last_seq, store.assigned.messages) == (5, 5, 1)
    with pytest.raises(ValueError):
        store.append(5, 1, b"a", b"", b"")
    store.append(9, 1, b"a", b"", b"")
    commit(store)
    assert store.deleted(10) == [6, 7, 8]
    assert store.num_deleted == 3
    store.skip_to(12)
    assert store.last_seq == 12 and store.assigned.messages == 2
    store.append(13, 1, b"a", b"", b"")
    assert store.deleted(10) == [6, 7, 8]
    commit(store)
    assert store.deleted(10) == [6, 7, 8, 10, 11, 12]


def test_bad_subjects_are_refused(store: Store) -> None:
    with pytest.raises(ValueError):
        store.append(1, 1, b"", b"", b"")
    with pytest.raises(ValueError):
        store.append(1, 1, b"x" * 70_000, b"", b"")
    assert store.last_seq == 0


def test_filtered_reads(store: Store) -> None:
    fill(store, 100)
    commit(store)
    assert store.next_matching((b"s.3",), 4).seq == 13
    assert store.next_seq((b"s.3", b"s.4"), 4) == 4
    assert store.next_seq((b"nothing.*",), 1) == 0
    batch = store.read_batch((b"s.5",), 1, max_msgs=3, max_bytes=1 << 20, up_to_seq=100)
    assert [message.seq for message in batch] == [5, 15, 25]
    assert [message.payload for message in batch] == [payload(5), payload(15), payload(25)]
    assert store.read_batch(ALL, 1, max_msgs=10, max_bytes=1, up_to_seq=100)[0].seq == 1
    assert len(store.read_batch(ALL, 1, max_msgs=10, max_bytes=120, up_to_seq=100)) == 2
    assert [m.seq for m in store.read_batch(ALL, 98, max_msgs=10, max_bytes=1 << 20, up_to_seq=99)] == [98, 99]
    assert store.read_batch(ALL, 200, max_msgs=10, max_bytes=1 << 20, up_to_seq=300) == []


def test_subject_questions(store: Store) -> None:
    fill(store, 100)
    assert store.assigned.subject_state(b"s.7") == SubjectState(7, 97, 10)
    assert store.assigned.subject_state(b"none") == SubjectState(0, 0, 0)
    commit(store)
    assert store.num_subjects == 10
    assert store.filtered_state((b"s.7", b"s.8"), 50) == SubjectState(57, 98, 10)
    assert store.count_matching((b"s.*",), 1) == 100
    assert store.count_matching((b"s.1",), 12) == 8
    assert store.count_matching((b"s.1",), 12, 90) == 7
    assert store.count_matching((b"s.1",), 12, 11) == store.count_matching((b"s.1",), -5, -1) == 0
    assert store.subjects_matching(b"s.*")[0] == (b"s.0", 10)
    assert store.load_last(b"s.2").seq == 92
    assert store.load_last(b"s.*").seq == 100
    assert list(store.last_per_subject((b"s.1", b"s.2"), 0)) == [91, 92]
    assert list(store.last_per_subject((b"s.1", b"s.2"), 50)) == [41, 42]


def test_messages_of_the_direct_writer_are_committed_like_others(store: Store) -> None:
    writer = store.direct_writer()
    assert writer is not None
    assert writer.append(1, 1_000, b"s.1", b"", b"one")
    commit(store)
    assert store.committed_seq == 1
    batch = store.gather(ALL, 1, max_msgs=5, max_bytes=1 << 20, up_to_seq=1)
    assert [batch.message(i).payload for i in range(len(batch))] == [b"one"]


def test_time_search(store: Store) -> None:
    fill(store, 50)
    store.delete(20)
    commit(store)
    assert store.seq_for_time(0) == 1
    assert store.seq_for_time(10_000) == 10
    assert store.seq_for_time(10_001) == 11
    assert store.seq_for_time(20_000) == 21
    assert store.seq_for_time(50_001) == 51


def test_delete(store: Store) -> None:
    fill(store, 20)
    commit(store)
    assert store.delete(1) and store.delete(5) and store.delete(20)
    assert not store.delete(5) and not store.delete(99) and not store.delete(0)
    assert (store.assigned.first_seq, store.last_seq, store.assigned.messages) == (2, 20, 17)
    assert not store.assigned.has(5) and store.assigned.has(6) and store.get(5).payload == payload(5)
    commit(store)
    assert (store.first_seq, store.last_seq, store.messages) == (2, 20, 17)
    assert store.get(5) is None
    assert store.deleted(10) == [5, 20]
    commit(store)
    assert store.get(6).payload == payload(6)


def test_erase(store: Store) -> None:
    fill(store, 20)
    commit(store)
    assert store.erase(7) and not store.erase(7)
    commit(store)
    assert store.get(7) is None and store.messages == 19
    assert store.get(8).payload == payload(8)
    fill(store, 1)
    assert store.erase(21)
    commit(store)
    assert store.get(21) is None


def test_trim(store: Store) -> None:
    fill(store, 20)
    commit(store)
    assert store.trim_to(11) == 10
    assert (store.assigned.first_seq, store.assigned.messages) == (11, 10)
    assert store.trim_to(5) == 0
    assert store.trim_to(31) == 10
    assert (store.assigned.first_seq, store.last_seq, store.assigned.messages) == (31, 30, 0)
    commit(store)
    assert (store.first_seq, store.last_seq, store.messages) == (31, 30, 0)
    fill(store, 1)
    commit(store)
    assert store.first_seq == store.last_seq == 31


def test_purge_everything(store: Store) -> None:
    fill(store, 20)
    commit(store)
    assert store.purge() == 20
    assert (store.assigned.first_seq, store.assigned.messages, store.assigned.size_bytes) == (21, 0, 0)
    assert store.messages == 20
    commit(store)
    assert (store.first_seq, store.last_seq, store.messages, store.size_bytes) == (21, 20, 0, 0)
    fill(store, 3)
    commit(store)
    assert store.first_seq == 21 and store.messages == 3


def test_purge_by_filter_sequence_and_keep(store: Store) -> None:
    fill(store, 100)
    assert store.purge(b"s.1") == 10
    assert store.purge(b"s.2", keep=3) == 7
    assert store.assigned.subject_state(b"s.2") == SubjectState(72, 92, 3)
    assert store.purge(b"s.3", up_to_seq=43) == 4
    assert store.assigned.subject_state(b"s.3") == SubjectState(43, 93, 6)
    assert store.purge(up_to_seq=11) == 7
    assert store.assigned.first_seq == 14
    assert store.purge(keep=5) == 67
    commit(store)
    assert [message.seq for message in _read(store, 1)] == [96, 97, 98, 99, 100]


def test_upkeep_changes_nothing_visible(store: Store) -> None:
    fill(store, 400)
    commit(store)
    for seq in range(1, 401):
        if seq % 7:
            store.delete(seq)
    commit(store)
    before = [(m.seq, m.payload) for m in _read(store, 1)]
    for _ in range(5):
        upkeep(store)
        commit(store)
    assert [(m.seq, m.payload) for m in _read(store, 1)] == before
    assert len(before) == 57
    fill(store, 10)
    commit(store)
    assert store.last_seq == 410


def test_journal(store: Store) -> None:
    store.journal.put(b"c1", b"state")
    store.journal.add(b"c1", b"+1")
    store.journal.add(b"c1", b"+2")
    store.journal.put(b"c2", b"other")
    store.journal.put(b"c3", b"gone")
    store.journal.remove(b"c3")
    assert store.journal.entries() == {b"c1": [b"state", b"+1", b"+2"], b"c2": [b"other"]}
    commit(store)
    store.journal.put(b"c1", b"whole")
    assert store.journal.entries()[b"c1"] == [b"whole"]
    with pytest.raises(KeyError):
        store.journal.add(b"unknown", b"+")


def test_config(store: Store) -> None:
    store.set_config(b"new")
    assert store.config == b"new"
    commit(store)


def add_to_unit(store: Store, first: int, count: int) -> int:
    for seq in range(first, first + count):
        store.append_atomic(seq, seq * 1_000, b"s.%d" % (seq % 10), b"", payload(seq))
    return first + count


def state(store: Store) -> tuple[object, ...]:
    return store.first_seq, store.last_seq, store.messages, store.size_bytes, store.num_subjects, store.last_ts_ns


def test_atomic_unit(store: Store) -> None:
    fill(store, 2)
    store.begin_atomic()
    add_to_unit(store, 3, 300)
    store.end_atomic()
    assert store.last_seq == 302 and store.committed_seq < 302
    commit(store)
    assert store.committed_seq == 302
    assert store.messages == 302 and store.get(302).payload == payload(302)
    store.state.index.check()


def test_atomic_unit_in_slices_is_hidden_until_it_ends(store: Store) -> None:
    fill(store, 20)
    commit(store)
    before = state(store)[:5]
    store.begin_atomic()
    seq = 21
    for count in (1, 500, 3000, 7):
        seq = add_to_unit(store, seq, count)
        done = commit(store)
        assert done is not None and done.last_seq == 20
        assert state(store)[:5] == before and store.atomic_open
        assert store.get(21) is None and store.load_last(b"s.1").seq == 11
        upkeep(store)
    with pytest.raises(StoreUnavailable):
        store.append(seq, 10**9, b"s.1", b"", b"")
    with pytest.raises(StoreUnavailable):
        store.skip_to(10**6)
    with pytest.raises(ValueError):
        store.append_atomic(seq - 1, 10**9, b"s.1", b"", b"")
    store.end_atomic({b"fence": b"7"})
    assert commit(store).last_seq == seq - 1
    assert store.messages == seq - 1 and store.notes() == {b"fence": b"7"}
    assert [m.payload for m in store.read_batch(ALL, 1, max_msgs=10**4, max_bytes=1 << 40, up_to_seq=seq)] == [
        payload(n) for n in range(1, seq)
    ]
    store.state.index.check()
    upkeep(store)
    fill(store, 5)
    commit(store)
    assert store.messages == seq + 4


@pytest.mark.parametrize("commits", [0, 1, 3])
def test_an_aborted_unit_never_was(store: Store, commits: int) -> None:
    fill(store, 17)
    commit(store)
    before = state(store)
    store.begin_atomic()
    seq = 18
    for _ in range(commits):
        seq = add_to_unit(store, seq, 400)
        commit(store)
    add_to_unit(store, seq, 3)
    store.abort_atomic()
    assert state(store) == before and not store.atomic_open
    fill(store, 200)
    commit(store)
    upkeep(store)
    assert store.last_seq == store.committed_seq == 217
    assert [m.payload for m in store.read_batch(ALL, 1, max_msgs=10**4, max_bytes=1 << 40, up_to_seq=500)] == [
        payload(n) for n in range(1, 218)
    ]
    store.state.index.check()


@pytest.mark.parametrize("gap", [3, 500])
def test_gaps_in_a_unit(store: Store, gap: int) -> None:
    fill(store, 4)
    store.begin_atomic()
    for seq in (5 + gap, 6 + gap, 9 + 2 * gap):
        store.append_atomic(seq, seq * 1_000, b"u", b"", payload(seq))
    commit(store)
    store.end_atomic()
    commit(store)
    store.state.index.check()
    assert (store.messages, store.last_seq) == (7, 9 + 2 * gap)
    assert [m.seq for m in store.read_batch([b"u"], 1, max_msgs=9, max_bytes=9**9, up_to_seq=10**6)] == [
        5 + gap,
        6 + gap,
        9 + 2 * gap,
    ]
    assert store.load_last(b"u").payload == payload(9 + 2 * gap)


def test_removals_beside_an_open_unit(store: Store) -> None:
    fill(store, 30)
    commit(store)
    store.begin_atomic()
    add_to_unit(store, 31, 10)
    assert store.delete(5) and not store.delete(31) and not store.erase(35)
    assert store.purge(b"s.2") == 3
    store.put_note(b"other", b"1")
    store.set_config(b"changed")
    commit(store)
    assert store.trim_to(100) == 26 and store.last_seq == 30
    store.end_atomic()
    commit(store)
    assert store.messages == 10 and store.first_seq == 31 and store.last_seq == 40
    assert store.config == b"changed" and store.notes() == {b"other": b"1"}
    store.state.index.check()


def test_notes(store: Store) -> None:
    store.put_note(b"a", b"1")
    store.put_note(b"b", b"2")
    store.put_note(b"a", b"3")
    commit(store)
    assert store.notes() == {b"a": b"3", b"b": b"2"}
    store.put_note(b"b", b"")
    assert store.notes() == {b"a": b"3"}
    for key, value in ((b"", b"x"), (b"k", b"x" * 1024)):
        with pytest.raises(ValueError):
            store.put_note(key, value)


def test_large_message(store: Store) -> None:
    body = bytes(range(256)) * 8192
    fill(store, 3)
    store.append(4, 9_000, b"big", b"", body)
    fill(store, 3)
    commit(store)
    assert store.get(4).payload == body
    assert store.get(7).payload == payload(7)


def test_destroy(store: Store) -> None:
    fill(store, 3)
    commit(store)
    store.close()
    store.close()
    store.destroy()


def _read(store: Store, from_seq: int) -> list[StoredMessage]:
    return store.read_batch(ALL, from_seq, max_msgs=10_000, max_bytes=1 << 30, up_to_seq=store.last_seq)
