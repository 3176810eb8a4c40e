"""Message sets, which are streams today."""

from __future__ import annotations

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import format_bytes, format_number, parse_bytes, parse_duration
from slipstream.cli.jetstream import choose_stream
from slipstream.cli.link import Reply
from slipstream.cli.preview import asking
from slipstream.cli.prompts import confirm_or_stop
from slipstream.cli.render import print_json
from slipstream.cli.stream.questions import split_subjects, with_defaults
from slipstream.cli.types import force_flag, json_flag

__all__ = ["add", "info", "ls", "purge", "rm", "rm_msg"]


@click.command(cls=Command)
@click.pass_obj
def add(session: Session) -> None:
    """Add a message set: asks for name, subjects, limits and storage."""
    link = session.link()
    asking.begin()
    try:
        config: Reply = {
            "name": asking.text("Name", needed=True),
            "subjects": split_subjects(asking.text("Subjects", needed=True)),
            **_limits(asking.text("Limits (msgs, bytes, age)")),
            "storage": asking.one_of("Storage", ["file", "memory"], "file"),
            "allow_direct": True,
        }
    except ValueError as error:
        raise Failure(str(error)) from error
    link.api(f"STREAM.CREATE.{choose_stream(session, config['name'])}", with_defaults(config))
    asking.say_ok()


def _limits(text: str) -> Reply:
    """`-1 -1 1m`: none, some or all of messages, bytes and age."""
    words = text.replace(",", " ").split()
    if len(words) > 3:
        raise ValueError(f"{text!r} has more than three limits")
    messages, size, age = [*words, *("-1",) * (3 - len(words))]
    try:
        return {"max_msgs": int(messages), "max_bytes": parse_bytes(size), "max_age": max(parse_duration(age), 0)}
    except ValueError:
        raise ValueError(f"{text!r} are not limits such as 1000 1GB 24h, or -1 -1 1m") from None


@click.command(cls=Command)
@click.argument("name", metavar="[MSET]", required=False)
@json_flag
@click.pass_obj
def info(session: Session, name: str | None, as_json: bool) -> None:
    """Show the account, or the message set MSET."""
    link = session.link()
    if name is None:
        account = link.api("INFO")
        if as_json:
            print_json({key: value for key, value in account.items() if key != "type"})
            return
        limits = account.get("limits") or {}
        click.echo(f"\nMemory:  {format_bytes(account['memory'])} of {_most(limits.get('max_memory', -1))}")
        click.echo(f"Storage: {format_bytes(account['storage'])} of {_most(limits.get('max_storage', -1))}")
        most = limits.get("max_streams", -1)
        click.echo(f"MsgSets: {account['streams']} of {format_number(most) if most >= 0 else 'Unlimited'}\n")
        return
    found = link.api(f"STREAM.INFO.{choose_stream(session, name)}")
    state = found["state"]
    if as_json:
        print_json(state)
        return
    click.echo(f"\nMessages: {format_number(state['messages'])}")
    click.echo(f"Bytes:    {format_bytes(state['bytes'])}")
    click.echo(f"FirstSeq: {format_number(state['first_seq'])}")
    click.echo(f"LastSeq:  {format_number(state['last_seq'])}\n")


def _most(size: int) -> str:
    return format_bytes(size) if size >= 0 else "Unlimited"


@click.command(cls=Command)
@json_flag
@click.pass_obj
def ls(session: Session, as_json: bool) -> None:
    """List message sets."""
    names = sorted(session.link().api_pages("STREAM.NAMES", "streams"))
    if as_json:
        print_json(names)
        return
    click.echo()
    for number, name in enumerate(names, 1):
        click.echo(f"{number}) {name}")
    click.echo()


@click.command(cls=Command)
@click.argument("name", metavar="MSET")
@force_flag
@click.pass_obj
def rm(session: Session, name: str, force: bool) -> None:
    """Delete the message set MSET."""
    name = choose_stream(session, name)
    link = session.link()
    link.api(f"STREAM.INFO.{name}")
    confirm_or_stop(f"Really delete Stream {name}", force=force)
    link.api(f"STREAM.DELETE.{name}")
    asking.say_ok()


@click.command(cls=Command)
@click.argument("name", metavar="MSET")
@force_flag
@click.pass_obj
def purge(session: Session, name: str, force: bool) -> None:
    """Delete the messages of the message set MSET."""
    name = choose_stream(session, name)
    confirm_or_stop(f"Really purge Stream {name}", force=force)
    session.link().api(f"STREAM.PURGE.{name}")
    asking.say_ok()


@click.command("rm-msg", cls=Command)
@click.argument("name", metavar="MSET")
@click.argument("seq", type=click.IntRange(min=1))
@force_flag
@click.pass_obj
def rm_msg(session: Session, name: str, seq: int, force: bool) -> None:
    """Erase message SEQ of the message set MSET."""
    name = choose_stream(session, name)
    confirm_or_stop(f"Really remove message {seq} from Stream {name}", force=force)
    session.link().api(f"STREAM.MSG.DELETE.{name}", {"seq": seq})
    asking.say_ok()
