"""Buckets: create, change, show, clean up."""

from __future__ import annotations

from typing import Any

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.human import format_bytes, format_duration, format_time
from slipstream.cli.jetstream import user_metadata
from slipstream.cli.kv.bucket import Bucket
from slipstream.cli.kv.flags import bucket_flags, changed_config, new_config
from slipstream.cli.link import Reply
from slipstream.cli.progress import progress
from slipstream.cli.prompts import confirm_or_stop
from slipstream.cli.render import Columns, counted, print_json, say
from slipstream.cli.stream.edit import print_differences
from slipstream.cli.types import force_flag, json_flag

__all__ = ["add", "compact", "edit", "info", "print_bucket"]


@click.command(cls=Command)
@click.argument("bucket")
@bucket_flags
@json_flag
@click.pass_obj
def add(session: Session, /, bucket: str, as_json: bool, **given: Any) -> None:
    """Create BUCKET."""
    target = Bucket(session, bucket)
    created = target.link.api(f"STREAM.CREATE.{target.stream}", new_config(target, given))
    _show(target, created, as_json=as_json)


@click.command(cls=Command)
@click.argument("bucket")
@bucket_flags
@force_flag
@json_flag
@click.pass_obj
def edit(session: Session, /, bucket: str, force: bool, as_json: bool, **given: Any) -> None:
    """Change BUCKET; what no flag names stays as it is."""
    target = Bucket(session, bucket)
    found = target.info()["config"]
    old = {**found, "metadata": user_metadata(found)}
    new = changed_config(old, given)
    if not print_differences(old, new, quiet=as_json):
        return
    confirm_or_stop(f"Really edit bucket {bucket}", force=force)
    _show(target, target.link.api(f"STREAM.UPDATE.{target.stream}", new), as_json=as_json)


@click.command(cls=Command)
@click.argument("bucket")
@json_flag
@click.pass_obj
def info(session: Session, bucket: str, as_json: bool) -> None:
    """Show BUCKET."""
    target = Bucket(session, bucket)
    _show(target, target.info(), as_json=as_json)


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
    with progress("Compacting", len(deleted) or None, unit="keys") as advance:
        for entry in deleted:
            # Not what was set again since we looked.
            wanted = {"filter": f"$KV.{bucket}.{entry.key}", "seq": entry.revision + 1}
            target.link.api(f"STREAM.PURGE.{target.stream}", wanted)
            advance(1)
    say(f"Dropped {counted(len(deleted), 'deleted key')}")


def _show(bucket: Bucket, found: Reply, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_bucket(bucket.name, found)


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
    mirror = (config.get("mirror") or {}).get("name", "")
    columns.row("Mirror of", mirror.removeprefix("KV_"), when=mirror)
    sources = [source["name"].removeprefix("KV_") for source in config.get("sources") or []]
    columns.row("Sources", sources, when=sources)
    republish = config.get("republish") or {}
    columns.row("Republishing", f"{republish.get('src')} to {republish.get('dest')}", when=republish)
    for key, value in user_metadata(config).items():
        columns.row(f"Metadata {key}", value)
    columns.row("JetStream Stream", config["name"])
    columns.print()
