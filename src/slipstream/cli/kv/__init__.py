"""`slipstream kv`: key-value buckets. A bucket is a stream that is read as a table; see `bucket.py`."""

from __future__ import annotations

import click

from slipstream.cli.lazy import Entry, LazyGroup

__all__ = ["kv"]

_MANAGE = "slipstream.cli.kv.manage"
_READ = "slipstream.cli.kv.read"
_WRITE = "slipstream.cli.kv.write"

VERBS = {
    "add": Entry(f"{_MANAGE}:add", "Create a bucket.", ("new",), "Buckets"),
    "edit": Entry(f"{_MANAGE}:edit", "Change a bucket.", (), "Buckets"),
    "info": Entry(f"{_MANAGE}:info", "Show a bucket.", ("view", "status"), "Buckets"),
    "ls": Entry(f"{_READ}:ls", "List buckets, or the keys of one.", ("list", "l"), "Buckets"),
    "compact": Entry(f"{_MANAGE}:compact", "Drop what is kept of deleted keys.", (), "Buckets"),
    "put": Entry(f"{_WRITE}:put", "Set a key.", ("set",), "Keys"),
    "create": Entry(f"{_WRITE}:create", "Set a key that has no value yet.", (), "Keys"),
    "update": Entry(f"{_WRITE}:update", "Set a key if nobody changed it.", (), "Keys"),
    "get": Entry(f"{_READ}:get", "Show the value of a key.", (), "Keys"),
    "history": Entry(f"{_READ}:history", "Show the older values of a key.", (), "Keys"),
    "revert": Entry(f"{_WRITE}:revert", "Set a key to an older value.", (), "Keys"),
    "watch": Entry(f"{_READ}:watch", "Show changes as they happen.", (), "Keys"),
    "del": Entry(f"{_WRITE}:delete", "Delete a key, or a whole bucket.", ("rm", "delete"), "Keys"),
    "purge": Entry(f"{_WRITE}:purge", "Delete a key and its history.", (), "Keys"),
}


@click.group(cls=LazyGroup, entries=VERBS)
def kv() -> None:
    """Keep values by key."""
