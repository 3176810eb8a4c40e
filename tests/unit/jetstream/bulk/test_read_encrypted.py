"""BULK.READ of encrypted streams: the same rows, each frame opened once, and much of it not on the loop."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from slipstream.jetstream.store.sealed.frames import FrameKeys
from support.bulk_world import BulkWorld, messages_of
from support.sealing import sealed_stores

COUNT = 4000  # some 400 KiB, thirteen frames
CHUNK = 96 * 1024


@pytest.fixture
def world() -> Iterator[BulkWorld]:
    """An encrypted stream whose messages are in many frames."""
    with sealed_stores():
        made = BulkWorld()
        made.create("S", subjects=["s.*"])
        made.fill(COUNT)
        made.reads_memory = True
        yield made


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often each frame was opened, by its number."""
    counts: Counter[int] = Counter()

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def count(self: FrameKeys, frame: memoryview, number: int, *more: Any) -> Any:
            counts[number] += 1
            return method(self, frame, number, *more)

        return count

    for name in ("open_body", "open_into"):
        monkeypatch.setattr(FrameKeys, name, counted(getattr(FrameKeys, name)))
    return counts


@pytest.mark.parametrize("chunk", [CHUNK, 256 * 1024])
def test_no_frame_is_opened_twice(world: BulkWorld, opened: Counter[int], chunk: int) -> None:
    opened.clear()
    reading = world.read(chunk_bytes=chunk)
    assert reading.seqs == list(range(1, COUNT + 1))
    assert reading.in_memory == len(reading.chunks) > 1
    assert len(opened) > 10 and set(opened.values()) == {1}


def test_a_range_that_ends_inside_of_a_frame(world: BulkWorld, opened: Counter[int]) -> None:
    opened.clear()
    assert world.read(first=5, last=3001, chunk_bytes=CHUNK).seqs == list(range(5, 3002))
    assert set(opened.values()) == {1}


def test_the_same_rows_whatever_is_gone_and_wanted(world: BulkWorld) -> None:
    """Gaps make stretches of their own, which are no frames."""
    rng = random.Random(3)
    for seq in rng.sample(range(1, COUNT + 1), 900):
        world.api("STREAM.MSG.DELETE.S", {"seq": seq, "no_erase": bool(seq % 2)})
    store = world.account.streams["S"].store
    for subjects in ([], ["s.3"], ["s.1", "s.7", "s.8"]):
        for chunk in (16 * 1024, CHUNK):
            reading = world.read(chunk_bytes=chunk, subjects=subjects)
            wanted = [
                seq
                for seq in range(1, COUNT + 1)
                if (found := store.get(seq)) is not None and (not subjects or found.subject.decode() in subjects)
            ]
            assert reading.seqs == wanted
            for message in (message for part in reading.chunks for message in messages_of(part)):
                assert message == store.get(message.seq)


def test_messages_larger_than_a_chunk(world: BulkWorld) -> None:
    world.create("L", subjects=["l.*"])
    for size in (200_000, 10, 40_000, 40_000, 10, 90_000, 100):
        world.ports.route(b"l.x", None, None, bytes(size))
    world.ports.settle()
    assert world.read("L", chunk_bytes=64 * 1024).seqs == [1, 2, 3, 4, 5, 6, 7]


def test_much_is_opened_by_threads(world: BulkWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[int] = []
    run = world.ports.run_blocking
    monkeypatch.setattr(world.ports, "run_blocking", lambda job, done: (jobs.append(1), run(job, done))[1])
    assert len(world.read(chunk_bytes=16 * 1024).chunks) > 10 and not jobs, "what is short is not worth a thread"
    assert len(world.read(chunk_bytes=CHUNK).chunks) - len(jobs) <= 1
