"""Measure bulk reads and writes of a running server beside the same work without it.

    python -m benchmarks.bulk [--messages 1000000] [--payload 128] [--repeat 5]

Every row is a median over rounds in which all kinds of work take turns, so that a busy moment of the machine hits all
of them. Beside the rate stands the processor time of the client and of the server for one message, which other
processes disturb less. The references are made in one process: the records of the stream read from a file, and decoded.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import click
import pyarrow as pa

from benchmarks.machine import commit, description
from benchmarks.servers import Server
from slipstream.bulk import BulkClient, ConnectOptions, StagedPart, connect
from slipstream.bulk.arrow import DEFAULT_COLUMNS, HEADERS_TYPE, message_schema, record_batch
from slipstream.bulk.encode import encode_batch
from slipstream.client.load import percentile
from slipstream.client.wire import WireClient
from slipstream.kernels.bulk.arrowrows import RowDecoder
from slipstream.kernels.bulk.rowrecords import RowEncoder

_BATCH_ROWS = 65_536
_SUBJECTS = 1_000
_REQUESTS = 300  # publishes of one latency sample
_BUSY_READER = """
import sys
from slipstream.bulk import ConnectOptions, connect
with connect(ConnectOptions(sys.argv[1])) as client:
    print(flush=True)
    while True:
        for chunk in client.read_records("B", 1, int(sys.argv[2])):
            pass
"""

Work = Callable[[], int]  # returns how many messages were handled


class Bench:
    """One server with one stream, and the kinds of work done with it."""

    def __init__(self, server: Server, client: BulkClient, directory: Path, messages: int, payload: int) -> None:
        """Fill the stream, and a file with the same records."""
        self._server = server
        self._client = client
        self._file = directory / "records"
        rows = min(messages, _BATCH_ROWS)
        self._batch = pa.RecordBatch.from_arrays(
            [
                pa.array([f"b.eu.{number % _SUBJECTS:04d}" for number in range(rows)]),
                pa.array([bytes(payload)] * rows, pa.binary()),
                pa.array([{"Trace": ["abc"]} if number % 5 == 0 else None for number in range(rows)], HEADERS_TYPE),
            ],
            names=["subject", "payload", "headers"],
        )
        self._batches = max(messages // rows, 1)
        self.messages = self._batches * rows
        self._commits = 0
        with WireClient(server.url) as wire:
            for name, subject in (("B", "b.>"), ("W", "w.>"), ("P", "p")):
                config = {"name": name, "subjects": [subject]}
                wire.request(f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode())
        client.commit("B", "fill", 0, [self._staged("B", None)])
        with self._file.open("wb") as file:
            self._chunks = [file.write(chunk) for chunk in client.read_records("B", 1, self.messages)]
        self.bytes = sum(self._chunks)

    def file_read(self) -> int:
        """The bytes of the records, from a file."""
        with self._file.open("rb", buffering=0) as file:
            assert sum(len(file.read(size)) for size in self._chunks) == self.bytes
        return self.messages

    def file_to_arrow(self) -> int:
        """The same, checked and turned into Arrow columns."""
        decoder, schema, rows = RowDecoder(DEFAULT_COLUMNS, b"B"), message_schema(DEFAULT_COLUMNS), 0
        with self._file.open("rb", buffering=0) as file:
            for size in self._chunks:
                data, at = file.read(size), 0
                while (at := decoder.feed(data, at)) < size:
                    rows += record_batch(decoder, schema).num_rows
        return rows + int(record_batch(decoder, schema).num_rows)

    def read_records(self) -> int:
        """Records through the server, checked."""
        size = sum(len(chunk) for chunk in self._client.read_records("B", 1, self.messages))
        assert size == self.bytes
        return self.messages

    def read_arrow(self) -> int:
        """Arrow columns through the server."""
        reader = self._client.read("B", 1, self.messages, expect_messages=self.messages)
        return sum(batch.num_rows for batch in reader)

    def read_one_subject(self) -> int:
        """One subject of a thousand; counted as all messages, because that is what it saves."""
        reader = self._client.read("B", 1, self.messages, subjects=["b.eu.0007"])
        assert sum(batch.num_rows for batch in reader) * _SUBJECTS >= self.messages // 2
        return self.messages

    def encode(self) -> int:
        """Arrow columns to records, in one process."""
        encoder = RowEncoder()
        for _ in range(self._batches):
            for _piece in encode_batch(encoder, self._batch):
                pass
        return int(encoder.rows)

    def write(self) -> int:
        """Arrow columns staged and committed, on disk."""
        self._commits += 1
        part = self._staged("W", "w.x")
        return self._client.commit("W", "bench", self._commits, [part]).count

    def _staged(self, stream: str, subject: str | None) -> StagedPart:
        writer = self._client.stage(stream, "fill" if stream == "B" else "bench", subject=subject)
        for _ in range(self._batches):
            writer.write(self._batch)
        return writer.close()

    def publish_latencies(self) -> list[int]:
        """Nanoseconds of acknowledged publishes, one after the other."""
        found = []
        with WireClient(self._server.url) as wire:
            for _ in range(_REQUESTS):
                began = perf_counter()
                wire.request("p", b"x" * 128)
                found.append(int((perf_counter() - began) * 1e9))
        return sorted(found)

    @contextmanager
    def busy_reader(self) -> Iterator[None]:
        """A process that reads the stream in bulk, again and again, as fast as it can."""
        command = [sys.executable, "-c", _BUSY_READER, self._server.url, str(self.messages)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
            assert reader.stdout is not None
            reader.stdout.readline()
            try:
                yield
            finally:
                reader.kill()

    @contextmanager
    def busy_neighbour(self) -> Iterator[None]:
        """A process that only takes processor time: what a reader's mere presence costs."""
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as neighbour:
            try:
                yield
            finally:
                neighbour.kill()


