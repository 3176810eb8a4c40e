"""What a replicated log gives back: dead segments, rewritten ones, erased messages. And what Raft can still read."""

from __future__ import annotations

import pytest

from models.records import Record
from slipstream.errors import StorageFault
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.replica.applied_file import APPLIED_NAME, Applied, encode_applied
from slipstream.jetstream.store.limits import STORE_VERBATIM_SEGMENTS
from slipstream.testing.sim_disk import SimDisk
from support.replica_nodes import TERM, Node, frame
from support.stores import DIRECTORY, commit, fill, upkeep


def message(seq: int, size: int = 200) -> Record:
    return Record(seq, 10 * seq, b"s", b"", b"%d " % seq + b"z" * size)


def trim(first_seq: int) -> Record:
    return Record(first_seq, 30, b"", b"", b"", kind=3)


def test_dead_segments_go_when_it_is_written_down() -> None:
    node = Node(segment_bytes=4096 + 600)
    node.write(*(frame(index, message(index)) for index in range(1, 21)))
    node.log.commit(20)
    upkeep(node.store)
    assert node.log.first_index == 1 and (saved := node.saved()) is not None and saved.frame == 20
    before = len(node.store.log.segments)
    node.write(frame(21, trim(20)))
    node.log.commit(21)
    assert node.log.first_index == 1
    upkeep(node.store)
    assert (saved := node.saved()) is not None and (saved.frame, saved.first_seq) == (21, 20)
    assert len(node.store.log.segments) < before and node.log.first_index > 10
    assert node.log.terms()[0] == (node.log.first_index - 1, 1), "Raft has to know the term before the first"
    for _ in range(2):
        first = node.log.first_index
        entries = node.log.entries(first, 22, 1 << 20)
        assert [entry[0] for entry in entries] == list(range(first, 22))
        assert node.store.messages == 1 and node.store.first_seq == 20 and not node.store.lost().seqs
        node.reopen()
    node.write(frame(22, message(21)))
    node.log.commit(22)
    assert node.store.messages == 2


def test_a_leader_gives_space_back_without_a_word_in_the_log() -> None:
    """Each replica does so by itself: a record of it would be one of a follower's log as well."""
    node = Node(segment_bytes=4096 + 2000)
    node.lead()
    fill(node.store, 100)
    node.propose()
    node.store.purge()
    node.propose()
    last = node.log.last_index
    node.log.commit(last)
    node.store.log.roll()  # no frame is left at all
    for _ in range(3):
        commit(node.store)
        upkeep(node.store)
    assert node.log.last_index == last and len(node.store.log.segments) == 1
    assert node.log.first_index == last + 1 and node.log.terms() == [(last, TERM)]
    node.reopen()
    assert (node.log.first_index, node.log.last_index, node.log.terms()) == (last + 1, last, [(last, TERM)])
    node.log.lead(TERM)
    fill(node.store, 1)
    assert node.propose()[0][0] == last + 1 and node.store.last_seq == 101


def test_what_somebody_is_about_to_need_is_kept() -> None:
    node = Node(segment_bytes=4096 + 600)
    node.write(*(frame(index, message(index)) for index in range(1, 21)), frame(21, trim(21)))
    node.log.commit(21)
    node.log.hold(8)
    upkeep(node.store)
    assert 5 <= node.log.first_index <= 8
    node.log.hold(1 << 62)
    upkeep(node.store)
    assert node.log.first_index > 18


def test_mostly_dead_segments_are_rewritten_but_for_the_newest() -> None:
    node = Node(segment_bytes=4096 + 2000)
    node.write(*(frame(index, message(index)) for index in range(1, 41)))
    gone = b"".join(seq.to_bytes(8, "little") for seq in range(2, 41) if seq % 7)
    node.write(frame(41, Record(40, 30, b"", b"", gone, kind=2)))
    node.log.commit(41)
    closed = len(node.store.log.segments) - 1
    upkeep(node.store)
    segments = node.store.log.segments
    assert segments[0].header.generation and len(segments) < closed
    verbatim = [segment for segment in segments[:-1] if not segment.header.generation]
    assert len(verbatim) == STORE_VERBATIM_SEGMENTS
    assert node.log.first_index == verbatim[0].header.frame_no + 1 > 1
    assert node.log.terms() == [(node.log.first_index - 1, 1)]
    alive = [1, *range(7, 41, 7)]
    for _ in range(2):
        assert [seq for seq in range(1, 41) if node.store.get(seq) is not None] == alive
        assert not node.store.lost().seqs
        node.reopen()
        assert [entry[0] for entry in node.log.entries(node.log.first_index, 42, 1 << 20)]


