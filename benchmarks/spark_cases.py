"""What is measured with Spark: each case is a function that does its work once and returns how much it did.

Rates are rows a second of wall time; processor time is that of the Java machine and the Python workers below it.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.spark_data import Dataset, make_stream
from slipstream.bulk import ConnectOptions, connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Bench"]

_LATENCY_RATE = 50_000
_LATENCY_SECONDS = 10.0
_WARM_SECONDS = 5.0
_PUBLISHES = 2_000


class Bench:
    """The cases, on one session and one server."""

    def __init__(self, spark: SparkSession, url: str, directory: Path) -> None:
        self.spark = spark
        self.url = url
        self.directory = directory
        self._number = 0
        self._left: list[str] = []

    def tidy(self) -> None:
        """Remove the streams that cases have left, after their time was taken."""
        while self._left:
            self._drop(self._left.pop())

    # --- reading ----------------------------------------------------------------------------------------------------

    def source(self, data: Dataset, **options: Any) -> int:
        """Every row and column of a stream."""
        _use(self._read(data, **options))
        return data.messages

    def parquet(self, data: Dataset) -> int:
        """The same from Parquet."""
        _use(self.spark.read.parquet(str(data.parquet)))
        return data.messages

    def files(self, data: Dataset) -> int:
        """The same from files of raw records."""
        _use(self.spark.read.format("record_files").option("directory", str(data.records)).load())
        return data.messages

    def one_subject(self, data: Dataset) -> int:
        """Every row and column of one of a thousand subjects, found by the server."""
        _use(self._of_one(data))
        return data.messages

    def one_subject_parquet(self, data: Dataset) -> int:
        """The same from Parquet."""
        _use(self._of_one_parquet(data))
        return data.messages

    def count_subject(self, data: Dataset) -> int:
        """How many there are of one of a thousand subjects; no column is needed."""
        assert self._of_one(data).count() == data.messages // 1_000
        return data.messages

    def count_subject_parquet(self, data: Dataset) -> int:
        """The same from Parquet, of which one column is read."""
        assert self._of_one_parquet(data).count() == data.messages // 1_000
        return data.messages

    def streaming(self, data: Dataset, limit: int) -> float:
        """Rows a second inside triggers, the first one left out."""
        frame = self._read_stream(data.stream, maxMessagesPerTrigger=limit)
        query = frame.writeStream.format("noop").option("checkpointLocation", self._fresh("ck"))
        running = query.trigger(availableNow=True).start()
        running.awaitTermination(600)
        steps = [one for one in running.recentProgress if one["numInputRows"]]
        steps = steps[1:] or steps
        rows = sum(one["numInputRows"] for one in steps)
        return float(rows / sum(one["durationMs"]["triggerExecution"] / 1e3 for one in steps))

    def floor_ms(self, data: Dataset) -> float:
        """A micro-batch of 1,000 messages, median."""
        frame = self._read_stream(data.stream, maxMessagesPerTrigger=1_000, startingSequence=data.messages - 39_999)
        query = frame.writeStream.format("noop").option("checkpointLocation", self._fresh("ck"))
        running = query.trigger(availableNow=True).start()
        running.awaitTermination(600)
        steps = [one["durationMs"]["triggerExecution"] for one in running.recentProgress if one["numInputRows"]]
        return float(median(steps[5:]))

    # --- writing ----------------------------------------------------------------------------------------------------

    def sink(self, data: Dataset) -> int:
        """Parquet into a stream, exactly once."""
        name = self._stream()
        frame = self.spark.read.parquet(str(data.parquet)).selectExpr(f"'{name}.x' subject", "payload")
        frame.write.format("slipstream").mode("append").options(servers=self.url, stream=name).save()
        self._left.append(name)
        return data.messages

    def parquet_write(self, data: Dataset) -> int:
        """The same rows into Parquet."""
        frame = self.spark.read.parquet(str(data.parquet)).selectExpr("'x' subject", "payload")
        frame.write.parquet(self._fresh("written"))
        return data.messages

    def archive_rows(self, data: Dataset) -> int:
        """A stream into Parquet through Spark's rows."""
        self._read(data).write.option("compression", "zstd").parquet(self._fresh("rows"))
        return data.messages

    def archive(self, data: Dataset) -> int:
        """A stream into Parquet by the job."""
        from slipstream.spark import jobs
        from slipstream.spark.runtime.target import Reach

        jobs.archive(self.spark, data.stream, self._fresh("lake"), reach=Reach(servers=self.url))
        return data.messages

    # --- time -------------------------------------------------------------------------------------------------------

    def latency_ms(self) -> tuple[float, float]:
        """From publish to being committed in the sink's stream, p50 and p99, at 50,000 messages a second."""
        source, sink = self._stream(), self._stream()
        frame = self._read_stream(source).selectExpr(f"'{sink}.x' subject", "payload")
        writer = frame.writeStream.format("slipstream").options(
            servers=self.url, stream=sink, checkpointLocation=self._fresh("ck")
        )
        running = writer.start()
        # A query takes seconds to start and to warm up; its pace is what counts.
        warm = self._load(f"{source}.x", _WARM_SECONDS)
        running.processAllAvailable()
        sent = warm + self._load(f"{source}.x", _LATENCY_SECONDS)
        running.processAllAvailable()
        running.stop()
        waits: list[float] = []
        with connect(ConnectOptions(self.url)) as client:
            plan = client.plan(sink)
            for batch in client.read(sink, plan.first, plan.last, columns=("ts_ns", "payload")):
                for stored, payload in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                    waits.append((stored - struct.unpack_from("<q", payload)[0]) / 1e6)
        assert len(waits) == sent, f"{sent} were published, {len(waits)} arrived"
        waits = sorted(waits[warm:])
        return waits[len(waits) // 2], waits[len(waits) * 99 // 100]

    def _load(self, subject: str, seconds: float) -> int:
        """Publish at the steady rate; the number of messages."""
        command = [sys.executable, "-m", "benchmarks.spark_load", self.url, subject, str(_LATENCY_RATE), str(seconds)]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def publish_p99_ms(self, data: Dataset, *, reading: bool) -> float:
        """Publishes with acks, one at a time, alone or beside bulk reads at full speed."""
        name = self._stream()
        reader = None
        if reading:
            code = (
                "import sys\nfrom slipstream.bulk import ConnectOptions, connect\n"
                "with connect(ConnectOptions(sys.argv[1])) as client:\n"
                "    plan = client.plan(sys.argv[2])\n    print('ready', flush=True)\n"
                "    while True:\n        sum(b.num_rows for b in client.read(sys.argv[2], plan.first, plan.last))\n"
            )
            reader = subprocess.Popen([sys.executable, "-c", code, self.url, data.stream], stdout=subprocess.PIPE)
            assert reader.stdout is not None
            reader.stdout.readline()
        try:
            times: list[float] = []
            with connect(ConnectOptions(self.url)) as client:
                wire = client.link._wire
                for _ in range(_PUBLISHES):
                    began = time.perf_counter()
                    wire.request(f"{name}.x", b"x" * 128)
                    times.append(time.perf_counter() - began)
        finally:
            if reader is not None:
                reader.kill()
                reader.wait()
        self._drop(name)
        return sorted(times)[len(times) * 99 // 100] * 1e3

    # --- inside -----------------------------------------------------------------------------------------------------

    def _read(self, data: Dataset, **options: Any) -> DataFrame:
        reader = self.spark.read.format("slipstream").options(servers=self.url, stream=data.stream, numPartitions=4)
        return reader.options(**options).load()

    def _of_one(self, data: Dataset) -> DataFrame:
        reader = self.spark.read.format("slipstream").options(servers=self.url, stream=data.stream, pushdown="true")
        return reader.load().where(f"subject = '{data.stream}.0007'")

    def _of_one_parquet(self, data: Dataset) -> DataFrame:
        return self.spark.read.parquet(str(data.parquet)).where(f"subject = '{data.stream}.0007'")

    def _read_stream(self, name: str, **options: Any) -> DataFrame:
        start = {} if "startingSequence" in options else {"starting": "earliest"}
        reader = self.spark.readStream.format("slipstream").options(servers=self.url, stream=name, **start)
        return reader.options(**options).load()

    def _stream(self) -> str:
        self._number += 1
        name = f"T{self._number}"
        make_stream(self.url, name, f"{name}.>")
        return name

    def _drop(self, name: str) -> None:
        with connect(ConnectOptions(self.url, timeout=60.0)) as client:
            client.link.request(f"STREAM.DELETE.{name}")

    def _fresh(self, name: str) -> str:
        return tempfile.mkdtemp(prefix=f"{name}-", dir=self.directory) + "/x"


def _use(frame: DataFrame) -> None:
    """Make Spark compute every row and column, and keep nothing."""
    frame.write.format("noop").mode("overwrite").save()
