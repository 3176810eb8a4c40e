"""The flags of buckets, and the streams they describe.

A bucket with sources gets their keys under its own name. Mirrors of buckets are not made here: clients do not agree on
the subjects of their keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from slipstream.cli.kv.bucket import Bucket
from slipstream.cli.link import Reply
from slipstream.cli.types import DURATION, SIZE, list_option, pairs_option
from slipstream.units import MINUTE_NS

__all__ = ["bucket_flags", "changed_config", "new_config"]

_F = TypeVar("_F", bound=Callable[..., Any])
_DUPLICATES_NS: Final = 2 * MINUTE_NS
_STORAGE: Final = {"file": "file", "f": "file", "memory": "memory", "m": "memory"}

_FLAGS: Final = (
    click.option("--description", help="What it is for."),
    click.option("--history", type=click.IntRange(1, 64), help="Values to keep of each key; 1 by default."),
    click.option("--ttl", type=DURATION, help="Forget values after this long."),
    click.option("--marker-ttl", type=DURATION, help="Allow keys with a time to live; keep their markers this long."),
    click.option("--storage", type=click.Choice(list(_STORAGE)), help="Where to keep values: file or memory."),
    click.option("--max-value-size", type=SIZE, help="Longest value."),
    click.option("--max-bucket-size", type=SIZE, help="Largest size of the whole bucket."),
    click.option("--replicas", type=click.IntRange(min=1), help="Copies in a cluster."),
    click.option("--cluster", help="Place it in a cluster."),
    list_option("--tags", "tags", help="Place it on servers with tags."),
    click.option("--compress/--no-compress", default=None, help="Compress files."),
    click.option("--republish-source", help="Republish changes of these subjects."),
    click.option("--republish-destination", help="Republish changes there."),
    click.option("--republish-headers", is_flag=True, default=None, help="Republish without values."),
    list_option("--source", "sources", metavar="BUCKET", help="Take in the keys of another bucket."),
    pairs_option("--metadata", "metadata", help="Add metadata."),
)


def bucket_flags(command: _F) -> _F:
    """The flags of a bucket; what was not given is None or empty."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def new_config(bucket: Bucket, given: dict[str, Any]) -> Reply:
    """The stream of a new bucket."""
    base: Reply = {
        "name": bucket.stream,
        "subjects": [f"$KV.{bucket.name}.>"],
        "description": "",
        "max_msgs_per_subject": 1,
        "max_age": 0,
        "max_bytes": -1,
        "max_msg_size": -1,
        "storage": "file",
        "num_replicas": 1,
        "discard": "new",
        "duplicate_window": _DUPLICATES_NS,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_direct": True,
        "max_msgs": -1,
        "max_consumers": -1,
        "metadata": {},
    }
    return changed_config(base, given)


def changed_config(old: Reply, given: dict[str, Any]) -> Reply:
    """A stream with what the flags say.

    Raises:
        UsageError: flags do not fit each other.
    """
    new = dict(old)
    for flag, field in (
        ("description", "description"),
        ("history", "max_msgs_per_subject"),
        ("max_bucket_size", "max_bytes"),
        ("max_value_size", "max_msg_size"),
        ("replicas", "num_replicas"),
    ):
        if given[flag] is not None:
            new[field] = given[flag]
    if given["storage"] is not None:
        new["storage"] = _STORAGE[given["storage"]]
    if given["ttl"] is not None:
        new["max_age"] = max(given["ttl"], 0)
        new["duplicate_window"] = min(new["max_age"] or _DUPLICATES_NS, _DUPLICATES_NS)
    if given["marker_ttl"]:
        new |= {"allow_msg_ttl": True, "subject_delete_marker_ttl": given["marker_ttl"]}
    if given["compress"] is not None:
        new["compression"] = "s2" if given["compress"] else "none"
    if given["cluster"] or given["tags"]:
        new["placement"] = {"cluster": given["cluster"] or "", "tags": given["tags"]}
    if given["metadata"]:
        new["metadata"] = {**(new.get("metadata") or {}), **given["metadata"]}
    if given["republish_destination"]:
        new["republish"] = {
            "src": given["republish_source"] or ">",
            "dest": given["republish_destination"],
            "headers_only": bool(given["republish_headers"]),
        }
    elif given["republish_source"] or given["republish_headers"]:
        raise click.UsageError("--republish-source and --republish-headers need --republish-destination.")
    if given["sources"]:
        own = new["name"].removeprefix(Bucket.PREFIX)
        new["sources"] = [_source(Bucket.checked_name(name), own) for name in given["sources"]]
    return new


def _source(name: str, own: str) -> Reply:
    transform = {"src": f"$KV.{name}.>", "dest": f"$KV.{own}.>"}
    return {"name": f"{Bucket.PREFIX}{name}", "subject_transforms": [transform]}
