"""`consumer next` and `consumer sub`: the messages of a consumer."""

from __future__ import annotations

import json
import random
from datetime import datetime

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import format_duration, format_number, visible
from slipstream.cli.jetstream import choose_consumer, choose_stream
from slipstream.cli.link import ClientLink
from slipstream.cli.messages import decode_header, print_body, print_headers, read_delivery
from slipstream.cli.pulling import Feed, acknowledge, status_of
from slipstream.cli.render import note, tied, wrapped
from slipstream.cli.types import DURATION
from slipstream.client.wire import ClientTimeout, Message
from slipstream.units import SECOND_NS

__all__ = ["next_", "print_delivery", "pull_one", "sub"]


@click.command("next", cls=Command)
@click.argument("stream")
@click.argument("name", metavar="CONSUMER")
@click.option("--count", type=click.IntRange(min=1), default=1, help="Messages to get.")
@click.option("--ack/--no-ack", default=None, help="Acknowledge them; the default.")
@click.option("--nak", is_flag=True, help="Have them delivered again.")
@click.option("--term", is_flag=True, help="Give them up.")
@click.option("--wait", type=DURATION, default=0, help="Wait before that, at random up to this.")
@click.option("--raw", "-r", is_flag=True, help="Print only the bodies.")
@click.pass_obj
def next_(
    session: Session, stream: str, name: str, count: int, ack: bool | None, nak: bool, term: bool, wait: int, raw: bool
) -> None:
    """Get messages of the pull consumer CONSUMER, and acknowledge them."""
    if (nak and term) or (ack and (nak or term)):
        raise click.UsageError("Only one of --ack, --nak, --term.")
    stream = choose_stream(session, stream)
    name = choose_consumer(session, stream, name)
    link = session.link()
    word = b"+TERM" if term else b"-NAK" if nak else b"" if ack is False else b"+ACK"
    for _ in range(count):
        message = pull_one(link, stream, name)
        print_delivery(message, raw=raw)
        if word:
            _answer(link, message, word, wait, raw=raw)


def pull_one(link: ClientLink, stream: str, name: str) -> Message:
    """The next message of a pull consumer.

    Raises:
        Failure: none came in time, or it is no such consumer.
    """
    inbox = link.client.new_inbox()
    sid = link.client.subscribe(inbox)
    body = json.dumps({"batch": 1, "expires": link.settings.timeout_ns}).encode()
    link.publish(f"{link.settings.api_prefix}.CONSUMER.MSG.NEXT.{stream}.{name}", body, reply=inbox)
    try:
        # The server answers at the end of the request; a little more time lets it.
        message = link.client.next_message(link.settings.timeout_ns + SECOND_NS)
    except ClientTimeout:
        raise Failure("no message came in time") from None
    finally:
        link.client.unsubscribe(sid)
    status = status_of(message)
    if status in (404, 408):
        raise Failure("no message came in time")
    if status:
        found = link.api(f"CONSUMER.INFO.{stream}.{name}")
        if found["config"].get("deliver_subject"):
            raise Failure(f"consumer {stream} > {name} is not a Pull consumer")
        reason = message.header.decode(errors="replace").split("\r\n")[0].removeprefix("NATS/1.0 ")
        raise Failure(f"no message came: {reason}")
    return message


def print_delivery(message: Message, *, raw: bool = False) -> None:
    """Print a message with what its reply subject says of it."""
    if raw:
        print_body(message.payload)
        return
    delivery = read_delivery(message.reply)
    if delivery is None:
        reply = f" reply: {message.reply}" if message.reply else ""
        click.echo(visible(f"--- subject: {message.subject}{reply}"))
    else:
        clock = f"[{datetime.now().strftime('%H:%M:%S')}]"
        line = wrapped(
            f"{clock} subj: {visible(message.subject)} / tries: {delivery.tries} / cons seq: {delivery.consumer_seq} / "
            f"str seq: {delivery.stream_seq} / {tied(f'pending: {format_number(delivery.pending)}')}",
            indent=len(clock) + 1,
        )
        click.echo(f"{click.style(clock, fg='cyan')}{line.removeprefix(clock)}")
    headers = decode_header(message.header)
    if headers:
        click.echo("\nHeaders:\n")
        print_headers(headers, "  ")
        click.echo("\nData:")
    click.echo()
    print_body(message.payload)


def _answer(link: ClientLink, message: Message, word: bytes, wait_ns: int, *, raw: bool) -> None:
    pause_ns = random.randrange(wait_ns) if wait_ns > 0 else 0
    if pause_ns:
        link.idle(pause_ns / SECOND_NS)
    acknowledge(link, message, word)
    if raw:
        return
    done = {
        b"+ACK": "Acknowledged message",
        b"-NAK": "Negative Acknowledged message",
        b"+TERM": "Terminated message",
    }[word]
    click.echo(f"\n{done}{f' after {format_duration(pause_ns)} delay' if pause_ns else ''}\n")


@click.command(cls=Command)
@click.argument("stream", metavar="[STREAM]", required=False)
@click.argument("name", metavar="[CONSUMER]", required=False)
@click.option("--ack/--no-ack", default=True, help="Acknowledge messages.")
@click.option("--count", type=click.IntRange(min=0), default=0, help="Stop after this many messages.")
@click.option("--wait", type=DURATION, default=0, help="Stop after this long without a message.")
@click.option("--raw", "-r", is_flag=True, help="Print only the bodies.")
@click.option("--deliver-group", default="", help="Queue group of a push consumer.")
@click.pass_obj
def sub(
    session: Session,
    stream: str | None,
    name: str | None,
    ack: bool,
    count: int,
    wait: int,
    raw: bool,
    deliver_group: str,
) -> None:
    """Show the messages of CONSUMER as they come, until Ctrl-C."""
    stream = choose_stream(session, stream, internal=session.show_all)
    name = choose_consumer(session, stream, name)
    found = session.link().api(f"CONSUMER.INFO.{stream}.{name}")
    config = found["config"]
    if deliver_group:
        config["deliver_group"] = deliver_group
    ack = ack and config["ack_policy"] != "none"
    if not raw:
        note(f"Subscribing to consumer {stream} > {name}, acknowledging: {str(ack).lower()}")
    feed = Feed(session, stream, info=found, wait_ns=wait, count=count)
    try:
        for number, (link, message) in enumerate(feed, 1):
            print_delivery(message, raw=raw)
            if not raw:
                click.echo()
            if ack:
                acknowledge(link, message)
            if number == count:
                return
    except KeyboardInterrupt:
        click.echo(err=True)
