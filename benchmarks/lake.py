"""Streams as tables: how fast they are written, what publishers notice, and how old what a table has is.

    python -m benchmarks.lake [--messages 2000000] [--seconds 20] [--rate 50000] [--quick]

Tables are written by the process that a server starts for `lake { … }`, beside the server, as users have it. Rows a
second are those of a processor as well: a busy machine disturbs those less. Bars are those of the project's plan: half
a million rows a second on two cores, a p99 of publishers that at most doubles, and messages that are in a table after
five seconds at 50,000 a second, in the middle.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep
from urllib.request import urlopen

import click

from benchmarks.servers import Server
from slipstream.client.load import percentile
from slipstream.client.throughput import publish_frames
from slipstream.client.wire import WireClient
from slipstream.config.lake_options import LakeOptions
from slipstream.server.jetstream.lake_writers import child_settings
from slipstream.sync.client import connect

__all__ = ["main"]

_BYTES = 128
_SUBJECTS = [f"lake.{number}" for number in range(1_000)]
_REQUESTS = 2_000
_POLL_S = 0.05
_BINARIES = Path(sys.executable).parent


@contextmanager
def _server(directory: Path, block: str = "") -> Iterator[tuple[Server, str]]:
    """A server with one stream, and the address of its metrics."""
    config, ports = directory / "server.conf", directory / "ports"
    ports.mkdir()
    config.write_text(
        f'http: "127.0.0.1:-1", ports_file_dir: "{ports}"\n'
        f'jetstream {{ store_dir: "{directory}/store", sync_interval: "1s" }}\n{block}\n'
    )
    with Server(_BINARIES / "slipstream-server", directory, ("-c", str(config))) as server:
        with connect(server.url) as client:
            client.jetstream().create_stream("LAKE", subjects=["lake.>"])
        (file,) = ports.iterdir()
        yield server, json.loads(file.read_text())["monitoring"][0]


def _fill(url: str, messages: int) -> None:
    """Publish without acks, and wait until all are stored."""
    frames = publish_frames(_SUBJECTS, _BYTES, len(_SUBJECTS) * 10)
    with WireClient(url) as client:
        for _ in range(messages // (len(_SUBJECTS) * 10)):
            client.send(frames, 60_000_000_000)
            client.flush(60_000_000_000)
    with connect(url) as waiting:
        while len(waiting.jetstream().stream("LAKE")) < messages:
            sleep(0.1)


def _metric(address: str, name: str) -> float:
    """A metric of the stream's table; 0 before the first turn."""
    with urlopen(f"{address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{")), 0.0)


def _p99_ms(url: str, is_over: threading.Event | None = None) -> tuple[float, int]:
    """Of publishes that wait for their ack, one after the other."""
    durations: list[int] = []
    with WireClient(url) as client:
        while len(durations) < _REQUESTS or (is_over is not None and not is_over.is_set()):
            began = perf_counter()
            client.request("lake.bystander", b"x" * _BYTES)
            durations.append(int((perf_counter() - began) * 1e9))
    return percentile(sorted(durations), 0.99) / 1e6, len(durations)


def _run_once(url: str, location: str, kind: str) -> tuple[float, float]:
    """Let the process of a server write what there is; seconds, and seconds of a processor."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    settings = child_settings(LakeOptions(location, "iceberg" if kind == "iceberg" else "delta"), url)
    with subprocess.Popen(
        [sys.executable, "-m", "slipstream.lake.child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(f"{json.dumps(settings)}\n")
        child.stdin.flush()
        said = json.loads(child.stdout.readline())
        assert not said.get("failures", said), said
        took = perf_counter() - began
        child.stdin.close()
        child.stdout.read()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def writing(messages: int, kind: str) -> dict[str, float]:
    """All of a stream into a table, with a publisher beside it."""
    with tempfile.TemporaryDirectory() as name, _server(Path(name)) as (server, _):
        _fill(server.url, messages)
        alone, _ = _p99_ms(server.url)
        is_over = threading.Event()
        beside: list[float] = []
        publisher = threading.Thread(target=lambda: beside.append(_p99_ms(server.url, is_over)[0]))
        publisher.start()
        took, cpu = _run_once(server.url, f"{name}/lake", kind)
        is_over.set()
        publisher.join()
        # A second run finds little: that is what starting the program and opening the table takes.
        idle, idle_cpu = _run_once(server.url, f"{name}/lake", kind)
        return {
            "rows_s": messages / (took - idle),
            "rows_cpu_s": messages / (cpu - idle_cpu),
            "p99_alone_ms": alone,
            "p99_beside_ms": beside[0],
        }


def freshness(seconds: float, rate: int) -> dict[str, float]:
    """How long it takes from a publish until the table has the message, at a steady rate."""
    with tempfile.TemporaryDirectory() as name:
        block = f'lake {{ location: "{name}/lake", every: "1s" }}'
        with _server(Path(name), block) as (server, address):
            sent: list[tuple[int, float]] = []
            seen: list[tuple[int, float]] = []
            is_over = threading.Event()

            def watch() -> None:
                while not is_over.is_set():
                    seen.append((int(_metric(address, "slipstream_lake_last_sequence")), perf_counter()))
                    sleep(_POLL_S)

            watcher = threading.Thread(target=watch)
            watcher.start()
            step = rate // 100
            frames = publish_frames(_SUBJECTS, _BYTES, step)
            with WireClient(server.url) as client:
                began = perf_counter()
                for number in range(int(seconds * 100)):
                    sleep(max(began + number / 100 - perf_counter(), 0))
                    client.send(frames)
                    sent.append(((number + 1) * step, perf_counter()))
                client.flush(60_000_000_000)
            while _metric(address, "slipstream_lake_last_sequence") < sent[-1][0]:
                sleep(_POLL_S)
            sleep(2 * _POLL_S)
            is_over.set()
            watcher.join()
            ages, at = [], 0
            for sequence, moment in sent:
                while seen[at][0] < sequence:
                    at += 1
                ages.append(int((seen[at][1] - moment) * 1e9))
            ages.sort()
            return {"p50_s": percentile(ages, 0.5) / 1e9, "p99_s": percentile(ages, 0.99) / 1e9}


@click.command()
@click.option("--messages", default=2_000_000)
@click.option("--seconds", default=20.0)
@click.option("--rate", default=50_000)
@click.option("--quick", is_flag=True, help="A tenth of the work.")
def main(messages: int, seconds: float, rate: int, quick: bool) -> None:
    """Print a table."""
    if quick:
        messages, seconds = messages // 10, seconds / 4
    print("| what | measured | bar |\n|---|---|---|")
    for kind in ("delta", "iceberg"):
        found = writing(messages, kind)
        print(f"| {kind}: rows a second, {_BYTES} B | {found['rows_s']:,.0f} | 500,000 |")
        print(f"| {kind}: rows a second of a processor | {found['rows_cpu_s']:,.0f} | |")
        alone, beside = found["p99_alone_ms"], found["p99_beside_ms"]
        print(f"| {kind}: p99 of a publisher beside it | {beside:.2f} ms, alone {alone:.2f} ms | 2 x |")
    ages = freshness(seconds, rate)
    print(f"| delta: age of a message when the table has it, {rate:,} a second | p50 {ages['p50_s']:.2f} s | 5 s |")
    print(f"| | p99 {ages['p99_s']:.2f} s | |")


if __name__ == "__main__":
    main()
