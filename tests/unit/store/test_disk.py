"""The real disk and the simulated one behave alike where it matters."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from slipstream.jetstream.store.file import disk as disk_module
from slipstream.jetstream.store.file.disk import Disk, RealDisk
from slipstream.testing.sim_disk import SimDisk


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else SimDisk()


def test_files(disk: Disk, tmp_path: Path) -> None:
    home = str(tmp_path / "a" / "b")
    disk.make_dir(home)
    disk.make_dir(home)
    path = home + "/f"
    disk.create(path)
    with pytest.raises(FileExistsError):
        disk.create(path)
    disk.write(path, 3, b"abc")
    disk.sync(path)
    disk.sync_dir(home)
    assert disk.read(path, 0, 100) == b"\0\0\0abc"
    assert disk.read(path, 4, 1) == b"b" and disk.read(path, 100, 5) == b""
    room = memoryview(bytearray(b"-" * 8))
    assert disk.read_into(path, 3, room[1:3]) == 2 and bytes(room) == b"-ab-----"
    assert disk.read_into(path, 4, room[4:]) == 2 and bytes(room) == b"-ab-bc--"
    assert disk.read_into(path, 100, room) == 0
    assert disk.read_cached(path, 3, room[:3]) and bytes(room[:3]) == b"abc"
    assert not disk.read_cached(path, 4, room), "it is not there"
    disk.allocate(path, 100)
    disk.allocate(path, 50)
    assert disk.size(path) == 100 and disk.read(path, 90, 50) == bytes(10)
    disk.truncate(path, 4)
    assert disk.read(path, 0, 10) == b"\0\0\0a"
    disk.drop_cache(path)
    disk.write_back(path, 0, 4)
    disk.write_back(path, 0, 1 << 40)  # there is no more
    assert disk.read(path, 0, 10) == b"\0\0\0a"
    disk.create(home + "/g")
    disk.write(home + "/g", 0, b"new")
    disk.rename(home + "/g", path)
    assert disk.read(path, 0, 10) == b"new"
    assert disk.list_dir(home) == ["f"]
    assert disk.is_dir(home) and not disk.is_dir(path)
    disk.remove(path)
    with pytest.raises(FileNotFoundError):
        disk.read(path, 0, 1)
    disk.remove_dir(home)
    assert disk.list_dir(home) == []


def test_open_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_module, "STORE_OPEN_FILES_MAX", 4)
    disk = RealDisk()
    for i in range(20):
        path = str(tmp_path / str(i))
        disk.create(path)
        disk.write(path, 0, b"%d" % i)
    assert len(disk._open) <= 4
    assert [disk.read(str(tmp_path / str(i)), 0, 5) for i in range(20)] == [b"%d" % i for i in range(20)]
    disk.close()
    assert not disk._open


def test_a_file_that_goes_while_it_is_used_is_closed_by_its_last_user(tmp_path: Path) -> None:
    disk, path = RealDisk(), str(tmp_path / "f")
    disk.create(path)
    with disk._file(path) as fd:
        with disk._file(path):
            disk.remove(path)
        assert os.fstat(fd).st_nlink == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    disk.create(path)
    disk.write(path, 0, b"another")
    assert disk.read(path, 0, 10) == b"another"


def test_a_power_cut_forgets_what_was_not_synced() -> None:
    disk = SimDisk()
    disk.make_dir("/d")
    disk.create("/d/kept")
    disk.write("/d/kept", 0, b"synced")
    disk.sync("/d/kept")
    disk.sync_dir("/d")
    disk.write("/d/kept", 0, b"SYNC")
    disk.create("/d/new")
    disk.write("/d/new", 0, b"x")
    disk.sync("/d/new")
    none = disk.crash(random.Random(1), keep=0.0, torn=False)
    assert none.paths() == ["/d/kept"] and bytes(none.content("/d/kept")) == b"synced"
    every = disk.crash(random.Random(1), keep=1.0, torn=False)
    assert every.paths() == ["/d/kept", "/d/new"] and bytes(every.content("/d/kept")) == b"SYNCed"
