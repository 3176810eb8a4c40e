"""`slipstream pub`: publish messages, once, many times or for ever, with or without JetStream's acknowledgement."""

from __future__ import annotations

from typing import Any

import click

from slipstream.cli.bodies import BodyFlags, Filled, body_flags, read_bodies
from slipstream.cli.connection import Command, Session
from slipstream.cli.publishing import AtomicBatch, MessagePublisher
from slipstream.cli.schedules import schedule_flags, schedule_headers
from slipstream.cli.templates import FUNCTIONS_HELP
from slipstream.cli.types import DURATION, HEADER

__all__ = ["pub"]

_HELP = f"""Publish to SUBJECT.

Without BODY, standard input is published. Body, subject and headers may have functions in them:

{FUNCTIONS_HELP}

For example an order every two seconds, until Ctrl-C:

\b
    slipstream pub orders.us --count=-1 --sleep=2s "Order {{{{Count}}}}"
"""


@click.command(cls=Command, help=_HELP)
@click.argument("subject")
@body_flags
@click.option("--header", "-H", "headers", multiple=True, type=HEADER, help="Add a header.")
@click.option("--reply", metavar="SUBJECT", default="", help="Ask for answers on a subject.")
@click.option("--count", default=1, help="Messages to publish; -1 for no end.")
@click.option("--sleep", type=DURATION, default=0, help="Pause between messages.")
@click.option("--jetstream", "--js", "-J", is_flag=True, help="Wait until a stream has stored each message.")
@click.option("--atomic", is_flag=True, help="Have a stream store all messages together, or none.")
@schedule_flags
@click.option("--quiet", "-q", is_flag=True, help="Print nothing.")
@click.pass_obj
def pub(
    session: Session,
    /,
    subject: str,
    body: str | None,
    file: str | None,
    force_stdin: bool,
    send_on: str,
    templates: bool,
    headers: tuple[tuple[str, str], ...],
    reply: str,
    count: int,
    sleep: int,
    jetstream: bool,
    atomic: bool,
    quiet: bool,
    **schedule: Any,
) -> None:
    """Publish messages."""
    scheduling = schedule_headers(schedule)
    jetstream = jetstream or bool(scheduling)
    publisher: AtomicBatch | MessagePublisher
    if atomic:
        publisher = AtomicBatch(session.link(), quiet=quiet)
    else:
        publisher = MessagePublisher(session, reply=reply, sleep_ns=sleep, jetstream=jetstream, quiet=quiet)
    try:
        for content in read_bodies(BodyFlags(body, file, send_on, force_stdin, templates)):
            publisher.publish(Filled(subject, content, [*headers, *scheduling], templates=templates), count)
    except KeyboardInterrupt:
        click.echo(err=True)
    publisher.finish()
