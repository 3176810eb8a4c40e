"""`slipstream reply`: answer requests with a text, their own payload, or the output of a command."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
from typing import Final

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.human import visible
from slipstream.cli.link import ClientLink
from slipstream.cli.listening import listen
from slipstream.cli.messages import decode_header, encode_header, print_body, print_headers
from slipstream.cli.render import note
from slipstream.cli.templates import FUNCTIONS_HELP, Template
from slipstream.cli.types import DURATION, HEADER
from slipstream.client.wire import Message
from slipstream.units import SECOND_NS

__all__ = ["reply"]

_COMMAND_SECONDS_MAX: Final = 60.0
_HELP = f"""Answer requests on SUBJECT.

Without BODY and --command, requests are echoed. Body and headers may have functions in them:

{FUNCTIONS_HELP}{{{{Request}}}}         the payload of the request

A command runs for each request, with the words of the subject as {{{{0}}}}, {{{{1}}}} and so on, and the payload on its
standard input and in the environment as NATS_REQUEST_SUBJECT and NATS_REQUEST_BODY:

\b
    slipstream reply 'weather.*' --command "curl -s wttr.in/{{{{1}}}}?format=3"
"""


@click.command(cls=Command, help=_HELP)
@click.argument("subject")
@click.argument("body", required=False)
@click.option("--echo", is_flag=True, help="Send back what came.")
@click.option("--command", metavar="COMMAND", default="", help="Send the output of a command.")
@click.option("--queue", "-q", default="NATS-RPLY-22", show_default=True, help="Queue group.")
@click.option("--sleep", type=DURATION, default=0, help="Pause before an answer, at random up to this.")
@click.option("--header", "-H", "headers", multiple=True, type=HEADER, help="Add a header.")
@click.option("--count", type=click.IntRange(min=0), default=0, help="Stop after this many requests.")
@click.pass_obj
def reply(
    session: Session,
    subject: str,
    body: str | None,
    echo: bool,
    command: str,
    queue: str,
    sleep: int,
    headers: tuple[tuple[str, str], ...],
    count: int,
) -> None:
    """Answer requests."""
    if body is None and not command and not echo:
        note("No body or command given, echoing requests")
        echo = True
    if body is not None:
        Template(body)  # a wrong one is reported now, not at the first request

    def prepare(link: ClientLink) -> None:
        link.subscribe(subject, queue=queue)

    def ready() -> None:
        note(f'Listening on "{subject}" in group "{queue}"')

    try:
        for number, (link, request) in enumerate(listen(session, prepare, ready=ready), 1):
            _show(number, request)
            if sleep:
                link.idle(random.uniform(0, sleep / SECOND_NS))
            if request.reply:
                payload = _answer(request, number, None if echo else body, command)
                if payload is not None:
                    filled = [(name, Template(value).expand(number)) for name, value in headers]
                    extra = [*decode_header(request.header), *filled] if echo else filled
                    link.publish(request.reply, payload, header=encode_header(extra))
                    link.client.flush()
            if number == count:
                return
    except KeyboardInterrupt:
        click.echo(err=True)


def _show(number: int, request: Message) -> None:
    note(f'[#{number}] Received on subject "{visible(request.subject)}":')
    headers = decode_header(request.header)
    print_headers(headers)
    if headers:
        click.echo()
    print_body(request.payload)
    click.echo()


def _answer(request: Message, number: int, body: str | None, command: str) -> bytes | None:
    """The payload to send; None when a command failed, which is reported here."""
    if command:
        return _output(request, command)
    if body is None:
        return request.payload
    return Template(body, request.payload.decode(errors="replace")).expand(number).encode()


def _output(request: Message, command: str) -> bytes | None:
    words = shlex.split(command)
    for index, token in enumerate(request.subject.split(".")):
        # Each word of the command is filled in after it was split: a subject cannot add words to it.
        words = [word.replace(f"{{{{{index}}}}}", token) for word in words]
    environment = {
        **os.environ,
        "NATS_REQUEST_SUBJECT": request.subject,
        "NATS_REQUEST_BODY": request.payload.decode(errors="replace").replace("\0", ""),
    }
    try:
        done = subprocess.run(
            words,
            input=request.payload,
            capture_output=True,
            timeout=_COMMAND_SECONDS_MAX,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        note(f"Command {command!r} cannot be run: {error}")
        return None
    if done.returncode:
        note(f"Command {command!r} failed with status {done.returncode}")
        return None
    return done.stdout
