"""The log as Raft has it: frames as entries, written, cut, read back and replayed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.records import Record, encode_frame
from slipstream.errors import StorageFault
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.replica.log import Entry
from slipstream.testing.sim_disk import SimDisk
from support.replica_nodes import Node
from support.stores import DIRECTORY, UID, commit, fill, options, payload

CONF_CHANGE_V2 = 2


def frame(index: int, term: int, *records: Record) -> Entry:
    return index, term, 0, encode_frame(list(records), no=index, salt=0, epoch=term)


def message(seq: int, text: bytes = b"x") -> Record:
    return Record(seq, 10 * seq, b"s", b"", text)


def led(node: Node, count: int) -> list[Entry]:
    """What a leader proposes."""
    fill(node.store, count)
    return node.propose()


def test_what_a_leader_writes_another_replica_has() -> None:
    leader, follower = Node(segment_bytes=8192), Node(segment_bytes=6000)
    for node in (leader, follower):
        node.write((1, 3, 0, b""), (2, 3, CONF_CHANGE_V2, b"membership"))
        node.log.commit(2)
    leader.log.lead(3)
    for count in (3, 80, 1):
        entries = led(leader, count)
        assert entries[-1][0] == leader.log.last_index
        follower.write(*entries)
        assert follower.store.committed_seq < leader.store.last_seq, "nobody said that it is committed"
        leader.log.write(entries)  # what Raft gives back to append
        for node in (leader, follower):
            node.log.commit(entries[-1][0])
    assert leader.all() == follower.all() and leader.log.terms() == [(0, 0), (1, 3)]
    assert leader.all()[:2] == [(1, 3, 0, b""), (2, 3, CONF_CHANGE_V2, b"membership")]
    assert len(follower.store.log.segments) != len(leader.store.log.segments) > 1
    for node in (leader, follower):
        assert (node.store.committed_seq, node.store.messages, node.store.is_settled) == (84, 84, True)
        assert [node.store.get(seq).payload for seq in (1, 50, 84)] == [payload(seq) for seq in (1, 50, 84)]
        assert node.store.last_ts_ns == 84_000


def test_entries_are_read_as_far_as_they_fit() -> None:
    node = Node()
    node.write(*(frame(index, 1, message(index)) for index in range(1, 6)))
    size = len(node.all()[0][3])
    assert [entry[0] for entry in node.log.entries(2, 6, 2 * size)] == [2, 3]
    assert [entry[0] for entry in node.log.entries(2, 6, 1)] == [2]
    assert node.log.entries(1, 6, 1 << 20) == [frame(index, 1, message(index)) for index in range(1, 6)]


def test_of_committed_entries_raft_reads_those_that_are_its_own() -> None:
    """... after a start as well; `commit` reads the messages."""
    node = Node()
    own = [(1, 1, 0, b""), (3, 1, CONF_CHANGE_V2, b"membership")]
    node.write(own[0], frame(2, 1, message(1)), own[1], frame(4, 1, message(2)))
    for _ in range(2):
        heads = node.log.heads(1, 5, 1 << 20)
        assert heads == [own[0], (2, 1, 0, b""), own[1], (4, 1, 0, b"")]
        assert [head[0] for head in node.log.heads(2, 5, 1)] == [2]
        node.reopen(1)


@pytest.mark.parametrize("between", [False, True])
def test_a_tail_that_others_replace_is_cut(between: bool) -> None:
    """In one segment or over several, written or not; the next process reads the new one."""
    node = Node(segment_bytes=4096 + 500)
    node.log.write([frame(1, 1, message(1, b"kept"))])
    if between:
        commit(node.store)
    node.log.write([frame(index, 1, message(index, b"old" * 20)) for index in range(2, 9)])
    if between:
        commit(node.store)
    node.log.commit(1)
    node.log.write([frame(2, 4, message(2, b"new")), frame(3, 4, message(3, b"newer"))])
    commit(node.store)
    assert node.log.last_index == 3 and node.log.terms() == [(0, 0), (1, 1), (2, 4)]
    assert node.store.log.writer.synced_upto == 3
    for committed in (1, 2, 3):
        node.reopen(committed)
        assert node.log.last_index == 3 and node.store.committed_seq == committed
        assert [entry[1] for entry in node.all()] == [1, 4, 4]
    assert [node.store.get(seq).payload for seq in (1, 2, 3)] == [b"kept", b"new", b"newer"]
    assert not node.store.lost().seqs and not node.store.report.damaged_regions


def test_what_was_indexed_is_not_replaced() -> None:
    node = Node()
    node.write(frame(1, 1, message(1)), frame(2, 1, message(2)))
    node.log.commit(2)
    with pytest.raises(StorageFault, match="was indexed"):
        node.log.write([frame(2, 2, message(2))])


def test_facts_and_removals_come_with_the_frames_and_with_a_start() -> None:
    node = Node(segment_bytes=4096 + 400)
    note = Record(3, 30, b"key", b"", b"value", kind=13)
    node.write(frame(1, 1, message(1), message(2), message(3)), frame(2, 1, note))
    node.write(frame(3, 1, Record(0, 30, b"", b"", b'{"new":1}', kind=5), message(4, b"y" * 300)))
    node.write(frame(4, 1, Record(4, 30, b"", b"", (2).to_bytes(8, "little"), kind=2), message(5, b"y" * 300)))
    node.write(frame(5, 1, Record(2, 30, b"", b"", b"", kind=3)))
    assert (node.store.notes(), node.store.config, node.store.messages) == ({}, b"{}", 0)
    assert len(node.store.log.segments) > 1
    node.log.commit(2)
    assert (node.store.notes(), node.store.config) == ({b"key": b"value"}, b"{}")
    node.log.commit(5)
    seen = (node.store.notes(), node.store.config, node.store.first_seq, node.store.messages)
    assert seen == ({b"key": b"value"}, b'{"new":1}', 3, 3)
    node.reopen(5)
    assert seen == (node.store.notes(), node.store.config, node.store.first_seq, node.store.messages)
    node.reopen(2)
    assert (node.store.notes(), node.store.config, node.store.messages) == ({b"key": b"value"}, b"{}", 3)
    node.log.commit(5)
    assert seen == (node.store.notes(), node.store.config, node.store.first_seq, node.store.messages)


def test_expiries_of_what_was_replayed() -> None:
    node = Node()
    node.write(frame(1, 1, Record(1, 10, b"s", b"", b"x", expires=77)))
    node.log.commit(1)
    assert list(node.store.expiries()) == [(1, 77)]
    node.reopen(1)
    assert list(node.store.expiries()) == [(1, 77)]


@pytest.mark.parametrize(
    "entry",
    [
        (1, 1, 0, b"anything"),
        frame(2, 1, message(1)),
        (1, 2, 0, frame(1, 1, message(1))[3]),
        frame(1, 1, message(2)),
        frame(1, 1, Record(1, 1, b"", b"", b"state", kind=9)),
        (3, 1, 0, frame(3, 1, message(1))[3]),
    ],
)
def test_what_is_no_frame_of_this_log_is_refused(entry: Entry) -> None:
    node = Node()
    index, term, kind, data = entry
    with pytest.raises(StorageFault):
        node.log.write([(1 if index == 2 else index, term, kind, data)])
    assert node.log.last_index == 0
    node.write(frame(1, 1, message(1)))
    assert node.log.last_index == 1


def test_a_replica_that_lacks_what_was_committed_does_not_open() -> None:
    node = Node()
    node.write(frame(1, 1, message(1)))
    with pytest.raises(StorageFault, match="frame 2 was committed"):
        node.reopen(2)


def test_a_log_that_begins_with_a_later_sequence() -> None:
    chosen, disk = replace(options(), replicated=True), SimDisk()
    store = FileStore.create(disk, DIRECTORY, uid=UID, config=b"{}", options=chosen, first_seq=100)
    assert store.replica is not None
    store.replica.write([frame(1, 1, message(100))])
    commit(store)
    store.replica.commit(1)
    assert (store.first_seq, store.committed_seq) == (100, 100)
    assert FileStore.open(disk.kill(), DIRECTORY, chosen, committed=1).first_seq == 100


@pytest.mark.parametrize("left", [8, 64, 72, 500, 1000, 1300])
def test_a_frame_that_the_power_cut_tore_is_not_there(left: int) -> None:
    node = Node()
    node.write((1, 3, 0, b""), frame(2, 3, message(1)))
    segment = node.store.log.segments[-1]
    node.write(frame(3, 3, *(message(seq, bytes([seq]) * 400) for seq in (2, 3, 4))))
    end = segment.end
    node.disk.truncate(segment.path, node.log._places[-1].offset + left)
    assert node.disk.size(segment.path) < end
    for term in (4, 5):
        node.reopen(committed=2)
        assert [entry[:2] for entry in node.all()[2:]] == [(3, earlier) for earlier in (4,) if earlier < term]
        assert node.store.committed_seq == 1 and not node.store.lost().seqs
        assert node.store.report.damaged_regions == []
        node.write(frame(3, term, message(2)))
    assert node.all()[2][:2] == (3, 5)


@pytest.mark.parametrize("damage", ["head", "record"])
def test_frames_behind_one_that_the_power_cut_tore_are_not_there_either(damage: str) -> None:
    node = Node()
    node.write((1, 3, 0, b""), frame(2, 3, message(1)))
    for index in (3, 4, 5):
        node.log.write([frame(index, 3, message(index - 1, b"torn"))])
    commit(node.store)
    place = node.log._places[2]
    node.disk.content(place.segment.path)[place.offset + (8 if damage == "head" else 80)] ^= 1
    node.reopen(committed=2)
    assert node.log.last_index == 2
    node.write(*(frame(index, 4, message(index - 1, b"again")) for index in (3, 4)))
    node.reopen(committed=4)
    assert [entry[:2] for entry in node.all()] == [(1, 3), (2, 3), (3, 4), (4, 4)]
    assert node.store.committed_seq == 3 and node.store.report.damaged_regions == []
