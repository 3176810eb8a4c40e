"""Streaming queries without Spark: the reader is called as Spark calls it. And archives of streams, without jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, LongType, StructType

from slipstream.bulk import ConnectOptions, connect
from slipstream.spark.data_source import SlipstreamSource
from slipstream.spark.lake import Archived, NoLake, create_lake, open_lake
from slipstream.spark.lake.files import COLUMNS, write_file
from slipstream.spark.readers.streaming import SlipstreamStreamReader
from slipstream.spark.runtime import connection
from support.servers import Launcher
from support.spark_streams import Streams

SCHEMA = StructType().add("seq", LongType()).add("payload", BinaryType())
JOB = "0123456789abcdef"


def started(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> Iterator[Streams]:
    """A server with JetStream, and no connection to it afterwards."""
    monkeypatch.setattr(connection, "_settled", True)  # the garbage of other tests is not to be frozen
    server = launcher.prepared("", "-js")
    server.flags += ["-sd", str(server.directory / "store")]
    server.start()
    yield Streams(server.url)
    for reach in list(connection._connections):
        connection.drop_connection(reach)


class Query:
    """A query as Spark runs it: offsets go through JSON, what was planned is read, the batch before is committed."""

    def __init__(self, server: Streams, **options: Any) -> None:
        self._given = {"servers": server.url, "starting": "earliest", **options}
        self.checkpoint: dict[str, Any] | None = None
        self.batches: list[list[bytes]] = []

    def reader(self, **options: Any) -> SlipstreamStreamReader:
        source = SlipstreamSource({name: str(value) for name, value in {**self._given, **options}.items()})
        reader = source.streamReader(SCHEMA)
        assert isinstance(reader, SlipstreamStreamReader)
        return reader

    def run(self, **options: Any) -> list[bytes]:
        """Everything that is there, from where the last run ended; the payloads of this run."""
        reader = self.reader(**options)
        reader.prepareForTriggerAvailableNow()
        start = self.checkpoint or reader.initialOffset()
        new: list[bytes] = []
        while True:
            end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
            if end == start:
                break
            self.batches.append(read(reader, start, end))
            new += self.batches[-1]
            self.checkpoint = start = end
            reader.commit(end)
        reader.stop()
        return new


def read(reader: SlipstreamStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    """The payloads of a batch, in order."""
    rows = [row for task in reader.partitions(start, end) for batch in reader.read(task) for row in batch.to_pylist()]
    return [row["payload"] for row in sorted(rows, key=lambda row: row["seq"])]


def archive(server: Streams, stream: str, location: str, upto: int, *, a_file: int = 100, drop: bool = True) -> None:
    """What the archive job does: append what is new up to a sequence, then let the server drop it."""
    with connect(ConnectOptions(server.url)) as client:
        try:
            lake = open_lake(location)
        except NoLake:
            lake = create_lake(location, Archived(stream, client.bulk_info(stream)["identity"]), "parquet")
        begin = lake.facts.archived_upto + 1
        for first in range(begin, upto + 1, a_file):
            last = min(first + a_file - 1, upto)
            written = write_file(location, client.read(stream, first, last, columns=COLUMNS), job=JOB)
            lake.commit(lake.facts.upto(last), add=[written] if written else [], operation="archive")
    if drop:
        server.purge(stream, seq=upto + 1)
