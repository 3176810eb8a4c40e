"""Commits of several streams that are synced in one go: each keeps its promises, and its faults to itself."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Collection

import pytest

from slipstream.jetstream.store.file.group_commit import run_group
from slipstream.jetstream.store.values import Committed, Job
from slipstream.testing.sim_disk import SimDisk
from support.sealing import both_forms, is_sealed
from support.store_history import Broken, Driver

at_rest = both_forms()

DIRECTORIES = [f"/store/A/stream{number}" for number in range(3)]


class ForgetfulDisk(SimDisk):
    """Pretends to sync when it is asked for many files."""

    def sync_many(self, paths: Collection[str]) -> None:
        pass


def commit_together(drivers: list[Driver]) -> list[Committed]:
    """One commit of each that has something to commit, run together."""
    begun: list[tuple[Job, Callable[[Job], Committed]]] = []
    for driver in drivers:
        job = driver.store.begin_commit()
        if job is not None:
            begun.append((job, driver.in_flight()))
    run_group([job for job, _ in begun])
    return [settle(job) for job, settle in begun]


def change(driver: Driver, rng: random.Random) -> None:
    """Something, or nothing."""
    match rng.randrange(8):
        case 0:
            pass
        case 1:
            driver.append(rng.randrange(60, 120))  # over segments
        case 2:
            driver.delete(rng.randrange(1, driver.store.last_seq + 2))
        case 3:
            driver.erase(rng.randrange(1, driver.store.last_seq + 2))
        case 4:
            driver.journal(lambda store: store.journal.put(b"c", rng.randbytes(20)))
        case 5:
            driver.set_config(b"configuration %d" % rng.getrandbits(32))
        case _:
            driver.append(rng.randrange(1, 5))


def enumerate_states(disk: SimDisk, *, commits: int, images: int, seed: int) -> int:
    """Random changes of several streams, committed together; what a crash before every call could leave is checked."""
    rng, crashes = random.Random(seed), random.Random(seed + 1)
    # Small segments are made again and again, large ones are written to.
    sizes = (8192, 1 << 20, 1 << 20)
    drivers = [Driver(disk, directory=at, segment_bytes=size) for at, size in zip(DIRECTORIES, sizes, strict=True)]
    checked = 0

    def look(now: SimDisk) -> None:
        nonlocal checked
        for keep in (0.0, 1.0, *(crashes.random() for _ in range(images))):
            state = now.crash(crashes, keep=keep, torn=bool(crashes.getrandbits(1)))
            for driver in drivers:
                driver.check(state)
                checked += 1

    disk.before_call = look
    for _ in range(commits):
        for driver in drivers:
            change(driver, rng)
        for done in commit_together(drivers):
            assert done.fault is None
        if rng.random() < 0.3:
            rng.choice(drivers).upkeep()
    look(disk)
    return checked


def test_crash_states() -> None:
    # An erasure has ten calls more where frames are sealed.
    assert enumerate_states(SimDisk(), commits=4 if is_sealed() else 12, images=1, seed=1) > 300


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10))
def test_crash_states_long(seed: int) -> None:
    assert enumerate_states(SimDisk(), commits=60, images=6, seed=seed) > 3000


def test_the_checker_notices_a_common_sync_that_does_nothing() -> None:
    """The control: without it, something that was acknowledged must be found to be lost."""
    with pytest.raises(Broken, match="acknowledged and lost"):
        enumerate_states(ForgetfulDisk(), commits=12, images=1, seed=1)


def first_calls(disk: SimDisk) -> list[Driver]:
    drivers = [Driver(disk, directory=directory, segment_bytes=1 << 20) for directory in DIRECTORIES]
    for driver in drivers:
        driver.append(2)
    commit_together(drivers)
    return drivers


@pytest.mark.parametrize("call", range(1, 7))
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_fault_is_told_to_the_stream_it_concerns(call: int, code: int) -> None:
    """Three writes, then three syncs: one of them fails."""
    disk = SimDisk()
    drivers = first_calls(disk)
    for driver in drivers:
        driver.append(1)
    disk.faults[disk.calls + call] = code
    ended = commit_together(drivers)
    assert [done.fault is not None for done in ended] == [number == (call - 1) % 3 for number in range(3)]
    for driver, done in zip(drivers, ended, strict=True):
        assert done.last_seq == (2 if done.fault is not None else 3)
        driver.check(disk.crash(random.Random(call), keep=0.0, torn=False))


def test_an_exception_is_a_fault_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever went wrong there, nobody is told that something is on disk."""
    disk = SimDisk()
    drivers = first_calls(disk)
    for driver in drivers:
        driver.append(1)
    monkeypatch.setattr(disk, "write_many", lambda _writes: [][1])
    assert [done.fault is not None for done in commit_together(drivers)] == [True] * 3
