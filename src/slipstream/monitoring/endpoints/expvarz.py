"""/debug/vars: the command line and memory numbers, in the shape of Go's expvar."""

from __future__ import annotations

import gc
import sys

import msgspec

from slipstream.monitoring.facts import Facts
from slipstream.monitoring.jetstream_facts import SyncStats
from slipstream.monitoring.process import command_line

__all__ = ["Expvarz", "expvarz"]


class MemoryStats(msgspec.Struct):
    """Memory numbers under the names Go gives to the nearest it has."""

    Sys: int
    Frees: int
    HeapObjects: int
    NumGC: int
    EnableGC: bool


class Expvarz(msgspec.Struct, omit_defaults=True):
    """The two variables every Go program has, and one of our own, which the dashboard shows."""

    cmdline: list[str]
    memstats: MemoryStats
    jetstream_syncs: SyncStats | None = None


def expvarz(facts: Facts) -> Expvarz:
    """The process as it is now; the command line comes without secrets."""
    generations = gc.get_stats()
    return Expvarz(
        command_line(),
        MemoryStats(
            Sys=facts.usage.read(facts.server.clock.monotonic_ns()).resident_bytes,
            Frees=sum(generation["collected"] for generation in generations),
            HeapObjects=sys.getallocatedblocks(),
            NumGC=sum(generation["collections"] for generation in generations),
            EnableGC=gc.isenabled(),
        ),
        None if facts.jetstream is None else facts.jetstream.syncs(),
    )
