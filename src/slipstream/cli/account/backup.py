"""`slipstream account backup` and `restore`: all streams of the account, a directory for each.

The directories are those of `stream backup`, named like their streams. What goes wrong with one stream does not keep
the others from being saved; it is said at the end, and the status is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import format_bytes
from slipstream.cli.jetstream import all_streams
from slipstream.cli.prompts import confirm_or_stop
from slipstream.cli.render import counted, note, say
from slipstream.cli.stream.backup import read_meta, restore_stream, save_stream
from slipstream.cli.types import force_flag, list_option
from slipstream.errors import SlipstreamError

__all__ = ["backup", "restore"]


@click.command(cls=Command)
@click.argument("target", type=click.Path(file_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="Let the server check the streams first.")
@click.option("--consumers/--no-consumers", default=True, help="Save the consumers too.")
@click.option("--progress/--no-progress", "shown", default=True, help="Show progress bars.")
@force_flag
@click.pass_obj
def backup(session: Session, target: Path, check: bool, consumers: bool, shown: bool, force: bool) -> None:
    """Save all streams into the directory TARGET, buckets and object stores included."""
    streams = all_streams(session.link())
    if not streams:
        raise Failure("no streams are defined")
    if target.exists() and any(target.iterdir()):
        raise Failure(f"{target} is not empty")
    size = format_bytes(sum(info["state"]["bytes"] for info in streams))
    if not force:
        confirm_or_stop(f"Save {counted(len(streams), 'stream')} with {size} into {target}", force=False)
    options = {"no_consumers": not consumers, "jsck": check}

    def save(name: str) -> None:
        save_stream(session.link(), name, target / name, options, shown=shown)

    _each((info["config"]["name"] for info in streams), save, "saved")


@click.command(cls=Command)
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--cluster", default="", help="Place the streams in a cluster.")
@list_option("--tag", "tags", metavar="TAG", help="Place the streams on servers with a tag.")
@click.option("--progress/--no-progress", "shown", default=True, help="Show progress bars.")
@click.pass_obj
def restore(session: Session, directory: Path, cluster: str, tags: list[str], shown: bool) -> None:
    """Bring back the streams that were saved in DIRECTORY; those that exist are left alone."""
    sources = {place.name: place for place in sorted(directory.iterdir()) if (place / "backup.json").is_file()}
    if not sources:
        raise Failure(f"{directory} holds no backups of streams")

    def bring_back(name: str) -> None:
        meta = read_meta(sources[name])
        config: dict[str, Any] = meta["config"]
        if cluster or tags:
            config["placement"] = {"cluster": cluster, "tags": tags}
        restore_stream(session.link(), sources[name], config, meta["state"], shown=shown, quiet=False)

    _each(sources, bring_back, "restored")


def _each(names: Iterable[str], act: Callable[[str], None], done: str) -> None:
    """Act on each stream, and fail at the end if any of them failed."""
    good, bad = 0, 0
    for name in names:
        try:
            act(name)
            good += 1
        except Failure as error:
            note(f"{name} was not {done}: {error.message}")
            bad += 1
        except SlipstreamError as error:
            note(f"{name} was not {done}: {error}")
            bad += 1
    say(f"\n{counted(good, 'stream')} {done}")
    if bad:
        raise Failure(f"{counted(bad, 'stream')} could not be {done}")
