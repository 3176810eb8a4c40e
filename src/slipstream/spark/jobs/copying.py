"""Copies into a stream, exactly once: workers stage parts, the driver commits them in order, batch after batch.

A copy has a name that is made from what is copied. The server keeps the number of the last batch of every name, with
the messages of that batch; so a copy that runs again adds nothing that is there already.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from slipstream.bulk import BulkError
from slipstream.bulk.writing import StagedPart
from slipstream.spark.connection import get_connection, retrying
from slipstream.spark.jobs.ranges import RETRY_NS, again, reason
from slipstream.spark.jobs.report import Say, counted
from slipstream.spark.jobs.tasks import JobError, Result, run_tasks, waves
from slipstream.spark.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["Copied", "copy_into", "copy_name"]

Item = TypeVar("Item")


@dataclass
class Copied:
    """What a copy added to a stream."""

    messages: int = 0
    batches: int = 0
    repeated_batches: int = 0  # were there already
    first_seq: int = 0
    last_seq: int = 0


@dataclass(frozen=True)
class _StagePart:
    reach: Reach
    stream: str
    txn: str
    part: int
    source: Any
    read: Callable[[Any], Iterator[pa.RecordBatch]]


def copy_name(job: str, *what: object) -> str:
    """A name for a copy that is the same whenever the same is copied."""
    return f"{job}-{hashlib.sha256(json.dumps(what, default=str).encode()).hexdigest()[:24]}"


def copy_into(
    spark: SparkSession,
    reach: Reach,
    stream: str,
    name: str,
    sources: Sequence[Item],
    read: Callable[[Item], Iterator[pa.RecordBatch]],
    *,
    say: Say,
) -> Copied:
    """Add what the sources hold to a stream, in their order.

    Args:
        spark: the session.
        reach: the server of the stream.
        stream: where to.
        name: of the copy; see `copy_name`.
        sources: picklable.
        read: reads a source in a worker; columns as the sink takes them.
        say: gets a line now and then.

    Raises:
        JobError: the server cannot stage parts, refuses the messages, or a task failed.
    """
    connection = get_connection(reach)
    if not connection.is_slipstream:
        raise JobError("this server cannot take staged parts; a copy that is made exactly once needs Slipstream")
    done = Copied()
    for number, wave in enumerate(waves(spark, sources), 1):
        items = [_StagePart(reach, stream, name, part, one, read) for part, one in enumerate(wave)]
        staged = [cast(StagedPart, part) for part in run_tasks(spark, items, _stage) if part["count"]]
        _commit(reach, stream, name, number, staged, done)
        copied = f"{counted(done.messages, 'message')} in {counted(done.batches, 'part')}"
        say(f"{stream}: {copied}, last sequence {done.last_seq:,}")
    return done


def _stage(item: _StagePart) -> Result:
    """In a worker: read a source and stage it."""

    def stage() -> Result:
        client = get_connection(item.reach).client
        with client.stage(item.stream, item.txn, part=item.part) as part:
            for batch in item.read(item.source):
                part.write(batch)
            return dict(part.close())

    return again(item.reach, stage)


def _commit(reach: Reach, stream: str, name: str, number: int, staged: list[StagedPart], done: Copied) -> None:
    try:
        result = retrying(
            reach,
            RETRY_NS,
            lambda connection: connection.client.commit(stream, name, number, staged),
        )
    except BulkError as error:
        raise JobError(f"{stream} refused the messages: {reason(error)}") from error
    done.batches += 1
    if result.duplicate:
        done.repeated_batches += 1
        return
    done.messages += result.count
    if result.count:
        done.first_seq = done.first_seq or result.first_seq
        done.last_seq = result.last_seq
