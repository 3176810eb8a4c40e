"""`slipstream lake restore`: a table as a new stream, with its sequences and times."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.jetstream import read_config_file
from slipstream.cli.lake.flags import planned, table_flags
from slipstream.cli.reaching import reach_of
from slipstream.cli.render import Columns, print_json
from slipstream.cli.types import json_flag, list_option

__all__ = ["restore"]


@click.command(cls=Command)
@click.argument("location")
@click.argument("source")
@click.argument("stream", required=False)
@table_flags
@list_option("--subjects", "subjects", help="Subjects of the stream.")
@click.option("--config", "config_file", metavar="FILE", help="The stream's whole configuration.")
@click.option(
    "--version", type=click.IntRange(min=0), default=None, help="Version, or snapshot; the newest by default."
)
@json_flag
@click.pass_obj
def restore(
    session: Session,
    location: str,
    source: str,
    stream: str | None,
    kind: str,
    catalog: dict[str, str],
    namespace: str,
    subjects: list[str],
    config_file: str | None,
    version: int | None,
    as_json: bool,
) -> None:
    """Make STREAM of the table of SOURCE below LOCATION, with the same sequences and times.

    STREAM is SOURCE by default. Limits of the new stream are applied to what it gets.
    """
    from slipstream.bulk import connect
    from slipstream.lake import restoring

    config: dict[str, Any] = {"storage": "file", "retention": "limits"}
    if config_file:
        config = dict(read_config_file(config_file))
    if subjects:
        config["subjects"] = subjects
    if not config.get("subjects"):
        raise click.UsageError("name the subjects of the stream, --subjects or in --config")
    config["name"] = stream or source
    table = planned(location, kind, catalog, namespace).opener()(source, None)
    with connect(reach_of(session.settings)) as client:
        done = restoring.restore(client, table, config, version=version)
    if as_json:
        print_json(asdict(done))
    else:
        columns = Columns(f"Stream {config['name']} made of a table")
        columns.row("Messages", done.messages)
        columns.row("First Sequence", done.first_seq)
        columns.row("Last Sequence", done.last_seq)
        columns.print()
