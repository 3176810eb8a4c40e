"""`replay`: messages of an archive back into a stream, by sequence, time or subject."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slipstream.spark.jobs.copying import copy_into, copy_name, open_target
from slipstream.spark.jobs.ranges import stream_facts
from slipstream.spark.jobs.report import Report, Say, quiet
from slipstream.spark.jobs.tasks import JobError
from slipstream.spark.lake import Lake, Wish, open_lake
from slipstream.spark.lake.origins import CONTENT, MARKED, with_origins
from slipstream.spark.lake.places import is_object_store
from slipstream.spark.runtime.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["replay"]


@dataclass(frozen=True)
class _FilePart:
    path: str
    last: int  # sequence in it
    wish: Wish
    mark: bool


def replay(
    spark: SparkSession,
    location: str,
    stream: str,
    *,
    reach: Reach | None = None,
    wish: Wish | None = None,
    version: int | None = None,
    mark: bool = False,
    again: bool = False,
    name: str = "",
    say: Say = quiet,
) -> Report:
    """Publish archived messages into a stream, in their order, exactly once.

    A second run adds what the archive has got since the first. What makes it another replay is another archive, another
    beginning, other times or subjects; not a later end, other files, or marks.

    Messages are equal to the byte. Their message ids are kept, and two with the same one both arrive: the stream that
    was archived had taken them both. A roll-up, such as a purged key, removes older messages of its subject as it did
    there.

    Args:
        spark: the session.
        location: of the archive.
        stream: where to; its subjects must cover those of the messages.
        reach: the server.
        wish: which messages; all by default.
        version: of the archive; the newest by default.
        mark: add headers that say where a message was: `Nats-Orig-Stream`, `-Sequence` and `-Time-Stamp`. Without them
            the copy is equal to the byte.
        again: publish once more what was published before.
        name: another name makes the same replay a new one.
        say: gets a line now and then.

    Raises:
        JobError: the stream cannot take the messages, or a task failed.
        LakeError: there is no such archive or version.
    """
    report = Report("replay")
    reach, wish = reach or Reach(), wish or Wish()
    lake = open_lake(location)
    version = lake.version if version is None else version
    files = lake.select(wish, version)
    goal = stream_facts(reach, stream)

    def parts_above(sequence: int) -> list[_FilePart]:
        above = replace(wish, first_seq=max(wish.first_seq or 1, sequence + 1))
        parts: list[_FilePart] = []
        reached = 0
        for file in sorted(files, key=lambda file: file.first_seq):
            if file.first_seq <= reached:
                raise JobError(f"{lake.path_of(file)} repeats sequences of another file: the archive is damaged")
            reached = file.last_seq
            last = reached if wish.last_seq is None else min(reached, wish.last_seq)
            if above.may_hold(file) and last > sequence:
                parts.append(_FilePart(lake.path_of(file), last, above, mark))
        return parts

    selects = (wish.first_seq or 1, wish.start_ns, wish.end_ns, sorted(wish.subjects))
    txn = copy_name("replay", _table_id(lake), lake.facts.identity, selects, name)
    target = open_target(spark, reach, goal, txn, again=again)
    done = copy_into(spark, target, parts_above, _read, say=say)
    report.figures = {
        "table": location,
        "version": version,
        "files": len(files),
        "stream": stream,
        "copied_before": done.before,
        "copied_upto": done.upto,
        "messages": done.messages,
        "left_out": done.left_out,
        "batches": done.batches,
        "first_seq": done.first_seq,
        "last_seq": done.last_seq,
    }
    report.ok = not done.left_out
    return report.finish()


def _table_id(lake: Lake) -> str:
    """What tells an archive from another one of the same stream: a Delta table has a number, others have a place."""
    if lake.format != "delta":
        return lake.location if is_object_store(lake.location) else os.path.realpath(lake.location)
    from deltalake import DeltaTable

    return str(DeltaTable(lake.location).metadata().id)


def _read(part: _FilePart) -> Iterator[pa.RecordBatch]:
    from slipstream.spark.lake.files import read_file

    for batch in read_file(part.path, MARKED if part.mark else CONTENT, part.wish):
        yield with_origins(batch) if part.mark else batch
