"""`slipstream stream`: streams of JetStream."""

from __future__ import annotations

import click

from slipstream.cli.connection import Session
from slipstream.cli.lazy import LazyGroup, Verb

__all__ = ["stream"]

_HERE = "slipstream.cli.stream"
_MANAGE = "Manage"
_LOOK = "Look"
_DATA = "Messages"

VERBS = {
    "add": Verb(f"{_HERE}.add:add", "Create a stream.", ("create", "new"), _MANAGE),
    "edit": Verb(f"{_HERE}.edit:edit", "Change a stream.", ("update",), _MANAGE),
    "copy": Verb(f"{_HERE}.add:copy", "Create a stream like another, without its messages.", ("cp",), _MANAGE),
    "rm": Verb(f"{_HERE}.remove:rm", "Delete a stream.", ("delete", "del"), _MANAGE),
    "cluster": Verb(f"{_HERE}.cluster:cluster", "Manage the replicas of a stream.", ("c",), _MANAGE),
    "schema": Verb(f"{_HERE}.schema:schema", "Register schemas of payloads.", (), _MANAGE),
    "seal": Verb(f"{_HERE}.remove:seal", "Make a stream read-only for ever.", (), _MANAGE),
    "ls": Verb(f"{_HERE}.listing:ls", "List streams.", ("list", "l"), _LOOK),
    "info": Verb(f"{_HERE}.info:info", "Show a stream.", ("nfo", "i"), _LOOK),
    "state": Verb(f"{_HERE}.info:state", "Show what a stream holds.", (), _LOOK),
    "report": Verb(f"{_HERE}.listing:report", "Compare all streams.", (), _LOOK),
    "find": Verb(f"{_HERE}.find:find", "Find streams by what they are.", ("query",), _LOOK),
    "subjects": Verb(f"{_HERE}.listing:subjects", "List the subjects in a stream.", ("subj",), _LOOK),
    "gaps": Verb(f"{_HERE}.graph:gaps", "Show which messages between others are gone.", (), _LOOK),
    "graph": Verb(f"{_HERE}.graph:graph", "Watch how a stream grows.", (), _LOOK),
    "verify": Verb(f"{_HERE}.verify:verify", "Check the hash chain of a stream.", (), _LOOK),
    "checkpoint": Verb(f"{_HERE}.checkpoint:checkpoint", "Sign where the hash chain stands.", (), _LOOK),
    "get": Verb(f"{_HERE}.messages:get", "Show one message.", (), _DATA),
    "view": Verb(f"{_HERE}.messages:view", "Page through messages.", (), _DATA),
    "purge": Verb(f"{_HERE}.remove:purge", "Delete messages, all or some.", (), _DATA),
    "truncate": Verb(f"{_HERE}.truncate:truncate", "Drop the newest messages.", (), _DATA),
    "rmm": Verb(f"{_HERE}.remove:rmm", "Erase one message.", ("rm-msg",), _DATA),
    "backup": Verb(f"{_HERE}.backup:backup", "Save a stream into a directory.", ("snapshot",), _DATA),
    "restore": Verb(f"{_HERE}.backup:restore", "Bring a saved stream back.", (), _DATA),
}


@click.group(cls=LazyGroup, entries=VERBS)
@click.option("--all", "-a", "show_all", is_flag=True, help="Include the streams of buckets and object stores.")
@click.pass_obj
def stream(session: Session, show_all: bool) -> None:
    """Manage streams."""
    session.show_all = show_all
