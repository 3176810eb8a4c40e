"""`consumer add` and `consumer copy`: from flags, a file, another consumer, or questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.consumer.flags import config_flags, with_flags
from slipstream.cli.consumer.info import print_consumer
from slipstream.cli.consumer.questions import ask_for_the_rest, ask_name, with_defaults
from slipstream.cli.jetstream import choose_consumer, choose_stream, read_config_file, user_metadata
from slipstream.cli.link import ClientLink, Reply
from slipstream.cli.types import json_flag

__all__ = ["add", "copy", "save_consumer"]


@click.command(cls=Command)
@click.argument("stream", metavar="[STREAM]", required=False)
@click.argument("name", metavar="[CONSUMER]", required=False)
@click.option("--config", "config_file", metavar="FILE", help="Read the configuration from a JSON file; - is stdin.")
@click.option("--defaults", is_flag=True, help="Ask nothing, take the defaults.")
@click.option("--output", metavar="FILE", help="Save the configuration instead of creating the consumer.")
@config_flags(edit=False)
@json_flag
@click.pass_obj
def add(
    session: Session,
    /,
    stream: str | None,
    name: str | None,
    config_file: str | None,
    defaults: bool,
    output: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Create CONSUMER of STREAM. What no flag says is asked for; `?` at a question explains it.

    \b
        slipstream consumer add ORDERS worker --pull --defaults
        slipstream consumer add ORDERS --config worker.json
    """
    stream = choose_stream(session, stream, internal=session.show_all)
    if not (defaults or config_file or output):
        session.link().api(f"STREAM.INFO.{stream}")  # before a page of questions
    try:
        config = _wanted(name, config_file, given, defaults=defaults)
    except ValueError as error:
        raise Failure(str(error)) from error
    if output:
        Path(output).write_text(json.dumps(config, indent=2) + "\n")
        return
    found = save_consumer(session.link(), stream, config, action="create")
    print_consumer(found, as_json=as_json)


def _wanted(name: str | None, config_file: str | None, given: dict[str, Any], *, defaults: bool) -> Reply:
    if config_file:
        config = with_flags(read_config_file(config_file), given)
        if name:
            config |= {"name": name} if not config.get("durable_name") else {"name": name, "durable_name": name}
        return config
    named: Reply = {}
    if not given.get("ephemeral"):
        named = {"durable_name": (chosen := ask_name(name)), "name": chosen}
    elif name:
        named = {"name": name}
    config = with_flags(named, given)
    if given.get("pull") and config.get("deliver_subject"):
        raise click.UsageError("Only one of --pull and --target.")
    return with_defaults(config) if defaults else ask_for_the_rest(config, pull=bool(given.get("pull")))


@click.command(cls=Command)
@click.argument("stream")
@click.argument("source")
@click.argument("name", metavar="DESTINATION")
@config_flags(edit=False)
@json_flag
@click.pass_obj
def copy(session: Session, /, stream: str, source: str, name: str, as_json: bool, **given: Any) -> None:
    """Create the consumer DESTINATION with the configuration of SOURCE, changed by the flags."""
    if source == name:
        raise Failure("source and destination are the same consumer")
    link = session.link()
    stream = choose_stream(session, stream)
    config = link.api(f"CONSUMER.INFO.{stream}.{choose_consumer(session, stream, source)}")["config"]
    config["metadata"] = user_metadata(config)
    config = with_flags(config, given)
    durable = bool(config.get("durable_name")) and not given.get("ephemeral")
    config.pop("durable_name", None)
    config |= {"name": name, "durable_name": name} if durable else {"name": name}
    print_consumer(save_consumer(link, stream, config, action="create"), as_json=as_json)


def save_consumer(link: ClientLink, stream: str, config: Reply, *, action: str) -> Reply:
    """Create or update a consumer; one without a name gets one from the server."""
    name = config.get("name") or config.get("durable_name")
    if name and any(letter in name for letter in " .*>/\\"):
        raise Failure(f"{name!r} cannot be the name of a consumer")
    verb = f"CONSUMER.CREATE.{stream}.{name}" if name else f"CONSUMER.CREATE.{stream}"
    return link.api(verb, {"stream_name": stream, "config": config, "action": action})