class Counting(SimDisk):
    """Knows which files were read behind their headers."""

    read_paths: set[str] = set()

    def read(self, path: str, offset: int, length: int) -> bytes:
        if offset + length > 4096:
            self.read_paths.add(path)
        return super().read(path, offset, length)


def test_a_start_does_not_read_what_is_certain() -> None:
    node = Node(segment_bytes=4096 + 600)
    node.write(*(frame(index, message(index)) for index in range(1, 41)))
    node.log.commit(36)
    upkeep(node.store)
    assert (saved := node.saved()) is not None and saved.frame == 36
    segments = [segment.path for segment in node.store.log.segments]
    node.disk = node.disk.kill()
    node.disk.__class__ = Counting
    Counting.read_paths = set()
    node.store = FileStore.open(node.disk, DIRECTORY, node.options)
    read = [path for path in segments if path in Counting.read_paths]
    assert read == segments[-len(read) :] and STORE_VERBATIM_SEGMENTS < len(read) < 8 < len(segments)
    assert node.log.applied_index == 36 and node.log.last_index == 40 and node.store.messages == 36
    first = node.log.first_index
    assert 1 < first <= 37 and node.log.terms()[0] == (first - 1, 1)
    assert [entry[0] for entry in node.log.entries(first, 41, 1 << 20)] == list(range(first, 41))
    with pytest.raises(StorageFault, match="is gone"):
        node.log.entries(1, 2, 100)
    node.log.commit(40)
    assert node.store.messages == 40


def test_an_erased_message_goes_on_every_replica_and_its_frame_can_be_sent() -> None:
    leader, follower, late = Node(), Node(), Node()
    leader.lead()
    for node in (follower, late):
        node.write((1, TERM, 0, b""))
        node.log.commit(1)
    fill(leader.store, 3)
    messages = leader.propose()
    leader.log.commit(2)
    found = leader.store.get(2)
    assert found is not None
    secret = found.payload
    leader.store.erase(2)
    erasure = leader.propose()
    leader.log.commit(3)
    commit(leader.store)
    follower.write(*messages, *erasure)
    follower.log.commit(3)
    assert follower.store.erasing
    commit(follower.store)
    for node in (leader, follower):
        assert not node.store.erasing and node.store.get(2) is None and node.store.messages == 2
        path = node.store.log.segments[0].path
        assert secret not in bytes(node.disk.content(path))
    assert secret in messages[0][3]
    sent = leader.log.entries(2, 4, 1 << 20)
    assert secret not in sent[0][3] and sent == follower.log.entries(2, 4, 1 << 20)
    late.write(*sent)
    late.log.commit(2)
    assert late.store.messages == 2 and late.store.last_seq == 3
    late.log.commit(3)
    for committed in (1, 2, 3):
        for node in (leader, follower, late):
            node.reopen(committed)
            node.log.commit(3)
            assert node.store.messages == 2 and not node.store.lost().seqs and node.store.last_seq == 3
            assert list(node.log.entries(2, 4, 1 << 20)) == list(sent)


def test_a_file_of_another_stream_is_not_believed() -> None:
    node = Node()
    node.disk.create(f"{DIRECTORY}/{APPLIED_NAME}")
    node.disk.write(f"{DIRECTORY}/{APPLIED_NAME}", 0, encode_applied(Applied(bytes(16), 0, 0, 1, {}), 4))
    with pytest.raises(StorageFault, match="another stream"):
        node.reopen()
