"""`mirror`: a stream copied in bulk into another one, on the same or another server, and compared afterwards.

It goes on where the last run stopped, so it can be run again and again to keep the copy up to date. Digests are made
of what is read from the source and, afterwards, of what the target has stored in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slipstream.spark.jobs.copying import Copied, CopiedPart, copied_upto, copy_into, copy_name, open_target
from slipstream.spark.jobs.digest import CONTENT, ContentDigest
from slipstream.spark.jobs.held import held
from slipstream.spark.jobs.ranges import ReadRange, StreamNow, again, plan_stream, read_batches, stream_facts
from slipstream.spark.jobs.report import Report, Say, quiet
from slipstream.spark.jobs.tasks import JobError, Result, run_tasks, waves
from slipstream.spark.runtime.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["mirror"]

_DIFFERENCES_SHOWN = 20


@dataclass(frozen=True)
class _Stored:
    """Where in the target a part should be, and what it should be."""

    piece: ReadRange
    part: CopiedPart


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
    again: bool = False,
    name: str = "",
    say: Say = quiet,
) -> Report:
    """Copy what a stream has and an earlier run has not copied into another one, in order, exactly once.

    Messages are equal to the byte. Headers that asked something of the source (message ids, conditions, roll-ups) are
    kept and ask nothing of the target, except that a roll-up, such as a purged key, removes what earlier runs have
    copied and the source has removed.

    Args:
        spark: the session.
        stream: where from.
        target: where to; its subjects must cover those of the messages.
        reach: server of the first, which may be a plain nats-server.
        target_reach: server of the second; the same by default.
        first: first sequence to copy; with another one it is another copy.
        last: last sequence to copy; the last one by default.
        verify: read what this run has copied from the target, and compare it with what was read from the source.
        again: copy once more what was copied before.
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
    high = min(last or source.last, source.last)

    def pieces_above(sequence: int) -> list[ReadRange]:
        return plan_stream(reach, source, max(first, source.first, sequence + 1), high)

    txn = copy_name("mirror", source.name, source.identity, first, name)
    place = open_target(spark, target_reach, goal, txn, again=again)
    before = copied_upto(place)
    if not goal.messages and before is None:
        place = replace(place, rollups=None)  # what roll-ups would remove is not there, for the source has not got it
    if place.renames and verify:
        verify = False
        say(f"{target} stores messages under other subjects: what it has got cannot be compared")
    with held(reach, stream, max(first, before.batch_id + 1 if before else 1)):
        done = copy_into(spark, place, pieces_above, _read, digest=verify, say=say)
    report.figures = {
        "stream": stream,
        "target": target,
        "copied_before": done.before,
        "copied_upto": max(done.upto, high),
        "messages": done.messages,
        "left_out": done.left_out,
        "target_first_seq": done.first_seq,
        "target_last_seq": done.last_seq,
    }
    report.ok = not done.left_out
    if verify:
        _verify(spark, report, target_reach, goal, done)
    return report.finish()


def _read(piece: ReadRange) -> Iterator[pa.RecordBatch]:
    yield from read_batches(piece, CONTENT)


def _verify(spark: SparkSession, report: Report, reach: Reach, goal: StreamNow, done: Copied) -> None:
    """Compare every part that this run has copied with what is stored in its place."""
    checked = 0
    differences: list[dict[str, object]] = []
    for wave in waves(spark, done.parts):
        for part, found in zip(wave, run_tasks(spark, _stored(reach, goal, wave), _digest), strict=True):
            checked += found["count"]
            if (found["count"], found["digest"]) != (part.count, part.digest):
                last = part.first_seq + part.count - 1
                differences.append(
                    {"first_seq": part.first_seq, "last_seq": last, "copied": part.count, "found": found["count"]}
                )
    equal = not differences and not done.left_out
    report.ok = report.ok and equal
    report.figures |= {"verified": checked, "equal": equal}
    report.tables["differences"] = differences[:_DIFFERENCES_SHOWN]


def _stored(reach: Reach, goal: StreamNow, parts: Sequence[CopiedPart]) -> list[_Stored]:
    return [
        _Stored(ReadRange(reach, goal.name, goal.identity, part.first_seq, part.first_seq + part.count - 1), part)
        for part in parts
    ]


def _digest(item: _Stored) -> Result:
    """In a worker: what is stored where a part was copied to."""

    def digest() -> Result:
        made, count = ContentDigest(), 0
        for batch in read_batches(item.piece, CONTENT):
            made.add(batch)
            count += batch.num_rows
        return {"count": count, "digest": made.hexdigest()}

    return again(item.piece.reach, digest)
