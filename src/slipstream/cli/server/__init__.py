"""`slipstream server`: run a server, and look at those that run."""

from __future__ import annotations

import click

from slipstream.cli.lazy import LazyGroup, Verb

__all__ = ["server"]

_LOOK = "slipstream.cli.server.look"
_LOCAL = "slipstream.cli.server.local"

VERBS = {
    "run": Verb(f"{_LOCAL}:run", "Run a server; takes the flags of nats-server.", (), "Here"),
    "config": Verb(f"{_LOCAL}:config", "Check a configuration file, or have one read again.", ("cfg",), "Here"),
    "passwd": Verb(
        f"{_LOCAL}:passwd",
        "Hash a password for a configuration file.",
        ("pass", "bcrypt", "mkpasswd", "password"),
        "Here",
    ),
    "info": Verb(f"{_LOOK}:info", "Show a server.", ("i",), "Running servers"),
    "list": Verb(f"{_LOOK}:list_", "List servers.", ("ls",), "Running servers"),
    "ping": Verb(f"{_LOOK}:ping", "See which servers answer, and how fast.", (), "Running servers"),
    "report": Verb(
        "slipstream.cli.server.report:report",
        "Report on connections, accounts, JetStream, health, load.",
        ("rep",),
        "Running servers",
    ),
    "request": Verb(
        "slipstream.cli.server.request:request", "Ask servers for what they monitor.", ("req",), "Running servers"
    ),
    "cluster": Verb(
        "slipstream.cli.server.cluster:cluster", "Manage a JetStream cluster.", ("r", "raft"), "Running servers"
    ),
    "check": Verb("slipstream.cli.server.check:check", "Check health, for monitoring systems.", (), "Running servers"),
}


@click.group(cls=LazyGroup, entries=VERBS)
def server() -> None:
    """Run a server, and look at those that run."""
