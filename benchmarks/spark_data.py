"""Data for the Spark measurements: the same messages as a stream, as Parquet files and as files of raw records.

The stream is filled by staged writes, which is the fast way; the twins are made from what the stream then holds, so all
three hold the same rows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slipstream.bulk import ConnectOptions, connect

__all__ = ["Dataset", "fill_stream", "make_dataset", "make_stream", "repeated"]

SUBJECTS = 1_000
_BATCH = 50_000
_FILES = 4  # of Parquet and of records: two tasks a core
_ROW_GROUP = 131_072
_ITEMS = 16_384


@dataclass(frozen=True)
class Dataset:
    """One stream and its twins."""

    stream: str
    messages: int
    payload_bytes: int
    parquet: Path
    records: Path

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return self.messages * self.payload_bytes


def make_stream(url: str, name: str, subjects: str) -> None:
    """Create a stream on disk."""
    with connect(ConnectOptions(url, timeout=60.0)) as client:
        body: dict[str, object] = {"name": name, "subjects": [subjects], "storage": "file"}
        client.link.request(f"STREAM.CREATE.{name}", body)


def make_dataset(url: str, directory: Path, messages: int, payload_bytes: int) -> Dataset:
    """Fill a stream and write its twins."""
    name = f"D{payload_bytes}"
    made = Dataset(name, messages, payload_bytes, directory / f"{name}.parquet", directory / f"{name}.records")
    make_stream(url, name, f"{name}.>")
    fill_stream(url, made)
    with connect(ConnectOptions(url, timeout=60.0)) as client:
        _write_twins(client, made)
    return made


def fill_stream(url: str, data: Dataset) -> None:
    """Store the messages of a dataset in its stream, which takes `<stream>.>`."""
    with connect(ConnectOptions(url, timeout=60.0)) as client:
        writer = client.stage(data.stream, "fill")
        items = _items(random.Random(1))
        for begin in range(0, data.messages, _BATCH):
            count = min(_BATCH, data.messages - begin)
            writer.write(_batch(data.stream, begin, count, data.payload_bytes, items))
        client.commit(data.stream, "fill", batch_id=0, parts=[writer.close()])


def repeated(url: str, data: Dataset, times: int) -> Dataset:
    """A stream that holds the messages of another one several times, under subjects of its own; it has no twins."""
    name = f"{data.stream}X{times}"
    make_stream(url, name, f"{name}.>")
    options = ConnectOptions(url, timeout=60.0)
    with connect(options) as reading, connect(options) as writing:
        writer = writing.stage(name, "fill")
        for _ in range(times):
            for batch in reading.read(data.stream, 1, data.messages, columns=("subject", "headers", "payload")):
                subjects = pc.replace_substring(batch.column(0), data.stream, name, max_replacements=1)
                writer.write(batch.set_column(0, "subject", subjects))
        writing.commit(name, "fill", batch_id=0, parts=[writer.close()])
    return replace(data, stream=name, messages=data.messages * times)


def _items(rng: random.Random) -> list[bytes]:
    """Parts of JSON documents: names that repeat, values that do not. Snappy makes a good half of them.

    There are more than the 64 KiB that Snappy looks back hold, so that no item is found again as a whole.
    """
    states = ("new", "paid", "shipped", "returned", "cancelled")
    return [
        b'{"id":"%016x","item":%d,"price":%.2f,"state":"%s"},'
        % (rng.getrandbits(64), rng.randrange(10**6), rng.uniform(1, 500), rng.choice(states).encode())
        for _ in range(_ITEMS)
    ]


def _batch(name: str, begin: int, count: int, size: int, items: list[bytes]) -> pa.RecordBatch:
    """Subjects in rotation, every fifth with headers, payloads of JSON."""
    numbers = range(begin, begin + count)
    each = size // 64 + 1  # no item is shorter
    payloads = []
    for number in numbers:
        at = number * each % _ITEMS
        text = b'{"number":%d,"items":[' % number + b"".join(items[at : at + each])
        if len(text) < size:
            text += b"".join(items[:each])
        payloads.append(text[:size])
    headers = [[("Kind", ["order"]), ("Trace", [f"{number:08x}"])] if number % 5 == 0 else None for number in numbers]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([f"{name}.{number % SUBJECTS:04d}" for number in numbers]),
            pa.array(payloads, pa.binary()),
            pa.array(headers, pa.map_(pa.string(), pa.list_(pa.string()))),
        ],
        names=["subject", "payload", "headers"],
    )


def _write_twins(client: Any, made: Dataset) -> None:
    made.parquet.mkdir()
    made.records.mkdir()
    plan = client.plan(made.stream, partitions=_FILES)
    for number, split in enumerate(plan.splits):
        reader = client.read(made.stream, split.first, split.last)
        with pq.ParquetWriter(made.parquet / f"{number}.parquet", reader.schema, compression="snappy") as file:
            for batch in reader:
                file.write_batch(batch, row_group_size=_ROW_GROUP)
        with (made.records / f"{number}.records").open("wb") as raw:
            raw.writelines(client.read_records(made.stream, split.first, split.last))
