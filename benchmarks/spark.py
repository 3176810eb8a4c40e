"""Measure the Spark source and sink beside Spark's own Parquet, and write the table of results.

    python -m benchmarks.spark [--messages 2000000] [--repeat 3] [--quick]

One session (`local[*]`), one server, data made for the run. Cases that are compared take turns, so that a busy moment
hits both; every number is a median. Processor time is that of the Java machine and everything below it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import click

from benchmarks.machine import commit, description
from benchmarks.servers import Server
from benchmarks.spark_cases import Bench
from benchmarks.spark_data import Dataset, make_dataset

RESULTS = Path(__file__).resolve().parent / "RESULTS-spark.md"
_SIZES = ((128, 1), (1_024, 4), (16_384, 48))  # payload, and by how much fewer messages
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Timed:
    """Repeats of one case."""

    name: str
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    rows: int = 0

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / median(self.wall_s)

    @property
    def cpu_us(self) -> float:
        """Processor time a row, in microseconds."""
        return median(self.cpu_s) / self.rows * 1e6


@dataclass(frozen=True)
class Bar:
    """One line of the table of bars."""

    what: str
    measured: str
    bar: str
    holds: bool


@click.command()
@click.option("--messages", default=2_000_000, type=click.IntRange(20_000), show_default=True, help="Of 128 bytes.")
@click.option("--repeat", default=3, type=click.IntRange(1, 20), show_default=True, help="Repeats of each case.")
@click.option("--quick", is_flag=True, help="A twentieth of the data, one repeat; prints, writes nothing.")
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS, help="Write the table here instead.")
def main(messages: int, repeat: int, quick: bool, output: Path) -> None:
    """Measure, print, write; exit with 1 when a bar is missed."""
    from slipstream.spark import session

    if quick:
        messages, repeat = max(messages // 20, 20_000), 1
    with tempfile.TemporaryDirectory(prefix="slipstream-bench-") as name:
        directory = Path(name)
        program = Path(sys.executable).parent / "slipstream-server"
        with Server(program, directory, ("-js", "-sd", str(directory / "store"))) as server:
            data = [make_dataset(server.url, directory, messages // less, size) for size, less in _SIZES]
            spark = session("batch", heap="3g", config={"spark.log.level": "ERROR"})
            from benchmarks.spark_files import RecordFiles

            spark.dataSource.register(RecordFiles)
            timed, bars = _measure(Bench(spark, server.url, directory), data, repeat)
            spark.stop()
    text = _render(timed, bars, messages, repeat)
    print(text)
    if not quick:
        output.write_text(text)
    sys.exit(not all(bar.holds for bar in bars))


def _measure(bench: Bench, data: Sequence[Dataset], repeat: int) -> tuple[list[Timed], list[Bar]]:
    small = data[0]
    clock = TreeClock(_java_pid())
    timed: list[Timed] = []
    bars: list[Bar] = []

    def compare(*cases: tuple[str, Callable[[], int]]) -> list[Timed]:
        made = [Timed(name) for name, _ in cases]
        for number in range(repeat + 1):
            for one, (name, work) in zip(made, cases, strict=True):
                click.echo(f"{name} …", err=True)
                cpu, began = clock.seconds(), time.perf_counter()
                one.rows = work()
                if number:  # the first time warms up
                    one.wall_s.append(time.perf_counter() - began)
                    one.cpu_s.append(clock.seconds() - cpu)
        timed.extend(made)
        return made

    for one, least in zip(data, (0.55, 0.90, 1.50), strict=True):
        size = f"{one.payload_bytes} B"
        ours, theirs = compare(
            (f"source, {size}", partial(bench.source, one)), (f"Parquet scan, {size}", partial(bench.parquet, one))
        )
        bars.append(_ratio(f"batch source / Parquet scan, {size}", ours, theirs, least))
    batch_rate = timed[0].rate
    ours, theirs = compare(("source", lambda: bench.source(small)), ("record files", lambda: bench.files(small)))
    bars.append(_ratio("through the server / reading files", ours, theirs, 0.90))
    ours, theirs = compare(
        ("one of 1,000 subjects, pushed", lambda: bench.one_subject(small)),
        ("one of 1,000 subjects, Parquet", lambda: bench.one_subject_parquet(small)),
    )
    bars.append(_ratio("one of 1,000 subjects / Parquet", ours, theirs, 2.0))
    rate = median([bench.streaming(small, small.messages // 2) for _ in range(repeat)])
    share = rate / batch_rate
    bars.append(Bar("streaming, half the data a trigger / batch", f"{share:.0%}", ">= 80 %", share >= 0.80))
    floor = median([bench.floor_ms(small) for _ in range(repeat)])
    bars.append(Bar("micro-batch of 1,000 messages", f"{floor:.0f} ms", "<= 120 ms", floor <= 120))
    (sink,) = compare(("sink, Parquet to stream", lambda: bench.sink(small)))
    bars.append(Bar("Arrow sink, exactly once", f"{sink.rate / 1e6:.2f} M rows/s", ">= 0.8", sink.rate >= 0.8e6))
    job, rows = compare(
        ("archive job", lambda: bench.archive(small)), ("archive by rows", lambda: bench.archive_rows(small))
    )
    bars.append(_ratio("archive job / row path", job, rows, 2.5))
    waits = [bench.latency_ms() for _ in range(repeat)]
    p50, p99 = median(one[0] for one in waits), median(one[1] for one in waits)
    bars.append(Bar("publish to sink at 50,000/s, p50 (p99)", f"{p50:.0f} ms ({p99:.0f})", "<= 400 ms", p50 <= 400))
    alone = median([bench.publish_p99_ms(small, reading=False) for _ in range(repeat)])
    beside = median([bench.publish_p99_ms(small, reading=True) for _ in range(repeat)])
    text = f"{beside / alone:.2f}x ({alone:.2f} → {beside:.2f} ms)"
    bars.append(Bar("publish p99 beside a bulk read", text, "<= 2x", beside <= 2 * alone))
    return timed, bars


def _ratio(what: str, ours: Timed, theirs: Timed, least: float) -> Bar:
    by_wall, by_cpu = ours.rate / theirs.rate, theirs.cpu_us / ours.cpu_us if ours.cpu_us else 0.0
    return Bar(what, f"{by_wall:.2f}x (processor {by_cpu:.2f}x)", f">= {least:.2f}x", max(by_wall, by_cpu) >= least)


def _render(timed: Sequence[Timed], bars: Sequence[Bar], messages: int, repeat: int) -> str:
    lines = [
        "# Spark source and sink",
        "",
        "Generated by `python -m benchmarks.spark`. " + description(),
        f"Commit {commit()}. {messages:,} messages of 128 bytes and fewer of larger ones; medians of {repeat} runs,",
        "the compared cases in turn. Ratios are of rows a second; those of processor time are in brackets, and a bar",
        "holds if either does.",
        "",
        "| bar | measured | wanted | |",
        "|---|---|---|---|",
        *(f"| {one.what} | {one.measured} | {one.bar} | {'holds' if one.holds else '**missed**'} |" for one in bars),
        "",
        "| case | rows | seconds | M rows/s | processor us a row |",
        "|---|---|---|---|---|",
        *(
            f"| {one.name} | {one.rows:,} | {median(one.wall_s):.2f} | {one.rate / 1e6:.2f} | {one.cpu_us:.2f} |"
            for one in timed
        ),
    ]
    return "\n".join(lines) + "\n"


def _java_pid() -> int:
    from pyspark.core.context import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    return int(gateway.proc.pid)


class TreeClock:
    """Processor time of a process and everything below it.

    Workers end at any time, some without anybody waiting for them; what they had used when last seen stays counted.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen: dict[tuple[int, str], int] = {}  # process id and start time, to ticks

    def seconds(self) -> float:
        """Used so far."""
        parents: dict[int, int] = {}
        found: dict[int, tuple[str, int]] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            found[int(entry.name)] = fields[19], int(fields[11]) + int(fields[12])
        for pid, (started, ticks) in found.items():
            above = pid
            while above not in (self._root, 0, 1) and above in parents:
                above = parents[above]
            if above == self._root:
                self._seen[pid, started] = ticks
        return sum(self._seen.values()) / _TICKS


if __name__ == "__main__":
    main()
