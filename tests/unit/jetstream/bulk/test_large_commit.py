"""Commits of many slices, written in many steps: whatever order reads end in, whenever the power goes."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from slipstream.jetstream.bulk import commits
from slipstream.jetstream.bulk.limits import BULK_CONGESTED_NS
from slipstream.units import KIB
from support.bulk_world import BulkWorld

ROWS = [(f"s.{n % 3}", b"", b"%d-" % n + bytes(n * 37 % 4000)) for n in range(800)]
PAYLOADS = [payload for _, _, payload in ROWS]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many slices and many commits of parts of the unit."""
    monkeypatch.setattr(commits, "BULK_COMMIT_SLICE_BYTES", 32 * KIB)
    monkeypatch.setattr(commits, "BULK_COMMIT_WRITE_BYTES", 64 * KIB)


def begin(world: BulkWorld, *parts: dict[str, Any]) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = []
    world.ports.subscribe(b"_INBOX.c", lambda _s, _r, _h, payload: answers.append(json.loads(payload)))
    body = json.dumps({"txn": "T", "batch_id": 1, "parts": parts}).encode()
    world.ports.route(b"$JS.API.BULK.COMMIT.S", b"_INBOX.c", None, body)
    return answers


def finish(world: BulkWorld, answers: list[dict[str, Any]], rng: random.Random) -> int:
    """Let jobs end one by one in any order until there is an answer; how many were under way at once."""
    most = 0
    world.ports.jobs_held = True
    while not answers:
        world.ports.settle()
        most = max(most, len(world.ports.jobs))
        if world.ports.jobs:
            job, done = world.ports.jobs.pop(rng.randrange(len(world.ports.jobs)))
            job()
            done()
        else:
            world.ports.advance(BULK_CONGESTED_NS)  # the disk had to catch up
    world.ports.jobs_held = False
    world.ports.settle()
    return most


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("storage", ["file", "memory"])
def test_reads_end_in_any_order(seed: int, storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "BULK_COMMIT_BACKLOG_BYTES", 200 * KIB)
    world = BulkWorld()
    world.create("S", subjects=["s.*"], storage=storage)
    first, second = world.stage(ROWS, part=0), world.stage(ROWS[:7], part=1)
    empty = world.stage([], part=2)
    world.ports.jobs_held = True
    answers = begin(world, second, empty, first)
    assert finish(world, answers, random.Random(seed)) >= 2, "slices are read ahead"
    assert (answers[0]["first_seq"], answers[0]["last_seq"]) == (1, 807)
    assert world.texts() == PAYLOADS[:7] + PAYLOADS
    world.account.streams["S"].check_invariants()


def test_a_part_that_is_gone_ends_the_commit() -> None:
    world = BulkWorld()
    world.create("S", subjects=["s.*"])
    part = world.stage(ROWS)
    path = next(path for path in world.disk.paths() if path.endswith(".part"))
    content = world.disk.read(path, 0, 1 << 30)
    world.disk.truncate(path, len(content) - 100 * KIB)
    assert world.commit(1, [part])["error"]["err_code"] == 30010
    assert world.texts() == []
    world.disk.write(path, 0, content)
    assert world.commit(1, [part])["count"] == 800


@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_during_many_steps(seed: int) -> None:
    """Steps are not synced one by one; what was answered before is safe, and the unit is whole or was never there."""
    rng = random.Random(seed)
    world = BulkWorld()
    world.create("S", subjects=["s.*"])
    world.publish("s.1", b"before")
    part = world.stage(ROWS)
    images, syncs = [], []
    write, sync = world.disk.write, world.disk.sync

    def noting_write(path: str, offset: int, data: bytes) -> None:
        write(path, offset, data)
        images.append(world.disk.crash(rng, keep=rng.random(), torn=True))

    def noting_sync(path: str) -> None:
        sync(path)
        syncs.append(path)

    world.disk.write, world.disk.sync = noting_write, noting_sync  # type: ignore[method-assign]
    world.ports.jobs_held = True
    answers = begin(world, part)
    finish(world, answers, rng)
    assert answers[0]["count"] == 800
    world.disk.write, world.disk.sync = write, sync  # type: ignore[method-assign]
    images.append(world.disk.crash(rng, keep=0.0, torn=False))
    assert len(images) > 10 and len(syncs) < 6, "the ends of segments, and all at the end"
    for image in [*rng.sample(images[:-1], 4), images[-1]]:
        again = BulkWorld(image)
        texts = again.texts()
        assert texts in ([b"before"], [b"before", *PAYLOADS])
        repeated = again.commit(1, [part])
        if "error" in repeated:  # the part was not synced either
            assert len(texts) == 1
            repeated = again.commit(1, [again.stage(ROWS, attempt=1)])
        assert repeated["duplicate"] is (len(texts) > 1)
        assert again.texts() == [b"before", *PAYLOADS]
    assert len(BulkWorld(images[-1]).texts()) == 801, "what was answered is there"
