"""`slipstream-pub`, `slipstream-sub`, `slipstream-req` and `slipstream-bench`: the small tools that NATS clients ship.

They take the flags and print the lines of `nats-pub`, `nats-sub`, `nats-req` and `nats-bench`, for notes and scripts
written for those. Everything else is in `slipstream`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.human import visible
from slipstream.cli.lazy import readable_usage

__all__ = ["bench", "pub", "req", "sub"]

_SETTINGS = {"help_option_names": ["-h", "-help", "--help"]}


class _Tool(Command):
    """A command that is a program."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the command line."""
        with readable_usage():
            return super().make_context(*args, **kwargs)


def _shared(command: Callable[..., Any]) -> Callable[..., Any]:
    """The flags of all four, and the session they lead to."""

    def server(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
        if value:
            ctx.ensure_object(Session).flags["server"] = value

    def credentials(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
        if value:
            ctx.ensure_object(Session).flags["creds"] = value

    for decorate in (
        click.option(
            "-s", "--server", callback=server, expose_value=False, metavar="URL", help="Servers, separated by commas."
        ),
        click.option(
            "-creds", "--creds", callback=credentials, expose_value=False, metavar="FILE", help="Credentials file."
        ),
        click.make_pass_decorator(Session, ensure=True),
    ):
        command = decorate(command)
    return command


@click.command(cls=_Tool, context_settings=_SETTINGS)
@click.argument("subject")
@click.argument("message", default="")
@click.option("-reply", "--reply", default="", metavar="SUBJECT", help="Ask for answers on a subject.")
@_shared
def pub(session: Session, subject: str, message: str, reply: str) -> None:
    """Publish MESSAGE to SUBJECT."""
    link = session.link()
    link.publish(subject, message.encode(errors="surrogateescape"), reply=reply)
    link.client.flush()
    click.echo(f"Published [{subject}] : '{message}'")


@click.command(cls=_Tool, context_settings=_SETTINGS)
@click.argument("subject")
@click.argument("message", default="")
@_shared
def req(session: Session, subject: str, message: str) -> None:
    """Send MESSAGE to SUBJECT and show the answer."""
    from slipstream.cli.req import current_subject

    link = session.link()
    click.echo(f"Published [{subject}] : '{message}'")
    answer = link.ask(current_subject(subject), message.encode(errors="surrogateescape"))
    click.echo(visible(f"Received  [{answer.subject}] : '{answer.payload.decode(errors='replace')}'"))


@click.command(cls=_Tool, context_settings=_SETTINGS)
@click.argument("subject")
@click.option("-q", "--queue", default="", help="Queue group.")
@click.option("-n", "--count", type=click.IntRange(min=0), default=0, help="Stop after this many messages.")
@_shared
def sub(session: Session, subject: str, queue: str, count: int) -> None:
    """Show the messages of SUBJECT, until Ctrl-C."""
    from slipstream.cli.link import ClientLink
    from slipstream.cli.listening import listen

    def prepare(link: ClientLink) -> None:
        link.subscribe(subject, queue=queue)

    def ready() -> None:
        click.echo(f"Listening on [{subject}]")

    try:
        for number, (_, message) in enumerate(listen(session, prepare, ready=ready), 1):
            text = message.payload.decode(errors="replace")
            click.echo(visible(f"[#{number}] Received on [{message.subject}]: '{text}'"))
            if number == count:
                return
    except KeyboardInterrupt:
        click.echo(err=True)


@click.command(cls=_Tool, context_settings=_SETTINGS)
@click.argument("subject")
@click.option("-np", "publishers", type=click.IntRange(0, 1000), default=1, help="Publishers.")
@click.option("-ns", "subscribers", type=click.IntRange(0, 1000), default=0, help="Subscribers.")
@click.option("-n", "messages", type=click.IntRange(min=1), default=100_000, help="Messages.")
@click.option("-ms", "size", type=click.IntRange(min=0), default=128, help="Bytes of a message.")
@_shared
def bench(session: Session, subject: str, publishers: int, subscribers: int, messages: int, size: int) -> None:
    """Publish to SUBJECT, and receive, as fast as the server can."""
    from slipstream.cli.bench.pub_sub import run_pub_sub

    if not publishers and not subscribers:
        raise click.UsageError("Neither publishers nor subscribers.")
    url = session.settings.urls[0]
    run_pub_sub(url, subject, publishers=publishers, subscribers=subscribers, messages=messages, size=size)
