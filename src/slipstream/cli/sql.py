"""`slipstream sql`: ask streams in SQL, and print what comes for people or programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, NoReturn

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.reaching import reach_of
from slipstream.cli.types import DURATION, SIZE, pairs_option
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    import pyarrow as pa

    from slipstream.query.streams import ScanReport

__all__ = ["sql"]

_FORMATS = ("table", "json", "csv", "arrow", "parquet")
_BINARY = ("arrow", "parquet")


@click.command(cls=Command)
@click.argument("query")
@click.option(
    "--format",
    "-f",
    "kind",
    type=click.Choice(_FORMATS),
    default="table",
    help="How to print rows; table by default.",
)
@click.option("--output", "-o", type=click.Path(dir_okay=False), default=None, help="Write to a file.")
@pairs_option("--archive", "archives", metavar="STREAM=TABLE", help="Where older messages of a stream are archived.")
@click.option("--rows", type=click.IntRange(min=1), default=1000, help="Of a table for people; 1,000 by default.")
@click.option("--memory", type=SIZE, default=None, help="What the query may use; 2 GiB by default.")
@click.option("--time-limit", type=DURATION, default=0, help="Stop after this long; never by default.")
@click.option("--explain", is_flag=True, help="Show what the server was asked instead of the rows.")
@click.pass_obj
def sql(
    session: Session,
    query: str,
    kind: str,
    output: str | None,
    archives: dict[str, str],
    rows: int,
    memory: int | None,
    time_limit: int,
    explain: bool,
) -> None:
    """Answer QUERY, one SELECT in the words of DuckDB; tables are streams by their names.

    Columns are stream, seq, ts, subject, headers and payload. Conditions on seq, ts and subject are answered by the
    index of the server.
    """
    if session.own_process:
        # Arrow imports both if it can, which takes longer than a short query; tables of archives may need numpy.
        sys.meta_path.insert(0, _Without("pandas") if archives else _Without("pandas", "numpy"))
    from slipstream.query.engine import MEMORY_BYTES, Query
    from slipstream.query.errors import StatementError

    if kind in _BINARY and output is None and sys.stdout.isatty():
        raise click.UsageError(f"{kind} is not for terminals; name a file with --output")
    if kind == "table" and output is not None:
        raise click.UsageError("a table is printed; files take --format json, csv, arrow or parquet")
    limit = time_limit / SECOND_NS if time_limit else None
    engine = Query(reach_of(session.settings), archives, memory_bytes=memory or MEMORY_BYTES, time_limit=limit)
    with engine:
        try:
            schema, batches = engine.run(query)
            if explain:
                for _ in batches:
                    pass
                _explain(engine.explain(query), engine.scans)
            else:
                with _sink(output, kind) as sink:
                    _write(kind, schema, batches, sink, rows)
        except StatementError as error:
            raise click.UsageError(str(error)) from error
    if session.own_process:
        _leave()


def _leave() -> NoReturn:
    """End the process here: everything is written, and taking the libraries down takes as long as a query."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class _Without:
    """Keeps modules from being imported, where they are installed, for a process that has no use for them."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """Say of one of them that there is none, as finders in `sys.meta_path` are asked."""
        if name in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def _sink(output: str | None, kind: str) -> Iterator[IO[bytes] | None]:
    """Where bytes go; None for a table, which is printed."""
    if output is not None:
        with open(output, "wb") as file:
            yield file
    else:
        yield None if kind == "table" else sys.stdout.buffer


def _write(kind: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch], sink: IO[bytes] | None, rows: int) -> None:
    from slipstream.query import formats

    if sink is None:
        _print_table(schema, batches, rows)
        return
    if kind in ("json", "csv"):
        sink.writelines(formats.json_pieces(batches) if kind == "json" else formats.csv_pieces(schema, batches))
    elif kind == "arrow":
        formats.write_arrow(schema, batches, sink)
    else:
        formats.write_parquet(schema, batches, sink)
    sink.flush()


def _print_table(schema: pa.Schema, batches: Iterator[pa.RecordBatch], rows_max: int) -> None:
    from slipstream.cli.render import Table, counted, note
    from slipstream.query.formats import rows_of, shown

    found: list[list[str]] = []
    for batch in batches:
        found += ([shown(one) for one in row.values()] for row in rows_of(batch.slice(0, rows_max + 1 - len(found))))
        if len(found) > rows_max:
            break
    table = Table(counted(len(found[:rows_max]), "row"), *schema.names)
    for row in found[:rows_max]:
        table.add(*row)
    table.print()
    if len(found) > rows_max:
        note(f"there are more rows; --rows shows more than {rows_max:,}, --format csv all")


def _explain(plan: str, scans: list[ScanReport]) -> None:
    from slipstream.cli.render import Table

    table = Table("What was read", "Stream", "From", "To", "Subjects", "Columns", "Archived", "Live", "How")
    for scan in scans:
        how = "counted by the index" if scan.counted else "filtered here" if scan.rest else "as asked"
        subjects, columns = ", ".join(scan.subjects) or "all", ", ".join(scan.columns)
        table.add(scan.stream, scan.first, scan.last, subjects, columns, scan.archived, scan.live, how)
    table.print()
    click.echo(plan)
