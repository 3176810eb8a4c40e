"""Buckets: create, show, clean up."""

from __future__ import annotations

from typing import Any

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.human import format_bytes, format_duration, format_time
from slipstream.cli.kv.bucket import Bucket
from slipstream.cli.link import Reply
from slipstream.cli.prompts import confirm_or_stop
from slipstream.cli.render import Columns, print_json
from slipstream.cli.types import DURATION, SIZE, force_flag, json_flag, list_option, pairs_option
from slipstream.limits import MINUTE_NS

__all__ = ["add", "compact", "info", "print_bucket"]

_DUPLICATES_NS = 2 * MINUTE_NS


@click.command(cls=Command)
@click.argument("bucket")
@click.option("--history", type=click.IntRange(1, 64), default=1, help="Values to keep of each key.")
@click.option("--ttl", type=DURATION, default=0, help="Forget values after so long.")
@click.option("--marker-ttl", type=DURATION, default=0, help="Keep a marker of what was forgotten for so long.")
@click.option("--storage", type=click.Choice(["file", "memory"]), default="file", help="Where to keep values.")
@click.option("--max-value-size", type=SIZE, default=-1, help="Longest value.")
@click.option("--max-bucket-size", type=SIZE, default=-1, help="Largest size of the whole bucket.")
@click.option("--description", default="", help="What it is for.")
@click.option("--replicas", type=int, default=1, help="Copies in a cluster.")
@click.option("--cluster", default="", help="Place it in a cluster.")
@list_option("--tags", "tags", help="Place it on servers with tags.")
@click.option("--compress/--no-compress", default=False, help="Compress files.")
@click.option("--republish-source", default="", help="Republish changes of these subjects.")
@click.option("--republish-destination", default="", help="Republish changes there.")
@click.option("--republish-headers", is_flag=True, help="Republish without values.")
@pairs_option("--metadata", "metadata", help="Add metadata.")
@json_flag
@click.pass_obj
def add(session: Session, /, bucket: str, as_json: bool, **fields: Any) -> None:
    """Create BUCKET."""
    target = Bucket(session, bucket)
    created = target.link.api(f"STREAM.CREATE.{target.stream}", _config(target, fields))
    if as_json:
        print_json(created)
    else:
        print_bucket(target.name, created)


@click.command(cls=Command)
@click.argument("bucket")
@json_flag
@click.pass_obj
def info(session: Session, bucket: str, as_json: bool) -> None:
    """Show BUCKET."""
    target = Bucket(session, bucket)
    found = target.info()
    if as_json:
        print_json(found)
    else:
        print_bucket(bucket, found)


@click.command(cls=Command)
@click.argument("bucket")
@force_flag
@click.pass_obj
def compact(session: Session, bucket: str, force: bool) -> None:
    """Drop the markers and histories of deleted keys of BUCKET."""
    target = Bucket(session, bucket)
    target.info()
    confirm_or_stop(f"Drop all deleted keys of bucket {bucket}", force=force)
    deleted = [entry for entry in target.read(policy="last_per_subject", values=False) if entry.operation != "PUT"]
    for entry in deleted:
        target.link.api(f"STREAM.PURGE.{target.stream}", {"filter": f"$KV.{bucket}.{entry.key}"})
    click.echo(f"Dropped {len(deleted):,} deleted keys")


def _config(bucket: Bucket, fields: dict[str, Any]) -> Reply:
    config: Reply = {
        "name": bucket.stream,
        "subjects": [f"$KV.{bucket.name}.>"],
        "description": fields["description"],
        "max_msgs_per_subject": fields["history"],
        "max_age": max(fields["ttl"], 0),
        "max_bytes": fields["max_bucket_size"],
        "max_msg_size": fields["max_value_size"],
        "storage": fields["storage"],
        "num_replicas": fields["replicas"],
        "discard": "new",
        "duplicate_window": min(fields["ttl"] or _DUPLICATES_NS, _DUPLICATES_NS),
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_direct": True,
        "max_msgs": -1,
        "max_consumers": -1,
        "metadata": fields["metadata"],
    }
    if fields["compress"]:
        config["compression"] = "s2"
    if fields["marker_ttl"]:
        config |= {"allow_msg_ttl": True, "subject_delete_marker_ttl": fields["marker_ttl"]}
    if fields["cluster"] or fields["tags"]:
        config["placement"] = {"cluster": fields["cluster"], "tags": fields["tags"]}
    if fields["republish_destination"]:
        config["republish"] = {
            "src": fields["republish_source"] or ">",
            "dest": fields["republish_destination"],
            "headers_only": fields["republish_headers"],
        }
    return config


def print_bucket(name: str, info: Reply) -> None:
    """A bucket on the screen."""
    config, state = info["config"], info["state"]
    columns = Columns(f"Information for Key-Value Store Bucket {name} created {format_time(info['created'])}")
    columns.section("Configuration")
    columns.row("Bucket Name", name)
    columns.row("Description", config.get("description", ""), when=config.get("description"))
    columns.row("History Kept", config["max_msgs_per_subject"])
    columns.row("Values Stored", state["messages"])
    columns.row("Storage Kind", config["storage"].capitalize())
    columns.row("Bucket Size", format_bytes(state["bytes"]))
    columns.limit("Maximum Bucket Size", config["max_bytes"], format_bytes(config["max_bytes"]))
    columns.limit("Maximum Value Size", config.get("max_msg_size", -1), format_bytes(config.get("max_msg_size", -1)))
    columns.limit("Maximum Age", config["max_age"], format_duration(config["max_age"]))
    marker_ns = config.get("subject_delete_marker_ttl", 0)
    columns.row("Limit Marker TTL", format_duration(marker_ns), when=marker_ns)
    columns.row("Compressed", config.get("compression", "none") != "none")
    columns.row("JetStream Stream", config["name"])
    columns.print()
