"""`slipstream pub`: publish messages, once, many times or for ever, with or without JetStream's acknowledgement."""

from __future__ import annotations

import time
from typing import Final

import click

from slipstream.cli.bodies import BodyFlags, Filled, body_flags, messages_to_send, read_bodies
from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import format_number
from slipstream.cli.messages import encode_header
from slipstream.cli.progress import Advance, progress
from slipstream.cli.render import note
from slipstream.cli.templates import FUNCTIONS_HELP
from slipstream.cli.types import DURATION, HEADER
from slipstream.limits import SECOND_NS

__all__ = ["pub"]

_LINES_MAX: Final = 20  # more messages than this are counted, not listed
_BATCH: Final = 256  # equal messages sent at once
_HELP = f"""Publish to SUBJECT.

Without BODY, standard input is published. Body, subject and headers may have functions in them:

{FUNCTIONS_HELP}

For example an order every two seconds, until Ctrl-C:

\b
    slipstream pub orders.us --count=-1 --sleep=2s "US Order # {{{{Count}}}} at {{{{TimeStamp}}}}"
"""


@click.command(cls=Command, help=_HELP)
@click.argument("subject")
@body_flags
@click.option("--header", "-H", "headers", multiple=True, type=HEADER, help="Add a header.")
@click.option("--reply", metavar="SUBJECT", default="", help="Ask for answers on a subject.")
@click.option("--count", default=1, help="Publish so many; -1 for no end.")
@click.option("--sleep", type=DURATION, default=0, help="Pause between messages.")
@click.option("--jetstream", "--js", "-J", is_flag=True, help="Wait until a stream has stored each message.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing.")
@click.pass_obj
def pub(
    session: Session,
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
    quiet: bool,
) -> None:
    """Publish messages."""
    job = _Job(session, reply=reply, sleep_ns=sleep, jetstream=jetstream)
    try:
        for content in read_bodies(BodyFlags(body, file, send_on, force_stdin, templates)):
            job.publish(Filled(subject, content, list(headers), templates=templates), count, quiet=quiet)
    except KeyboardInterrupt:
        click.echo(err=True)
    job.finish()


class _Job:
    """Messages on their way."""

    def __init__(self, session: Session, *, reply: str, sleep_ns: int, jetstream: bool) -> None:
        self._link = session.link()
        self._reply = reply
        self._sleep_ns = sleep_ns
        self._jetstream = jetstream

    def publish(self, filled: Filled, count: int, *, quiet: bool) -> None:
        """Publish the messages of one body."""
        if count <= _LINES_MAX or self._sleep_ns:
            for number in messages_to_send(count):
                self._one(filled, number, quiet=quiet)
                if number != count:
                    self._pause()
            return
        with progress("Publishing", count, shown=not quiet) as advance:
            if filled.is_constant and not self._jetstream:
                self._many_equal(filled, count, advance)
            else:
                for number in range(1, count + 1):
                    self._one(filled, number, quiet=True)
                    advance(1)
            self._link.client.flush()
        if not quiet:
            note(f"Published {format_number(count)} messages")

    def finish(self) -> None:
        """Wait until the server has everything, and hear what it objects to."""
        self._link.client.flush()

    def _one(self, filled: Filled, number: int, *, quiet: bool) -> None:
        subject, body, headers = filled.message(number)
        self._check_size(body)
        header = encode_header(headers)
        if self._jetstream:
            self._stored(subject, body, header, quiet=quiet)
            return
        self._link.publish(subject, body, reply=self._reply, header=header)
        if not quiet:
            note(f'Published {format_number(len(body))} bytes to "{subject}"')

    def _stored(self, subject: str, body: bytes, header: bytes, *, quiet: bool) -> None:
        from slipstream.cli.link import decoded
        from slipstream.client.wire import NoResponders

        try:
            ack = decoded(self._link.request(subject, body, header=header))
        except NoResponders:
            raise Failure(f"no stream listens on {subject!r}") from None
        if "stream" not in ack:
            raise Failure(f"the answer on {subject!r} is not an acknowledgement of a stream")
        if not quiet:
            words = [f"Stored in Stream: {ack['stream']} Sequence: {format_number(ack.get('seq', 0))}"]
            words += [f'Domain: "{ack["domain"]}"'] if ack.get("domain") else []
            words += ["Duplicate: true"] if ack.get("duplicate") else []
            words += [f"Counter Value: {ack['val']}"] if ack.get("val") else []
            note(" ".join(words))

    def _many_equal(self, filled: Filled, count: int, advance: Advance) -> None:
        """Send the same frame again and again, many at a time."""
        subject, body, headers = filled.message(1)
        self._check_size(body)
        if headers or self._reply:
            for _ in range(count):
                self._link.publish(subject, body, reply=self._reply, header=encode_header(headers))
                advance(1)
            return
        for sent in range(0, count, _BATCH):
            size = min(_BATCH, count - sent)
            self._link.publish_equal(subject, body, size)
            advance(size)

    def _check_size(self, body: bytes) -> None:
        most = self._link.client.info.max_payload
        if most and len(body) > most:
            raise Failure(f"the body has {format_number(len(body))} bytes, the server takes {format_number(most)}")

    def _pause(self) -> None:
        """Wait for the next message, and answer the server meanwhile."""
        if self._sleep_ns:
            deadline = time.monotonic_ns() + self._sleep_ns
            self._link.idle(max(deadline - time.monotonic_ns(), 0) / SECOND_NS)
