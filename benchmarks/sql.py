"""`slipstream sql` beside DuckDB over the same messages as Parquet: as commands, with the start of both, and without.

    python -m benchmarks.sql [--messages 10000000] [--rounds 5]

The bars: the command that counts everything takes at most 1.5 times as long as DuckDB's, and what is asked of one of
1,000 subjects is answered five times as fast as the same of all, in a program that runs: the start of a command takes
longer than the index. The exit status is 1 if one is missed.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Final

import click

from benchmarks.figure import Figure
from benchmarks.servers import Server
from slipstream.bulk import ConnectOptions
from slipstream.bulk import connect as connect_bulk
from slipstream.client.throughput import publish_frames
from slipstream.client.wire import WireClient
from slipstream.query.engine import sql
from slipstream.sync.client import connect
from slipstream.units import SECOND_NS

__all__ = ["main"]

_BYTES: Final = 128
_SUBJECTS: Final = [f"sql.{number}" for number in range(1_000)]
_ROUND: Final = len(_SUBJECTS) * 10
_BINARIES: Final = Path(sys.executable).parent
_CONFIG: Final = 'jetstream { store_dir: "data", sync_interval: "1s" }\n'
_COUNT: Final = "SELECT count(*) FROM {table}"
_SUM: Final = "SELECT sum(octet_length(payload)) FROM {table}"
_ONE: Final = f"{_SUM} WHERE subject = 'sql.500'"


def _fill(url: str, messages: int) -> None:
    frames = publish_frames(_SUBJECTS, _BYTES, _ROUND)
    with connect(url) as admin, WireClient(url) as client:
        stream = admin.jetstream().create_stream("SQL", subjects=["sql.>"])
        for _ in range(messages // _ROUND):
            client.send(frames, 60 * SECOND_NS)
            client.flush(60 * SECOND_NS)
        while len(stream) < messages // _ROUND * _ROUND:
            pass  # the last are being stored


def _as_parquet(url: str, path: Path) -> None:
    import pyarrow.parquet as pq

    with connect_bulk(ConnectOptions(url)) as client:
        plan = client.plan("SQL")
        with client.read("SQL", plan.first, plan.last, columns=("seq", "ts", "subject", "payload")) as reader:
            batches = iter(reader)
            first = next(batches)
            with pq.ParquetWriter(path, first.schema, compression="zstd") as file:
                file.write_batch(first)
                for batch in batches:
                    file.write_batch(batch)


def _seconds(command: Sequence[str], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(perf_counter() - began)
    return statistics.median(times)


@click.command()
@click.option("--messages", default=10_000_000, show_default=True)
@click.option("--rounds", default=5, show_default=True)
def main(messages: int, rounds: int) -> None:
    """Measure, print, judge."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "server.conf").write_text(_CONFIG)
        with Server(_BINARIES / "slipstream-server", directory, ("-c", str(directory / "server.conf"))) as server:
            _fill(server.url, messages)
            parquet = directory / "sql.parquet"
            _as_parquet(server.url, parquet)

            def ours(query: str) -> float:
                words = [str(_BINARIES / "slipstream"), "--server", server.url, "sql", query.format(table="SQL")]
                return _seconds(words, rounds)

            def duckdb(query: str) -> float:
                code = "import sys, duckdb; print(duckdb.sql(sys.argv[1]).fetchall())"
                return _seconds([sys.executable, "-c", code, query.format(table=f"'{parquet}'")], rounds)

            def answered(query: str) -> float:
                times = []
                for _ in range(rounds):
                    began = perf_counter()
                    sql(server.url, query.format(table="SQL")).read_all()
                    times.append(perf_counter() - began)
                return statistics.median(times)

            times = {query: (ours(query), duckdb(query)) for query in (_COUNT, _ONE, _SUM)}
            one, everything = answered(_ONE), answered(_SUM)
    for query, (stream, file) in times.items():
        print(f"{query.format(table=chr(8230))}: {stream:.2f} s, DuckDB over Parquet {file:.2f} s")
    print(f"In a program that runs: one subject {one:.3f} s, all {everything:.3f} s")
    figures = (
        Figure("a count, of DuckDB's time", times[_COUNT][0] / times[_COUNT][1], 1.5, "times"),
        Figure("one subject of 1,000, of all", everything / one, 5, "times as fast", more_is_better=True),
    )
    for figure in figures:
        print(figure)
    sys.exit(0 if all(figure.holds for figure in figures) else 1)


if __name__ == "__main__":
    main()
