"""`stream truncate`: drop the newest messages of a stream."""

from __future__ import annotations

from datetime import datetime

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.human import format_number, parse_timestamp, to_rfc3339
from slipstream.cli.jetstream import choose_stream
from slipstream.cli.link import Reply
from slipstream.cli.prompts import confirm_or_stop
from slipstream.cli.render import counted, print_json, say
from slipstream.cli.types import Parsed, force_flag, json_flag
from slipstream.units import MINUTE_NS

__all__ = ["truncate"]

_LONG_NS = 5 * MINUTE_NS  # removing millions of messages takes its time


@click.command(cls=Command)
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("--after", "after_seq", type=click.IntRange(min=0), help="Drop all behind this sequence.")
@click.option("--newest", type=click.IntRange(min=1), help="Drop so many, the newest.")
@click.option("--after-time", type=Parsed("TIME", parse_timestamp), help="Drop all stored after this time.")
@click.option("--even-delivered", is_flag=True, help="Also what consumers have delivered, or bulk readers hold.")
@force_flag
@json_flag
@click.pass_obj
def truncate(
    session: Session,
    name: str | None,
    after_seq: int | None,
    newest: int | None,
    after_time: datetime | None,
    even_delivered: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Drop the newest messages of STREAM. Their sequences are not used again.

    It is refused where a consumer has delivered one of them, unless --even-delivered is given.
    """
    time = to_rfc3339(after_time) if after_time is not None else None
    cut: Reply = {"after_seq": after_seq, "newest": newest, "after_time": time}
    body: Reply = {key: value for key, value in cut.items() if value is not None}
    if len(body) != 1:
        raise click.UsageError("One of --after, --newest and --after-time, please.")
    if even_delivered:
        body["force"] = True
    name = choose_stream(session, name, internal=session.show_all)
    link = session.link()
    confirm_or_stop(f"Really drop the newest messages of Stream {name}", force=force)
    found = link.api(f"STREAM.TRUNCATE.{name}", body, timeout_ns=max(_LONG_NS, link.settings.timeout_ns))
    if as_json:
        print_json({key: value for key, value in found.items() if key != "type"})
        return
    last = format_number(found["last_seq"])
    say(f"Dropped {counted(found['truncated'], 'message')} of Stream {name}; it goes on behind sequence {last}")
