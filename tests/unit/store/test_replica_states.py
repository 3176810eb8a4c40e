"""States of consumers as records of a replicated log, and the file that says what of the log is certain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.records import Record
from slipstream.errors import StorageFault
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.replica.applied_file import (
    APPLIED_NAME,
    Applied,
    decode_applied,
    encode_applied,
)
from slipstream.testing.sim_disk import SimDisk
from support.replica_nodes import TERM, Node, frame, state
from support.stores import DIRECTORY, UID, fill, options, upkeep


def test_states_travel_with_the_messages_of_their_commit() -> None:
    leader, follower = Node(), Node()
    leader.lead()
    follower.write((1, TERM, 0, b""))
    fill(leader.store, 2)
    leader.store.journal.put(b"one", b"whole")
    leader.store.journal.add(b"one", b"change")
    leader.store.journal.put(b"two", b"whole")
    assert leader.store.uncommitted_bytes > 0
    entries = leader.propose()
    assert len(entries) == 1, "messages and states are one frame"
    follower.write(*entries)
    assert follower.store.journal.entries() == {}, "nobody said that it is committed"
    expected = {b"one": [b"whole", b"change"], b"two": [b"whole"]}
    for node in (leader, follower):
        node.log.commit(2)
        assert node.store.journal.entries() == expected
        node.reopen(2)
        assert node.store.journal.entries() == expected and node.store.messages == 2
        node.reopen(1)
        assert node.store.journal.entries() == {} and node.store.messages == 0
        node.log.commit(2)
        assert node.store.journal.entries() == expected


def test_a_leader_sees_what_it_has_set_at_once() -> None:
    node = Node()
    node.lead()
    journal = node.store.journal
    with pytest.raises(KeyError):
        journal.add(b"none", b"change")
    journal.put(b"one", b"first")
    journal.put(b"one", b"second")
    journal.add(b"one", b"change")
    journal.put(b"two", b"x")
    journal.remove(b"two")
    journal.remove(b"three")
    assert journal.entries() == {b"one": [b"second", b"change"]}
    assert b"first" not in node.propose()[0][3], "what is outdated before it is logged is not"
    journal.remove(b"one")
    assert journal.entries() == {}
    node.propose()
    node.log.commit(2)
    node.reopen(2)
    assert node.store.journal.entries() == {b"one": [b"second", b"change"]}
    node.log.commit(3)
    assert node.store.journal.entries() == {}


def test_a_commit_of_states_alone() -> None:
    node = Node()
    node.lead()
    node.store.journal.put(b"one", b"whole")
    assert len(node.propose()) == 1
    node.log.commit(2)
    assert node.store.begin_commit() is None and node.store.uncommitted_bytes == 0


def test_large_states_go_on_in_another_segment() -> None:
    node = Node(segment_bytes=20_000)
    node.lead()
    for number in range(10):
        node.store.journal.put(b"one", bytes([number]) * 9_000)
        node.propose()
    assert max(segment.end for segment in node.store.log.segments) < 20_000
    node.log.commit(node.log.last_index)
    node.reopen(node.log.last_index)
    assert node.store.journal.entries() == {b"one": [bytes([9]) * 9_000]}


def test_what_is_certain_is_written_down_and_a_start_goes_on_from_it() -> None:
    node = Node(segment_bytes=4096 + 700)
    node.write(frame(1, state(9, b"c", b"old"), state(9, b"d", b"gone")))
    for index in range(2, 12):
        node.write(frame(index, Record(index - 1, 10, b"s", b"", bytes(200)), state(10, b"c", b"%d" % index)))
    node.write(frame(12, state(11, b"d"), Record(3, 10, b"", b"", b"", kind=3)))
    assert len(node.store.log.segments) > 2
    upkeep(node.store)
    assert node.saved() is None, "nothing is committed"
    node.log.commit(9)
    upkeep(node.store)
    saved = node.saved()
    assert saved == Applied(UID, 9, 1, 1, {b"c": [b"old", *(b"%d" % n for n in range(2, 10))], b"d": [b"gone"]})
    node.reopen()  # the file of votes knows of nothing
    assert node.log.applied_index == 9 and node.store.messages == 8 and node.log.last_index == 12
    assert node.store.journal.entries() == saved.states
    node.log.commit(12)
    expected = {b"c": [b"old", *(b"%d" % n for n in range(2, 12))]}
    assert node.store.journal.entries() == expected
    node.store.close()
    assert node.saved() == Applied(UID, 12, 1, 3, expected)
    node.reopen()
    assert node.log.applied_index == 12 and node.store.journal.entries() == expected


def test_only_what_is_whole_is_read() -> None:
    applied = Applied(UID, 7, 3, 2, {b"one": [b"whole", b"change"], b"two": [b""]})
    data = encode_applied(applied, 99)
    assert decode_applied(data) == applied
    assert decode_applied(encode_applied(replace(applied, states={}), 5)) == replace(applied, states={})
    for end in range(0, len(data), 8):
        assert decode_applied(data[:end]) is None
    for at in range(4096, len(data) - 8, 8):
        hurt = bytearray(data)
        hurt[at] ^= 1
        assert decode_applied(bytes(hurt)) is None or data[at:].strip(b"\0") == b""


def test_a_copy_that_cannot_be_read_is_made_again_from_the_log() -> None:
    node = Node()
    node.write(frame(1, state(9, b"c", b"state")))
    node.log.commit(1)
    node.store.close()
    path = f"{DIRECTORY}/{APPLIED_NAME}"
    assert node.saved() is not None
    node.disk.write(path, 4200, b"\xff" * 8)
    assert node.saved() is None
    node.reopen(1)
    assert node.store.journal.entries() == {b"c": [b"state"]}


def test_without_the_beginning_of_the_log_it_must_be_there() -> None:
    node = Node(segment_bytes=4096 + 300)
    node.write(*(frame(index, Record(index, 10, b"s", b"", bytes(200))) for index in range(1, 6)))
    node.log.commit(5)
    first = node.store.log.segments[0].path
    node.disk.write(first, 4096 + 30, b"\xff" * 64)
    with pytest.raises(StorageFault, match="what was applied before frame"):
        node.reopen(5)


def test_a_file_that_names_a_frame_which_is_not_there() -> None:
    """Frames are synced before the file is written: this log has lost some."""
    node = Node()
    node.write(frame(1, Record(1, 10, b"s", b"", b"x")))
    node.log.commit(1)
    path = f"{DIRECTORY}/{APPLIED_NAME}"
    node.disk.create(path)
    node.disk.write(path, 0, encode_applied(Applied(UID, 2, 1, 1, {}), 4))
    with pytest.raises(StorageFault, match="frame 2 was committed"):
        node.reopen(1)


def test_a_hash_chain_is_refused() -> None:
    with pytest.raises(StorageFault, match="hash chain"):
        FileStore.create(
            SimDisk(), DIRECTORY, uid=UID, config=b"", options=replace(options(), replicated=True), chained=True
        )
