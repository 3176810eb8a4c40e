"""Random histories of topologies in their long form: routes, leafs and gateways, of this server, of nats-server, mixed.

Two controls: servers that do not tell their interest again when a link comes back, and servers that do not say when
nobody wants a subject any more.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path

import click

import support.cluster_history as histories
from campaigns.figures import Figures
from slipstream.links.routes.telling import InterestTelling
from support.cluster_history import (
    ClusterHistory,
    history_cluster,
    history_leafs,
    history_pair,
    history_supercluster,
    leaked_interest,
    make_history,
)
from support.clusters import HAS_NATS_SERVER

LENGTH = 60
World = Callable[[str, Path], AbstractAsyncContextManager[ClusterHistory]]
_ALL: tuple[tuple[str, World, str], ...] = (
    ("routes", history_cluster, "ooo"),
    ("leafs", history_leafs, "ooo"),
    ("gateways", history_pair, "oo"),
    ("routes", history_cluster, "oon"),
    ("leafs", history_leafs, "noo"),
    ("gateways", history_pair, "on"),
    ("clusters of clusters", history_supercluster, "oo-o"),
    ("routes", history_cluster, "onn"),
    ("leafs", history_leafs, "ono"),
    ("gateways", history_pair, "no"),
    ("clusters of clusters", history_supercluster, "oo-no"),
    ("routes", history_cluster, "ooooo"),
    ("leafs", history_leafs, "oonn"),
    ("clusters of clusters", history_supercluster, "on-o-n"),
    # That the model is nats-server's, too.
    ("routes", history_cluster, "nnn"),
    ("leafs", history_leafs, "nnn"),
    ("clusters of clusters", history_supercluster, "nn-n"),
)
WORLDS = tuple(one for one in _ALL if HAS_NATS_SERVER or "n" not in one[2])


async def _live(made: World, kinds: str, seed: int, length: int) -> tuple[dict[str, int], str]:
    """One history: what happened, and what was wrong."""
    servers = len(kinds.replace("-", ""))
    steps = make_history(seed, servers, length, cuts=made is not history_supercluster)
    with tempfile.TemporaryDirectory(prefix="clusters-") as directory:
        async with made(kinds, Path(directory)) as history:
            wrong = ""
            try:
                await history.run(steps)
                leaks = leaked_interest(history)
                wrong = f"interest leaks: {leaks}" if leaks else ""
            except AssertionError as error:
                wrong = f"seed {seed}, {kinds}: {error}"
            done = {"published": history.published, "delivered": history.delivered}
            for name in ("cut", "heal", "restart"):
                done[name] = sum(1 for step, _ in steps if step == name)
            return done, wrong


def cluster_histories(count: int) -> Figures:
    """So many histories."""
    done = {"histories": 0, "links cut": 0, "links healed": 0, "servers restarted": 0, "published": 0, "delivered": 0}
    each = dict.fromkeys((f"of {name}" for name, _, _ in WORLDS), 0)
    broken: list[str] = []
    for seed in range(count):
        world, made, kinds = WORLDS[seed % len(WORLDS)]
        try:
            found, wrong = asyncio.run(_live(made, kinds, seed, LENGTH))
        except TimeoutError:
            # A port that was free was taken by somebody else meanwhile: the world never came to be.
            found, wrong = asyncio.run(_live(made, kinds, seed, LENGTH))
        each[f"of {world}"] += 1
        for name, other in (("cut", "links cut"), ("heal", "links healed"), ("restart", "servers restarted")):
            done[other] += found[name]
        done["histories"] += 1
        done["published"] += found["published"]
        done["delivered"] += found["delivered"]
        if wrong:
            broken.append(wrong)
        if seed % 10 == 9:
            click.echo(f"{seed + 1:,} of {count:,} histories", err=True)
    controls = {"not told again": _noticed(_without_announcement), "never taken back": _noticed(_without_farewell)}
    return Figures(
        {**done, **each, "lost, doubled or misled": len(broken)},
        broken,
        "interest that is "
        + ", ".join(f"{name}: {'noticed' if hit else 'NOT noticed'}" for name, hit in controls.items()),
        all(controls.values()),
    )


def _noticed(mutation: Callable[[], object]) -> bool:
    before, histories.SETTLE_SECONDS = histories.SETTLE_SECONDS, 5.0
    try:
        with mutation():  # type: ignore[attr-defined]
            return any(asyncio.run(_live(history_cluster, "oo", seed, 20))[1] for seed in range(3))
    finally:
        histories.SETTLE_SECONDS = before


@contextmanager
def _without_announcement() -> Iterator[None]:
    kept, InterestTelling._announced = InterestTelling._announced, lambda *_: iter(())  # type: ignore[method-assign]
    try:
        yield
    finally:
        InterestTelling._announced = kept  # type: ignore[method-assign]


@contextmanager
def _without_farewell() -> Iterator[None]:
    tell = InterestTelling._tell

    def silent(
        telling: InterestTelling, account: str, wanted: tuple[bytes, bytes | None, bytes | None], count: int
    ) -> None:
        if count:
            tell(telling, account, wanted, count)

    InterestTelling._tell = silent  # type: ignore[method-assign]
    try:
        yield
    finally:
        InterestTelling._tell = tell  # type: ignore[method-assign]
