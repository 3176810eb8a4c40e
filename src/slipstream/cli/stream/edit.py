"""`stream edit`: change a stream by flags, a file or an editor; differences are shown before they are made."""

from __future__ import annotations

from typing import Any

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.jetstream import choose_stream, differences, read_config_file, user_metadata
from slipstream.cli.link import Reply
from slipstream.cli.prompts import confirm_or_stop, edited_by_hand
from slipstream.cli.render import say
from slipstream.cli.stream.flags import config_flags, with_flags
from slipstream.cli.stream.info import print_stream
from slipstream.cli.types import edit_flags, force_flag, json_flag

__all__ = ["edit", "print_differences"]


@click.command(cls=Command)
@click.argument("name", metavar="[STREAM]", required=False)
@edit_flags
@config_flags(edit=True)
@force_flag
@json_flag
@click.pass_obj
def edit(
    session: Session,
    /,
    name: str | None,
    config_file: str | None,
    interactive: bool,
    dry_run: bool,
    force: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Change the configuration of STREAM."""
    link = session.link()
    name = choose_stream(session, name, internal=session.show_all)
    old = link.api(f"STREAM.INFO.{name}")["config"]
    base = {**old, "metadata": user_metadata(old)}
    if config_file:
        base = {**read_config_file(config_file), "name": name}
    new = with_flags(base, given)
    if interactive:
        new = edited_by_hand(new)
    if not print_differences({**old, "metadata": user_metadata(old)}, new, quiet=as_json) or dry_run:
        return
    confirm_or_stop(f"Really edit Stream {name}", force=force)
    found = link.api(f"STREAM.UPDATE.{name}", new)
    if not as_json:
        say(f"Stream {name} was updated\n")
    print_stream(found, as_json=as_json)


def print_differences(old: Reply, new: Reply, *, quiet: bool = False) -> bool:
    """Show what changes and return whether anything does."""
    lines = list(differences(old, new))
    if quiet:
        return bool(lines)
    if not lines:
        click.echo("No difference in configuration")
        return False
    click.echo("Differences (-old +new):")
    for line in lines:
        click.echo(click.style(f"  {line}", fg="red" if line.startswith("-") else "green"))
    click.echo()
    return True
