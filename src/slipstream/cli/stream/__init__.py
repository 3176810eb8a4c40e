"""`slipstream stream`: streams of JetStream."""

from __future__ import annotations

import click

from slipstream.cli.connection import Session
from slipstream.cli.lazy import Entry, LazyGroup

__all__ = ["stream"]

_HERE = "slipstream.cli.stream"
_MANAGE = "Manage"
_LOOK = "Look"
_DATA = "Messages"

VERBS = {
    "add": Entry(f"{_HERE}.add:add", "Create a stream.", ("create", "new"), _MANAGE),
    "edit": Entry(f"{_HERE}.edit:edit", "Change a stream.", ("update",), _MANAGE),
    "copy": Entry(f"{_HERE}.add:copy", "Create a stream like another, without its messages.", ("cp",), _MANAGE),
    "rm": Entry(f"{_HERE}.remove:rm", "Delete a stream.", ("delete", "del"), _MANAGE),
    "seal": Entry(f"{_HERE}.remove:seal", "Make a stream read-only for ever.", (), _MANAGE),
    "ls": Entry(f"{_HERE}.listing:ls", "List streams.", ("list", "l"), _LOOK),
    "info": Entry(f"{_HERE}.info:info", "Show a stream.", ("nfo", "i"), _LOOK),
    "state": Entry(f"{_HERE}.info:state", "Show what a stream holds.", (), _LOOK),
    "report": Entry(f"{_HERE}.listing:report", "Compare all streams.", (), _LOOK),
    "find": Entry(f"{_HERE}.find:find", "Find streams by what they are.", ("query",), _LOOK),
    "subjects": Entry(f"{_HERE}.listing:subjects", "List the subjects in a stream.", ("subj",), _LOOK),
    "gaps": Entry(f"{_HERE}.graph:gaps", "Show which messages between others are gone.", (), _LOOK),
    "graph": Entry(f"{_HERE}.graph:graph", "Watch how a stream grows.", (), _LOOK),
    "get": Entry(f"{_HERE}.messages:get", "Show one message.", (), _DATA),
    "view": Entry(f"{_HERE}.messages:view", "Page through messages.", (), _DATA),
    "purge": Entry(f"{_HERE}.remove:purge", "Delete messages, all or some.", (), _DATA),
    "rmm": Entry(f"{_HERE}.remove:rmm", "Erase one message.", ("rm-msg",), _DATA),
    "backup": Entry(f"{_HERE}.backup:backup", "Save a stream into a directory.", ("snapshot",), _DATA),
    "restore": Entry(f"{_HERE}.backup:restore", "Bring a saved stream back.", (), _DATA),
}


@click.group(cls=LazyGroup, entries=VERBS)
@click.option("--all", "-a", "show_all", is_flag=True, help="Include the streams of buckets and object stores.")
@click.pass_obj
def stream(session: Session, show_all: bool) -> None:
    """Manage streams."""
    session.show_all = show_all
