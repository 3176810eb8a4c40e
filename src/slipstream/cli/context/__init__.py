"""`slipstream context`: the named connections of `nats`, shared with it file by file."""

from __future__ import annotations

import click

from slipstream.cli.lazy import LazyGroup, Verb

__all__ = ["context"]

_CHANGE = "slipstream.cli.context.change"
_SHOW = "slipstream.cli.context.show"

VERBS = {
    "add": Verb(f"{_CHANGE}:add", "Save a context made from the connection flags.", ("save", "create")),
    "copy": Verb(f"{_CHANGE}:copy", "Copy a context.", ("cp",)),
    "edit": Verb(f"{_CHANGE}:edit", "Edit a context in your editor.", ("vi",)),
    "info": Verb(f"{_SHOW}:info", "Show a context, by default the selected one.", ("show", "view", "v")),
    "ls": Verb(f"{_SHOW}:ls", "List contexts.", ("list", "l")),
    "previous": Verb(f"{_CHANGE}:previous", "Select the context selected before.", ("-",)),
    "rm": Verb(f"{_CHANGE}:rm", "Remove a context.", ("remove",)),
    "select": Verb(f"{_CHANGE}:select", "Select the context to use by default.", ("switch", "set")),
    "unselect": Verb(f"{_CHANGE}:unselect", "Select none."),
    "validate": Verb(f"{_SHOW}:validate", "Check the files of contexts, and their connections."),
}


@click.group(cls=LazyGroup, entries=VERBS)
def context() -> None:
    """Manage named connections, the contexts of `nats`."""
