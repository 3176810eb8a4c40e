"""Memory shared between processes of this machine: found, checked, read only, and gone when it should be."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from typing import Any

import pytest

from slipstream.bulk.shared import attach
from slipstream.server.jetstream.shared_memory import SharedRoom, share_memory

NAME = "slipstream-bulk-ABCDEFGHIJKLMNOPQRSTUV"


def offer(room: SharedRoom, **changes: Any) -> dict[str, Any]:
    return {"path": room.path, "name": NAME, "bytes": len(room.view), **changes}


@pytest.fixture
def room() -> SharedRoom:
    made = share_memory(NAME, 8192)
    assert made is not None
    return made


def test_what_is_written_is_seen(room: SharedRoom) -> None:
    seen = attach(offer(room))
    assert seen is not None and seen.readonly
    room.view[5:10] = b"hello"
    assert seen[5:10] == b"hello"
    room.close()
    room.close()
    assert seen[5:10] == b"hello", "as long as somebody looks"
    assert attach(offer(room, bytes=8192)) is None


def test_another_process_sees_it(room: SharedRoom) -> None:
    room.view[:5] = b"hello"
    code = "import json, sys\nfrom slipstream.bulk.shared import attach\n"
    code += f"print(bytes(attach({offer(room)!r})[:5]))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"b'hello'\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"name": NAME[:-1] + "X"},
        {"name": "short"},
        {"bytes": 4096},
        {"bytes": 0},
        {"bytes": "8192"},
        {"path": "/proc/1/fd/99999"},
        {"path": "/dev/zero"},
        {"path": 7},
        {"path": "/proc/self/\0"},
    ],
)
def test_offers_that_are_not_taken(room: SharedRoom, changes: dict[str, Any]) -> None:
    assert attach(offer(room, **changes)) is None


@pytest.mark.parametrize("to_write", [False, True])
def test_nobody_changes_its_size(to_write: bool) -> None:
    """To touch memory that somebody cut ends the process: SIGBUS."""
    room = share_memory(NAME, 8192, to_write=to_write)
    assert room is not None
    fd = os.open(room.path, os.O_RDWR)
    try:
        for size in (0, 4096, 16384):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, size)
        with pytest.raises(PermissionError):
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    finally:
        os.close(fd)
    room.view[8191] = 1
    assert bytes(room.view[8190:]) == b"\0\1"


def test_only_what_is_to_be_written_can_be(room: SharedRoom) -> None:
    assert attach(offer(room), to_write=True) is None
    fd = os.open(room.path, os.O_RDWR)
    try:
        with pytest.raises(PermissionError):
            os.write(fd, b"x")
    finally:
        os.close(fd)
    other = share_memory(NAME, 8192, to_write=True)
    assert other is not None
    seen = attach(offer(other), to_write=True)
    assert seen is not None
    seen[:5] = b"hello"
    assert bytes(other.view[:5]) == b"hello"


def test_memory_that_could_be_cut_is_not_used() -> None:
    fd = os.memfd_create(NAME, os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, 4096)
        said = {"path": f"/proc/{os.getpid()}/fd/{fd}", "name": NAME, "bytes": 4096}
        assert attach(said) is None
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        assert attach(said) is not None
    finally:
        os.close(fd)


@pytest.mark.parametrize("said", [None, [], "x", {}])
def test_offers_that_are_none(said: object) -> None:
    assert attach(said) is None


def test_a_pipe_of_that_number_is_not_opened() -> None:
    reading, writing = os.pipe()
    try:
        assert attach({"path": f"/proc/{os.getpid()}/fd/{reading}", "name": NAME, "bytes": 1}) is None
    finally:
        os.close(reading)
        os.close(writing)


def test_no_memory_left(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(os, "ftruncate", lambda _fd, _size: (_ for _ in ()).throw(OSError(12, "no memory")))
    assert share_memory(NAME, 8192) is None
    assert os.listdir("/proc/self/fd") == before
    monkeypatch.delattr(os, "memfd_create")
    assert share_memory(NAME, 8192) is None
