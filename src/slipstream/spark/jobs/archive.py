"""`archive`: a stream into a lake table, exactly once, from where the last run stopped.

The driver plans what is new, workers write Parquet files, and a commit of the table's log names them together with
the sequence they reach. A run that dies leaves files that no version names (`compact` and `erase` sweep them) and the
next run begins where the last commit ended. After a commit the server may drop what is archived: that is tiering.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slipstream.bulk import BulkError
from slipstream.spark.connection import get_connection, retrying
from slipstream.spark.jobs.ranges import (
    RETRY_NS,
    ReadRange,
    StreamFacts,
    again,
    plan_stream,
    read_batches,
    stream_facts,
)
from slipstream.spark.jobs.report import Report, Say, counted, quiet
from slipstream.spark.jobs.tasks import JobError, Result, at_once, run_tasks, waves
from slipstream.spark.lake import Archived, Lake, LakeError, LakeFile, create_lake, open_lake
from slipstream.spark.target import Reach

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["archive"]

_HOLD_SECONDS = 600
_OF_ANOTHER = "the table at {place} holds stream {stream} ({identity}), not this one ({other})"


@dataclass(frozen=True)
class _WriteFile:
    piece: ReadRange
    directory: str
    codec: str


def archive(
    spark: SparkSession,
    stream: str,
    location: str,
    *,
    reach: Reach | None = None,
    format: str = "delta",
    codec: str = "zstd",
    upto: int | None = None,
    target_bytes: int = 128 << 20,
    drop: bool = False,
    keep: int = 0,
    say: Say = quiet,
) -> Report:
    """Append to a lake table what the stream has and the table has not.

    Args:
        spark: the session.
        stream: its name.
        location: directory of the table; made when it is not there.
        reach: the server, by default the local one.
        format: of a new table, `delta` or `parquet`.
        codec: of the files: `zstd`, `snappy` or `none`.
        upto: last sequence to archive; by default the last one there is.
        target_bytes: about so many bytes of messages a file.
        drop: let the server remove what is archived.
        keep: messages to leave on the server then.
        say: gets a line now and then.

    Raises:
        JobError: the stream cannot be read, messages were removed before they could be archived, or a task failed.
        LakeError: the table belongs to another stream, or somebody else writes to it.
    """
    reach = reach or Reach()
    report = Report("archive")
    facts = stream_facts(reach, stream)
    lake = _lake(location, facts, format)
    done = lake.facts.archived_upto
    last = min(facts.last, upto) if upto is not None else facts.last
    if done and facts.first > done + 1 and facts.messages:
        raise JobError(
            f"messages {done + 1} to {facts.first - 1} of {stream} were removed before they were archived; "
            "archive more often or give the stream higher limits, and begin a new table for the rest"
        )
    rows = size = files = 0
    with _held(reach, stream, done + 1):
        pieces = plan_stream(reach, facts, done + 1, last, target_bytes=target_bytes, at_once=at_once(spark))
        for wave in waves(spark, pieces):
            results = run_tasks(spark, [_WriteFile(piece, location, codec) for piece in wave], _write)
            added = [LakeFile(**result["file"]) for result in results if result["file"] is not None]
            lake.commit(lake.facts.upto(wave[-1].last), add=added, operation="archive")
            rows += sum(file.rows for file in added)
            size += sum(file.size for file in added)
            files += len(added)
            written = f"{counted(rows, 'message')} in {counted(files, 'file')}"
            say(f"archived up to {wave[-1].last:,} of {last:,}: {written}")
        if last > lake.facts.archived_upto:
            lake.commit(lake.facts.upto(last), operation="archive")  # the rest of the range has no messages
    if drop:
        report.figures["dropped"] = _drop(reach, stream, lake.facts.archived_upto + 1, keep)
    archived = lake.facts.archived_upto
    report.figures = {
        "stream": stream,
        "table": location,
        "format": lake.format,
        "version": lake.version,
        "first_seq": done + 1,
        "archived_upto": archived,
        "messages": rows,
        "files": files,
        "bytes": size,
        **report.figures,
    }
    return report.finish()


def _lake(location: str, facts: StreamFacts, kind: str) -> Lake:
    try:
        lake = open_lake(location)
    except LakeError:
        return create_lake(location, Archived(facts.name, facts.identity), kind)
    if lake.facts.identity != facts.identity:
        known = lake.facts
        text = _OF_ANOTHER.format(place=location, stream=known.stream, identity=known.identity, other=facts.identity)
        raise LakeError(text)
    return lake


def _write(item: _WriteFile) -> Result:
    """In a worker: one piece of the stream into one file."""
    from slipstream.spark.lake.files import COLUMNS, write_file

    def write() -> Result:
        file = write_file(item.directory, read_batches(item.piece, COLUMNS), codec=item.codec)
        return {"file": None if file is None else file.as_json()}

    return again(item.piece.reach, write)


@contextmanager
def _held(reach: Reach, stream: str, first: int) -> Iterator[None]:
    """Keep limits from removing what is being archived, where the server can."""
    connection = get_connection(reach)
    if not connection.is_slipstream:
        yield
        return
    hold = connection.client.hold(stream, first, ttl_s=_HOLD_SECONDS)
    try:
        yield
    finally:
        with suppress(BulkError):
            get_connection(reach).client.release(stream, hold)


def _drop(reach: Reach, stream: str, before: int, keep: int) -> int:
    """Purge the stream up to the archived sequence, leaving the newest `keep` messages of it."""

    def purge() -> int:
        facts = stream_facts(reach, stream)
        limit = min(before, facts.last + 1 - keep) if keep else before
        if limit <= facts.first:
            return 0
        call = f"STREAM.PURGE.{stream}"
        answer = retrying(reach, RETRY_NS, lambda connection: connection.request(call, {"seq": limit}))
        return int(answer["purged"])

    return again(reach, purge)
