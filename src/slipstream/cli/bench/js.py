"""`bench js`: the groups of its commands. Which are in `js_pub` and `js_read`."""

from __future__ import annotations

import click

from slipstream.cli.bench.groups import BenchGroup
from slipstream.cli.lazy import Verb

__all__ = ["get", "js", "pub"]

_PUB = "slipstream.cli.bench.js_pub"
_READ = "slipstream.cli.bench.js_read"
_HERE = "slipstream.cli.bench.js"


@click.group(
    cls=BenchGroup,
    entries={
        "pub": Verb(f"{_HERE}:pub", "Publish to a stream."),
        "ordered": Verb(f"{_READ}:ordered", "Read with an ordered consumer."),
        "consume": Verb(f"{_READ}:consume", "Read from a durable consumer, pulls overlapping."),
        "fetch": Verb(f"{_READ}:fetch", "Read from a durable consumer, fetch after fetch."),
        "get": Verb(f"{_HERE}:get", "Read without a consumer."),
    },
)
def js() -> None:
    """Publish to streams, consume and get."""


@click.group(
    cls=BenchGroup,
    default="async",
    entries={
        "sync": Verb(f"{_PUB}:sync", "Wait for each ack."),
        "async": Verb(f"{_PUB}:async_", "Wait for the acks of many messages."),
        "atomic": Verb(f"{_PUB}:atomic", "Publish in atomic batches.", ("batch",)),
        "fast": Verb(f"{_PUB}:fast", "Publish in a fast batch."),
    },
)
def pub() -> None:
    """Publish to a stream."""


@click.group(
    cls=BenchGroup,
    entries={
        "sync": Verb(f"{_READ}:get_sync", "Get one message after the other."),
        "batch": Verb(f"{_READ}:get_batch", "Get many messages at a time."),
    },
)
def get() -> None:
    """Read without a consumer."""
