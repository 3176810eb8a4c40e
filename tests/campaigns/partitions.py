"""Servers that are parted and joined again, over and over: routes, leaf links and gateways, in compressed time.

Each partition cuts some of the ways between servers, lets clients come, go and publish meanwhile, and heals. Then every
server has to know what all others want, a message reaches everybody once, and nothing is left of what was: interest,
links, descriptors, tasks, memory. What has to wait a second between attempts waits a fiftieth of it here.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

import support.cluster_history as histories
from campaigns.figures import Figures
from slipstream.links.leafs.interest import LeafInterest
from slipstream.server.links import gateways, routes
from slipstream.units import MILLISECOND_NS
from support.cluster_history import ClusterHistory, history_cluster, history_leafs, history_pair, leaked_interest

WORLDS: dict[str, tuple[str, Callable[[str, Path], AbstractAsyncContextManager[ClusterHistory]]]] = {
    "routes": ("ooo", history_cluster),
    "leaf links": ("ooo", history_leafs),
    "gateways": ("oo", history_pair),
}
OF_A_WORLD = 50  # partitions, then another one is made
WARM = 5  # partitions, before anything is counted
MEMORY_GROWTH_MAX = 24 << 20  # bytes of a world; a leaked link with its buffers has a quarter of a MiB


@dataclass
class Partitioned:
    """What some partitions showed."""

    partitions: int = 0
    published: int = 0
    delivered: int = 0
    descriptors: int = 0  # more at the end of a world than at its beginning
    tasks: int = 0
    growth: int = 0  # bytes, the most of any world
    broken: list[str] = field(default_factory=list)


@contextmanager
def compressed_time() -> Iterator[None]:
    """Attempts to connect follow each other fifty times as fast."""
    names = [(module, name) for module in (routes, gateways) for name in ("_RETRY_NS", "_AGAIN_JITTER_NS")]
    kept = [(module, name, getattr(module, name)) for module, name in (*names, (gateways, "_FIRST_DIAL_NS"))]
    for module, name, _ in kept:
        setattr(module, name, 20 * MILLISECOND_NS)
    try:
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)


async def part_and_heal(world: str, count: int, seed: int) -> Partitioned:
    """One world, parted so often."""
    kinds, made = WORLDS[world]
    rng, found = random.Random(seed), Partitioned()
    with tempfile.TemporaryDirectory(prefix="partitions-") as directory, compressed_time():
        async with made(kinds, Path(directory)) as history:
            try:
                await history.begin()
                before = _used()
                for number in range(count):
                    await _one(history, rng)
                    found.partitions += 1
                    if number == min(WARM, count) - 1:
                        before = _used()
                await history.end()
                leaks = leaked_interest(history)
                if leaks:
                    found.broken.append(f"{world}, seed {seed}: interest leaks: {leaks}")
                after = _used()
                found.descriptors, found.tasks = after[0] - before[0], after[1] - before[1]
                found.growth = max(after[2] - before[2], 0)
            except AssertionError as error:
                found.broken.append(f"{world}, seed {seed}, partition {found.partitions + 1}: {error}")
            found.published, found.delivered = history.published, history.delivered
    # The clients of a world have left at its end: there are fewer of everything.
    if found.descriptors > 0 or found.tasks > 0 or found.growth > MEMORY_GROWTH_MAX:
        found.broken.append(
            f"{world}, seed {seed}: {found.descriptors} descriptors, {found.tasks} tasks, {found.growth >> 20} MiB more"
        )
    return found


async def _one(history: ClusterHistory, rng: random.Random) -> None:
    steps = ["subscribe", "publish", "cut"]
    steps += rng.choices(["cut", "subscribe", "unsubscribe", "publish", "storm"], k=6)
    for name in steps:
        await history.do(name, *(rng.randrange(1 << 16) for _ in range(4)))
    history.heal_all()
    await history.settle()
    for _ in range(2):
        await history.do("publish", *(rng.randrange(1 << 16) for _ in range(4)))
    await history.do("settle", 0, 0, 0, 0)
    history.forget_past()


def _used() -> tuple[int, int, int]:
    """Descriptors, tasks and resident bytes of this process."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), resident


def partitions(count: int) -> Figures:
    """So many partitions, each kind of link in turn."""
    total, each = Partitioned(), dict.fromkeys(WORLDS, 0)
    seed = 0
    while total.partitions < count and not total.broken:
        world = list(WORLDS)[seed % len(WORLDS)]
        found = asyncio.run(part_and_heal(world, min(OF_A_WORLD, count - total.partitions), seed))
        each[world] += found.partitions
        total.partitions += found.partitions
        total.published += found.published
        total.delivered += found.delivered
        total.growth = max(total.growth, found.growth)
        total.broken += found.broken
        seed += 1
        click.echo(f"{total.partitions:,} of {count:,} partitions", err=True)
    noticed = control_is_noticed()
    return Figures(
        {
            "partitions": total.partitions,
            **{f"of {name}": number for name, number in each.items()},
            "published": total.published,
            "delivered": total.delivered,
            "most memory that a world took while it was parted, MiB": total.growth >> 20,
            "lost, doubled, misled or left over": len(total.broken),
        },
        total.broken,
        f"leafs that are not told again what a hub wants: {'noticed' if noticed else 'NOT noticed'}",
        noticed,
    )


def control_is_noticed() -> bool:
    """Whether interest that is not told again after a partition is found."""
    settling, histories.SETTLE_SECONDS = histories.SETTLE_SECONDS, 3.0
    begin = LeafInterest.begin
    calls = 0

    def once(interest: LeafInterest, *arguments: object) -> Iterator[None]:
        nonlocal calls
        calls += 1
        # The first links of a world, both ends of two, are as they should be.
        return begin(interest, *arguments) if calls <= 4 else iter(())  # type: ignore[arg-type]

    LeafInterest.begin = once  # type: ignore[method-assign,assignment]
    try:
        return bool(asyncio.run(part_and_heal("leaf links", 2, 1)).broken)
    finally:
        LeafInterest.begin = begin  # type: ignore[method-assign]
        histories.SETTLE_SECONDS = settling
