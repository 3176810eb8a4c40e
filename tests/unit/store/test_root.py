"""Directories of streams and the quarantine."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk import Disk, RealDisk
from slipstream.jetstream.store.file.root import StoreRoot
from slipstream.testing.sim_disk import SimDisk
from support.stores import UID, commit, fill, new_file_store, reopen


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else SimDisk()


def test_streams_are_found_under_any_account_name(disk: Disk, tmp_path: Path) -> None:
    root = StoreRoot(disk, str(tmp_path))
    for account in ("$G", "a/b", "..", "ünïcode"):
        directory = root.stream_directory(account, UID)
        assert "/../" not in directory
        fill(new_file_store(disk, directory), 3)
    assert sorted(account for account, _ in root.streams()) == ["$G", "..", "a/b", "ünïcode"]
    assert root.quarantined() == []


def test_what_cannot_be_opened_is_put_aside_with_all_its_bytes(disk: Disk, tmp_path: Path) -> None:
    root = StoreRoot(disk, str(tmp_path))
    good = root.stream_directory("A", UID)
    store = new_file_store(disk, good)
    fill(store, 3)
    commit(store)
    for _ in range(2):
        bad = root.stream_directory("A", bytes(16))
        disk.make_dir(bad)
        disk.create(bad + "/0000000001.0000.seg")
        disk.write(bad + "/0000000001.0000.seg", 0, b"not a segment")
        with pytest.raises(StorageFault):
            reopen(disk, bad)
        moved = root.put_aside(bad)
        assert disk.read(moved + "/0000000001.0000.seg", 0, 100) == b"not a segment"
    assert len(root.quarantined()) == 2
    assert root.streams() == [("A", good)]
    assert reopen(disk, good).messages == 3


def test_reserve_lies_beside_the_streams(disk: Disk, tmp_path: Path) -> None:
    root = StoreRoot(disk, str(tmp_path))
    assert root.reserve.fill()
    assert root.streams() == []
