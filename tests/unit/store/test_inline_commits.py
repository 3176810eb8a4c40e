"""Short commits that run inside of `begin_commit`: what they promise is what every commit promises."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from slipstream.jetstream.store.file.disk.disk import SyncedWrite
from slipstream.jetstream.store.file.disk.inline_sync import SLOW_SYNC_PAUSE, InlineSync
from slipstream.jetstream.store.file.disk.open_files import OpenFiles
from slipstream.jetstream.store.file.disk.real_disk import RealDisk
from slipstream.jetstream.store.file.disk.sync_times import SyncTimes
from slipstream.jetstream.store.file.group_commit import run_group
from slipstream.jetstream.store.file.store import FileStore
from slipstream.testing.sim_disk import SimDisk
from support.sealing import both_forms
from support.stores import commit, new_file_store, reopen

at_rest = both_forms()


class Busy:
    """A write that is done when somebody waits however long it takes."""

    def __init__(self, disk: SlowDisk, path: str, offset: int, data: bytes) -> None:
        self._disk, self._write = disk, (path, offset, data)

    def wait(self, seconds: float) -> bool:
        if seconds >= 0:
            return False
        self._disk.write(*self._write)
        self._disk.sync(self._write[0])
        return True


class SlowDisk(SimDisk):
    """No sync ends while the loop waits."""

    def begin_synced_write(self, path: str, offset: int, data: bytes) -> SyncedWrite:
        return Busy(self, path, offset, data)


def ready(disk: SimDisk) -> FileStore:
    """A store with reserved space behind its first message."""
    store = new_file_store(disk)
    store.append(1, 1, b"s", b"", b"first")
    commit(store)
    return store


@pytest.mark.parametrize("sync", [True, False])
def test_a_short_commit_ends_where_it_begins(sync: bool) -> None:
    disk = SimDisk()
    store = ready(disk)
    store.append(2, 2, b"s", b"", b"second")
    store.delete(1)
    job = store.begin_commit(sync=sync, inline=True)
    assert job is not None and job.attend()
    assert store.finish_commit(job).last_seq == 2
    if sync:
        again = reopen(disk.crash(random.Random(1), keep=0.0, torn=False))
        assert (again.first_seq, again.last_seq) == (2, 2)


def test_one_that_takes_long_is_waited_for_elsewhere() -> None:
    store = ready(SlowDisk())
    store.append(2, 2, b"s", b"", b"second")
    job = store.begin_commit(inline=True)
    assert job is not None and not job.attend() and store.committed_seq == 1
    job.run()
    assert job.ended and store.finish_commit(job).last_seq == 2


def test_one_that_takes_long_among_others() -> None:
    stores = [ready(SlowDisk()) for _ in range(3)]
    jobs = []
    for number, store in enumerate(stores):
        store.append(2, 2, b"s", b"", b"second")
        job = store.begin_commit(inline=number > 0)
        assert job is not None
        jobs.append(job)
    run_group(jobs)
    assert [store.finish_commit(job).last_seq for store, job in zip(stores, jobs, strict=True)] == [2, 2, 2]


def test_a_commit_that_needs_more_than_a_short_write_is_for_a_thread() -> None:
    store = ready(SimDisk())
    store.append(2, 2, b"s", b"", bytes(100_000))
    job = store.begin_commit(inline=True)
    assert job is not None and not job.attend()


@pytest.mark.parametrize("slow", [False, True])
def test_a_device_that_fails(slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SlowDisk() if slow else SimDisk()
    store = ready(disk)
    store.append(2, 2, b"s", b"", b"second")

    def fails(_path: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk, "sync", fails)
    done = commit(store, inline=True)
    assert done is not None and done.fault is not None and done.last_seq == 1
    assert store.last_seq == 1


def test_the_real_disk_does_one_at_a_time(tmp_path: Path) -> None:
    disk, path = RealDisk(), str(tmp_path / "file")
    disk.create(path)
    first = disk.begin_synced_write(path, 0, b"abc")
    assert first is not None and disk.begin_synced_write(path, 0, b"def") is None
    assert first.wait(-1) and disk.read(path, 0, 9) == b"abc"


def test_an_error_is_told_and_the_file_is_free_again(tmp_path: Path) -> None:
    files, path = OpenFiles(), str(tmp_path / "file")
    (tmp_path / "file").touch()
    syncs, file = InlineSync(files, SyncTimes()), files.acquire(path)
    os.close(file.fd)  # the device is gone
    begun = syncs.begin(path, 0, b"def")
    assert begun is not None
    with pytest.raises(OSError, match="Bad file descriptor"):
        begun.wait(-1)
    assert file.users == 1, "only this test has it"
    again = syncs.begin(path, 0, b"def")
    assert again is not None, "the next one may begin"
    with pytest.raises(OSError, match="Bad file descriptor"):
        again.wait(-1)


def test_after_one_that_took_long_the_loop_does_not_wait_for_a_while(tmp_path: Path) -> None:
    syncs, path = InlineSync(OpenFiles(), SyncTimes()), str(tmp_path / "file")
    (tmp_path / "file").touch()
    syncs.pause = SLOW_SYNC_PAUSE
    tried = [syncs.begin(path, 0, b"abc") for _ in range(SLOW_SYNC_PAUSE + 1)]
    assert tried[:-1] == [None] * SLOW_SYNC_PAUSE
    assert tried[-1] is not None and tried[-1].wait(-1)
