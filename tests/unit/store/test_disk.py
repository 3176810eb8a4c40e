"""The real disk and the simulated one behave alike where it matters."""

from __future__ import annotations

import gc
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.jetstream.store.file.disk import group_sync, real_disk
from slipstream.jetstream.store.file.disk.disk import Disk, make_dirs
from slipstream.jetstream.store.file.disk.open_files import open_files_max
from slipstream.jetstream.store.file.disk.real_disk import RealDisk
from slipstream.jetstream.store.limits import STORE_OPEN_FILES_MAX
from slipstream.kernels.log.stretches import read_stretches
from slipstream.testing.sim_disk import SimDisk


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else SimDisk()


@pytest.mark.parametrize("wait", [True, False])
def test_stretches(disk: Disk, tmp_path: Path, wait: bool) -> None:
    disk.make_dir(str(tmp_path))
    path = str(tmp_path / "f")
    disk.create(path)
    disk.write(path, 0, b"0123456789")
    room = memoryview(bytearray(b"-" * 8))

    def read(*stretches: tuple[int, int]) -> int:
        return disk.read_stretches(path, b"".join(struct.pack("=QQ", *one) for one in stretches), room[1:], wait=wait)

    assert read((3, 2), (9, 1), (0, 3)) == 6 and bytes(room) == b"-349012-"
    assert read((5, 1), (8, 4), (0, 1)) == 3 and bytes(room) == b"-589012-", "the file ends in the second"
    assert read((100, 4)) == 0 and read() == 0 and read((2, 0)) == 0
    assert read((0, 7)) == 7 and bytes(room) == b"-0123456"


def test_stretches_that_cannot_be_read(disk: Disk, tmp_path: Path) -> None:
    disk.make_dir(str(tmp_path))
    path, one = str(tmp_path / "none"), struct.pack("=QQ", 0, 4)
    with pytest.raises(FileNotFoundError):
        disk.read_stretches(path, one, memoryview(bytearray(4)))
    if isinstance(disk, SimDisk):
        disk.create(path)
        disk.read_faults.add(path)
        with pytest.raises(OSError, match="Input/output"):
            disk.read_stretches(path, one, memoryview(bytearray(4)))
    assert disk.read_stretches(path, one, memoryview(bytearray(4)), wait=False) == 0


def test_the_kernel_reads_no_more_than_there_is_room_for() -> None:
    with pytest.raises(ValueError, match="too little room"):
        read_stretches(0, struct.pack("=QQQQ", 0, 3, 0, 2), bytearray(4))
    with pytest.raises(ValueError, match="too little room"):
        read_stretches(0, struct.pack("=QQ", 0, 2**64 - 1), bytearray(4))
    with pytest.raises(OSError, match="Bad file descriptor"):
        read_stretches(-1, struct.pack("=QQ", 0, 4), bytearray(4))
    assert read_stretches(-1, struct.pack("=QQ", 0, 4), bytearray(4), False) == 0


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
    disk = RealDisk()
    monkeypatch.setattr(disk._files, "most", 4)
    for i in range(20):
        path = str(tmp_path / str(i))
        disk.create(path)
        disk.write(path, 0, b"%d" % i)
    assert len(disk._files) <= 4
    assert [disk.read(str(tmp_path / str(i)), 0, 5) for i in range(20)] == [b"%d" % i for i in range(20)]
    disk.close()
    assert not len(disk._files)


def test_descriptors_are_shared_with_clients() -> None:
    assert open_files_max(20_000) < 20_000 - 10_000 - 1_000, "ten thousand clients have room beside the files"
    assert open_files_max(65_536) > 20_000, "ten thousand streams have two files each"
    assert open_files_max(1 << 30) == STORE_OPEN_FILES_MAX
    assert open_files_max(64) == open_files_max(0) == 1


