"""What opening a stream costs grows with its segments, not with their square. Counted, not timed."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType

from slipstream.testing.sim_disk import SimDisk
from support.stores import commit, fill, new_file_store, reopen, upkeep

SEGMENT = 4096 + 600  # header and a few messages


class CountingDisk(SimDisk):
    """Counts what recovery asks of a disk."""

    asked: Counter[str]

    def list_dir(self, path: str) -> list[str]:
        self.asked["list_dir"] += 1
        return super().list_dir(path)

    def read(self, path: str, offset: int, length: int) -> bytes:
        self.asked["read"] += 1
        return super().read(path, offset, length)

    def size(self, path: str) -> int:
        self.asked["size"] += 1
        return super().size(path)


def cost_of_opening(segments: int) -> tuple[Counter[str], int]:
    """Questions to the disk, and lines of Python run by the store, to open a stream of so many segments."""
    disk = CountingDisk()
    disk.asked = Counter()
    store = new_file_store(disk, segment_bytes=SEGMENT)
    while len(store.log.segments) < segments:
        fill(store, 1)
        if store.last_seq % 50 == 0:
            commit(store)
    commit(store)
    upkeep(store, turns=3 * segments)  # index files and a manifest; so few segments stay as they are
    segments_now = len(store.log.segments)
    disk.asked.clear()
    lines = 0

    def trace(frame: FrameType, event: str, _arg: object) -> object:
        nonlocal lines
        if "/store/file/" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return trace

    sys.settrace(trace)
    try:
        again = reopen(disk, segment_bytes=SEGMENT)
    finally:
        sys.settrace(None)
    assert again.messages == store.messages and segments_now >= segments // 2
    return disk.asked, lines * segments // segments_now


def test_twice_the_segments_cost_twice_as_much() -> None:
    (few_calls, few_lines), (many_calls, many_lines) = cost_of_opening(100), cost_of_opening(400)
    assert many_calls["list_dir"] == few_calls["list_dir"]
    assert many_calls["read"] <= 5 * few_calls["read"] and many_calls["size"] <= 5 * few_calls["size"]
    assert many_lines <= 5 * few_lines
