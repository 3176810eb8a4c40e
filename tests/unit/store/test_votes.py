"""Term and vote survive every crash and the damage of one slot; without both a replica does not vote."""

from __future__ import annotations

import random

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.replica.votes import SLOT_BYTES, VOTE_NAME, VoteFile, Votes
from slipstream.testing.sim_disk import SimDisk

DIRECTORY = "/replica"
PATH = f"{DIRECTORY}/{VOTE_NAME}"


def new_disk() -> SimDisk:
    disk = SimDisk()
    disk.make_dir(DIRECTORY)
    disk.sync_dir("/")
    return disk


def test_what_was_saved_is_loaded() -> None:
    disk = new_disk()
    assert VoteFile(disk, DIRECTORY).load() is None
    saved = Votes(1, 7, 2, 40, [1, 2, 3], [4], [1, 2], [3], True, 12)
    VoteFile(disk, DIRECTORY).save(saved)
    assert VoteFile(disk.crash(random.Random(1), keep=0.0, torn=True), DIRECTORY).load() == saved


def test_a_crash_before_any_call_leaves_the_old_or_the_new_and_never_less_than_was_promised() -> None:
    states: list[tuple[SimDisk, int]] = []
    disk = new_disk()
    promised = 0
    rng = random.Random(2)

    def look(now: SimDisk) -> None:
        states.extend((now.crash(rng, keep=keep, torn=True), promised) for keep in (0.0, 0.5, 1.0) for _ in range(4))

    disk.before_call = look
    file = VoteFile(disk, DIRECTORY)
    for version in range(1, 4):
        file.save(Votes(version, version * 10, 1, 0, [1, 2, 3]))
        promised = version
    assert len(states) > 100
    for after, least in states:
        found = VoteFile(after, DIRECTORY).load()
        version = found.version if found is not None else 0
        assert least <= version <= least + 1
        assert found is None or found.term == version * 10


@pytest.mark.parametrize("slot", [0, SLOT_BYTES])
def test_damage_to_one_slot_costs_nothing(slot: int) -> None:
    for at in range(0, 40, 3):
        disk = new_disk()
        file = VoteFile(disk, DIRECTORY)
        file.save(Votes(1, 5, 1))
        file.save(Votes(2, 6, 3))
        disk.content(PATH)[slot + at] ^= 0x10
        assert file.load() == Votes(2, 6, 3)


def test_without_a_readable_slot_nobody_votes() -> None:
    disk = new_disk()
    file = VoteFile(disk, DIRECTORY)
    file.save(Votes(1, 5, 1))
    for slot in (0, SLOT_BYTES):
        disk.content(PATH)[slot + 20] ^= 1
    with pytest.raises(StorageFault, match="cannot be read"):
        file.load()
    disk.read_faults.add(PATH)
    with pytest.raises(StorageFault):
        file.load()


def test_a_failed_sync_is_told() -> None:
    disk = new_disk()
    file = VoteFile(disk, DIRECTORY)
    file.save(Votes(1, 5, 1))
    disk.faults = {disk.calls + 2: 5}
    with pytest.raises(OSError):
        file.save(Votes(2, 6, 1))


def test_a_membership_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        VoteFile(new_disk(), DIRECTORY).save(Votes(1, 1, 1, 0, list(range(5000))))
