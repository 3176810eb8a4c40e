"""`slipstream lake replay`: a table back into a stream."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.lake.flags import planned, table_flags
from slipstream.cli.reaching import reach_of
from slipstream.cli.render import Columns, print_json
from slipstream.cli.spark.archives import time_ns
from slipstream.cli.types import json_flag, list_option

__all__ = ["replay"]


@click.command(cls=Command)
@click.argument("location")
@click.argument("source")
@click.argument("stream")
@table_flags
@click.option("--first", type=click.IntRange(min=1), default=None, help="First sequence.")
@click.option("--last", type=click.IntRange(min=1), default=None, help="Last sequence.")
@click.option("--since", default="", metavar="TIME", help="Only messages stored at or after this time.")
@click.option("--until", default="", metavar="TIME", help="Only messages stored before this time.")
@list_option("--subjects", "subjects", help="Only these subjects; wildcards are allowed.")
@click.option(
    "--version", type=click.IntRange(min=0), default=None, help="Version, or snapshot; the newest by default."
)
@click.option("--mark", is_flag=True, help="Add headers that say where messages were.")
@click.option("--name", default="", help="Another name makes the same replay a new one.")
@json_flag
@click.pass_obj
def replay(
    session: Session,
    location: str,
    source: str,
    stream: str,
    kind: str,
    catalog: dict[str, str],
    namespace: str,
    first: int | None,
    last: int | None,
    since: str,
    until: str,
    subjects: list[str],
    version: int | None,
    mark: bool,
    name: str,
    as_json: bool,
) -> None:
    """Publish messages of the table of SOURCE below LOCATION into STREAM, each once; run again, what is new."""
    from slipstream.bulk import connect
    from slipstream.lake import replaying
    from slipstream.spark.lake.base import Wish

    wish = Wish(first, last, time_ns(since), time_ns(until), tuple(subjects))
    table = planned(location, kind, catalog, namespace).opener()(source, None)
    with connect(reach_of(session.settings)) as client:
        done = replaying.replay(client, table, stream, wish, version=version, mark=mark, name=name)
    if as_json:
        print_json(asdict(done))
    else:
        columns = Columns("Replay done" if not done.left_out else "Replay left messages out")
        columns.row("Messages", done.messages)
        columns.row("Left out", done.left_out, when=done.left_out)
        columns.row("Replayed before, up to", done.before, when=done.before)
        columns.row("Replayed now, up to", done.upto)
        columns.print()
    if done.left_out:
        sys.exit(1)
