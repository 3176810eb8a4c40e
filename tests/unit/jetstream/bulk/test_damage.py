"""Bulk reads of a log that is damaged, rewritten or erased meanwhile: nothing is lost in silence."""

from __future__ import annotations

import pytest

from slipstream.kernels.bulk.arrowrows import RowDecoder
from slipstream.units import SECOND_NS
from support.bulk_world import BulkWorld


@pytest.fixture
def world() -> BulkWorld:
    """A file stream of 100 messages."""
    made = BulkWorld()
    made.create("S", subjects=["s.*"])
    made.fill(100)
    made.account.streams["S"].store.log.drop_caches()
    return made


def segment(world: BulkWorld) -> bytearray:
    (path,) = (path for path in world.disk.paths() if path.endswith(".seg"))
    return world.disk.content(path)


def place_of(world: BulkWorld, seq: int) -> int:
    offset: int = world.account.streams["S"].store.state.index.locate(seq)[1]
    return offset


def test_a_damaged_payload_is_named_by_its_reader(world: BulkWorld) -> None:
    segment(world)[place_of(world, 50) + 60] ^= 1
    reading = world.read()
    assert reading.end["rows"] == 100
    decoder = RowDecoder(())
    decoder.feed(b"".join(reading.chunks))
    assert (decoder.damaged, decoder.records, decoder.rows) == ([50], 100, 99)


def test_a_damaged_head_is_named_by_the_server(world: BulkWorld) -> None:
    segment(world)[place_of(world, 50) + 8] ^= 1
    reading = world.read()
    assert (reading.end["rows"], reading.end["lost"], reading.end["lost_count"]) == (99, [50], 1)
    assert reading.seqs == [seq for seq in range(1, 101) if seq != 50]
    assert "lost" not in world.read(first=51).end


def test_lost_records_are_named_after_a_restart(world: BulkWorld) -> None:
    world.fill(1)  # a frame that vouches for the one before
    content, at = segment(world), place_of(world, 50)
    content[at : at + 40] = bytes(40)
    again = world.restart()
    reading = again.read()
    assert 50 in reading.end["lost"]
    assert reading.end["rows"] + reading.end["lost_count"] == 101
    assert sorted([*reading.seqs, *reading.end["lost"]]) == list(range(1, 102))


def test_an_erasure_between_choice_and_read(world: BulkWorld) -> None:
    world.disk.nothing_cached = True
    world.ports.jobs_held = True
    reading = world.begin_read()
    store = world.account.streams["S"].store
    assert world.account.streams["S"].removals.delete(50, erase=True)
    world.ports._soon, soon = [], world.ports._soon
    for _ in range(2):  # the second one overwrites
        job = store.begin_commit()
        job.run()
        store.finish_commit(job)
    world.ports._soon += soon
    world.ports.jobs_held = False
    world.ports.settle()
    assert reading.seqs == [seq for seq in range(1, 101) if seq != 50]
    assert "lost" not in reading.end


def test_a_file_that_is_rewritten_meanwhile() -> None:
    world = BulkWorld()
    world.create("S", subjects=["s.*"])
    world.fill(30_000, payload=b"p" * 80)
    assert len([path for path in world.disk.paths() if path.endswith(".seg")]) > 3
    for seq in range(1, 20_000):
        if seq % 4:
            world.account.streams["S"].store.delete(seq)
    world.account.streams["S"].committer.wake()
    world.ports.settle()
    reading = world.begin_read(credit=1, chunk_bytes=16 * 1024)
    before = set(world.disk.paths())
    world.ports.advance(60 * SECOND_NS)
    assert before - set(world.disk.paths()), "a compaction was expected"
    while not reading.status:
        world.confirm(reading, 8)
    assert reading.seqs == [seq for seq in range(1, 30_001) if seq % 4 == 0 or seq >= 20_000]


def test_a_file_that_vanishes_under_a_read(world: BulkWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first reads fail as if the file had gone; the chunk is begun again, and then read slowly."""
    world.disk.nothing_cached = True
    read, failures = world.disk.read, [FileNotFoundError(2, "gone")] * 4

    def failing(path: str, offset: int, length: int) -> bytes:
        if failures and path.endswith(".seg"):
            raise failures.pop()
        return read(path, offset, length)

    monkeypatch.setattr(world.disk, "read", failing)
    reading = world.read()
    assert reading.seqs == list(range(1, 101))
    assert not failures
