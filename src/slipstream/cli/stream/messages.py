"""`stream get` and `stream view`: the messages of a stream."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import format_age, format_number, to_rfc3339, visible
from slipstream.cli.jetstream import choose_stream
from slipstream.cli.link import Reply
from slipstream.cli.messages import decode_header, print_body, print_headers, read_delivery
from slipstream.cli.prompts import ask, can_ask, confirm
from slipstream.cli.pulling import Feed
from slipstream.cli.render import note, print_json, say
from slipstream.cli.types import DURATION, json_flag
from slipstream.client.wire import Message
from slipstream.units import MICROSECOND_NS

__all__ = ["get", "view"]

_PAGE_MAX = 25


@click.command(cls=Command)
@click.argument("name", metavar="[STREAM]", required=False)
@click.argument("seq", required=False, type=click.IntRange(min=1))
@click.option("--last-for", "-S", metavar="SUBJECT", default="", help="The last message of a subject.")
@click.option("--translate", metavar="COMMAND", default="", help="Show the body through a command.")
@json_flag
@click.pass_obj
def get(session: Session, name: str | None, seq: int | None, last_for: str, translate: str, as_json: bool) -> None:
    """Show the message with sequence SEQ, or the last one of a subject."""
    name = choose_stream(session, name, internal=session.show_all)
    if seq is None and not last_for:
        seq = ask("Message Sequence to retrieve", read=_sequence, flag="SEQ or --last-for")
    body: Reply = {"last_by_subj": last_for} if last_for else {"seq": seq}
    message = session.link().api(f"STREAM.MSG.GET.{name}", body)["message"]
    if as_json:
        print_json(message)
        return
    age = format_age(message["time"], datetime.now().astimezone())
    place = f"{name}#{message['seq']}"
    line = f"Item: {place} received {message['time']} ({age}) on Subject {visible(message['subject'])}"
    say(f"{line}\n", indent=6)
    headers = decode_header(base64.b64decode(message.get("hdrs", "")))
    if headers:
        click.echo("Headers:")
        print_headers(headers, "  ")
        click.echo()
    print_body(base64.b64decode(message.get("data", "")), translate, subject=message["subject"], stream=name)


def _sequence(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ValueError(f"{text!r} is not a sequence")
    return int(text)


@click.command(cls=Command)
@click.argument("name", metavar="[STREAM]", required=False)
@click.argument("size", default=10, type=click.IntRange(min=1))
@click.option("--id", "start", type=click.IntRange(min=1), help="Begin with a sequence.")
@click.option("--since", type=DURATION, default=0, help="Begin with messages of this long ago.")
@click.option("--subject", metavar="SUBJECT", default="", help="Only messages of a subject.")
@click.option("--translate", metavar="COMMAND", default="", help="Show bodies through a command.")
@click.option("--raw", is_flag=True, help="Print only the bodies.")
@click.pass_obj
def view(
    session: Session,
    name: str | None,
    size: int,
    start: int | None,
    since: int,
    subject: str,
    translate: str,
    raw: bool,
) -> None:
    """Page through the messages of STREAM, SIZE at a time; without a terminal the first page is shown."""
    if size > _PAGE_MAX:
        note(f"Pages have at most {_PAGE_MAX} messages")
        size = _PAGE_MAX
    if start and since:
        raise click.UsageError("Only one of --id and --since.")
    name = choose_stream(session, name, internal=session.show_all)
    with Feed(session, name, config=_config(start, since, subject)) as feed:
        _page(feed, name, size, translate, raw=raw)


def _page(feed: Feed, name: str, size: int, translate: str, *, raw: bool) -> None:
    if not feed.pending:
        raise Failure("there are no such messages")
    for shown, (_, message) in enumerate(feed, 1):
        if raw:
            print_body(message.payload, translate, subject=message.subject, stream=name)
        else:
            _print(message, name, translate)
        if not feed.pending:
            note("Reached apparent end of data")
            return
        if shown % size == 0 and not (can_ask() and confirm("Next Page", default=True)):
            return


def _config(start: int | None, since_ns: int, subject: str) -> Reply:
    config: Reply = {"deliver_policy": "all"}
    if start:
        config = {"deliver_policy": "by_start_sequence", "opt_start_seq": start}
    elif since_ns:
        begin = datetime.now().astimezone() - timedelta(microseconds=since_ns / MICROSECOND_NS)
        config = {"deliver_policy": "by_start_time", "opt_start_time": to_rfc3339(begin)}
    return {**config, "filter_subject": subject} if subject else config


def _print(message: Message, stream: str, translate: str) -> None:
    delivery = read_delivery(message.reply)
    if delivery is not None:
        number = click.style(f"[{format_number(delivery.stream_seq)}]", fg="cyan")
        say(f"{number} Subject: {visible(message.subject)} Received: {delivery.time}")
    headers = decode_header(message.header)
    if headers:
        click.echo()
        print_headers(headers, "  ")
    click.echo()
    print_body(message.payload, translate, subject=message.subject, stream=stream)
    click.echo("\n")
