"""Object stores and what is in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from slipstream.cli.connection import Command, EndlessCommand, Session
from slipstream.cli.human import format_bytes, format_duration, format_time
from slipstream.cli.jetstream import user_metadata
from slipstream.cli.link import Reply
from slipstream.cli.object.store import ObjectStore
from slipstream.cli.prompts import confirm_or_stop
from slipstream.cli.render import Columns, Table, counted, print_json, print_names, say
from slipstream.cli.stream.edit import print_differences
from slipstream.cli.stream_backed import print_all
from slipstream.cli.types import DURATION, SIZE, force_flag, json_flag, list_option, names_flag, pairs_option

__all__ = ["add", "delete", "edit", "info", "ls", "print_object", "seal", "watch"]


_F = TypeVar("_F", bound=Callable[..., Any])
_STORAGE: Final = {"file": "file", "f": "file", "memory": "memory", "m": "memory"}
_FLAGS: Final = (
    click.option("--description", help="What it is for."),
    click.option("--ttl", type=DURATION, help="Forget objects after this long."),
    click.option("--storage", type=click.Choice(list(_STORAGE)), help="Where to keep objects: file or memory."),
    click.option("--max-bucket-size", type=SIZE, help="Largest size of the whole store."),
    click.option("--replicas", type=click.IntRange(min=1), help="Copies in a cluster."),
    click.option("--cluster", help="Place it in a cluster."),
    list_option("--tags", "tags", help="Place it on servers with tags."),
    click.option("--compress/--no-compress", default=None, help="Compress files."),
    pairs_option("--metadata", "metadata", help="Add metadata."),
)


def _store_flags(command: _F) -> _F:
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


@click.command(cls=Command)
@click.argument("store")
@_store_flags
@json_flag
@click.pass_obj
def add(session: Session, /, store: str, as_json: bool, **given: Any) -> None:
    """Create the object store STORE."""
    target = ObjectStore(session, store)
    base: Reply = {
        "name": target.stream,
        "subjects": [f"$O.{store}.C.>", f"$O.{store}.M.>"],
        "description": "",
        "max_age": 0,
        "max_bytes": -1,
        "storage": "file",
        "num_replicas": 1,
        "discard": "new",
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        "max_msgs": -1,
        "max_consumers": -1,
        "metadata": {},
    }
    created = target.link.api(f"STREAM.CREATE.{target.stream}", _changed(base, given))
    _show(store, created, as_json=as_json)


@click.command(cls=Command)
@click.argument("store")
@_store_flags
@force_flag
@json_flag
@click.pass_obj
def edit(session: Session, /, store: str, force: bool, as_json: bool, **given: Any) -> None:
    """Change STORE; what no flag names stays as it is."""
    target = ObjectStore(session, store)
    found = target.info()["config"]
    old = {**found, "metadata": user_metadata(found)}
    new = _changed(old, given)
    if not print_differences(old, new, quiet=as_json):
        return
    confirm_or_stop(f"Really edit object store {store}", force=force)
    _show(store, target.link.api(f"STREAM.UPDATE.{target.stream}", new), as_json=as_json)


def _changed(old: Reply, given: dict[str, Any]) -> Reply:
    """The stream of a store with what the flags say."""
    new = dict(old)
    for flag, field in (
        ("description", "description"),
        ("max_bucket_size", "max_bytes"),
        ("replicas", "num_replicas"),
    ):
        if given[flag] is not None:
            new[field] = given[flag]
    if given["ttl"] is not None:
        new["max_age"] = max(given["ttl"], 0)
    if given["storage"] is not None:
        new["storage"] = _STORAGE[given["storage"]]
    if given["compress"] is not None:
        new["compression"] = "s2" if given["compress"] else "none"
    if given["cluster"] or given["tags"]:
        new["placement"] = {"cluster": given["cluster"] or "", "tags": given["tags"]}
    if given["metadata"]:
        new["metadata"] = {**(new.get("metadata") or {}), **given["metadata"]}
    return new


@click.command(cls=Command)
@click.argument("store", required=False)
@names_flag
@json_flag
@click.pass_obj
def ls(session: Session, store: str | None, names: bool, as_json: bool) -> None:
    """List all object stores, or the objects of STORE."""
    if store is None:
        print_all(session, ObjectStore, names=names, as_json=as_json)
        return
    objects = [meta for meta in ObjectStore(session, store).objects() if not meta.get("deleted")]
    if as_json:
        print_json(objects)
    elif names:
        print_names(meta["name"] for meta in objects)
    elif not objects:
        click.echo("No entries found")
    else:
        table = Table(f"Bucket Contents for '{store}'", "Name", "Size", "Chunks", "Description")
        for meta in objects:
            table.add(meta["name"], format_bytes(meta["size"]), meta["chunks"], meta.get("description", ""))
        table.print()


@click.command(cls=Command)
@click.argument("store")
@click.argument("name", required=False)
@json_flag
@click.pass_obj
def info(session: Session, store: str, name: str | None, as_json: bool) -> None:
    """Show STORE, or the object NAME in it."""
    target = ObjectStore(session, store)
    if name is None:
        _show(store, target.info(), as_json=as_json)
    elif as_json:
        print_json(target.get(name))
    else:
        print_object(store, target.get(name))


@click.command(cls=Command)
@click.argument("store")
@force_flag
@click.pass_obj
def seal(session: Session, store: str, force: bool) -> None:
    """Make STORE read-only; this cannot be undone."""
    target = ObjectStore(session, store)
    config = target.info()["config"]
    confirm_or_stop(f"Seal object store {store}; it will be read-only for ever", force=force)
    _print_store(store, target.link.api(f"STREAM.UPDATE.{target.stream}", {**config, "sealed": True}))


@click.command(cls=Command)
@click.argument("store")
@click.argument("name", required=False)
@force_flag
@click.pass_obj
def delete(session: Session, store: str, name: str | None, force: bool) -> None:
    """Delete the object NAME from STORE; without NAME delete the store."""
    target = ObjectStore(session, store)
    if name is not None:
        meta = target.get(name)
        confirm_or_stop(f"Delete {format_bytes(meta['size'])} object {store} > {name}", force=force)
        target.delete(meta)
        say(f"Object {store} > {name} was deleted")
        return
    target.info()
    confirm_or_stop(f"Delete object store {store} with all its objects", force=force)
    target.link.api(f"STREAM.DELETE.{target.stream}")
    say(f"Object store {store} was deleted")


@click.command(cls=EndlessCommand)
@click.argument("store")
@click.option("--updates-only", is_flag=True, help="Begin with the next change.")
@click.option("--count", type=int, default=0, help="Stop after this many changes.")
@click.pass_obj
def watch(session: Session, store: str, updates_only: bool, count: int) -> None:
    """Show the objects of STORE, and changes as they happen."""
    changes = ObjectStore(session, store).objects(watch=True, updates_only=updates_only)
    for number, meta in enumerate(changes, 1):
        if meta.get("deleted"):
            say(f"{click.style('DEL', fg='red')} {store} > {meta['name']}", indent=4)
        else:
            size = f"{format_bytes(meta['size'])} in {counted(meta['chunks'], 'chunk')}"
            say(f"{click.style('PUT', fg='green')} {store} > {meta['name']}: {size}", indent=4)
        if number == count:
            return


def print_object(store: str, meta: Reply) -> None:
    """An object on the screen."""
    columns = Columns(f"Object information for {store} > {meta['name']}")
    columns.row("Description", meta.get("description", ""), when=meta.get("description"))
    columns.row("Size", format_bytes(meta["size"]))
    columns.row("Modification Time", format_time(meta["mtime"]))
    columns.row("Chunks", meta["chunks"])
    columns.row("Digest", meta.get("digest", "").replace("=", " ", 1))
    for name, values in meta.get("headers", {}).items():
        columns.row(f"Header {name}", values)
    columns.print()


def _show(store: str, found: Reply, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        _print_store(store, found)


def _print_store(name: str, info: Reply) -> None:
    config, state = info["config"], info["state"]
    columns = Columns(f"Information for Object Store Bucket {name} created {format_time(info['created'])}")
    columns.section("Configuration")
    columns.row("Bucket Name", name)
    columns.row("Description", config.get("description", ""), when=config.get("description"))
    columns.row("Storage", config["storage"].capitalize())
    columns.row("Size", format_bytes(state["bytes"]))
    columns.limit("Maximum Bucket Size", config["max_bytes"], format_bytes(config["max_bytes"]))
    columns.limit("TTL", config["max_age"], format_duration(config["max_age"]))
    columns.row("Sealed", config.get("sealed", False))
    columns.row("Compressed", config.get("compression", "none") != "none")
    columns.row("JetStream Stream", config["name"])
    columns.print()