@click.command()
@click.option("--messages", default=1_000_000, show_default=True)
@click.option("--payload", default=128, show_default=True, help="Bytes of a message.")
@click.option("--repeat", default=5, show_default=True, help="Rounds.")
def main(messages: int, payload: int, repeat: int) -> None:
    """Print the tables."""
    program = Path(sys.executable).parent / "slipstream-server"
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with (
            Server(program, directory, ("-js", "-sd", str(directory / "js"))) as server,
            connect(ConnectOptions(server.url, timeout=60)) as client,
        ):
            bench = Bench(server, client, directory, messages, payload)
            _throughput(bench, server, repeat)
            _latency(bench, repeat)
    click.echo(f"\n{description()}; commit {commit()}")


def _throughput(bench: Bench, server: Server, repeat: int) -> None:
    kinds: dict[str, Work] = {
        "file, bytes only": bench.file_read,
        "file to Arrow": bench.file_to_arrow,
        "server, records checked": bench.read_records,
        "server to Arrow": bench.read_arrow,
        "server, one of 1000 subjects": bench.read_one_subject,
        "Arrow to records": bench.encode,
        "Arrow to server, on disk": bench.write,
    }
    samples: dict[str, list[tuple[float, float, float]]] = {name: [] for name in kinds}
    for _ in range(repeat):
        for name, work in kinds.items():
            server_before, own_before, began = server.cpu_ns(), process_time(), perf_counter()
            count = work()
            seconds = perf_counter() - began
            own_ns = (process_time() - own_before) * 1e9
            samples[name].append((count / seconds, own_ns / count, (server.cpu_ns() - server_before) / count))
    size = bench.bytes / bench.messages
    click.echo(f"{bench.messages:,} messages, {size:.0f} bytes a record, median of {repeat}\n")
    click.echo("| work | Mrow/s | MB/s | client ns/row | server ns/row |\n|---|---|---|---|---|")
    for name, found in samples.items():
        rate, own, other = (median(values) for values in zip(*found, strict=True))
        click.echo(f"| {name} | {rate / 1e6:.2f} | {rate * size / 1e6:.0f} | {own:.0f} | {other:.0f} |")


def _latency(bench: Bench, repeat: int) -> None:
    samples: dict[str, list[tuple[int, int]]] = {"alone": [], "beside a busy process": [], "during a bulk read": []}
    for _ in range(repeat):
        for name, found in samples.items():
            if name == "alone":
                latencies = bench.publish_latencies()
            else:
                with bench.busy_reader() if name == "during a bulk read" else bench.busy_neighbour():
                    latencies = bench.publish_latencies()
            found.append((percentile(latencies, 0.5), percentile(latencies, 0.99)))
    click.echo("\n| acknowledged publish | p50 ms | p99 ms |\n|---|---|---|")
    for name, found in samples.items():
        middle, high = (median(values) for values in zip(*found, strict=True))
        click.echo(f"| {name} | {middle / 1e6:.2f} | {high / 1e6:.2f} |")


if __name__ == "__main__":
    main()
