"""A streaming query that copies a stream into another, for tests that break something on the way."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from support.spark_streams import Streams

COUNT = 900
_WAIT_S = 120


class Copy:
    """A query that copies one stream into another; source or sink may be faulty."""

    def __init__(self, spark: SparkSession, streams: Streams, name: str, directory: Path, **config: Any) -> None:
        self._spark = spark
        self._streams = streams
        self._name = name
        self._directory = directory
        self.servers = streams.url  # that the query knows
        (directory / "faults").mkdir()
        streams.create(name, **config)
        streams.create(f"{name}copy", subjects=[f"copy.{name}.>"], **config)
        self.expected = streams.fill(name, COUNT)

    @property
    def faults(self) -> Path:
        return self._directory / "faults"

    def start(self, *, read: str = "", write: str = "") -> StreamingQuery:
        source, sink = ("slipstream_faulty" if fault else "slipstream" for fault in (read, write))
        reader = self._spark.readStream.format(source).options(
            servers=self.servers,
            stream=self._name,
            starting="earliest",
            maxMessagesPerTrigger=COUNT // 3,
            numPartitions=2,
            batchRows=50,
        )
        if read:
            reader = reader.options(fault=read, faultDir=str(self.faults))
        frame = reader.load().selectExpr("concat('copy.', subject) subject", "payload")
        writer = frame.writeStream.format(sink).options(
            servers=self.servers,
            stream=f"{self._name}copy",
            checkpointLocation=str(self._directory / "checkpoint"),
        )
        if write:
            writer = writer.options(fault=write, faultDir=str(self.faults))
        return writer.trigger(availableNow=True).start()

    def read(self, fault: str) -> list[bytes]:
        """Read the stream at once, in one query that does not go on."""
        reader = self._spark.read.format("slipstream_faulty").options(
            servers=self.servers,
            stream=self._name,
            numPartitions=2,
            batchRows=50,
            fault=fault,
            faultDir=str(self.faults),
        )
        return [bytes(row.payload) for row in reader.load().select("seq", "payload").orderBy("seq").collect()]

    def write(self, fault: str) -> None:
        """Copy the stream at once, as a transaction with a name."""
        frame = self._spark.read.format("slipstream").options(servers=self.servers, stream=self._name).load()
        writer = frame.selectExpr("concat('copy.', subject) subject", "payload").write.format("slipstream_faulty")
        writer.options(
            servers=self.servers, stream=f"{self._name}copy", txnId=self._name, fault=fault, faultDir=str(self.faults)
        ).mode("append").save()

    def until(self, fault: str) -> None:
        """Wait for a fault to happen; a query that waits there goes on after `go_on`."""
        deadline = time.monotonic() + _WAIT_S
        while not (self.faults / f"{fault}.happened").exists():
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.01)

    def go_on(self) -> None:
        (self.faults / "go").touch()

    def check(self) -> None:
        """Everything, in order, once."""
        assert self._streams.payloads(f"{self._name}copy") == self.expected
        assert list(self.faults.glob("*.happened")), "the fault has not happened"
