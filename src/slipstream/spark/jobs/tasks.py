"""The shape of every job: the driver makes a list of work, Spark's workers do it, only small results come back.

    items ──► one task each ──► work(item) in a worker ──► small results, in order

Rows never cross to the Java side: a worker reads columns from the server or from a file, and writes columns to a file
or to the server. Spark gives parallelism, retries and whatever cluster the session runs on. Where Spark has to put
partial results together, `partial.py` makes a frame of them; a client of Spark Connect, which knows frames only, gets
its results as one, too.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from slipstream.spark.runtime.errors import SparkSideError
from slipstream.spark.runtime.remote import is_remote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["JobError", "Result", "at_once", "run_tasks", "waves"]

Item = TypeVar("Item")
Result = dict[str, Any]
_CORES_MAX = 4096


class JobError(SparkSideError):
    """A job cannot go on; the text says what to do."""


def run_tasks(spark: SparkSession | None, items: Sequence[Item], work: Callable[[Item], Result]) -> list[Result]:
    """Do every piece of work, in parallel.

    Args:
        spark: where; None: here, one after the other.
        items: picklable, one task each.
        work: a function of a module; what it returns must be small.

    Raises:
        JobError: a task failed for good; the text is the worker's.
    """
    if spark is None:
        return [work(item) for item in items]
    if not items:
        return []
    if is_remote(spark):
        return _run_remotely(spark, items, work)
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PythonException

    try:
        return spark.sparkContext.parallelize(items, len(items)).map(_settled(work)).collect()
    except (Py4JJavaError, PythonException) as error:
        text = error.java_exception if isinstance(error, Py4JJavaError) else error
        raise JobError(f"a task failed: {_reason(str(text))}") from error


def _settled(work: Callable[[Item], Result]) -> Callable[[Item], Result]:
    def settled(item: Item) -> Result:
        from slipstream.spark.runtime.connection import settle_worker

        settle_worker()
        return work(item)

    return settled


@dataclass(frozen=True)
class _Numbered:
    number: int
    item: Any
    work: Callable[[Any], Result]


def _run_remotely(spark: SparkSession, items: Sequence[Item], work: Callable[[Item], Result]) -> list[Result]:
    from pyspark.errors import PySparkException

    from slipstream.spark.jobs.partial import partial_frame

    numbered = [_Numbered(number, item, work) for number, item in enumerate(items)]
    try:
        rows = partial_frame(spark, numbered, _pickled, "number long, result binary").collect()
    except PySparkException as error:
        raise JobError(f"a task failed: {_reason(str(error))}") from error
    # From our own function in Spark's workers, as with RDDs.
    return [pickle.loads(row["result"]) for row in sorted(rows, key=lambda row: int(row["number"]))]


def _pickled(one: _Numbered) -> Iterator[pa.RecordBatch]:
    """In a worker: a result as a row."""
    import pyarrow as pa

    packed = pickle.dumps(one.work(one.item))
    schema = pa.schema([("number", pa.int64()), ("result", pa.binary())])
    yield pa.RecordBatch.from_pylist([{"number": one.number, "result": packed}], schema=schema)


def at_once(spark: SparkSession) -> int:
    """How many tasks the session's machines work on at a time."""
    if not is_remote(spark):
        return max(spark.sparkContext.defaultParallelism, 1)
    from pyspark.sql import functions as F

    # A client is not told, but Spark cuts ranges into so many pieces.
    last = spark.range(_CORES_MAX).select(F.spark_partition_id().alias("piece")).agg(F.max("piece")).first()
    return 1 if last is None else int(last[0]) + 1


def waves(spark: SparkSession, items: Sequence[Item], per_core: int = 4) -> Iterator[Sequence[Item]]:
    """Items in portions that keep all cores busy and still let a job tell and keep how far it is."""
    size = at_once(spark) * per_core
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _reason(text: str) -> str:
    """The worker's last word in the heap of text that Spark makes of it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        name, colon, said = line.partition(": ")
        if colon and (name.startswith("slipstream.") or name.endswith("Error")) and " " not in name:
            return said
    return lines[0] if lines else text
