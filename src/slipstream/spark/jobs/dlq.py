"""`dlq`: dead letters by cause, and back to where they came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slipstream.bulk import BulkError
from slipstream.spark.connection import retrying
from slipstream.spark.jobs.copying import copy_into, copy_name
from slipstream.spark.jobs.ranges import RETRY_NS, ReadRange, again, plan_stream, read_batches, reason, stream_facts
from slipstream.spark.jobs.report import Report, Say, quiet
from slipstream.spark.jobs.tasks import JobError, Result, run_tasks, waves
from slipstream.spark.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["dlq"]

_PREFIX: Final = "Slipstream-Dlq-"
_CAUSE: Final = ("Stream", "Consumer", "Reason", "Subject")
_CAUSES_MAX: Final = 100_000


@dataclass(frozen=True)
class _Causes:
    piece: ReadRange


@dataclass(frozen=True)
class _Letters:
    piece: ReadRange
    stream: str  # only letters from there


def dlq(
    spark: SparkSession,
    stream: str,
    *,
    reach: Reach | None = None,
    redrive: str | None = None,
    delete: bool = False,
    name: str = "",
    say: Say = quiet,
) -> Report:
    """Count dead letters by cause; publish them again.

    Args:
        spark: the session.
        stream: that keeps the dead letters.
        reach: the server.
        redrive: name of a stream: its letters are published again on their original subjects, once.
        delete: remove from the dead letters what was published again.
        name: another name makes the same redrive a new one.
        say: gets a line now and then.

    Raises:
        JobError: the stream cannot be read, or the letters cannot be published.
    """
    report = Report("dlq")
    reach = reach or Reach()
    facts = stream_facts(reach, stream)
    pieces = plan_stream(reach, facts, facts.first, facts.last)
    causes: Counter[tuple[str, ...]] = Counter()
    for wave in waves(spark, pieces):
        for result in run_tasks(spark, [_Causes(piece) for piece in wave], _count):
            for *cause, count in result["causes"]:
                causes[tuple(cause)] += count
    report.figures = {"stream": stream, "letters": sum(causes.values()), "causes": len(causes)}
    report.tables["by_cause"] = [
        {**dict(zip(("stream", "consumer", "reason", "subject"), cause, strict=True)), "letters": count}
        for cause, count in causes.most_common()
    ]
    if redrive is not None:
        target = stream_facts(reach, redrive)
        txn = copy_name("redrive", facts.identity, target.identity, facts.first, facts.last, name)
        letters = [_Letters(piece, redrive) for piece in pieces]
        done = copy_into(spark, reach, redrive, txn, letters, _read, say=say)
        report.figures |= {"redriven": done.messages, "repeated_batches": done.repeated_batches}
        if delete:
            report.figures["deleted"] = _delete(reach, stream, letters)
    return report.finish()


def _count(item: _Causes) -> Result:
    def count() -> Result:
        found: Counter[tuple[str, ...]] = Counter()
        for batch in read_batches(item.piece, ("headers",)):
            for headers in batch.column("headers").to_pylist():
                fields = _fields(headers)
                found[tuple(fields.get(name, "") for name in _CAUSE)] += 1
                if len(found) > _CAUSES_MAX:
                    raise JobError(f"there are more than {_CAUSES_MAX:,} causes")
        return {"causes": [[*cause, number] for cause, number in found.items()]}

    return again(item.piece.reach, count)


def _read(item: _Letters) -> Iterator[pa.RecordBatch]:
    """In a worker: letters of one stream as the messages they were."""
    import pyarrow as pa

    from slipstream.bulk.arrow import HEADERS_TYPE

    for batch in read_batches(item.piece, ("headers", "payload")):
        all_headers = batch.column("headers").to_pylist()
        fields = [_fields(headers) for headers in all_headers]
        wanted = [number for number, one in enumerate(fields) if one.get("Stream") == item.stream and "Subject" in one]
        if wanted:
            headers = [_original(all_headers[number]) for number in wanted]
            arrays = [
                pa.array([fields[number]["Subject"] for number in wanted], pa.string()),
                pa.array(headers, HEADERS_TYPE),
                batch.column("payload").take(pa.array(wanted)),
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=["subject", "headers", "payload"])


def _delete(reach: Reach, stream: str, letters: list[_Letters]) -> int:
    deleted = 0
    for item in letters:
        for batch in read_batches(item.piece, ("seq", "headers")):
            sequences = batch.column("seq").to_pylist()
            for sequence, headers in zip(sequences, batch.column("headers").to_pylist(), strict=True):
                if _fields(headers).get("Stream") == item.stream:
                    body: dict[str, object] = {"seq": sequence, "no_erase": True}
                    try:
                        _ask(reach, f"STREAM.MSG.DELETE.{stream}", body)
                    except BulkError as error:
                        raise JobError(f"letter {sequence} of {stream} cannot be deleted: {reason(error)}") from error
                    deleted += 1
    return deleted


def _ask(reach: Reach, call: str, body: dict[str, object]) -> dict[str, Any]:
    return retrying(reach, RETRY_NS, lambda connection: connection.request(call, body))


def _fields(headers: list[tuple[str, list[str]]] | None) -> dict[str, str]:
    """What a dead letter says of itself."""
    return {
        name.removeprefix(_PREFIX): values[0] for name, values in headers or () if name.startswith(_PREFIX) and values
    }


def _original(headers: list[tuple[str, list[str]]] | None) -> list[tuple[str, list[str]]] | None:
    """The headers the message had: without what the dead letter added."""
    kept = [
        (name, [value for value in values if not value.startswith("dlq.")] if name == "Nats-Msg-Id" else values)
        for name, values in headers or ()
        if not name.startswith(_PREFIX)
    ]
    return [(name, values) for name, values in kept if values] or None
