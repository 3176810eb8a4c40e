"""A power cut at every call to the disk while batches are committed: each is there as a whole or not at all."""

from __future__ import annotations

import random

import pytest

from slipstream.testing.sim_disk import SimDisk
from support.disk_world import disk_world
from support.jetstream_world import World
from support.sealing import both_forms

at_rest = both_forms()

SIZE = 5


def publish_batch(world: World, number: int, count: int = SIZE, size: int = 200) -> None:
    for seq in range(1, count + 1):
        commit = "Nats-Batch-Commit: 1\r\n" if seq == count else ""
        block = f"NATS/1.0\r\nNats-Batch-Id: b{number}\r\nNats-Batch-Sequence: {seq}\r\n{commit}\r\n".encode()
        world.request("s.a", b"%d" % number + bytes(size), block)


@pytest.mark.parametrize(("count", "size"), [(SIZE, 200), (40, 4000)])
def test_batches_are_whole_after_a_power_cut(count: int, size: int) -> None:
    """The second form fills more than a segment a batch."""
    disk = SimDisk()
    world = disk_world(disk)
    world.create(subjects=["s.>"], allow_atomic=True)
    rng = random.Random(1)
    acknowledged = 0
    states = 0

    def look(now: SimDisk) -> None:
        nonlocal states
        for keep, torn in ((0.0, False), (1.0, False), (rng.random(), True)):
            survivor = disk_world(now.crash(rng, keep=keep, torn=torn))
            store = survivor.account.streams["S"].store
            assert store.messages == store.last_seq and store.messages % count == 0, "half a batch"
            assert store.messages >= acknowledged * count, "acknowledged and lost"
            assert store.lost().seqs == []
            states += 1

    disk.before_call = look
    for number in range(6):
        publish_batch(world, number, count, size)
        acknowledged += 1
        world.ports.advance(2_000_000_000)
    assert states > 30
