"""`mirror`: a stream copied in bulk into another one, on the same or another server, and compared afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from slipstream.spark.jobs.audit import stream_blocks
from slipstream.spark.jobs.copying import copy_into, copy_name
from slipstream.spark.jobs.digest import combined
from slipstream.spark.jobs.ranges import ReadRange, plan_stream, read_batches, stream_facts
from slipstream.spark.jobs.report import Report, Say, quiet
from slipstream.spark.jobs.tasks import JobError
from slipstream.spark.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["mirror"]

_CONTENT = ("subject", "hdr_raw", "payload")


def mirror(
    spark: SparkSession,
    stream: str,
    target: str,
    *,
    reach: Reach | None = None,
    target_reach: Reach | None = None,
    first: int = 1,
    last: int | None = None,
    verify: bool = True,
    name: str = "",
    say: Say = quiet,
) -> Report:
    """Copy messages of a stream into another one, in their order, exactly once.

    Args:
        spark: the session.
        stream: where from.
        target: where to; its subjects must cover those of the messages.
        reach: server of the first, which may be a plain nats-server.
        target_reach: server of the second; the same by default.
        first: first sequence to copy.
        last: last sequence to copy; the last one by default.
        verify: compare what was copied, message by message, where the target was empty before.
        name: another name makes the same copy a new one.
        say: gets a line now and then.

    Raises:
        JobError: a stream cannot be read or written, or a task failed.
    """
    report = Report("mirror")
    reach = reach or Reach()
    target_reach = target_reach or reach
    source, goal = stream_facts(reach, stream), stream_facts(target_reach, target)
    if source.identity == goal.identity and reach == target_reach:
        raise JobError(f"{stream} would be copied into itself")
    low, high = max(first, source.first), min(last or source.last, source.last)
    pieces = plan_stream(reach, source, low, high)
    txn = copy_name("mirror", source.identity, goal.identity, low, high, name)
    done = copy_into(spark, target_reach, target, txn, pieces, _read, say=say)
    report.figures = {
        "stream": stream,
        "first_seq": low,
        "last_seq": high,
        "target": target,
        "messages": done.messages,
        "repeated_batches": done.repeated_batches,
        "target_last_seq": done.last_seq,
    }
    if verify and not goal.messages:
        _verify(spark, report, (reach, stream, low, high), (target_reach, target), done.first_seq)
    return report.finish()


def _read(piece: ReadRange) -> Iterator[pa.RecordBatch]:
    yield from read_batches(piece, _CONTENT)


def _verify(
    spark: SparkSession, report: Report, source: tuple[Reach, str, int, int], copy: tuple[Reach, str], offset: int
) -> None:
    """Compare whole copies: by blocks when sequences are the same, else by their number."""
    reach, stream, low, high = source
    ours = stream_blocks(spark, reach, stream, low, high, places=False)
    theirs = stream_blocks(spark, *copy, places=False)
    counts = sum(block.messages for block in ours), sum(block.messages for block in theirs)
    same_places = offset == low and not any(block.last - block.first + 1 != block.messages for block in ours)
    report.ok = counts[0] == counts[1] and (not same_places or combined(ours) == combined(theirs))
    report.figures |= {"verified": "digests" if same_places else "number", "equal": report.ok}
