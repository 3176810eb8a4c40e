"""Files into an object store and out of it."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import format_bytes
from slipstream.cli.link import Reply
from slipstream.cli.object.manage import print_object
from slipstream.cli.object.store import ObjectStore
from slipstream.cli.progress import progress
from slipstream.cli.prompts import confirm_or_stop
from slipstream.cli.render import say
from slipstream.cli.types import HEADER, SIZE, force_flag
from slipstream.client.wire import ClientError

__all__ = ["get", "put"]

_CHUNK_BYTES: Final = 128 * 1024  # what all clients use


@click.command(cls=Command)
@click.argument("store")
@click.argument("file", required=False)
@click.option("--name", default="", help="Name of the object; by default the file's.")
@click.option("--description", default="", help="What it is.")
@click.option("--header", "-H", "headers", multiple=True, type=HEADER, help="Add a header.")
@click.option("--chunk-size", type=SIZE, default=_CHUNK_BYTES, help="Bytes of a chunk.")
@click.option("--progress/--no-progress", "shown", default=True, help="Show a progress bar.")
@force_flag
@click.pass_obj
def put(
    session: Session,
    store: str,
    file: str | None,
    name: str,
    description: str,
    headers: tuple[tuple[str, str], ...],
    chunk_size: int,
    shown: bool,
    force: bool,
) -> None:
    """Put FILE into STORE; without FILE standard input, which needs --name."""
    target = ObjectStore(session, store)
    name = name or file or ""
    if not name:
        raise Failure("standard input has no name: give --name")
    if chunk_size <= 0:
        raise Failure("chunks have at least one byte")
    old = target.find(name)
    if old is not None and not old.get("deleted"):
        confirm_or_stop(f"Replace {store} > {name}", force=force)
    meta: Reply = {"name": name, "bucket": store, "nuid": secrets.token_hex(11)}
    meta["options"] = {"max_chunk_size": chunk_size}
    if description:
        meta["description"] = description
    if headers:
        meta["headers"] = {key: [value for other, value in headers if other == key] for key, _ in headers}
    try:
        if file:
            with open(file, "rb") as source:
                meta |= _send(target, source, meta["nuid"], chunk_size, os.fstat(source.fileno()).st_size, shown)
        else:
            meta |= _send(target, sys.stdin.buffer, meta["nuid"], chunk_size, None, shown)
        target.describe(meta)
    except BaseException:
        with suppress(ClientError):
            target.drop_chunks(meta["nuid"])  # nobody would ever find them
        raise
    if old is not None and old["nuid"] != meta["nuid"]:
        target.drop_chunks(old["nuid"])
    print_object(store, target.get(name))


def _send(
    target: ObjectStore, source: IO[bytes], identity: str, chunk_size: int, total: int | None, shown: bool
) -> Reply:
    """Store the chunks and say what they are."""
    digest, size, chunks = hashlib.sha256(), 0, 0
    with progress("Uploading", total, unit="bytes", shown=shown) as advance:
        while chunk := source.read(chunk_size):
            target.add_chunk(identity, chunk)
            digest.update(chunk)
            size += len(chunk)
            chunks += 1
            advance(len(chunk))
    return {"size": size, "chunks": chunks, "digest": _digest_text(digest.digest())}


@click.command(cls=Command)
@click.argument("store")
@click.argument("name")
@click.option("--output", "-O", default="", help="File to write, - for standard output; by default the object's name.")
@click.option("--progress/--no-progress", "shown", default=True, help="Show a progress bar.")
@force_flag
@click.pass_obj
def get(session: Session, store: str, name: str, output: str, shown: bool, force: bool) -> None:
    """Fetch the object NAME from STORE; its digest is checked."""
    target = ObjectStore(session, store)
    meta = target.get(name)
    if meta.get("options", {}).get("link"):
        raise Failure(f"{name!r} is a link to another object")
    if output == "-":
        _receive(target, meta, sys.stdout.buffer, shown=False)
        return
    place = Path(output or Path(name).name)
    if place.exists():
        confirm_or_stop(f"Overwrite {place}", force=force)
    with _whole_file(place) as sink:
        _receive(target, meta, sink, shown)
    say(f"Wrote: {format_bytes(meta['size'])} to {place}")


def _receive(target: ObjectStore, meta: Reply, sink: IO[bytes], shown: bool) -> None:
    digest = hashlib.sha256()
    with progress("Downloading", meta["size"], unit="bytes", shown=shown) as advance:
        for chunk in target.chunks(meta):
            digest.update(chunk)
            sink.write(chunk)
            advance(len(chunk))
    if meta.get("digest") and meta["digest"] != _digest_text(digest.digest()):
        raise Failure(f"{meta['name']!r} is damaged: its digest is another one")


@contextmanager
def _whole_file(place: Path) -> Iterator[IO[bytes]]:
    """A file that appears when it is complete, and not at all when something goes wrong."""
    unfinished = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with open(unfinished, "wb") as sink:
            yield sink
        unfinished.replace(place)
    finally:
        unfinished.unlink(missing_ok=True)


def _digest_text(digest: bytes) -> str:
    return f"SHA-256={base64.urlsafe_b64encode(digest).decode()}"
