"""`consumer edit`: change a consumer by flags, a file or an editor; differences are shown before they are made."""

from __future__ import annotations

from typing import Any

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.consumer.add import save_consumer
from slipstream.cli.consumer.flags import config_flags, with_flags
from slipstream.cli.consumer.info import print_consumer
from slipstream.cli.jetstream import choose_consumer, choose_stream, read_config_file, user_metadata
from slipstream.cli.prompts import confirm_or_stop, edited_by_hand
from slipstream.cli.stream.edit import print_differences
from slipstream.cli.types import edit_flags, force_flag, json_flag

__all__ = ["edit"]


@click.command(cls=Command)
@click.argument("stream", metavar="[STREAM]", required=False)
@click.argument("name", metavar="[CONSUMER]", required=False)
@edit_flags
@config_flags(edit=True)
@force_flag
@json_flag
@click.pass_obj
def edit(
    session: Session,
    /,
    stream: str | None,
    name: str | None,
    config_file: str | None,
    interactive: bool,
    dry_run: bool,
    force: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Change the configuration of CONSUMER."""
    stream = choose_stream(session, stream, internal=session.show_all)
    name = choose_consumer(session, stream, name)
    link = session.link()
    found = link.api(f"CONSUMER.INFO.{stream}.{name}")["config"]
    old = {**found, "metadata": user_metadata(found)}
    base = read_config_file(config_file) if config_file else old
    kept = {field: old[field] for field in ("name", "durable_name") if field in old}
    try:
        new = with_flags({**base, **kept}, given)
    except ValueError as error:
        raise Failure(str(error)) from error
    if interactive:
        new = edited_by_hand(new)
    if not print_differences(old, new, quiet=as_json) or dry_run:
        return
    confirm_or_stop(f"Really edit Consumer {stream} > {name}", force=force)
    print_consumer(save_consumer(link, stream, {**new, "name": name}, action="update"), as_json=as_json)
