"""`slipstream kv`: key-value buckets. A bucket is a stream that is read as a table; see `bucket.py`."""

from __future__ import annotations

import click

from slipstream.cli.lazy import LazyGroup, Verb

__all__ = ["kv"]

_MANAGE = "slipstream.cli.kv.manage"
_READ = "slipstream.cli.kv.read"
_WRITE = "slipstream.cli.kv.write"

VERBS = {
    "add": Verb(f"{_MANAGE}:add", "Create a bucket.", ("new",), "Buckets"),
    "edit": Verb(f"{_MANAGE}:edit", "Change a bucket.", (), "Buckets"),
    "info": Verb(f"{_MANAGE}:info", "Show a bucket.", ("view", "status"), "Buckets"),
    "ls": Verb(f"{_READ}:ls", "List buckets, or the keys of one.", ("list", "l"), "Buckets"),
    "compact": Verb(f"{_MANAGE}:compact", "Drop what is kept of deleted keys.", (), "Buckets"),
    "put": Verb(f"{_WRITE}:put", "Set a key.", ("set",), "Keys"),
    "create": Verb(f"{_WRITE}:create", "Set a key that has no value yet.", (), "Keys"),
    "update": Verb(f"{_WRITE}:update", "Set a key if nobody changed it.", (), "Keys"),
    "get": Verb(f"{_READ}:get", "Show the value of a key.", (), "Keys"),
    "history": Verb(f"{_READ}:history", "Show the older values of a key.", (), "Keys"),
    "revert": Verb(f"{_WRITE}:revert", "Set a key to an older value.", (), "Keys"),
    "watch": Verb(f"{_READ}:watch", "Show changes as they happen.", (), "Keys"),
    "del": Verb(f"{_WRITE}:delete", "Delete a key, or a whole bucket.", ("rm", "delete"), "Keys"),
    "purge": Verb(f"{_WRITE}:purge", "Delete a key and its history.", (), "Keys"),
}


@click.group(cls=LazyGroup, entries=VERBS)
def kv() -> None:
    """Keep values by key."""
