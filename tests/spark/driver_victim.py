"""A driver that is killed between the server's commit of a batch and Spark's: run by a test as a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
os.environ["PYTHONPATH"] = str(TESTS)


def main(url: str, name: str, checkpoint: str, faults: str, limit: str) -> None:
    """Copy a stream, as `test_faults.Copy` does; the sink kills the Java machine."""
    from pyspark.core.context import SparkContext

    from slipstream.spark import session
    from support.spark_faults import FaultySource

    spark = session("test")
    gateway = SparkContext._gateway
    assert gateway is not None
    (Path(faults) / "java.pid").write_text(str(gateway.proc.pid))
    spark.dataSource.register(FaultySource)
    reader = spark.readStream.format("slipstream").options(
        servers=url, stream=name, starting="earliest", maxMessagesPerTrigger=limit, numPartitions=2, batchRows=50
    )
    frame = reader.load().selectExpr("concat('copy.', subject) subject", "payload")
    writer = frame.writeStream.format("slipstream_faulty").options(
        servers=url, stream=f"{name}copy", checkpointLocation=checkpoint, fault="commit-kill", faultDir=faults
    )
    writer.trigger(availableNow=True).start().awaitTermination(120)


if __name__ == "__main__":
    main(*sys.argv[1:])
