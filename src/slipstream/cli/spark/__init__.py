"""`slipstream spark`: the jobs of the data pipeline. Each starts a Spark session of its own, local by default."""

from __future__ import annotations

import click

from slipstream.cli.lazy import LazyGroup, Verb

__all__ = ["spark"]

_ARCHIVES = "slipstream.cli.spark.archives"
_STREAMS = "slipstream.cli.spark.streams"

VERBS = {
    "archive": Verb(f"{_ARCHIVES}:archive", "Append what is new in a stream to its lake table.", (), "Archives"),
    "replay": Verb(f"{_ARCHIVES}:replay", "Publish archived messages again.", (), "Archives"),
    "compact": Verb(f"{_ARCHIVES}:compact", "Put small files of an archive together.", (), "Archives"),
    "erase": Verb(f"{_ARCHIVES}:erase", "Erase messages from a stream and its archive.", (), "Archives"),
    "audit": Verb(f"{_ARCHIVES}:audit", "Check a stream, an archive, or one against the other.", (), "Archives"),
    "stats": Verb(f"{_STREAMS}:stats", "Measure rates, sizes, subjects, latencies.", (), "Streams"),
    "materialize": Verb(f"{_STREAMS}:materialize", "Write a bucket as a table.", (), "Streams"),
    "dlq": Verb(f"{_STREAMS}:dlq", "Count dead letters by cause, publish them again.", (), "Streams"),
    "mirror": Verb(f"{_STREAMS}:mirror", "Copy a stream in bulk and compare.", (), "Streams"),
    "prepare": Verb(f"{_STREAMS}:prepare", "Make sessions start faster, once.", (), "Set-up"),
}


@click.group(cls=LazyGroup, entries=VERBS)
def spark() -> None:
    """Run jobs of the data pipeline."""
