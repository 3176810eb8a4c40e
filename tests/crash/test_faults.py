"""A disk that fails or is full: no false acknowledgement, no lost one, and service goes on by itself."""

from __future__ import annotations

import contextlib
import errno
import random
from collections.abc import Callable

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk.reserve import Reserve
from slipstream.jetstream.store.limits import STORE_RESERVE_BYTES
from slipstream.jetstream.store.values import StoreUnavailable
from slipstream.testing.sim_disk import SimDisk
from support.sealing import both_forms, is_sealed
from support.store_history import Driver
from support.stores import commit, fill, new_file_store, payload, reopen, upkeep

at_rest = both_forms()


def workload(driver: Driver) -> None:
    """Everything a store does, each step allowed to be refused."""
    steps = [
        lambda: driver.append(30),
        lambda: driver.journal(lambda store: store.journal.put(b"c", b"one")),
        lambda: driver.append(60),
        lambda: [driver.delete(seq) for seq in range(2, 70, 3)],
        lambda: driver.erase(5),
        lambda: driver.set_config(b"other"),
        lambda: driver.append(60),
        lambda: driver.journal(lambda store: store.journal.add(b"c", b"+")),
        lambda: [driver.delete(seq) for seq in range(3, 90)],
        lambda: driver.append(3),
        lambda: driver.purge(b"s.1"),
        lambda: driver.trim(60),
        lambda: driver.unit(5),
    ]
    take(driver, steps)


def units(driver: Driver) -> None:
    """Units over several commits and segments, one of them given up."""
    steps = [
        lambda: driver.append(10),
        lambda: driver.unit(3, 50, 2),
        lambda: driver.unit(3, 45, aborted=True),
        lambda: driver.append(2),
        lambda: driver.unit(2, 2),
    ]
    take(driver, steps)


def take(driver: Driver, steps: list[Callable[[], object]]) -> None:
    for step in steps:
        with contextlib.suppress(StoreUnavailable, KeyError):
            step()
        driver.commit()
        driver.upkeep()


def calls_of(workload: Callable[[Driver], None]) -> int:
    disk = SimDisk()
    driver = Driver(disk)
    start = disk.calls
    workload(driver)
    return disk.calls - start


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("workload", [workload, units])
def test_an_error_at_every_call(workload: Callable[[Driver], None], code: int) -> None:
    """The n-th call fails, for every n; the store is checked as it stands and as a crash would leave it.

    Sealed files, with twice the calls, take one kind of error at every other call, and the other kind between.
    """
    total = calls_of(workload)
    assert total > 40
    rng = random.Random(1)
    first, step = (1 + (code == errno.ENOSPC), 2) if is_sealed() else (1, 1)
    for n in range(first, total + 1, step):
        disk = SimDisk()
        driver = Driver(disk)
        disk.faults[disk.calls + n] = code
        workload(driver)
        assert driver.store.fault is None, f"still refusing after a passing error at call {n}"
        driver.append(1)
        assert driver.commit().fault is None
        driver.check(disk.crash(rng, keep=0.0, torn=False))
        driver.check(disk.copy())


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(20))
def test_several_errors(seed: int) -> None:
    """Errors in clusters, and a crash in the end."""
    rng = random.Random(seed)
    total = calls_of(workload)
    for _ in range(100):
        disk = SimDisk()
        driver = Driver(disk)
        for _ in range(rng.randint(2, 12)):
            disk.faults[disk.calls + rng.randint(1, total)] = rng.choice([errno.EIO, errno.ENOSPC])
        workload(driver)
        driver.check(disk.crash(rng, keep=rng.random(), torn=True))


