"""`slipstream spark`: the jobs of the data pipeline. Each starts a Spark session of its own, local by default."""

from __future__ import annotations

import click

from slipstream.cli.lazy import Entry, LazyGroup

__all__ = ["spark"]

_ARCHIVES = "slipstream.cli.spark.archives"
_STREAMS = "slipstream.cli.spark.streams"

VERBS = {
    "archive": Entry(f"{_ARCHIVES}:archive", "Append what is new in a stream to its lake table.", (), "Archives"),
    "replay": Entry(f"{_ARCHIVES}:replay", "Publish archived messages again.", (), "Archives"),
    "compact": Entry(f"{_ARCHIVES}:compact", "Put small files of an archive together.", (), "Archives"),
    "erase": Entry(f"{_ARCHIVES}:erase", "Erase messages from a stream and its archive.", (), "Archives"),
    "audit": Entry(f"{_ARCHIVES}:audit", "Check a stream, an archive, or one against the other.", (), "Archives"),
    "stats": Entry(f"{_STREAMS}:stats", "Measure rates, sizes, subjects, latencies.", (), "Streams"),
    "materialize": Entry(f"{_STREAMS}:materialize", "Write a bucket as a table.", (), "Streams"),
    "dlq": Entry(f"{_STREAMS}:dlq", "Count dead letters by cause, publish them again.", (), "Streams"),
    "mirror": Entry(f"{_STREAMS}:mirror", "Copy a stream in bulk and compare.", (), "Streams"),
    "prepare": Entry(f"{_STREAMS}:prepare", "Make sessions start faster, once.", (), "Set-up"),
}


@click.group(cls=LazyGroup, entries=VERBS)
def spark() -> None:
    """Run jobs of the data pipeline."""
