"""A stream that was alone becomes the first replica of a group: nothing of it changes, and a crash costs nothing."""

from __future__ import annotations

import random
from dataclasses import replace
from errno import EIO

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.packed.disk import PackedDisk
from slipstream.replication.replica.files import ReplicaFiles
from slipstream.testing.sim_disk import SimDisk
from support.sealing import sealed_disk
from support.stores import UID, commit, options

ALONE = "/js/streams/alone"
PLACE = "/js/replicas/7"


def made(disk: Disk) -> FileStore:
    """A stream alone: messages, some of them gone, a unit, notes and consumers, over several segments."""
    disk.make_dir("/js/streams")
    for path in ("/", "/js", "/js/streams"):
        disk.sync_dir(path)
    store = FileStore.create(disk, ALONE, uid=UID, config=b"{}", options=options(segment_bytes=8192))
    for number in range(1, 40):
        store.append(number, number, b"s.%d" % (number % 3), b"", b"%d " % number + bytes(400))
        if number % 7 == 0:
            store.journal.put(b"c", b"whole %d" % number)
        elif number > 7:
            store.journal.add(b"c", b"change %d" % number)
        commit(store)
    store.begin_atomic()
    store.append_atomic(40, 40, b"s.a", b"", b"in a unit")
    store.append_atomic(41, 41, b"s.b", b"", b"in a unit, too")
    store.end_atomic({b"note": b"value"})
    store.trim_to(5)
    store.delete(10)
    commit(store)
    return store


def shown(store: FileStore) -> object:
    messages = [store.get(seq) for seq in range(1, store.last_seq + 1)]
    return messages, store.first_seq, store.last_seq, store.notes(), store.journal.entries(), store.config


def files_on(disk: Disk) -> ReplicaFiles:
    return ReplicaFiles(disk, PLACE, lambda: replace(options(segment_bytes=8192), replicated=True))


@pytest.mark.parametrize("seals", [False, True])
def test_all_of_it_is_the_same(seals: bool) -> None:
    disk: Disk = PackedDisk(sealed_disk(SimDisk())) if seals else SimDisk()
    store = made(disk)
    before = shown(store)
    store.close()
    files = files_on(disk)
    files.adopt(ALONE, 5, move=3)
    assert files.was_made and not disk.is_dir(ALONE)
    votes, store = files.open()
    assert (votes.term, votes.voters, votes.made_by) == (1, [5], 3) and votes.commit > 0
    assert shown(store) == before
    log = store.replica
    assert log is not None and log.first_index == log.last_index + 1 == votes.commit + 1 == log.applied_index + 1
    assert log.terms() == [(votes.commit, 1)]


def test_a_stream_that_is_not_there_is_not_made_anew() -> None:
    disk = SimDisk()
    with pytest.raises(StorageFault, match="the only copy"):
        files_on(disk).adopt(None, 5, move=1)
    assert not files_on(disk).was_made


def calls_of_an_adoption() -> int:
    disk = SimDisk()
    made(disk).close()
    before = disk.calls
    files_on(disk).adopt(ALONE, 5, move=1)
    return disk.calls - before


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_at_any_call_leaves_one_of_both(power: bool) -> None:
    reference = SimDisk()
    before = shown(made(reference))
    left: set[bool] = set()
    for call in range(1, calls_of_an_adoption() + 1):
        disk = SimDisk()
        made(disk).close()
        disk.faults = dict.fromkeys(range(disk.calls + call, disk.calls + 1000), EIO)
        with pytest.raises(StorageFault):
            files_on(disk).adopt(ALONE, 5, move=1)
        disk = disk.crash(random.Random(call), keep=0.5, torn=True) if power else disk.kill()
        left.add(disk.is_dir(ALONE))
        if disk.is_dir(ALONE):
            assert not files_on(disk).was_made
            assert shown(FileStore.open(disk.kill(), ALONE, options(segment_bytes=8192))) == before
            files_on(disk).adopt(ALONE, 5, move=1)
        assert shown(files_on(disk).open()[1]) == before, f"after call {call}"
    assert left == {True, False}
