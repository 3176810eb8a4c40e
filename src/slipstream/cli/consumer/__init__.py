"""`slipstream consumer`: consumers of JetStream's streams."""

from __future__ import annotations

import click

from slipstream.cli.connection import Session
from slipstream.cli.lazy import LazyGroup, Verb

__all__ = ["consumer"]

_HERE = "slipstream.cli.consumer"
_MANAGE = "Manage"
_LOOK = "Look"
_DATA = "Messages"

VERBS = {
    "add": Verb(f"{_HERE}.add:add", "Create a consumer.", ("create", "new"), _MANAGE),
    "edit": Verb(f"{_HERE}.edit:edit", "Change a consumer.", ("update",), _MANAGE),
    "copy": Verb(f"{_HERE}.add:copy", "Create a consumer like another.", ("cp",), _MANAGE),
    "rm": Verb(f"{_HERE}.control:rm", "Delete a consumer.", ("delete", "del"), _MANAGE),
    "pause": Verb(f"{_HERE}.control:pause", "Stop deliveries until a time.", (), _MANAGE),
    "resume": Verb(f"{_HERE}.control:resume", "Start deliveries again.", (), _MANAGE),
    "reset": Verb(f"{_HERE}.control:reset", "Deliver messages again.", (), _MANAGE),
    "cluster": Verb(f"{_HERE}.cluster:cluster", "Manage the replicas of a consumer.", ("c",), _MANAGE),
    "unpin": Verb(f"{_HERE}.control:unpin", "Let another client of a priority group have its turn.", (), _MANAGE),
    "ls": Verb(f"{_HERE}.listing:ls", "List the consumers of a stream.", ("list",), _LOOK),
    "info": Verb(f"{_HERE}.info:info", "Show a consumer.", ("nfo",), _LOOK),
    "state": Verb(f"{_HERE}.info:state", "Show how far a consumer is.", (), _LOOK),
    "why": Verb(f"{_HERE}.why:why", "Say why a consumer delivers nothing.", (), _LOOK),
    "report": Verb(f"{_HERE}.listing:report", "Compare the consumers of a stream.", (), _LOOK),
    "graph": Verb(f"{_HERE}.graph:graph", "Watch how fast a consumer works.", (), _LOOK),
    "find": Verb(f"{_HERE}.find:find", "Find consumers by what they are.", ("query",), _LOOK),
    "next": Verb(f"{_HERE}.messages:next_", "Get messages of a pull consumer.", (), _DATA),
    "sub": Verb(f"{_HERE}.messages:sub", "Show messages of a consumer as they come.", (), _DATA),
}


@click.group(cls=LazyGroup, entries=VERBS)
@click.option("--all", "-a", "show_all", is_flag=True, help="Include the streams of buckets and object stores.")
@click.pass_obj
def consumer(session: Session, show_all: bool) -> None:
    """Manage consumers."""
    session.show_all = show_all
