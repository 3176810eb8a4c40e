"""`slipstream req`: send a request and show the answers."""

from __future__ import annotations

import time

import click

from slipstream.cli.bodies import BodyFlags, Filled, body_flags, messages_to_send, read_bodies
from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import format_duration
from slipstream.cli.link import ClientLink
from slipstream.cli.messages import decode_header, encode_header, print_body, print_headers
from slipstream.cli.render import note
from slipstream.cli.templates import FUNCTIONS_HELP
from slipstream.cli.types import DURATION, HEADER
from slipstream.client.wire import ClientTimeout, Message
from slipstream.units import MILLISECOND_NS

__all__ = ["current_subject", "req"]

_HELP = f"""Send a request to SUBJECT and show the answers.

Without BODY, standard input is sent. Body, subject and headers may have functions in them:

{FUNCTIONS_HELP}
"""


@click.command(cls=Command, help=_HELP)
@click.argument("subject")
@body_flags
@click.option("--header", "-H", "headers", multiple=True, type=HEADER, help="Add a header.")
@click.option("--count", default=1, help="Requests to send; -1 for no end.")
@click.option("--replies", default=1, help="Answers to wait for, each time; 0 for all until the timeout.")
@click.option("--reply-timeout", type=DURATION, default=300 * MILLISECOND_NS, help="Longest gap between answers.")
@click.option("--wait-for-empty", is_flag=True, help="Take answers until an empty one.")
@click.option("--translate", metavar="COMMAND", default="", help="Show answers through a command.")
@click.option("--raw", "-r", is_flag=True, help="Print only the answers.")
@click.pass_obj
def req(
    session: Session,
    subject: str,
    body: str | None,
    file: str | None,
    force_stdin: bool,
    send_on: str,
    templates: bool,
    headers: tuple[tuple[str, str], ...],
    count: int,
    replies: int,
    reply_timeout: int,
    wait_for_empty: bool,
    translate: str,
    raw: bool,
) -> None:
    """Send requests."""
    link = session.link()
    several = replies != 1 or wait_for_empty
    for content in read_bodies(BodyFlags(body, file, send_on, force_stdin, templates)):
        filled = Filled(current_subject(subject), content, list(headers), templates=templates)
        for number in messages_to_send(count):
            to, payload, extra = filled.message(number)
            if not raw:
                note(f'Sending request on "{to}"')
            header = encode_header(extra)
            if several:
                _gather(link, to, payload, header, replies, reply_timeout, wait_for_empty, translate, raw=raw)
            else:
                started_ns = time.monotonic_ns()
                answer = link.ask(to, payload, header=header)
                _show(answer, time.monotonic_ns() - started_ns, translate, raw=raw)


def current_subject(subject: str) -> str:
    """The subject of today for one of the technical preview: `$JS.RN.STREAM.CONSUMER` asked for the next message."""
    words = subject.split(".")
    if words[:2] == ["$JS", "RN"] and len(words) == 4:
        return f"$JS.API.CONSUMER.MSG.NEXT.{words[2]}.{words[3]}"
    return subject


def _gather(
    link: ClientLink,
    subject: str,
    payload: bytes,
    header: bytes,
    replies: int,
    gap_ns: int,
    until_empty: bool,
    translate: str,
    *,
    raw: bool,
) -> None:
    """Take answers until there are enough, or none came for too long."""
    client = link.client
    inbox = client.new_inbox()
    sid = client.subscribe(inbox)
    started_ns = time.monotonic_ns()
    link.publish(subject, payload, reply=inbox, header=header)
    # The first answer may take the whole timeout; so may all of them when there is no other end.
    deadline_ns = started_ns + link.settings.timeout_ns
    taken = 0
    while until_empty or not replies or taken < replies:
        left_ns = deadline_ns - time.monotonic_ns()
        bounded = replies > 0 and taken > 0
        try:
            answer = client.next_message(max(min(left_ns, gap_ns) if bounded else left_ns, 1))
        except ClientTimeout:
            break
        taken += 1
        if answer.header.startswith(b"NATS/1.0 503"):
            raise Failure(f"no responders on {subject!r}")
        _show(answer, time.monotonic_ns() - started_ns, translate, raw=raw)
        if until_empty and not answer.payload:
            break
    client.unsubscribe(sid)
    if not taken:
        raise Failure("no answer came in time")


def _show(answer: Message, elapsed_ns: int, translate: str, *, raw: bool) -> None:
    if not raw:
        note(f"Received with rtt {format_duration(elapsed_ns)}")
        headers = decode_header(answer.header)
        if headers:
            print_headers(headers)
            click.echo()
    print_body(answer.payload, translate, subject=answer.subject)
    if not raw:
        click.echo()
