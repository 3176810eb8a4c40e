"""The directory of a replica: made whole or not at all, and never made again where one was."""

from __future__ import annotations

from dataclasses import replace
from errno import EIO
from random import Random

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.replica.reached import REACHED_NAME
from slipstream.jetstream.store.file.replica.votes import Votes
from slipstream.replication.raft.marks import ReplicaDamaged
from slipstream.replication.replica.files import ReplicaFiles
from slipstream.testing.sim_disk import SimDisk
from support.stores import UID, commit, options

DIRECTORY = "/js/A/replicas/7"


def files_on(disk: SimDisk) -> ReplicaFiles:
    return ReplicaFiles(disk, DIRECTORY, lambda: replace(options(), replicated=True))


def made(disk: SimDisk) -> ReplicaFiles:
    files = files_on(disk)
    files.create(UID, b"{}", [1, 2, 3])
    return files


def test_what_is_made_survives_a_power_cut_and_is_not_made_twice() -> None:
    disk = SimDisk()
    made(disk)
    files = made(disk.crash(Random(1), keep=0.0, torn=True))
    votes, store = files.open()
    assert votes == Votes(version=1, voters=[1, 2, 3]) and store.config == b"{}"
    assert store.replica is not None and store.replica.last_index == 0


def test_a_creation_that_fails_can_be_done_again() -> None:
    calls = 0
    while True:
        disk = SimDisk()
        calls += 1
        disk.faults = {calls: EIO}
        try:
            made(disk)
        except StorageFault:
            made(disk).open()
            assert made(disk.crash(Random(1), keep=0.0, torn=True)).is_there
            continue
        break
    assert calls > 5  # so many calls could fail, and did


def test_without_votes_it_is_not_opened() -> None:
    disk = SimDisk()
    with pytest.raises(StorageFault, match="votes are gone"):
        files_on(disk).open()
    made(disk)
    disk.remove(f"{DIRECTORY}/VOTE")
    with pytest.raises(StorageFault, match="votes are gone"):
        files_on(disk).open()


def test_it_goes_and_can_be_made_anew() -> None:
    disk = SimDisk()
    files = made(disk)
    files.destroy()
    assert not disk.is_dir(DIRECTORY)
    files.destroy()
    made(disk).open()


def test_of_two_memberships_the_first_is_certain() -> None:
    disk = SimDisk()
    files = made(disk)
    _, store = files.open()
    assert store.replica is not None
    files.save(Votes(version=2, term=1, voters=[1, 2, 3]))
    store.replica.write([(1, 1, 0, b""), (2, 1, 2, b"one"), (3, 1, 0, b"")])
    commit(store)
    assert files.open()[0].commit == 0
    store.replica.write([(4, 1, 2, b"two"), (5, 1, 2, b"three")])
    commit(store)
    assert files.open()[0].commit == 4
    files.save(Votes(version=3, term=1, voters=[1, 2, 4], applied_conf=4))
    assert files.open()[0].commit == 0


def with_entries(disk: SimDisk) -> tuple[ReplicaFiles, str, int, int]:
    """A replica that has acknowledged two entries; the segment, and where the second one lies in it."""
    files = made(disk)
    _, store = files.open()
    log = store.replica
    assert log is not None
    log.write([(1, 1, 0, b""), (2, 1, 0, b"")])
    commit(store)
    files.synced(log)
    place = log._places[-1]
    return files_on(disk), place.segment.path, place.offset, place.length


@pytest.mark.parametrize("damage", ["cut before", "cut amid", "flip head", "flip record"])
def test_an_end_that_was_acknowledged_and_is_gone_is_missed(damage: str) -> None:
    disk = SimDisk()
    files, path, at, length = with_entries(disk)
    if damage.startswith("cut"):
        disk.truncate(path, at if damage == "cut before" else at + length - 8)
    else:
        disk.content(path)[at + (8 if damage == "flip head" else 80)] ^= 1
    with pytest.raises(ReplicaDamaged, match="entry 2 of term 1 was on disk, and the log ends with 1"):
        files.open()


@pytest.mark.parametrize("content", [b"", b"\1" * 20, None])
def test_what_is_whole_is_opened_whatever_is_said_beside_it(content: bytes | None) -> None:
    disk = SimDisk()
    files, *_ = with_entries(disk)
    path = f"{DIRECTORY}/{REACHED_NAME}"
    if content is None:
        disk.remove(path)
    else:
        disk.truncate(path, 0)
        disk.write(path, 0, content)
    _, store = files.open()
    assert store.replica is not None and store.replica.last_index == 2


def test_after_a_power_cut_the_end_is_missed_from_the_next_start_on() -> None:
    disk = SimDisk()
    _, path, at, _ = with_entries(disk)
    disk = disk.crash(Random(1), keep=0.0, torn=False)
    files_on(disk).open()[1].let_go()
    disk.truncate(path, at)
    with pytest.raises(ReplicaDamaged, match="was on disk"):
        files_on(disk).open()


def test_entries_of_a_later_term_may_be_fewer() -> None:
    disk = SimDisk()
    files = made(disk)
    _, store = files.open()
    assert store.replica is not None
    for entries in ([(index, 1, 0, b"") for index in range(1, 6)], [(2, 2, 0, b"")]):
        store.replica.write(entries)
        commit(store)
        files.synced(store.replica)
    _, store = files_on(disk).open()
    assert store.replica is not None and store.replica.last_index == 2
