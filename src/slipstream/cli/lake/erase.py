"""`slipstream lake erase`: messages out of a stream and its table, for good."""

from __future__ import annotations

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.lake.flags import planned, table_flags
from slipstream.cli.prompts import confirm_or_stop
from slipstream.cli.reaching import reach_of
from slipstream.cli.render import Columns, print_json
from slipstream.cli.types import force_flag, json_flag

__all__ = ["erase"]


@click.command(cls=Command)
@click.argument("location")
@click.argument("stream")
@click.argument("subjects", nargs=-1, required=True)
@table_flags
@click.option("--table-only", is_flag=True, help="Leave the stream as it is, or do without it.")
@click.option("--reason", default="", help="Kept in the record of the erasure.")
@click.option(
    "--record", default=None, metavar="DIR", help="Keep the record there; by default with a Delta table, or ./erasures."
)
@force_flag
@json_flag
@click.pass_obj
def erase(
    session: Session,
    location: str,
    stream: str,
    subjects: tuple[str, ...],
    kind: str,
    catalog: dict[str, str],
    namespace: str,
    table_only: bool,
    reason: str,
    record: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Erase all messages of STREAM on SUBJECTS, in the stream and in its table below LOCATION, for good.

    Files are written anew, and versions and snapshots that had the messages are forgotten. A record is kept.
    """
    from slipstream.lake.erasing import erase as erased

    table = planned(location, kind, catalog, namespace).opener()(stream, None)
    confirm_or_stop(f"Erase all messages of {stream} on {', '.join(subjects)}", force=force)
    reach = None if table_only else reach_of(session.settings)
    done = erased(table, subjects, stream=stream, reach=reach, reason=reason, record=record)
    if as_json:
        print_json(done)
        return
    columns = Columns("Erased")
    columns.row("Messages of the stream", done["stream_messages"])
    columns.row("Messages of the table", done["table_messages"])
    columns.row("Record", done["record"])
    columns.print()
