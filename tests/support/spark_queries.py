"""Streaming queries of Spark that may be run several times, and what they have handed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from support.spark_streams import Streams

WAIT_S = 120


class Collected:
    """What a query has handed over, by batch; a batch that is run again replaces itself, as in an idempotent sink."""

    def __init__(self) -> None:
        self.batches: dict[int, list[bytes]] = {}

    def __call__(self, frame: DataFrame, number: int) -> None:
        rows = frame.select("seq", "payload").collect()
        self.batches[number] = [bytes(row.payload) for row in sorted(rows)]

    @property
    def payloads(self) -> list[bytes]:
        return [payload for number in sorted(self.batches) for payload in self.batches[number]]


class Query:
    """A streaming query of a stream into a `Collected`, to be run several times."""

    def __init__(self, spark: SparkSession, server: Streams, checkpoint: Path, **options: Any) -> None:
        self._spark = spark
        self.options = {"servers": server.url, "starting": "earliest", **options}
        self._checkpoint = str(checkpoint)
        self.collected = Collected()

    def start(self, **trigger: Any) -> StreamingQuery:
        frame = self._spark.readStream.format("slipstream").options(**self.options).load()
        writer = frame.writeStream.foreachBatch(self.collected).option("checkpointLocation", self._checkpoint)
        return writer.trigger(**trigger).start()

    def run(self) -> StreamingQuery:
        """Everything that is there now."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(WAIT_S)
        return query
