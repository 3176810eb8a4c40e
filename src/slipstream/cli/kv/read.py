"""Keys and values on the screen."""

from __future__ import annotations

import json
import sys

import click

from slipstream.cli.connection import Command, EndlessCommand, Failure, Session
from slipstream.cli.human import visible
from slipstream.cli.kv.bucket import Bucket, KeyEntry, NoSuchKey
from slipstream.cli.link import Reply
from slipstream.cli.render import Table, print_json, print_names, say
from slipstream.cli.stream_backed import print_all
from slipstream.cli.types import json_flag, names_flag

__all__ = ["get", "history", "ls", "watch"]

_VALUE_SHOWN_MAX = 40


@click.command(cls=Command)
@click.argument("bucket", required=False)
@click.argument("pattern", default=">")
@names_flag
@click.option("--verbose", "-v", is_flag=True, help="Show when and as which revision keys were set.")
@click.option("--display-value", is_flag=True, help="Show values too.")
@json_flag
@click.pass_obj
def ls(
    session: Session,
    bucket: str | None,
    pattern: str,
    names: bool,
    verbose: bool,
    display_value: bool,
    as_json: bool,
) -> None:
    """List all buckets, or the keys of BUCKET that match PATTERN."""
    if bucket is None:
        print_all(session, Bucket, names=names, as_json=as_json, counted=True)
        return
    values = display_value or as_json
    entries = [
        entry
        for entry in Bucket(session, bucket).read(pattern, policy="last_per_subject", values=values)
        if entry.operation == "PUT"
    ]
    if as_json:
        print_json([entry.as_json(bucket) for entry in entries])
    elif not entries:
        matching = "" if pattern == ">" else f" that match {pattern!r}"
        say(f"No keys in bucket {bucket}{matching}", err=True)
    elif not (verbose or display_value):
        print_names(entry.key for entry in entries)
    else:
        table = Table(f"Contents for bucket '{bucket}'", "Key", "Created", "Revision", *(["Value"] * display_value))
        for entry in entries:
            table.add(entry.key, entry.time, entry.revision, *([_short(entry.value)] * display_value))
        table.print()


@click.command(cls=Command)
@click.argument("bucket")
@click.argument("key")
@click.option("--revision", type=click.IntRange(min=0), default=0, help="An older value.")
@click.option("--raw", is_flag=True, help="Print only the value, byte by byte.")
@json_flag
@click.pass_obj
def get(session: Session, bucket: str, key: str, revision: int, raw: bool, as_json: bool) -> None:
    """Show the value of KEY in BUCKET."""
    entry = Bucket(session, bucket).get(key, revision)
    if raw:
        sys.stdout.buffer.write(entry.value)
        return
    if as_json:
        print_json(entry.as_json(bucket))
        return
    say(f"{bucket} > {key} revision: {entry.revision} created @ {entry.time}\n")
    click.echo(visible(entry.value.decode(errors="replace")))


@click.command(cls=Command)
@click.argument("bucket")
@click.argument("key")
@json_flag
@click.pass_obj
def history(session: Session, bucket: str, key: str, as_json: bool) -> None:
    """Show what is kept of KEY in BUCKET, oldest first."""
    if "*" in key or ">" in key:
        raise Failure("the history of one key can be shown")
    entries = list(Bucket(session, bucket).read(key, policy="all"))
    if not entries:
        raise NoSuchKey(f"{bucket} > {key} has no value")
    if as_json:
        print_json([entry.as_json(bucket) for entry in entries])
        return
    table = Table(f"History for {bucket} > {key}", "Key", "Revision", "Op", "Created", "Length", "Value")
    for entry in entries:
        table.add(key, entry.revision, entry.operation, entry.time, len(entry.value), _short(entry.value))
    table.print()


@click.command(cls=EndlessCommand)
@click.argument("bucket")
@click.argument("pattern", default=">")
@click.option("--history", "with_history", is_flag=True, help="Begin with everything that is kept.")
@click.option("--updates-only", "--updates", is_flag=True, help="Begin with the next change.")
@click.option("--revision", type=click.IntRange(min=1), help="Begin with this revision.")
@click.option("--deletes/--no-deletes", default=True, help="Show deletions.")
@click.option("--count", type=int, default=0, help="Stop after this many changes.")
@click.option("--json", "-j", "as_json", is_flag=True, help="Print JSON, one change a line.")
@click.pass_obj
def watch(
    session: Session,
    bucket: str,
    pattern: str,
    with_history: bool,
    updates_only: bool,
    revision: int | None,
    deletes: bool,
    count: int,
    as_json: bool,
) -> None:
    """Show the values of BUCKET that match PATTERN, and their changes as they happen."""
    if with_history + updates_only + (revision is not None) > 1:
        raise click.UsageError("Only one of --history, --updates-only and --revision.")
    start: Reply = {"deliver_policy": "all" if with_history else "new" if updates_only else "last_per_subject"}
    if revision is not None:
        start = {"deliver_policy": "by_start_sequence", "opt_start_seq": revision}
    shown = 0
    for entry in Bucket(session, bucket).watch(pattern, start):
        if entry.operation != "PUT" and not deletes:
            continue
        if as_json:
            click.echo(json.dumps(entry.as_json(bucket), ensure_ascii=False))
        else:
            _print_change(bucket, entry)
        shown += 1
        if shown == count:
            return


def _print_change(bucket: str, entry: KeyEntry) -> None:
    colour = "green" if entry.operation == "PUT" else "red"
    value = f": {visible(entry.value.decode(errors='replace'))}" if entry.operation == "PUT" else ""
    click.echo(f"[{entry.time}] {click.style(entry.operation, fg=colour)} {bucket} > {entry.key}{value}")


def _short(value: bytes) -> str:
    text = value.decode(errors="replace")
    return text if len(text) <= _VALUE_SHOWN_MAX else f"{text[: _VALUE_SHOWN_MAX - 3]}..."
