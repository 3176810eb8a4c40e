"""A driver with two executors; it kills one in the middle of a batch. Run by a test as a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
os.environ["PYTHONPATH"] = str(TESTS)
WAIT_S = 200


def main(url: str, name: str, checkpoint: str, faults: str, fault: str) -> None:
    """Copy a stream; the fault stops one task, whose executor is then killed."""
    from slipstream.spark import session
    from support.spark_faults import FaultySource

    config = {"spark.executorEnv.PYTHONPATH": str(TESTS), "spark.executor.memory": "512m"}
    spark = session("test", master="local-cluster[2,1,1024]", config=config)
    spark.dataSource.register(FaultySource)
    where = fault.partition("-")[0]
    formats = {part: "slipstream_faulty" if part == where else "slipstream" for part in ("read", "write")}
    options = {part: {"fault": fault, "faultDir": faults} if part == where else {} for part in ("read", "write")}
    reader = spark.readStream.format(formats["read"]).options(
        servers=url,
        stream=name,
        starting="earliest",
        maxMessagesPerTrigger=1000,
        numPartitions=4,
        batchRows=50,
        **options["read"],
    )
    frame = reader.load().selectExpr("concat('copy.', subject) subject", "payload")
    writer = frame.writeStream.format(formats["write"]).options(
        servers=url, stream=f"{name}copy", checkpointLocation=checkpoint, **options["write"]
    )
    query = writer.trigger(availableNow=True).start()
    deadline = time.monotonic() + WAIT_S
    while not (Path(faults) / f"{fault}.happened").exists():
        assert time.monotonic() < deadline and query.isActive, "the fault did not happen"
        time.sleep(0.02)
    for pid in executors(spark.sparkContext.applicationId):
        os.kill(pid, signal.SIGKILL)
        print("killed executor", pid, flush=True)
        break
    (Path(faults) / "go").touch()
    assert query.awaitTermination(WAIT_S)
    spark.stop()


def executors(application: str) -> list[int]:
    """The Java machines that run tasks of an application."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if application.encode() in words and any(b"CoarseGrainedExecutorBackend" in word for word in words):
            found.append(int(entry.name))
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
