"""Groups of replicas in one thread, seed by seed: a Raft group over a plain log and over the store's, whole replicas in
a storm, with damaged files, moving between servers, and at rest; and mutants that the same checks must catch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from campaigns.figures import Figures
from slipstream.errors import SlipstreamError
from support.move_world import MovingStorm
from support.quiet_world import QuietStorm
from support.raft_sim import Mutant, RaftSim, Violation
from support.raft_store_sim import StoreMutant, StoreSim
from support.replica_world import Storm

MUTANT_SEEDS = 400
"""The rarest mutant, a lost vote, shows itself in one of some hundred."""


def raft_seeds(seeds: range) -> Figures:
    """Every world of these seeds."""
    counts: Counter[str] = Counter()
    broken: list[str] = []
    for seed in seeds:
        for make in _worlds(seed):
            world = make()
            try:
                world.run()
            except (AssertionError, SlipstreamError) as error:
                broken.append(f"{type(world).__name__} {seed}: {error}"[:500])
                continue
            if isinstance(world, RaftSim):
                counts.update(entries=len(world.acked), leaders=len(world.leaders))
            else:
                counts.update(stored=len(world.acked))
            if isinstance(world, Storm):
                counts.update(read=world.read + world.read_behind, damaged=len(world.damaged))
            if isinstance(world, MovingStorm):
                counts.update(moves=world.moves)
    return Figures(
        {
            "seeds": len(seeds),
            "worlds of them": len(seeds) * 6,
            "entries acknowledged": counts["entries"],
            "leaders elected": counts["leaders"],
            "publishes acknowledged by whole replicas": counts["stored"],
            "reads of them": counts["read"],
            "files damaged": counts["damaged"],
            "wishes for other servers": counts["moves"],
            "worlds that failed": len(broken),
        },
        broken,
    )


def _worlds(seed: int) -> list[Callable[[], Any]]:
    nodes = 5 if seed % 5 == 0 else 3
    limited: dict[str, Any] = {"padding": 3000, "max_msgs": 5} if seed % 2 else {}
    damaged: dict[str, Any] = {"max_msgs": 5} if seed % 4 == 3 else {}
    return [
        lambda: RaftSim(seed, nodes=nodes),
        lambda: StoreSim(seed, nodes=nodes),
        lambda: Storm(seed, nodes=nodes, steps=200, **limited),
        lambda: Storm(seed, nodes=nodes, damages=0.05, padding=300 if seed % 2 else 0, **damaged),
        lambda: MovingStorm(seed, steps=200, copies=1 if seed % 4 == 0 else 3, **limited),
        lambda: QuietStorm(seed, nodes=nodes),
    ]


def raft_mutants(tried: int = MUTANT_SEEDS) -> Figures:
    """How many seeds notice each broken promise."""
    caught: dict[Mutant | StoreMutant, int] = dict.fromkeys((*Mutant, *StoreMutant), 0)
    for mutant in caught:
        for seed in range(tried):
            try:
                if isinstance(mutant, Mutant):
                    RaftSim(seed, mutant=mutant).run()
                else:
                    StoreSim(seed, mutant=mutant).run()
            except (Violation, KeyError):  # a store whose index names what is not there is noticed as well
                caught[mutant] += 1
    told = ", ".join(f"{count} notice that {mutant.value}" for mutant, count in caught.items())
    return Figures({}, [], f"of {tried} seeds each, {told}", all(caught.values()))
