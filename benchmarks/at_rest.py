"""What encryption at rest, compression and the hash chain cost: the same load with each and without, in turns.

    python -m benchmarks.at_rest [--rounds 3] [--msgs 100000] [--size 128] [--form plain --form chain ...]
    python -m benchmarks.at_rest --spark 2000000 [--rounds 3] ...    Spark reads a stream of so many messages instead

For each load the best rate of all rounds, and the least processor time of the server, as a share of the plain server's.
A busy machine disturbs rates more than processor time.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter, sleep

import click

import slipstream
from benchmarks.servers import Server
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, decode_header

__all__ = ["main"]

_KEY = "key: benchmark-key-of-32-random-bytes, cipher: "
_SPARK_READS = 3
FORMS: dict[str, tuple[str, dict[str, object]]] = {
    "plain": ("", {}),
    "aes": (_KEY + "aes", {}),
    "chacha": (_KEY + "chacha", {}),
    "s2": ("", {"compression": "s2"}),
    "chain": ("", {"metadata": {"slipstream.chain": "blake2b"}}),
}
"""Each with what the server and what the stream is told."""


def _bench(url: str, *words: str) -> float:
    """Messages a second, as the bench says."""
    program = Path(sys.executable).parent / "slipstream"
    command = [str(program), "--server", url, "bench", *words, "--no-progress"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"([\d,]+) msgs/sec", said)
    assert found is not None, said
    return float(found[1].replace(",", ""))


def _loads(msgs: int, size: int) -> dict[str, Callable[[str], float]]:
    def publish(url: str) -> float:
        many = ("--msgs", str(msgs), "--size", f"{size}B")
        return _bench(url, "js", "pub", "async", "bench.at.rest", *many, "--batch", "500")

    def fetch(url: str) -> float:
        return _bench(url, "js", "fetch", "--msgs", str(msgs), "--size", f"{size}B", "--acks", "none")

    def bulk(url: str) -> float:
        began = perf_counter()
        for _ in range(5):
            rows = slipstream.read_arrow(url, "benchstream").read_all().num_rows
            assert rows == msgs, rows
        return 5 * msgs / (perf_counter() - began)

    return {"publish, async": publish, "fetch": fetch, "bulk read (Spark's source), 5 times": bulk}


def _spark_loads(msgs: int, size: int) -> dict[str, Callable[[str], float]]:
    """One session for all; a stream is filled and read once before its reads are measured."""
    from benchmarks.spark_cases import Bench
    from benchmarks.spark_data import Dataset, fill_stream
    from slipstream.spark import session

    made = session("batch", heap="3g", config={"spark.log.level": "ERROR"})
    data = Dataset("benchstream", msgs, size, Path(), Path())
    filled: set[str] = set()

    def read(url: str) -> float:
        bench = Bench(made, url, Path())
        if url not in filled:
            filled.add(url)
            fill_stream(url, data)
            bench.source(data)
        began = perf_counter()
        for _ in range(_SPARK_READS):
            bench.source(data)
        return _SPARK_READS * msgs / (perf_counter() - began)

    return {"fill and warm up": read, f"Spark's source, {_SPARK_READS} times": read}


def _create(url: str, subject: str, fields: dict[str, object]) -> None:
    config = {"name": "benchstream", "subjects": [subject], **fields}
    with slipstream.connect(url) as client:
        answer = json.loads(client.request("$JS.API.STREAM.CREATE.benchstream", json.dumps(config).encode()).data)
    assert "error" not in answer, answer


def _until_packed(root: Path, *, packs: bool) -> None:
    """Until what is to be compressed is: readers are not to be measured against that."""
    end = perf_counter() + 60
    while packs and perf_counter() < end:
        with suppress(FileNotFoundError):  # replaced while we look
            headers = [decode_header(path.read_bytes()[:HEADER_BYTES]) for path in sorted(root.rglob("*.seg"))]
            if all(header is not None and header.codec for header in headers[:-1]):
                return
        sleep(0.2)


@click.command()
@click.option("--rounds", default=3)
@click.option("--msgs", default=100_000)
@click.option("--size", default=128)
@click.option("--spark", default=0, help="Let Spark read a stream of so many messages; nothing else.")
@click.option("--form", "forms", multiple=True, type=click.Choice(list(FORMS)), default=list(FORMS))
def main(rounds: int, msgs: int, size: int, spark: int, forms: tuple[str, ...]) -> None:
    """Print a table."""
    binary = Path(sys.executable).parent / "slipstream-server"
    loads, subject = (_spark_loads(spark, size), "benchstream.>") if spark else (_loads(msgs, size), "bench.at.rest")
    rates: dict[tuple[str, str], float] = {}
    times: dict[tuple[str, str], float] = {}
    for _ in range(rounds):
        for form in forms:
            encryption, fields = FORMS[form]
            with tempfile.TemporaryDirectory() as directory:
                config = Path(directory, "server.conf")
                config.write_text(f'jetstream {{ store_dir: "{directory}/store", {encryption} }}\n')
                with Server(binary, Path(directory), ("-c", str(config))) as server:
                    _create(server.url, subject, fields)
                    for name, load in loads.items():
                        _until_packed(Path(directory), packs="compression" in fields)
                        before_ns, key = server.cpu_ns(), (name, form)
                        rates[key] = max(rates.get(key, 0), load(server.url))
                        times[key] = min(times.get(key, 1e9), (server.cpu_ns() - before_ns) / 1e9)
    print("| load | form | messages/s | rate | processor s | processor |\n|---|---|---:|---:|---:|---:|")
    for name in loads:
        for form in forms:
            rate, cpu_s = rates[name, form], times[name, form]
            shares = rate / rates[name, "plain"], cpu_s / times[name, "plain"]
            print(f"| {name} | {form} | {rate:,.0f} | {shares[0]:.0%} | {cpu_s:.2f} | {shares[1]:.0%} |")


if __name__ == "__main__":
    main()
