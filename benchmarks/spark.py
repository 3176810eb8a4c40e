"""Measure the Spark source and sink beside Spark's own Parquet, and write the page of results.

    python -m benchmarks.spark [--messages 2000000] [--repeat 3] [--only CASE ...] [--quick]

One session (`local[*]`), one server, data made for the run. Cases that are compared take turns, so that a busy moment
hits both; every number is a median. The page is written after every case.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from statistics import median

import click

from benchmarks.machine import ProcessorWatch
from benchmarks.servers import Server
from benchmarks.spark_cases import Bench
from benchmarks.spark_data import Dataset, make_dataset, repeated
from benchmarks.spark_report import Found, Results, Timed, TreeClock

PAGE = Path(__file__).resolve().parent / "RESULTS-spark.md"
_FEWER = {128: 1, 1_024: 4, 16_384: 48}  # of large messages, by payload
_LEAST = {128: 0.80, 1_024: 1.10, 16_384: 1.50}
_TRIGGER = 1_000_000
_TRIGGERS = 4  # of the usual number of messages
_QUICK = 20
_SHORT_OFTEN = 10  # a query of a tenth of a second is run so many times as often: compilers are still at work then
# What is written has small rows: Spark need not measure the batch after each (docs/features/spark.md).
_SMALL_ROWS = {"spark.sql.execution.arrow.maxBytesPerBatch": 2**31 - 1}


class Run:
    """One run: the cases in order, and what they found."""

    def __init__(self, bench: Bench, results: Results, dataset: Callable[[int], Dataset]) -> None:
        self._bench = bench
        self._results = results
        self._dataset = dataset
        self._clock = TreeClock()
        self._began()

    def source(self) -> None:
        """Batch reads of three sizes beside Parquet."""
        for size, least in _LEAST.items():
            data = self._dataset(size)
            self._began()
            ours, theirs = self._compare(
                (f"source, {size:,} B", partial(self._bench.source, data)),
                (f"Parquet scan, {size:,} B", partial(self._bench.parquet, data)),
            )
            self._results.add(
                f"source-{size}", Found.of_ratio(ours, theirs, least, self._foreign(f"source, {size:,} B"))
            )

    def server(self) -> None:
        """Batch reads through the server beside reading files of the same records."""
        data = self._dataset(128)
        ours, theirs = self._compare(
            ("through the server", partial(self._bench.source, data)),
            ("files of records", partial(self._bench.files, data)),
        )
        self._results.add("server", Found.of_ratio(ours, theirs, 0.90, self._foreign("server")))

    def pushed(self) -> None:
        """One subject of a thousand: its messages, and how many there are."""
        data = self._dataset(128)
        bench = self._bench
        ours, theirs = self._compare(
            ("one of 1,000 subjects, pushed down", partial(bench.one_subject, data)),
            ("one of 1,000 subjects, Parquet", partial(bench.one_subject_parquet, data)),
            often=_SHORT_OFTEN,
        )
        self._results.add("pushed", Found.of_ratio(ours, theirs, 2.0, self._foreign("pushed down")))
        ours, theirs = self._compare(
            ("count of one subject, pushed down", partial(bench.count_subject, data)),
            ("count of one subject, Parquet", partial(bench.count_subject_parquet, data)),
            often=_SHORT_OFTEN,
        )
        self._results.add("counted", Found.of_ratio(ours, theirs, 0.0, self._foreign("count")).unjudged())

    def streaming(self) -> None:
        """Triggers of a million messages beside a batch read of all; the first trigger of a query does not count."""
        data = self._dataset(128)
        limit = min(_TRIGGER, data.messages // 2)
        data = repeated(self._bench.url, data, _TRIGGERS // 2)
        rates: list[float] = []

        def stream() -> int:
            rates.append(self._bench.streaming(data, limit))
            return data.messages

        (batch, _whole) = self._compare(
            ("batch", partial(self._bench.source, data)), (f"stream, {limit:,} a trigger, with its start", stream)
        )
        share = median(rates[1:]) / batch.rate
        text = f"{share:.2f} ({median(rates[1:]) / 1e6:.2f} M rows/s inside triggers)"
        self._foreign("streaming")
        self._results.add("streaming", Found.of(text, share >= 0.80))

    def floor(self) -> None:
        """The shortest micro-batch."""
        data = self._dataset(128)
        floors = sorted(self._bench.floor_ms(data) for _ in range(self._results.repeat))
        text = f"{median(floors):.0f} ms ({floors[0]:.0f}..{floors[-1]:.0f})"
        self._foreign("floor")
        self._results.add("floor", Found.of(text, median(floors) <= 120))

    def sink(self) -> None:
        """Parquet into a stream, beside the same rows into Parquet."""
        data = self._dataset(128)
        sink, parquet = self._compare(
            ("Arrow sink", partial(self._bench.sink, data)),
            ("Parquet write", partial(self._bench.parquet_write, data)),
        )
        self._results.add("sink-parquet", Found.of_ratio(sink, parquet, 0.50, self._foreign("sink")))
        self._results.add("sink", Found.of(f"{sink.rate / 1e6:.2f} M rows/s", sink.rate >= 0.8e6))

    def archive(self) -> None:
        """A stream into Parquet by the job, and through Spark's rows."""
        data = self._dataset(128)
        ours, theirs = self._compare(
            ("archive job", partial(self._bench.archive, data)),
            ("archive by rows", partial(self._bench.archive_rows, data)),
        )
        self._results.add("archive", Found.of_ratio(ours, theirs, 2.5, self._foreign("archive")))

    def latency(self) -> None:
        """From a publish to the commit in the sink."""
        waits = [self._bench.latency_ms() for _ in range(self._results.repeat)]
        middle, high = (median(values) for values in zip(*waits, strict=True))
        self._foreign("latency")
        self._results.add("latency", Found.of(f"{middle:.0f} ms (p99 {high:.0f} ms)", middle <= 400))

    def publish(self) -> None:
        """Acknowledged publishes, alone and while a stream is read in bulk; the two take turns."""
        data = self._dataset(128)
        alone, beside = [], []
        for _ in range(2 * self._results.repeat + 1):
            alone.append(self._bench.publish_p99_ms(data, reading=False))
            beside.append(self._bench.publish_p99_ms(data, reading=True))
        ratio = median(beside) / median(alone)
        text = f"{ratio:.2f} ({median(alone):.2f} → {median(beside):.2f} ms)"
        self._foreign("publish")
        self._results.add("publish", Found.of(text, ratio <= 2.0))

    def _began(self) -> None:
        self._watch, self._own_s = ProcessorWatch(), self._clock.seconds()

    def _foreign(self, case: str) -> float:
        """What others took of the machine since the last call."""
        # The watch counts the children that have ended and this process; what still runs is told to it.
        own_s = self._clock.seconds() - self._own_s
        share = self._watch.foreign_share(own_s - self._watch.load_s())
        self._results.foreign[case] = share
        self._began()
        return share

    def _compare(self, *cases: tuple[str, Callable[[], int]], often: int = 1) -> list[Timed]:
        made = [Timed(name) for name, _ in cases]
        for number in range((self._results.repeat + 1) * often):
            for one, (name, work) in zip(made, cases, strict=True):
                cpu, began = self._clock.seconds(), time.perf_counter()
                one.rows = work()
                wall_s, cpu_s = time.perf_counter() - began, self._clock.seconds() - cpu
                self._bench.tidy()
                click.echo(f"{name}: {wall_s:.2f} s, processor {cpu_s:.2f} s", err=True)
                if number >= often:  # before, it warms up
                    one.wall_s.append(wall_s)
                    one.cpu_s.append(cpu_s)
        self._results.timed.extend(made)
        return made