def test_failed_sync_is_never_acknowledged_nor_tried_again() -> None:
    disk = SimDisk()
    store = new_file_store(disk)
    fill(store, 3)
    assert commit(store).last_seq == 3
    fill(store, 2)
    job = store.begin_commit()
    syncs: list[str] = []
    real = disk.sync

    def failing(path: str) -> None:
        syncs.append(path)
        disk.faults[disk.calls + 1] = errno.EIO
        real(path)

    disk.sync = failing  # type: ignore[method-assign]
    job.run()
    disk.sync = real  # type: ignore[method-assign]
    done = store.finish_commit(job)
    assert done.fault is not None and done.last_seq == 3
    assert len(syncs) == 1
    assert store.last_seq == 3 and store.get(4) is None
    with pytest.raises(StoreUnavailable) as caught:
        store.append(6, 1, b"a", b"", b"")
    assert not caught.value.full
    with pytest.raises(StorageFault):
        store.purge()
    upkeep(store)
    assert store.fault is None and store.last_seq == 3
    assert fill(store, 2) == [4, 5]
    assert commit(store).last_seq == 5
    assert reopen(disk).get(4).payload == payload(4)
    assert reopen(disk).messages == 5


def test_full_disk_refuses_messages_takes_purges_and_resumes() -> None:
    disk = SimDisk(capacity=1_500_000)
    store = new_file_store(disk, segment_bytes=256 * 1024)
    acknowledged = 0
    with pytest.raises(StoreUnavailable) as caught:
        for _ in range(10_000):
            fill(store, 10, size=200)
            done = commit(store)
            acknowledged = done.last_seq
            upkeep(store)
    assert caught.value.full
    assert acknowledged > 1_000
    assert {store.get(seq).payload for seq in (1, acknowledged)} == {payload(1, 200), payload(acknowledged, 200)}
    upkeep(store)
    assert store.fault is not None, "still full"
    store.journal.put(b"consumer", b"acks go on")
    assert commit(store).fault is None
    assert store.purge(up_to_seq=acknowledged - 99) == acknowledged - 100
    assert commit(store).fault is None
    for _ in range(3):
        upkeep(store)
        commit(store)
    assert store.fault is None, "space came back"
    fill(store, 10)
    assert commit(store).fault is None
    again = reopen(disk, segment_bytes=256 * 1024)
    assert again.messages == 110 and again.last_seq == store.last_seq


def test_space_given_from_outside_resumes_service() -> None:
    disk = SimDisk(capacity=300_000)
    store = new_file_store(disk, segment_bytes=64 * 1024)
    with pytest.raises(StoreUnavailable):
        for _ in range(10_000):
            fill(store, 10, size=200)
            commit(store)
            upkeep(store)
    last = store.committed_seq
    disk.capacity = 3_000_000
    for _ in range(3):
        upkeep(store)
    assert store.fault is None
    assert fill(store, 1) == [last + 1]
    assert commit(store).last_seq == last + 1
    assert reopen(disk, segment_bytes=64 * 1024).messages == last + 1


def test_reserve_is_given_up_and_taken_back() -> None:
    disk = SimDisk(capacity=9 << 20)
    disk.make_dir("/store")
    reserve = Reserve(disk, "/store")
    assert reserve.fill() and disk.used() == 8 << 20
    reserve.release()
    reserve.release()
    assert disk.used() == 0
    disk.create("/store/other")
    disk.allocate("/store/other", 5 << 20)
    assert not reserve.fill()


def test_start_on_a_full_disk_reads_and_purges() -> None:
    disk = SimDisk()
    store = new_file_store(disk)
    fill(store, 100)
    commit(store)
    disk.capacity = disk.used()
    again = reopen(disk)
    assert again.get(100).payload == payload(100)
    assert again.purge(keep=1) == 99
    assert commit(again).fault is None
    assert reopen(disk).messages == 1


def test_a_purge_brings_space_back_from_the_open_segment() -> None:
    """A large segment that is mostly dead is closed and rewritten when nothing else can give space."""
    disk = SimDisk(capacity=STORE_RESERVE_BYTES + 2_000_000)
    disk.make_dir("/store")
    reserve = Reserve(disk, "/store")
    assert reserve.fill()
    store = new_file_store(disk, segment_bytes=64 << 20, reserve=reserve)
    taken = 0
    for turn in range(3):
        with pytest.raises(StoreUnavailable):
            for _ in range(10_000):
                fill(store, 10, size=2_000)
                commit(store)
        taken += store.committed_seq - taken
        store.purge(keep=5)
        for _ in range(5):
            commit(store)
            upkeep(store)
        assert store.fault is None, f"no room in turn {turn}"
        assert not reserve.is_given_up
    assert taken * 2_000 > 1.5 * 2_000_000
    assert reopen(disk).messages == 5
