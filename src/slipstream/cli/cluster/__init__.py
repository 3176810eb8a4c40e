"""`slipstream cluster`: three servers to try things out with, and what an operator does with a cluster."""

from __future__ import annotations

import click

from slipstream.cli.lazy import LazyGroup, Verb

__all__ = ["cluster"]

_HERE = "slipstream.cli.cluster"
_SERVERS = "slipstream.cli.server.cluster"
_RUNNING = "Running clusters"

VERBS = {
    "up": Verb(f"{_HERE}.local:up", "Start a cluster on this machine, to try things out.", (), "Here"),
    "down": Verb(f"{_HERE}.local:down", "Stop the servers that `up` started.", (), "Here"),
    "status": Verb(f"{_HERE}.status:status", "Show servers, who leads, and who is behind.", ("st",), _RUNNING),
    "step-down": Verb(f"{_SERVERS}:step_down", "Have another server lead the cluster.", (), _RUNNING),
    "balance": Verb(
        "slipstream.cli.stream.cluster:balance_streams",
        "Spread the leaders of streams evenly over servers.",
        (),
        _RUNNING,
    ),
    "peer-remove": Verb(f"{_SERVERS}:peer_remove", "Remove a server from the cluster.", (), _RUNNING),
}


@click.group(cls=LazyGroup, entries=VERBS)
def cluster() -> None:
    """Try a cluster on this machine, and manage those that run."""
