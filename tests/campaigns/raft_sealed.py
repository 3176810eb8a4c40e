"""Replicas in a storm whose servers encrypt their files, each with a key of its own; every disk is searched at the end.

The control: the same storms on plain disks, in which the search must find something, and the mutants of `raft_seeds`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from campaigns.figures import Figures
from campaigns.raft_seeds import raft_mutants
from slipstream.errors import SlipstreamError
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.packed.disk import PackedDisk
from slipstream.jetstream.store.sealed.disk import SealedDisk
from slipstream.jetstream.store.sealed.keys import AtRestCipher, KeyRing, MainKey
from slipstream.testing.sim_disk import SimDisk
from support.move_world import MovingStorm
from support.raw_files import of_disk, told
from support.replica_world import Storm

WORDS = (b"subjects", b"duplicate_window", b"num_replicas", b"Nats-Msg-Id")
_SEEDS = iter(range(1, 1 << 62))


def secret(node: int) -> bytes:
    """The main key of one server."""
    return b"the key of server %d, which is long enough" % node


def sealed(disk: SimDisk, node: int) -> Disk:
    """What a process of this server sees of its disk."""
    main = MainKey(secret(node), AtRestCipher.AES if node % 2 else AtRestCipher.CHACHA)
    return PackedDisk(SealedDisk(disk, KeyRing(main, None, random.Random(next(_SEEDS)).randbytes)))


def storms(seed: int, **disks: Any) -> list[Callable[[], Storm]]:
    """Every world of a seed."""
    nodes = 5 if seed % 5 == 0 else 3
    limited: dict[str, Any] = {"padding": 3000, "max_msgs": 5} if seed % 2 else {}
    return [
        lambda: Storm(seed, nodes=nodes, steps=200, **limited, **disks),
        lambda: Storm(seed, nodes=nodes, damages=0.05, padding=300 if seed % 2 else 0, **disks),
        lambda: MovingStorm(seed, steps=200, copies=1 if seed % 4 == 0 else 3, **limited, **disks),
    ]


def searched(world: Storm) -> tuple[int, list[str]]:
    """How many files its servers have, and where something can be read."""
    number, found = 0, []
    for node in world.cluster.nodes.values():
        files = of_disk(node.disk)
        number += len(files)
        found += [f"server {node.id}: {what}" for what in told(files, WORDS, secret(node.id))]
    return number, found


def sealed_seeds(seeds: range) -> Figures:
    """The storms of these seeds."""
    counts: Counter[str] = Counter()
    broken: list[str] = []
    for seed in seeds:
        for make in storms(seed, disk_over=sealed):
            world = make()
            try:
                world.run()
            except (AssertionError, SlipstreamError) as error:
                broken.append(f"{type(world).__name__} {seed}: {error}"[:500])
                continue
            files, found = searched(world)
            broken += found[:5]
            counts.update(stored=len(world.acked), damaged=len(world.damaged), files=files, read=len(found))
    return Figures(
        {
            "seeds": len(seeds),
            "publishes acknowledged": counts["stored"],
            "files damaged": counts["damaged"],
            "worlds that failed": len(broken),
            "files searched for what was stored, names and keys": counts["files"],
            "files in which it can be read": counts["read"],
        },
        broken,
    )


def sealed_control() -> Figures:
    """What the checks find where promises are broken, and the search where nothing is encrypted."""
    world = storms(1)[0]().run()
    found = searched(world)[1]
    figures = raft_mutants()
    figures.control += f"; without a key the search finds {len(found)} places"
    figures.control_found = figures.control_found and bool(found)
    return figures
