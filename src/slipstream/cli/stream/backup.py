"""`stream backup` and `stream restore`: a stream as a directory, in the form `nats` writes and reads.

backup.json      configuration and state
stream.tar.s2    what the server sent, chunk by chunk
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, BinaryIO

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import format_bytes, format_duration
from slipstream.cli.jetstream import choose_stream, read_config_file
from slipstream.cli.link import ApiRefusal, ClientLink, Reply, decoded
from slipstream.cli.progress import Advance, progress
from slipstream.cli.pulling import status_of
from slipstream.cli.render import counted, say
from slipstream.cli.stream.info import print_stream
from slipstream.cli.types import SIZE, json_flag, list_option
from slipstream.client.wire import ClientTimeout
from slipstream.units import KIB, MIB, MINUTE_NS

__all__ = ["backup", "read_meta", "restore", "restore_stream", "save_stream"]

_META = "backup.json"
_DATA = "stream.tar.s2"
_SILENCE_NS = MINUTE_NS  # a server that sends nothing for so long has given up
_CHUNK_BYTES = 128 * KIB
_WINDOW_BYTES = 8 * MIB


@click.command(cls=Command)
@click.argument("name", metavar="STREAM")
@click.argument("target", type=click.Path(file_okay=False, path_type=Path))
@click.option("--progress/--no-progress", "shown", default=True, help="Show a progress bar.")
@click.option("--check", is_flag=True, help="Let the server check the stream first.")
@click.option("--consumers/--no-consumers", default=True, help="Save the consumers too.")
@click.option("--chunk-size", type=SIZE, default=_CHUNK_BYTES, help="Bytes of a chunk.")
@click.option("--window-size", type=SIZE, default=_WINDOW_BYTES, help="Bytes under way at once.")
@click.pass_obj
def backup(
    session: Session,
    name: str,
    target: Path,
    shown: bool,
    check: bool,
    consumers: bool,
    chunk_size: int,
    window_size: int,
) -> None:
    """Save STREAM into the directory TARGET."""
    options = {"no_consumers": not consumers, "chunk_size": chunk_size, "window_size": window_size, "jsck": check}
    save_stream(session.link(), choose_stream(session, name), target, options, shown=shown)


def save_stream(link: ClientLink, name: str, target: Path, options: Reply, *, shown: bool, quiet: bool = False) -> None:
    """Save a stream into a directory.

    Args:
        link: the connection.
        name: the stream.
        target: the directory, which is made if need be.
        options: fields of the request, such as `no_consumers`.
        shown: show a progress bar.
        quiet: say nothing beside it.

    Raises:
        ApiRefusal: the server refuses.
        Failure: it stopped in the middle.
    """
    inbox = link.client.new_inbox()
    sid = link.client.subscribe(inbox)
    body = {**options, "deliver_subject": inbox}
    started_ns = time.monotonic_ns()
    found = link.api(f"STREAM.SNAPSHOT.{name}", body, timeout_ns=max(_SILENCE_NS, link.settings.timeout_ns))
    target.mkdir(parents=True, exist_ok=True)
    if not quiet:
        say(f"Starting backup of Stream {name} with {format_bytes(found['state']['bytes'])}")
    with (
        (target / _DATA).open("wb") as file,
        progress("Receiving", found["state"]["bytes"] or None, unit="bytes", shown=shown) as advance,
    ):
        chunks = _receive(link, file, advance)
        size = file.tell()
    link.client.unsubscribe(sid)
    meta = {"config": found["config"], "state": found["state"]}
    (target / _META).write_text(json.dumps(meta, indent=2) + "\n")
    elapsed = format_duration(time.monotonic_ns() - started_ns)
    if not quiet:
        say(f"Received {format_bytes(size)} in {counted(chunks, 'chunk')} for Stream {name} in {elapsed}")


def _receive(link: ClientLink, file: BinaryIO, advance: Advance) -> int:
    """Write chunks to a file until the empty one; each is confirmed, so that the server sends more."""
    chunks = 0
    while True:
        try:
            message = link.client.next_message(_SILENCE_NS)
        except ClientTimeout:
            raise Failure("the backup is not complete: the server sends nothing more") from None
        if message.reply:
            link.publish(message.reply)
        if not message.payload:
            if status_of(message) >= 400:
                raise Failure(f"the backup is not complete: {message.header.decode(errors='replace').strip()}")
            return chunks
        file.write(message.payload)
        chunks += 1
        advance(len(message.payload))


@click.command(cls=Command)
@click.argument("source", metavar="DIRECTORY", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--progress/--no-progress", "shown", default=True, help="Show a progress bar.")
@click.option("--config", "config_file", metavar="FILE", help="Restore with another configuration.")
@click.option("--cluster", metavar="NAME", help="Place it in a cluster.")
@list_option("--tag", "tags", metavar="TAG", help="Place it on servers with a tag.")
@click.option("--replicas", type=click.IntRange(min=1), help="Copies in a cluster.")
@json_flag
@click.pass_obj
def restore(
    session: Session,
    source: Path,
    shown: bool,
    config_file: str | None,
    cluster: str | None,
    tags: list[str],
    replicas: int | None,
    as_json: bool,
) -> None:
    """Bring back the stream that was saved in DIRECTORY."""
    meta = read_meta(source)
    config = meta["config"]
    name = choose_stream(session, config["name"])
    if config_file:
        config = read_config_file(config_file)
        if config.get("name", name) != name:
            raise Failure("a stream cannot change its name while it is restored")
        config["name"] = name
    if cluster or tags:
        config["placement"] = {"cluster": cluster or "", "tags": tags}
    if replicas:
        config["num_replicas"] = replicas
    found = restore_stream(session.link(), source, config, meta["state"], shown=shown, quiet=as_json)
    click.echo(err=as_json)
    print_stream(found, as_json=as_json)


def restore_stream(link: ClientLink, source: Path, config: Reply, state: Reply, *, shown: bool, quiet: bool) -> Reply:
    """Bring a stream back from a directory and return its info.

    Args:
        link: the connection.
        source: the directory.
        config: what the stream shall be.
        state: what it held.
        shown: show a progress bar.
        quiet: keep standard output for something else.

    Raises:
        Failure: there is such a stream already.
        ApiRefusal: the server refuses.
    """
    name = config["name"]
    if _exists(link, name):
        raise Failure(f"stream {name} exists already")
    started_ns = time.monotonic_ns()
    target = link.api(f"STREAM.RESTORE.{name}", {"config": config, "state": state})["deliver_subject"]
    data = source / _DATA
    say(f"Starting restore of Stream {name} from {source}", err=quiet)
    with data.open("rb") as file, progress("Sending", data.stat().st_size, unit="bytes", shown=shown) as advance:
        found = _send(link, file, target, advance)
    elapsed = format_duration(time.monotonic_ns() - started_ns)
    say(f"Restored Stream {name} in {elapsed}", err=quiet)
    return found


def _send(link: ClientLink, file: BinaryIO, target: str, advance: Advance) -> Reply:
    """Send chunks, each after the server has confirmed the one before; the last one is empty."""
    most = link.client.info.max_payload or _CHUNK_BYTES
    while chunk := file.read(min(_CHUNK_BYTES, most)):
        answer = link.request(target, chunk, timeout_ns=_SILENCE_NS)
        if answer.payload:
            decoded(answer)  # raises what the server objects to
        advance(len(chunk))
    return decoded(link.request(target, timeout_ns=_SILENCE_NS))


def _exists(link: ClientLink, name: str) -> bool:
    try:
        link.api(f"STREAM.INFO.{name}")
    except ApiRefusal as error:
        if error.code == 404:
            return False
        raise
    return True


def read_meta(source: Path) -> dict[str, Any]:
    """The description of a backup: the configuration and the state of its stream.

    Raises:
        Failure: there is none.
    """
    try:
        meta = json.loads((source / _META).read_text())
        meta["config"]["name"], meta["state"]
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(f"{source / _META} is not the description of a backup: {error}") from error
    found: dict[str, Any] = meta
    return found
