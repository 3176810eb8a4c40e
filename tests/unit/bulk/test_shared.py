"""Memory shared between processes of this machine: found, checked, read only, and gone when it should be."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from slipstream.bulk.shared import attach
from slipstream.server.shared_memory import SharedRoom, share_memory

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