CASES = {
    "source": Run.source,
    "server": Run.server,
    "publish": Run.publish,
    "latency": Run.latency,
    "pushed": Run.pushed,
    "streaming": Run.streaming,
    "floor": Run.floor,
    "archive": Run.archive,
    "sink": Run.sink,
}


@click.command()
@click.option("--messages", default=2_000_000, type=click.IntRange(100_000), show_default=True, help="Of 128 bytes.")
@click.option("--repeat", default=3, type=click.IntRange(1, 20), show_default=True, help="Repeats of each case.")
@click.option("--only", multiple=True, type=click.Choice(list(CASES)), help="These cases; prints, writes no page.")
@click.option("--quick", is_flag=True, help="A twentieth of the data, one repeat; prints, writes no page.")
@click.option("--output", type=click.Path(path_type=Path), help="Write the page here, whatever was measured.")
def main(messages: int, repeat: int, only: tuple[str, ...], quick: bool, output: Path | None) -> None:
    """Measure, print, write; exit with 1 when a bar is missed."""
    from slipstream.spark import session

    if quick:
        messages, repeat = max(messages // _QUICK, 100_000), 1
    results = Results(messages, repeat, output or (None if only or quick else PAGE))
    with tempfile.TemporaryDirectory(prefix="slipstream-bench-") as name:
        directory = Path(name)
        program = Path(sys.executable).parent / "slipstream-server"
        with Server(program, directory, ("-js", "-sd", str(directory / "store"))) as server:

            @cache
            def dataset(size: int) -> Dataset:
                return make_dataset(server.url, directory, messages // _FEWER[size], size)

            spark = session("batch", heap="3g", config={"spark.log.level": "ERROR", **_SMALL_ROWS})
            from benchmarks.spark_files import RecordFiles

            spark.dataSource.register(RecordFiles)
            run = Run(Bench(spark, server.url, directory), results, dataset)
            for case in only or CASES:
                click.echo(f"--- {case}", err=True)
                CASES[case](run)
            spark.stop()
    click.echo(results.page())
    sys.exit(not results.held)


if __name__ == "__main__":
    main()
