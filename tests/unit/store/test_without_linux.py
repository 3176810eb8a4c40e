"""The disk where the system has not all calls of Linux, as macOS."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import pytest

from slipstream.jetstream.store.file.disk.data_sync import sync_data
from slipstream.jetstream.store.file.disk.real_disk import RealDisk

FULL_SYNC = 51


@pytest.fixture(autouse=True)
def macos(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fdatasync", "posix_fallocate", "posix_fadvise"):
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", FULL_SYNC, raising=False)


def test_files_are_made_written_synced_and_dropped(tmp_path: Path) -> None:
    disk = RealDisk()
    path = str(tmp_path / "file")
    disk.create(path)
    disk.allocate(path, 4096)
    disk.write(path, 0, b"abc")
    disk.sync(path)
    disk.drop_cache(path)
    disk.close()
    content = Path(path).read_bytes()
    assert (content[:3], len(content)) == (b"abc", 4096)


@pytest.mark.parametrize("has_full_sync", [True, False])
def test_a_sync_goes_beyond_the_cache_of_the_device(monkeypatch: pytest.MonkeyPatch, has_full_sync: bool) -> None:
    called: list[tuple[str, int]] = []

    def control(_fd: int, call: int) -> None:
        called.append(("fcntl", call))
        if not has_full_sync:
            raise OSError("a file system of a network")

    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda fd: called.append(("fsync", fd)))
    sync_data(7)
    assert called == [("fcntl", FULL_SYNC)] + ([] if has_full_sync else [("fsync", 7)])
