"""`stream verify`: whether a tamper-evident stream is what was written, asked of a server or seen in its files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import format_number
from slipstream.cli.jetstream import choose_stream
from slipstream.cli.link import Reply
from slipstream.cli.render import print_json, say
from slipstream.cli.stream.checkpoint import described, read_kept, signer_option
from slipstream.cli.types import json_flag
from slipstream.units import MINUTE_NS

if TYPE_CHECKING:
    from slipstream.jetstream.store.checkpoints import Checkpoint
    from slipstream.jetstream.store.file.disk.disk import Disk

__all__ = ["hold_against", "verify"]

_LONG_NS: Final = 60 * MINUTE_NS  # a whole stream is read
_ID_DIGITS: Final = 32  # of the name of a stream's directory


@click.command(cls=Command)
@click.argument("name", metavar="[STREAM]", required=False)
@click.option(
    "--dir",
    "directory",
    type=click.Path(exists=True, file_okay=False),
    help="Look at the files in this store directory, without a server; it must not be running.",
)
@click.option("--key", help="The key that encrypts these files. [NATS_JS_KEY]", envvar="NATS_JS_KEY")
@click.option("--key-file", type=click.Path(exists=True, dir_okay=False), help="A file with that key.")
@click.option(
    "--checkpoint",
    "kept",
    type=click.Path(exists=True, dir_okay=False),
    help="The stream must hold what this checkpoint was signed for: nothing is cut off, or went back.",
)
@signer_option
@json_flag
@click.pass_obj
def verify(
    session: Session,
    name: str | None,
    directory: str | None,
    key: str | None,
    key_file: str | None,
    kept: str | None,
    signer: str | None,
    as_json: bool,
) -> None:
    """Recompute the hash chain of STREAM from its files, and say whether it holds.

    A stream has one if it was made with the metadata `slipstream.chain: blake2b`.
    """
    wanted = _wanted(name, kept, signer)
    if directory is None and key_file is not None:
        raise click.UsageError("--key-file is for the files in --dir: a server has its key.")
    if key_file is not None:
        key = None
    if wanted is not None:
        name = wanted.stream
    if directory is None:
        name = choose_stream(session, name, internal=session.show_all)
        link = session.link()
        place = {"records": wanted.records, "link": wanted.link, "last_seq": wanted.last_seq} if wanted else None
        found: Reply = link.api(
            f"STREAM.VERIFY.{name}",
            {"checkpoint": place} if place else None,
            timeout_ns=max(_LONG_NS, link.settings.timeout_ns),
        )
        found = {key: value for key, value in found.items() if key != "type"}
    else:
        if name is None:
            raise click.UsageError("Say which stream: STREAM is missing.")
        directory = os.path.abspath(directory)
        found = _verify_files(directory, name, wanted, _disk_of(directory, key, key_file))
    if wanted is not None:
        hold_against(found, wanted)
    if as_json:
        print_json(found)
        if not found["intact"]:
            raise click.exceptions.Exit(1)
        return
    _tell(name, found)
    if wanted is not None:
        say(f"  {described(wanted)}: the chain goes on from there")


def _wanted(name: str | None, kept: str | None, signer: str | None) -> Checkpoint | None:
    if kept is None:
        if signer is not None:
            raise click.UsageError("--signer says who must have signed the --checkpoint: there is none.")
        return None
    found = read_kept(kept, signer)
    if name not in (None, found.stream):
        raise Failure(f"{kept} is a checkpoint of stream {found.stream}, not of {name}")
    return found


def hold_against(found: Reply, wanted: Checkpoint) -> None:
    """What a chain that holds in itself still has to do with the checkpoint; said in the answer."""
    if not found["chained"]:
        return
    problem = ""
    if found["identity"] != wanted.identity:
        problem = "it is another stream than that of the checkpoint, which had the same name"
    elif found["intact"] and found["removed_records"] > wanted.records:
        # Not a pass: whoever makes a chain of his own could let it begin behind every checkpoint.
        problem = "all that the checkpoint covers was removed, so it proves nothing any more; a newer one is needed"
    if problem:
        found |= {"intact": False, "broken": {"first_seq": 0, "last_seq": 0, "problem": problem}}


def _tell(name: str, found: Reply) -> None:
    if not found["chained"]:
        raise Failure(f"stream {name} has no hash chain")
    broken = found.get("broken")
    if broken is not None:
        first, last = broken["first_seq"], broken["last_seq"]
        if first and last > first:
            where = f" at sequence {format_number(first)} or one of those up to {format_number(last)}"
        else:
            where = f" at sequence {format_number(first or last)}" if first or last else ""
        raise Failure(f"stream {name} is broken{where}: {broken['problem']}")
    last, records = format_number(found["last_seq"]), format_number(found["records"])
    say(f"Stream {name} is intact up to sequence {last}: {records} records are linked")
    if found["removed_up_to"]:
        say(f"  Removed, and said to be so: sequences up to {format_number(found['removed_up_to'])}")
    if "unlinked" in found:
        say("  The newest records are in no link yet: the server was cut off while it wrote them. It links them next.")


def _disk_of(directory: str, key: str | None, key_file: str | None) -> Disk:
    """The files as they were before they were encrypted or compressed; nothing is changed."""
    import secrets

    from slipstream.config.jetstream_options import JetStreamOptions
    from slipstream.errors import StorageFault
    from slipstream.jetstream.store.file.disk.read_only import ReadOnlyDisk
    from slipstream.jetstream.store.file.disk.real_disk import RealDisk
    from slipstream.jetstream.store.packed.disk import PackedDisk
    from slipstream.jetstream.store.sealed.disk import SealedDisk
    from slipstream.jetstream.store.sealed.keys import KeyRing
    from slipstream.jetstream.store.sealed.marker import MARKER, MarkState, mark_of, read_mark
    from slipstream.server.jetstream.at_rest import main_key

    raw = ReadOnlyDisk(RealDisk())
    roots = [root for root in (directory, f"{directory}/jetstream") if MARKER in raw.list_dir(root)]
    mark = read_mark(raw, roots[0]) if roots else mark_of(raw, list(_stream_directories(directory)))
    if mark is None:
        return PackedDisk(raw)
    try:
        main = main_key(JetStreamOptions(key=key or "", key_file=key_file or ""))
    except StorageFault as error:
        raise Failure(str(error)) from error
    if main is None:
        raise Failure(
            f"the streams in {directory} are encrypted: give the key with --key-file or NATS_JS_KEY, or ask the server "
            "that has it, without --dir"
        )
    if not mark.opens_with(main):
        raise Failure(f"the streams in {directory} are encrypted with another key")
    is_mixed = mark.proven_state(main) is not MarkState.SEALED
    return PackedDisk(SealedDisk(raw, KeyRing(main, None, secrets.token_bytes, accepts_plain=is_mixed)))


def _verify_files(directory: str, name: str, wanted: Checkpoint | None, disk: Disk) -> Reply:
    from slipstream.jetstream.api.verify import report_fields
    from slipstream.jetstream.config.chained import CHAIN_KEY, is_chained
    from slipstream.jetstream.config.stored import from_stored
    from slipstream.jetstream.gojson import JsonError
    from slipstream.jetstream.store.file.chain_check import check_directory
    from slipstream.jetstream.store.file.recovery import recover_log

    found: list[str] = []
    for path in _stream_directories(directory):
        try:
            config = from_stored(recover_log(disk, path, seed=0, first_id=1).config)[0]
        except JsonError as error:
            click.echo(f"{path} tells no configuration: {error}", err=True)
            continue
        if config.name == name:
            found.append(path)
    if len(found) > 1 and wanted is not None:
        found = [path for path in found if os.path.basename(path) == wanted.identity]
    if not found:
        raise Failure(f"there is no stream {name} in {directory}")
    if len(found) > 1:
        raise Failure(f"several accounts have a stream {name}; name one of: {', '.join(found)}")
    report = check_directory(disk, found[0], wanted=wanted.place if wanted is not None else None)
    fields = {"stream": name, **report_fields(report)}
    if not report.chained and is_chained(from_stored(recover_log(disk, found[0], seed=0, first_id=1).config)[0]):
        problem = f"its configuration says {CHAIN_KEY}, and there is no chain"
        fields |= {"chained": True, "broken": {"first_seq": 0, "last_seq": 0, "problem": problem}}
    return fields


def _stream_directories(directory: str) -> Iterator[str]:
    """Directories of streams at or below a place."""
    for path, names, files in os.walk(directory):
        names.sort()
        is_stream = len(os.path.basename(path)) == _ID_DIGITS and any(file.endswith(".seg") for file in files)
        if is_stream and "DELETED" not in files:
            yield path
