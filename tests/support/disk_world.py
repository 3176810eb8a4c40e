"""`World` over file stores on a simulated disk, which can lose power."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

from slipstream.jetstream.account.directory import DirectoryStores
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.testing.sim_disk import SimDisk
from support.jetstream_world import FakePorts, World
from support.stores import options

ROOT = "/js/$G"
_seeds = itertools.count(1)


def make_root(disk: SimDisk, path: str) -> None:
    """The directory of the server, which has made it and not synced it; that call is not counted and does not fail."""
    if not disk.is_dir(path):
        faults, disk.faults = disk.faults, {}
        disk.make_dir(path)
        disk.faults, disk.calls = faults, 0


def disk_world(
    disk: SimDisk,
    ports: FakePorts | None = None,
    *,
    replicated: bool = False,
    seen: Disk | None = None,
    **facts: Any,
) -> World:
    """An account that keeps its streams on `disk`.

    Args:
        disk: the simulated one.
        ports: of the account.
        replicated: somebody else says what is committed.
        seen: what the account sees of the disk, if that is not all.
        facts: of the account.
    """
    ports = ports or FakePorts()
    make_root(disk, "/js")
    rng = random.Random(next(_seeds))
    stores = DirectoryStores(
        seen or disk,
        ROOT,
        options=lambda _: replace(
            options(segment_bytes=1 << 16, seed=rng.getrandbits(32)), now_ns=ports.now_ns, replicated=replicated
        ),
        new_uid=lambda: rng.randbytes(16),
        log=ports.log,
    )
    return World(stores=stores, ports=ports, **facts)  # type: ignore[arg-type]  # any StreamStores will do
