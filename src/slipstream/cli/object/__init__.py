"""`slipstream object`: object stores. An object is a row of chunks and a message that describes it; see `store.py`."""

from __future__ import annotations

import click

from slipstream.cli.lazy import Entry, LazyGroup

__all__ = ["object_"]

_MANAGE = "slipstream.cli.object.manage"
_TRANSFER = "slipstream.cli.object.transfer"

VERBS = {
    "add": Entry(f"{_MANAGE}:add", "Create an object store.", ("new",), "Stores"),
    "edit": Entry(f"{_MANAGE}:edit", "Change an object store.", (), "Stores"),
    "ls": Entry(f"{_MANAGE}:ls", "List stores, or the objects of one.", ("list", "l"), "Stores"),
    "info": Entry(f"{_MANAGE}:info", "Show a store or an object.", ("show", "i"), "Stores"),
    "seal": Entry(f"{_MANAGE}:seal", "Make a store read-only for ever.", (), "Stores"),
    "watch": Entry(f"{_MANAGE}:watch", "Show changes as they happen.", (), "Stores"),
    "put": Entry(f"{_TRANSFER}:put", "Store a file.", (), "Objects"),
    "get": Entry(f"{_TRANSFER}:get", "Fetch an object into a file.", (), "Objects"),
    "del": Entry(f"{_MANAGE}:delete", "Delete an object, or a whole store.", ("rm", "delete"), "Objects"),
}


@click.group(cls=LazyGroup, entries=VERBS)
def object_() -> None:
    """Keep values of any size."""
