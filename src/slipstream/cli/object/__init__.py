"""`slipstream object`: object stores. An object is a row of chunks and a message that describes it; see `store.py`."""

from __future__ import annotations

import click

from slipstream.cli.lazy import LazyGroup, Verb

__all__ = ["object_"]

_MANAGE = "slipstream.cli.object.manage"
_TRANSFER = "slipstream.cli.object.transfer"

VERBS = {
    "add": Verb(f"{_MANAGE}:add", "Create an object store.", ("new",), "Stores"),
    "edit": Verb(f"{_MANAGE}:edit", "Change an object store.", (), "Stores"),
    "ls": Verb(f"{_MANAGE}:ls", "List stores, or the objects of one.", ("list", "l"), "Stores"),
    "info": Verb(f"{_MANAGE}:info", "Show a store or an object.", ("show", "i"), "Stores"),
    "seal": Verb(f"{_MANAGE}:seal", "Make a store read-only for ever.", (), "Stores"),
    "watch": Verb(f"{_MANAGE}:watch", "Show changes as they happen.", (), "Stores"),
    "put": Verb(f"{_TRANSFER}:put", "Store a file.", (), "Objects"),
    "get": Verb(f"{_TRANSFER}:get", "Fetch an object into a file.", (), "Objects"),
    "del": Verb(f"{_MANAGE}:delete", "Delete an object, or a whole store.", ("rm", "delete"), "Objects"),
}


@click.group(cls=LazyGroup, entries=VERBS)
def object_() -> None:
    """Keep values of any size."""
