"""`dlq`: dead letters by cause, and back to where they came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slipstream.bulk import BulkError
from slipstream.spark.jobs.copying import Copied, copied_upto, copy_into, copy_name, open_target
from slipstream.spark.jobs.dead_letters import Goal, Letter, open_letter
from slipstream.spark.jobs.ranges import RETRY_NS, ReadRange, again, plan_stream, read_batches, reason, stream_facts
from slipstream.spark.jobs.report import Report, Say, quiet
from slipstream.spark.jobs.tasks import JobError, Result, run_tasks, waves
from slipstream.spark.runtime.connection import retrying
from slipstream.spark.runtime.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["dlq"]

_CAUSES_MAX: Final = 100_000


@dataclass(frozen=True)
class _Letters:
    """Some dead letters, and the stream they may go back to."""

    piece: ReadRange
    goal: Goal | None = None
    before: int = 0  # letters up to here were published again by earlier runs

    @property
    def last(self) -> int:
        return self.piece.last


def dlq(
    spark: SparkSession,
    stream: str,
    *,
    reach: Reach | None = None,
    redrive: str | None = None,
    delete: bool = False,
    again: bool = False,
    name: str = "",
    say: Say = quiet,
) -> Report:
    """Count dead letters by cause; publish them again.

    Letters of consumers and of the Spark sink are understood: see `dead_letters`. A letter of the sink that the stream
    cannot take (another subject, a payload that was cut) stays where it is and is counted.

    Args:
        spark: the session.
        stream: that keeps the dead letters.
        reach: the server.
        redrive: name of a stream: its letters are published again on their original subjects, each once, however often
            this is run.
        delete: remove from the dead letters what was published again.
        again: publish once more what was published again before.
        name: another name makes the same redrive a new one.
        say: gets a line now and then.

    Raises:
        JobError: the stream cannot be read, or the letters cannot be published.
    """
    report = Report("dlq")
    reach = reach or Reach()
    facts = stream_facts(reach, stream)
    goal, target, before = None, None, 0
    if redrive is not None:
        place = stream_facts(reach, redrive)
        goal = Goal.of(_ask(reach, f"STREAM.INFO.{redrive}", {})["config"])
        txn = copy_name("redrive", facts.name, facts.identity, name)
        target = open_target(spark, reach, place, txn, again=again, copied=False)
        fence = copied_upto(target)
        before = fence.batch_id if fence is not None else 0

    def letters_above(sequence: int) -> list[_Letters]:
        pieces = plan_stream(reach, facts, max(facts.first, sequence + 1), facts.last)
        return [_Letters(piece, goal, before) for piece in pieces]

    causes: Counter[tuple[str, ...]] = Counter()
    unfit = 0
    for wave in waves(spark, letters_above(0)):
        for result in run_tasks(spark, wave, _count):
            unfit += result["unfit"]
            for *cause, count in result["causes"]:
                causes[tuple(cause)] += count
    report.figures = {"stream": stream, "letters": sum(causes.values()), "causes": len(causes)}
    report.tables["by_cause"] = [
        {**dict(zip(("stream", "consumer", "reason", "subject"), cause, strict=True)), "letters": count}
        for cause, count in causes.most_common()
    ]
    if target is not None:
        done = copy_into(spark, target, letters_above, _read, say=say)
        report.ok = not done.left_out
        report.figures |= {
            "copied_before": done.before,
            "copied_upto": done.upto,
            "redriven": done.messages,
            "left_out": done.left_out,
            "not_redriven": unfit,
        }
        if delete:
            report.figures["deleted"] = 0 if done.left_out else _delete(reach, stream, letters_above(0), done)
    return report.finish()


def _count(item: _Letters) -> Result:
    def count() -> Result:
        found: Counter[tuple[str, ...]] = Counter()
        unfit = 0
        for sequence, letter, size in _opened(item.piece):
            found[letter.cause] += 1
            if len(found) > _CAUSES_MAX:
                raise JobError(f"there are more than {_CAUSES_MAX:,} causes")
            if item.goal is not None and sequence > item.before and not letter.is_consumers:
                unfit += not item.goal.takes(letter, size)
        return {"causes": [[*cause, number] for cause, number in found.items()], "unfit": unfit}

    return again(item.piece.reach, count)


def _opened(piece: ReadRange) -> Iterator[tuple[int, Letter, int]]:
    """Sequence, letter and bytes of payload, one after the other."""
    for batch in read_batches(piece, ("seq", "headers", "size")):
        rows = (batch.column(name).to_pylist() for name in ("seq", "headers", "size"))
        for sequence, headers, size in zip(*rows, strict=True):
            yield sequence, open_letter(headers), size


def _read(item: _Letters) -> Iterator[pa.RecordBatch]:
    """In a worker: letters of one stream as the messages they were."""
    import pyarrow as pa

    from slipstream.bulk.arrow import HEADERS_TYPE

    assert item.goal is not None
    for batch in read_batches(item.piece, ("headers", "payload", "size")):
        letters = [open_letter(headers) for headers in batch.column("headers").to_pylist()]
        sizes = batch.column("size").to_pylist()
        wanted = [row for row, one in enumerate(letters) if item.goal.takes(one, sizes[row])]
        if wanted:
            arrays = [
                pa.array([letters[row].subject for row in wanted], pa.string()),
                pa.array([letters[row].headers for row in wanted], HEADERS_TYPE),
                batch.column("payload").take(pa.array(wanted)),
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=["subject", "headers", "payload"])


def _delete(reach: Reach, stream: str, letters: list[_Letters], done: Copied) -> int:
    """Remove letters that were published again.

    Which letters of consumers that are follows from the letters alone, so those of earlier runs go as well. A letter of
    the sink may have been left where it was by an earlier run, when the stream could not take it; so only those of this
    run go.
    """
    deleted = 0
    for item in letters:
        assert item.goal is not None
        for sequence, letter, size in _opened(item.piece):
            is_of_this_run = done.before < sequence <= done.upto
            if item.goal.takes(letter, size) and (is_of_this_run or (letter.is_consumers and sequence <= done.upto)):
                try:
                    _ask(reach, f"STREAM.MSG.DELETE.{stream}", {"seq": sequence, "no_erase": True})
                except BulkError as error:
                    raise JobError(f"letter {sequence} of {stream} cannot be deleted: {reason(error)}") from error
                deleted += 1
    return deleted


def _ask(reach: Reach, call: str, body: dict[str, object]) -> dict[str, Any]:
    return retrying(reach, RETRY_NS, lambda connection: connection.request(call, body))