def test_files_give_way_when_there_are_no_descriptors_left(tmp_path: Path) -> None:
    """In a process of its own: others have taken more descriptors than the files left to them."""
    code = """
import os, resource, sys
from slipstream.jetstream.store.file.disk.real_disk import RealDisk

resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
disk, home = RealDisk(), sys.argv[1]
disk._files.most = 1000
for i in range(300):
    disk.create(f"{home}/{i}")
    disk.write(f"{home}/{i}", 0, b"%d" % i)
taken = [os.open("/dev/null", os.O_RDONLY)]
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
assert all(disk.read(f"{home}/{i}", 0, 9) == b"%d" % i for i in range(300))
disk.close()
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)


def test_a_file_that_goes_while_it_is_used_is_closed_by_its_last_user(tmp_path: Path) -> None:
    disk, path = RealDisk(), str(tmp_path / "f")
    disk.create(path)
    with disk._files.using(path) as fd:
        with disk._files.using(path):
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
    disk.sync_dir("/")
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


def test_a_power_cut_forgets_directories_and_what_is_in_them() -> None:
    disk = SimDisk()
    make_dirs(disk, "/a/b", below="")
    disk.make_dir("/a/b/c")
    for path in ("/a/b/kept", "/a/b/c/synced"):
        disk.create(path)
        disk.write(path, 0, b"x")
        disk.sync(path)
    disk.sync_dir("/a/b/c")
    none = disk.crash(random.Random(1), keep=0.0, torn=False)
    assert none.is_dir("/a/b") and not none.is_dir("/a/b/c") and none.paths() == []
    disk.sync_dir("/a/b")
    assert disk.crash(random.Random(1), keep=0.0, torn=False).paths() == ["/a/b/c/synced", "/a/b/kept"]


def test_a_move_is_in_one_place_or_in_the_other() -> None:
    disk = SimDisk()
    for path in ("/from", "/to"):
        make_dirs(disk, path, below="")
    make_dirs(disk, "/from/d", below="/from")
    disk.create("/from/d/f")
    disk.sync_dir("/from/d")
    disk.rename("/from/d", "/to/d")
    disk.sync_dir("/from")
    for seed in range(20):
        assert disk.crash(random.Random(seed), keep=0.5, torn=False).paths() in (["/from/d/f"], ["/to/d/f"])
    disk.sync_dir("/to")
    assert disk.crash(random.Random(1), keep=0.0, torn=False).paths() == ["/to/d/f"]


def test_what_a_killed_process_leaves_is_all_there_and_as_unsafe_as_before() -> None:
    disk = SimDisk()
    make_dirs(disk, "/d", below="")
    disk.create("/d/f")
    disk.write("/d/f", 0, b"written")
    left = disk.kill()
    disk.sync("/d/f")
    disk.sync_dir("/d")
    assert left.read("/d/f", 0, 10) == b"written"
    assert left.crash(random.Random(1), keep=0.0, torn=False).paths() == []
    assert disk.crash(random.Random(1), keep=0.0, torn=False).paths() == ["/d/f"]


def test_directories_are_made_to_stay_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = RealDisk()
    synced: list[str] = []
    monkeypatch.setattr(disk, "sync_dir", synced.append)
    home = str(tmp_path)
    make_dirs(disk, f"{home}/a/b", below=home)
    make_dirs(disk, f"{home}/a/b", below=home)
    assert synced == [home, f"{home}/a"] * 2 and disk.is_dir(f"{home}/a/b")


@pytest.mark.parametrize("count", [1, group_sync.SYNC_WHOLE_FILES_MIN, 40])
def test_many_files_at_once(disk: Disk, tmp_path: Path, count: int) -> None:
    make_dirs(disk, str(tmp_path), below="" if isinstance(disk, SimDisk) else str(tmp_path.parent))
    paths = [str(tmp_path / f"f{number}") for number in range(count)]
    for path in paths:
        disk.create(path)
    missing = str(tmp_path / "missing")
    writes = [(path, 3, path.encode()) for path in paths]
    errors = disk.write_many([*writes[:1], (missing, 0, b"x"), *writes[1:]])
    assert [type(error) for error in errors] == [type(None), FileNotFoundError, *[type(None)] * (count - 1)]
    disk.sync_many(paths)
    for path in paths:
        assert disk.read(path, 0, 1000) == b"\0\0\0" + path.encode()
    if isinstance(disk, SimDisk):
        disk.sync_dir(str(tmp_path))
        kept = disk.crash(random.Random(1), keep=0.0, torn=False)
        assert [bytes(kept.content(path)[3:]) for path in paths] == [path.encode() for path in paths]


class Syncs:
    """What the operating system was asked to sync."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.whole = self.single = 0
        self.file_s = group_sync.SYNC_FILE_S
        self.fails = False
        self.takes_s = 0.0
        self.now_s = 0.0
        monkeypatch.setattr(group_sync, "sync_whole", self._whole)
        monkeypatch.setattr(os, "fdatasync", self._single)
        monkeypatch.setattr(group_sync.time, "monotonic", lambda: self.now_s)

    def _whole(self, _fd: int) -> None:
        self.whole += 1
        self.now_s += self.takes_s
        if self.fails:
            raise OSError(5, "Input/output error")

    def _single(self, _fd: int) -> None:
        self.single += 1
        self.now_s += self.file_s


