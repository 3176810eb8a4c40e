"""Measure how reading and writing streams with Spark grows with workers: 1, 2, 4 executors, each a process of its own.

    python -m benchmarks.spark_workers [--messages 2000000] [--repeat 3] [--workers 1,2,4]

Each number of workers is a cluster of Spark on this machine (`local-cluster`), with one core a worker; one server has
the data. Two efficiencies are shown, both as shares of what one worker does:

- of time: rows a second, by so many workers or by so many as the machine has cores, whichever is less;
- of work: rows a second of a processor, all processes together. More cores do not help here, and a busy machine does
  not hurt: what is lost is work that more workers add.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

import click

from benchmarks.servers import Server
from benchmarks.spark_cases import Bench
from benchmarks.spark_data import Dataset, make_dataset
from benchmarks.spark_report import TreeClock

__all__ = ["main"]

_BYTES = 128
_TIMEOUT_S = 3600


@dataclass(frozen=True)
class Rates:
    """Of one case with so many workers."""

    rows_s: float
    rows_cpu_s: float


def measure(url: str, directory: Path, messages: int, workers: int, repeat: int) -> dict[str, Rates]:
    """In a process of its own: one cluster, both cases."""
    import pyspark

    from slipstream.spark import session

    name = f"D{_BYTES}"
    data = Dataset(name, messages, _BYTES, directory / f"{name}.parquet", directory / f"{name}.records")
    config = {
        "spark.log.level": "ERROR",
        "spark.executor.memory": "768m",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    }
    work = Path(pyspark.__file__).parent / "work"  # a local cluster leaves its directory in the package
    existed = work.exists()
    spark = session("batch", master=f"local-cluster[{workers},1,1024]", heap="1g", config=config)
    try:
        bench = Bench(spark, url, directory)
        return {
            "source": _rates(partial(bench.source, data, numPartitions=4), bench, repeat),
            "sink": _rates(partial(bench.sink, data), bench, repeat),
        }
    finally:
        spark.stop()
        if work.exists() and not existed:
            subprocess.run(["rm", "-r", str(work)], check=True)


def _rates(work: Callable[[], int], bench: Bench, repeat: int) -> Rates:
    clock = TreeClock()
    walls, cpus, rows = [], [], 0
    for number in range(repeat + 1):
        cpu, began = clock.seconds(), time.perf_counter()
        rows = work()
        wall_s, cpu_s = time.perf_counter() - began, clock.seconds() - cpu
        bench.tidy()
        if number:  # before, it warms up
            walls.append(wall_s)
            cpus.append(cpu_s)
    return Rates(rows / median(walls), rows / median(cpus))


def table(found: dict[int, dict[str, Rates]], cores: int) -> str:
    """The figures for people."""
    lines = [
        "| case | workers | rows a second | of a processor | efficiency of time | of work |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    (least, *_) = found
    for case in found[least]:
        base = found[least][case]
        for workers, cases in found.items():
            rates = cases[case]
            most = min(workers, cores) / min(least, cores)
            of_time, of_work = rates.rows_s / base.rows_s / most, rates.rows_cpu_s / base.rows_cpu_s
            rows = f"{rates.rows_s:,.0f} | {rates.rows_cpu_s:,.0f}"
            lines.append(f"| {case} | {workers} | {rows} | {of_time:.2f} | {of_work:.2f} |")
    return "\n".join(lines)


@click.command()
@click.option("--messages", default=2_000_000, type=click.IntRange(10_000), show_default=True)
@click.option("--repeat", default=3, type=click.IntRange(1, 20), show_default=True)
@click.option("--workers", default="1,2,4", show_default=True)
@click.option("--inside", default="", hidden=True)
def main(messages: int, repeat: int, workers: str, inside: str) -> None:
    """Print a table."""
    if inside:
        url, directory = inside.split(" ", 1)
        rates = measure(url, Path(directory), messages, int(workers), repeat)
        print(json.dumps({case: asdict(one) for case, one in rates.items()}))
        return
    found: dict[int, dict[str, Rates]] = {}
    with tempfile.TemporaryDirectory(prefix="slipstream-bench-") as name:
        program = Path(sys.executable).parent / "slipstream-server"
        with Server(program, Path(name), ("-js", "-sd", f"{name}/store")) as server:
            make_dataset(server.url, Path(name), messages, _BYTES)
            for number in map(int, workers.split(",")):
                command = [sys.executable, "-m", "benchmarks.spark_workers", "--inside", f"{server.url} {name}"]
                command += ["--messages", str(messages), "--repeat", str(repeat), "--workers", str(number)]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=_TIMEOUT_S)
                answer = json.loads(done.stdout.splitlines()[-1])
                found[number] = {case: Rates(**one) for case, one in answer.items()}
                click.echo(f"{number} workers: {answer}", err=True)
    print(table(found, os.cpu_count() or 1))


if __name__ == "__main__":
    main()
