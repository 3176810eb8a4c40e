"""`stream rm`, `purge`, `rmm` and `seal`: what cannot be undone asks first."""

from __future__ import annotations

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import format_number
from slipstream.cli.jetstream import choose_stream, is_internal
from slipstream.cli.link import Reply
from slipstream.cli.prompts import ask, confirm_or_stop
from slipstream.cli.render import counted, print_json, say
from slipstream.cli.stream.info import print_stream
from slipstream.cli.stream.purging import purge_watched
from slipstream.cli.types import force_flag, json_flag
from slipstream.units import MINUTE_NS

__all__ = ["purge", "rm", "rmm", "seal"]

_LONG_NS = 5 * MINUTE_NS  # removing millions of messages takes its time


@click.command(cls=Command)
@click.argument("name", metavar="[STREAM]", required=False)
@force_flag
@click.pass_obj
def rm(session: Session, name: str | None, force: bool) -> None:
    """Delete STREAM with all its messages and consumers."""
    name = choose_stream(session, name, internal=session.show_all)
    link = session.link()
    if not force:
        link.api(f"STREAM.INFO.{name}")  # a stream that is not there is not worth a question
        if is_internal(name):
            say(f"{name} belongs to a bucket or object store, which goes with it.")
    confirm_or_stop(f"Really delete Stream {name}", force=force)
    link.api(f"STREAM.DELETE.{name}", timeout_ns=max(_LONG_NS, link.settings.timeout_ns))
    say(f"Stream {name} was deleted")


@click.command(cls=Command)
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("--subject", metavar="SUBJECT", help="Only messages of a subject.")
@click.option("--seq", type=click.IntRange(min=1), help="Only messages before a sequence.")
@click.option("--keep", type=click.IntRange(min=0), help="Keep this many of the newest.")
@force_flag
@json_flag
@click.pass_obj
def purge(
    session: Session,
    name: str | None,
    subject: str | None,
    seq: int | None,
    keep: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Delete the messages of STREAM, all or some."""
    if seq and keep:
        raise click.UsageError("Only one of --seq and --keep.")
    name = choose_stream(session, name, internal=session.show_all)
    link = session.link()
    state = link.api(f"STREAM.INFO.{name}", {"subjects_filter": subject} if subject else None)["state"]
    what = f"Stream {name}" if not subject else f"subject {subject} of Stream {name}"
    confirm_or_stop(f"Really purge {what} ({counted(state['messages'], 'message')} in all)", force=force)
    body: Reply = {key: value for key, value in (("filter", subject), ("seq", seq), ("keep", keep)) if value}
    answer = purge_watched(link, name, body, state)
    found = link.api(f"STREAM.INFO.{name}")
    if as_json:
        print_json({"purged": answer["purged"], "state": found["state"]})
        return
    say(f"Purged {counted(answer['purged'], 'message')} from {name}\n")
    print_stream(found, state_only=True)


@click.command(cls=Command)
@click.argument("name", metavar="[STREAM]", required=False)
@click.argument("seq", required=False, type=click.IntRange(min=1))
@force_flag
@click.pass_obj
def rmm(session: Session, name: str | None, seq: int | None, force: bool) -> None:
    """Erase the message with sequence SEQ of STREAM: its bytes are overwritten."""
    name = choose_stream(session, name, internal=session.show_all)
    number = seq or ask("Message Sequence to remove", read=_sequence, flag="SEQ")
    confirm_or_stop(f"Really remove message {number} from Stream {name}", force=force)
    session.link().api(f"STREAM.MSG.DELETE.{name}", {"seq": number})
    say(f"Removed message {format_number(number)} from {name}")


def _sequence(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ValueError(f"{text!r} is not a sequence")
    return int(text)


@click.command(cls=Command)
@click.argument("name", metavar="STREAM")
@force_flag
@json_flag
@click.pass_obj
def seal(session: Session, name: str, force: bool, as_json: bool) -> None:
    """Seal STREAM: nothing is stored in it or removed from it again, not even by limits."""
    link = session.link()
    name = choose_stream(session, name)
    config = link.api(f"STREAM.INFO.{name}")["config"]
    if config.get("sealed"):
        raise Failure(f"stream {name} is sealed already")
    confirm_or_stop(f"Really seal Stream {name}, sealed streams cannot be unsealed or modified", force=force)
    print_stream(link.api(f"STREAM.UPDATE.{name}", {**config, "sealed": True}), as_json=as_json)