def files_to_sync(tmp_path: Path, count: int) -> tuple[RealDisk, list[str]]:
    disk = RealDisk()
    paths = [str(tmp_path / f"f{number}") for number in range(count)]
    for path in paths:
        disk.create(path)
        disk.write(path, 0, b"x")
    return disk, paths


def test_few_files_are_synced_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = group_sync.SYNC_WHOLE_FILES_MIN - 1
    disk, paths = files_to_sync(tmp_path, few)
    syncs = Syncs(monkeypatch)
    disk.sync_many(paths)
    assert (syncs.whole, syncs.single) == (0, few)
    disk.close()


def test_many_files_are_synced_with_their_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, paths = files_to_sync(tmp_path, 30)
    syncs = Syncs(monkeypatch)
    disk.sync_many(paths)
    assert (syncs.whole, syncs.single) == (1, 1), "one file's sync empties the device's cache"
    disk.close()


def test_a_file_system_that_failed_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error is told once: whoever asks next must ask the files."""
    disk, paths = files_to_sync(tmp_path, 30)
    syncs = Syncs(monkeypatch)
    syncs.fails = True
    disk.sync_many(paths)
    disk.sync_many(paths)
    assert (syncs.whole, syncs.single) == (1, 60)
    disk.close()


def test_a_file_system_that_is_busy_with_others_is_left_alone_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, paths = files_to_sync(tmp_path, 30)
    syncs = Syncs(monkeypatch)
    syncs.takes_s = 100 * group_sync.SYNC_FILE_S
    disk.sync_many(paths)
    disk.sync_many(paths)
    assert (syncs.whole, syncs.single) == (1, 31)
    syncs.now_s += group_sync.SYNC_WHOLE_PAUSE_S
    disk.sync_many(paths)
    assert syncs.whole == 2
    syncs.file_s = 50 * group_sync.SYNC_FILE_S  # it would have been faster than this
    for _ in range(3):
        disk.sync_many(paths)
    assert syncs.whole > 2
    disk.close()


def test_a_system_that_keeps_errors_to_itself_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = os.uname_result(("Linux", "host", "5.7.19-generic", "#1", "x86_64"))
    monkeypatch.setattr(os, "uname", lambda: old)
    disk, paths = files_to_sync(tmp_path, 30)
    syncs = Syncs(monkeypatch)
    disk.sync_many(paths)
    assert (syncs.whole, syncs.single) == (0, 30)
    disk.close()


def test_much_is_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, path, piece = RealDisk(), str(tmp_path / "f"), 1_000
    monkeypatch.setattr(real_disk, "STORE_WRITE_PIECE_BYTES", piece)
    sizes: list[int] = []

    def pwrite(fd: int, data: bytes | memoryview, offset: int) -> int:
        sizes.append(len(data))
        return write(fd, data[:900], offset)  # the operating system may take less

    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", pwrite)
    disk.create(path)
    data = random.Random(1).randbytes(2 * piece + 1)
    disk.write(path, 5, data)
    assert disk.read(path, 5, 3 * piece) == data
    assert max(sizes) == piece
    disk.close()


def test_a_disk_that_nobody_has_any_more_holds_no_descriptor(tmp_path: Path) -> None:
    disk, path = RealDisk(), str(tmp_path / "file")
    disk.create(path)
    disk.write(path, 0, b"x")
    opened = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    assert path in [os.readlink(link) for link in opened if os.path.islink(link)]
    del disk
    gc.collect()
    assert path not in [os.readlink(link) for link in opened if os.path.islink(link)]
