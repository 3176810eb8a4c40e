"""`slipstream lake run`: every stream a table, as long as it runs."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.lake.flags import planned, table_flags
from slipstream.cli.reaching import reach_of
from slipstream.cli.render import Table, counted, note, print_json
from slipstream.cli.types import DURATION, SIZE, json_flag, list_option
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.errors import SlipstreamError
    from slipstream.lake.service import TurnReport

__all__ = ["run"]


@click.command(cls=Command)
@click.argument("location")
@list_option("--streams", "streams", help="Names, or patterns with *; all by default.")
@table_flags
@click.option(
    "--partition",
    type=click.Choice(["day", "hour", "subject"]),
    multiple=True,
    help="Partition new Iceberg tables; may be repeated.",
)
@click.option("--columns", default="", metavar="LIST", help="Members as columns: 'id bigint', or 'schema'; Iceberg.")
@click.option("--dead-letters", default="", metavar="SUBJECT", help="Where payloads go that do not fit the columns.")
@click.option("--every", type=DURATION, default="3s", help="Time between commits; 3s by default.")
@click.option("--file-size", type=SIZE, default=64 << 20, help="Messages in a file at most; 64 MiB by default.")
@click.option(
    "--compact-files", type=click.IntRange(min=0), default=16, help="Small files put together; 16 by default, 0: never."
)
@click.option("--keep", type=DURATION, default="7d", help="How long older versions can be read; 7d by default.")
@click.option("--accept-gap", is_flag=True, help="Go on when messages were removed before they were written.")
@click.option("--metrics-file", type=click.Path(dir_okay=False), default=None, help="Write lag there for Prometheus.")
@click.option("--once", is_flag=True, help="Write what is there now, then stop.")
@json_flag
@click.pass_obj
def run(
    session: Session,
    location: str,
    streams: list[str],
    kind: str,
    catalog: dict[str, str],
    namespace: str,
    partition: tuple[str, ...],
    columns: str,
    dead_letters: str,
    every: int,
    file_size: int,
    compact_files: int,
    keep: int,
    accept_gap: bool,
    metrics_file: str | None,
    once: bool,
    as_json: bool,
) -> None:
    """Write every stream to a table below LOCATION, each message once, until stopped.

    What writers have committed is in the tables: run it again after whatever happened, and it goes on from there.
    """
    from slipstream.lake.service import LakeService, write_metrics
    from slipstream.lake.writing import WriteSettings

    plan = planned(location, kind, catalog, namespace, partition, columns, dead_letters, streams)
    settings = WriteSettings(file_size, compact_files, keep / SECOND_NS, accept_gap)
    reach = reach_of(session.settings)
    payloads = plan.payloads(reach, streams)
    open_table = plan.opener((lambda: payloads.columns) if payloads is not None else None)
    with LakeService(reach, open_table, streams or ["*"], settings, payloads) as service:
        if once:
            report = service.turn()
            if metrics_file:
                write_metrics(metrics_file, report)
            _print(report, as_json)
            if report.failures:
                sys.exit(1)
            return
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        said: dict[str, str] = {}

        def told(report: TurnReport) -> None:
            if metrics_file:
                write_metrics(metrics_file, report)
            if as_json and (report.written or report.failures):
                print_json(report.document())
            elif report.written:
                note(f"{counted(report.written, 'message')} written")
            for name, text in report.failures.items():
                if said.get(name) != text:
                    note(f"{name}: {text}")
            said.clear()
            said.update(report.failures)

        def failed(error: SlipstreamError) -> None:
            note(f"{error}; trying again")

        service.run(every / SECOND_NS, stop, told, failed)
    if said:
        sys.exit(1)


def _print(report: TurnReport, as_json: bool) -> None:
    if as_json:
        print_json(report.document())
        return
    table = Table("Tables", "Stream", "Table", "Written", "Up to", "Lag", "Files put together")
    for one in report.streams:
        table.add(one.stream, one.place, one.written, one.upto, one.lag, one.compacted)
    table.print()
    for name, text in report.failures.items():
        note(f"{name}: {text}")
