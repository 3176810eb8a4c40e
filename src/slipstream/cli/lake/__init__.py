"""`slipstream lake`: streams as tables of a lakehouse, without Spark."""

from __future__ import annotations

import click

from slipstream.cli.lazy import LazyGroup, Verb

__all__ = ["lake"]

VERBS = {
    "run": Verb("slipstream.cli.lake.run:run", "Keep tables up to date with their streams."),
    "erase": Verb("slipstream.cli.lake.erase:erase", "Erase messages in a stream and its table."),
    "replay": Verb("slipstream.cli.lake.replay:replay", "Publish a table's messages again."),
    "restore": Verb("slipstream.cli.lake.restore:restore", "Make a stream of a table, as it was."),
}


@click.group(cls=LazyGroup, entries=VERBS)
def lake() -> None:
    """Streams as Delta or Iceberg tables."""
