"""`stream add` and `stream copy`: from flags, a file, another stream, or questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.jetstream import choose_stream, read_config_file, user_metadata
from slipstream.cli.link import Reply
from slipstream.cli.render import say
from slipstream.cli.stream.flags import config_flags, with_flags
from slipstream.cli.stream.info import print_stream
from slipstream.cli.stream.questions import ask_for_the_rest, ask_name, with_defaults
from slipstream.cli.types import json_flag
from slipstream.errors import SlipstreamError

__all__ = ["add", "copy"]


@click.command(cls=Command)
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("--config", "config_file", metavar="FILE", help="Read the configuration from a JSON file; - is stdin.")
@click.option("--defaults", is_flag=True, help="Ask nothing, take the defaults.")
@click.option("--output", metavar="FILE", help="Save the configuration instead of creating the stream.")
@click.option("--validate", is_flag=True, help="Only check the configuration.")
@config_flags(edit=False)
@json_flag
@click.pass_obj
def add(
    session: Session,
    /,
    name: str | None,
    config_file: str | None,
    defaults: bool,
    output: str | None,
    validate: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Create STREAM. What no flag says is asked for; `?` at a question explains it.

    \b
        slipstream stream add ORDERS --subjects 'orders.*' --defaults
        slipstream stream add --config orders.json
    """
    if config_file:
        config = with_flags(read_config_file(config_file), given)
        config["name"] = name or config.get("name")
        if not config["name"]:
            raise Failure(f"{config_file} has no name: give one as an argument")
    else:
        config = with_flags({"name": ask_name(name), "allow_direct": True}, given)
        if defaults and not (config.get("subjects") or config.get("mirror") or config.get("sources")):
            raise click.UsageError("--subjects is needed with --defaults.")
        if defaults:
            config = with_defaults(config)
        else:
            ask_for_the_rest(config)
    _check_copies(config)
    if output:
        Path(output).write_text(json.dumps(config, indent=2) + "\n")
        return
    if validate:
        _validate(config)
        return
    _create(session, config, as_json=as_json)


@click.command(cls=Command)
@click.argument("source")
@click.argument("name", metavar="DESTINATION")
@config_flags(edit=False)
@json_flag
@click.pass_obj
def copy(session: Session, /, source: str, name: str, as_json: bool, **given: Any) -> None:
    """Create DESTINATION with the configuration of SOURCE, changed by the flags; messages are not copied."""
    if source == name:
        raise Failure("source and destination are the same stream")
    config = session.link().api(f"STREAM.INFO.{choose_stream(session, source)}")["config"]
    config["metadata"] = user_metadata(config)
    _create(session, {**with_flags(config, given), "name": name}, as_json=as_json)


def _check_copies(config: Reply) -> None:
    if config.get("mirror") and config.get("subjects"):
        raise Failure("a mirror cannot listen on subjects of its own")


def _create(session: Session, config: Reply, *, as_json: bool) -> None:
    found = session.link().api(f"STREAM.CREATE.{choose_stream(session, config['name'])}", config)
    if not as_json:
        say(f"Stream {config['name']} was created\n")
    print_stream(found, as_json=as_json)


def _validate(config: Reply) -> None:
    """Check a configuration by the rules of this project's server, without one."""
    from slipstream.cli.schema import explained
    from slipstream.jetstream.config.structs import STREAM_CONFIG
    from slipstream.jetstream.config.validate import ConfigContext, checked
    from slipstream.jetstream.gojson.scan import JsonError

    content = json.dumps(config).encode()
    try:
        checked(STREAM_CONFIG.decode(content), ConfigContext(find_stream=lambda _: None))
    except JsonError as error:
        raise Failure(f"the configuration is not valid: {explained(error, STREAM_CONFIG, content)}") from error
    except SlipstreamError as error:
        raise Failure(f"the configuration is not valid: {error}") from error
    click.echo("The configuration is valid")
