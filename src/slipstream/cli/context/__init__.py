"""`slipstream context`: the named connections of `nats`, shared with it file by file."""

from __future__ import annotations

import click

from slipstream.cli.lazy import Entry, LazyGroup

__all__ = ["context"]

_CHANGE = "slipstream.cli.context.change"
_SHOW = "slipstream.cli.context.show"

VERBS = {
    "add": Entry(f"{_CHANGE}:add", "Save a context made from the connection flags.", ("save", "create")),
    "copy": Entry(f"{_CHANGE}:copy", "Copy a context.", ("cp",)),
    "edit": Entry(f"{_CHANGE}:edit", "Edit a context in your editor.", ("vi",)),
    "info": Entry(f"{_SHOW}:info", "Show a context, by default the selected one.", ("show", "view", "v")),
    "ls": Entry(f"{_SHOW}:ls", "List contexts.", ("list", "l")),
    "previous": Entry(f"{_CHANGE}:previous", "Select the context selected before.", ("-",)),
    "rm": Entry(f"{_CHANGE}:rm", "Remove a context.", ("remove",)),
    "select": Entry(f"{_CHANGE}:select", "Select the context to use by default.", ("switch", "set")),
    "unselect": Entry(f"{_CHANGE}:unselect", "Select none."),
    "validate": Entry(f"{_SHOW}:validate", "Check the files of contexts, and their connections."),
}


@click.group(cls=LazyGroup, entries=VERBS)
def context() -> None:
    """Manage named connections, the contexts of `nats`."""
