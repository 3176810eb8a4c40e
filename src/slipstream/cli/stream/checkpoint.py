"""`stream checkpoint`: where the hash chain of a stream stands, signed by its server, to be kept elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import format_number
from slipstream.cli.jetstream import choose_stream
from slipstream.cli.render import print_json, say

if TYPE_CHECKING:
    from slipstream.jetstream.store.checkpoints import Checkpoint

__all__ = ["checkpoint", "described", "read_kept", "signer_option"]

signer_option = click.option(
    "--signer", metavar="KEY", help="Public key (N...) of the server that must have signed the checkpoint."
)


@click.command(cls=Command)
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("--output", "-o", type=click.Path(dir_okay=False), help="Write it into this file.")
@click.option(
    "--check",
    "kept",
    type=click.Path(exists=True, dir_okay=False),
    help="Make none: check the signature of this one, without any server.",
)
@signer_option
@click.pass_obj
def checkpoint(session: Session, name: str | None, output: str | None, kept: str | None, signer: str | None) -> None:
    """Print where the hash chain of STREAM stands, signed by the server: to be kept elsewhere.

    `stream verify STREAM --checkpoint FILE` finds with it that the end of the stream was cut off, or that its files are
    older than the checkpoint.
    """
    if kept is not None:
        if name is not None or output is not None:
            raise click.UsageError("--check reads a file: neither STREAM nor --output goes with it.")
        say(described(read_kept(kept, signer)))
        return
    if signer is not None:
        raise click.UsageError("--signer says who must have signed a checkpoint: it goes with --check.")
    name = choose_stream(session, name, internal=session.show_all)
    found = session.link().api(f"STREAM.CHECKPOINT.{name}")["checkpoint"]
    if output is None:
        print_json(found)
        return
    try:
        Path(output).write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise Failure(f"{output}: {error.strerror}") from error
    say(f"Checkpoint of stream {name} at sequence {format_number(found['last_seq'])} is in {output}")
    say(f"  Signed by {found['server']}")


def read_kept(path: str, signer: str | None) -> Checkpoint:
    """A checkpoint in a file, whose signature holds, and is that of `signer` if one is given."""
    from slipstream.jetstream.store.checkpoints import CHECKPOINT_BYTES_MAX, read_checkpoint

    try:
        with open(path, "rb") as file:
            found = read_checkpoint(file.read(CHECKPOINT_BYTES_MAX + 1))
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise Failure(f"{path}: {error}") from error
    if signer is not None and found.server != signer:
        raise Failure(f"{path} was signed by {found.server}, not by {signer}")
    return found


def described(found: Checkpoint) -> str:
    """A checkpoint in words."""
    sequence = format_number(found.last_seq)
    return (
        f"Checkpoint of stream {found.stream} of account {found.account} at sequence {sequence}, signed by "
        f"{found.server} at {found.time}"
    )
