"""`erase`: messages that have to go, from the stream and from its archive, with a record of what was erased.

    1. an intent is written beside the table: what, when, on whose word;
    2. the stream: every message that matches is deleted, its bytes overwritten by the server;
    3. the archive: only files that hold such messages are written anew without them, one commit, old files removed;
    4. the intent becomes the record: counts, sequences as ranges, and a digest of all this.

Each step may be done again: after a crash the same call finishes what an open intent began.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream.bulk import BulkError
from slipstream.spark.connection import retrying
from slipstream.spark.jobs.ranges import RETRY_NS, plan_stream, read_batches, reason, stream_facts
from slipstream.spark.jobs.report import Report, Say, counted, quiet
from slipstream.spark.jobs.tasks import JobError, Result, run_tasks
from slipstream.spark.lake import Lake, LakeFile, Wish, open_lake
from slipstream.spark.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["erase"]

_RECORDS = "_erasures"
_NOT_FOUND = (10037, 10057)


@dataclass(frozen=True)
class _RewriteWithout:
    directory: str
    path: str
    wish: Wish


def erase(
    spark: SparkSession,
    subjects: Sequence[str],
    *,
    stream: str | None = None,
    location: str | None = None,
    reach: Reach | None = None,
    reason: str = "",
    say: Say = quiet,
) -> Report:
    """Erase all messages whose subject matches.

    Args:
        spark: the session.
        subjects: filters, with or without wildcards; at least one.
        stream: erase there; the stream must allow deletions.
        location: erase in this archive.
        reach: the server.
        reason: kept in the record.
        say: gets a line now and then.

    Raises:
        JobError: nothing is named, or a message could not be erased; the intent stays, and a second call goes on.
        LakeError: the archive was changed by somebody else meanwhile.
    """
    if not subjects or (stream is None and location is None):
        raise JobError("name the subjects to erase, and a stream, an archive, or both")
    report = Report("erase")
    reach, wish = reach or Reach(), Wish(subjects=tuple(subjects))
    lake = open_lake(location) if location else None
    record: dict[str, Any] = {
        "subjects": list(subjects),
        "stream": stream,
        "archive": location,
        "reason": reason,
        "asked_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    intent = _intend(location, record) if location else None
    live = _erase_in_stream(reach, stream, subjects, say) if stream else []
    cold = _erase_in_archive(spark, lake, wish, say) if lake else []
    record |= {
        "stream_messages": len(live),
        "stream_sequences": _ranges(live),
        "archive_messages": sum(count for _, count in cold),
        "archive_files": len(cold),
        "done_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    record["sha256"] = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    if intent is not None:
        report.figures["record"] = _finish(intent, record)
    report.figures |= {
        "stream_messages": record["stream_messages"],
        "archive_messages": record["archive_messages"],
        "archive_files": record["archive_files"],
        "sha256": record["sha256"],
    }
    return report.finish()


def _erase_in_stream(reach: Reach, stream: str, subjects: Sequence[str], say: Say) -> list[int]:
    facts = stream_facts(reach, stream)
    sequences: list[int] = []
    for piece in plan_stream(reach, facts, facts.first, facts.last, subjects=subjects):
        for batch in read_batches(piece, ("seq",)):
            sequences += batch.column("seq").to_pylist()
    for number, sequence in enumerate(sequences, 1):
        _delete(reach, stream, sequence)
        if number % 1000 == 0 or number == len(sequences):
            say(f"{stream}: {number:,} of {counted(len(sequences), 'message')} erased")
    return sequences


def _delete(reach: Reach, stream: str, sequence: int) -> None:
    call = f"STREAM.MSG.DELETE.{stream}"
    try:
        retrying(reach, RETRY_NS, lambda connection: connection.request(call, {"seq": sequence}))
    except BulkError as error:
        if error.err_code not in _NOT_FOUND:
            raise JobError(f"message {sequence} of {stream} could not be erased: {reason(error)}") from error


def _erase_in_archive(spark: SparkSession, lake: Lake, wish: Wish, say: Say) -> list[tuple[str, int]]:
    """Write the files that hold such messages anew; returns the old ones, with how many messages went."""
    candidates = lake.select(wish)
    items = [_RewriteWithout(lake.location, lake.path_of(file), wish) for file in candidates]
    results = run_tasks(spark, items, _rewrite_without)
    hit = [(file, result) for file, result in zip(candidates, results, strict=True) if result["erased"]]
    if hit:
        added = [LakeFile(**result["file"]) for _, result in hit if result["file"] is not None]
        erased = sum(result["erased"] for _, result in hit)
        facts = replace(lake.facts, erased=lake.facts.erased + erased)
        lake.commit(facts, add=added, remove=[file for file, _ in hit], operation="erase")
        files = f"{len(hit):,} of {counted(len(candidates), 'file')}"
        say(f"{lake.location}: {counted(erased, 'message')} erased in {files}")
    lake.vacuum()  # the old files hold what has to go
    return [(file.path, result["erased"]) for file, result in hit]


def _rewrite_without(item: _RewriteWithout) -> Result:
    """In a worker: look whether a file holds such messages; if so, write it anew without them."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from slipstream.spark.lake.files import COLUMNS, matching, read_file, write_file

    with pq.ParquetFile(item.path) as file:
        found = 0
        for batch in file.iter_batches(columns=["subject"]):
            found += pc.sum(matching(batch.column(0), item.wish.subjects)).as_py() or 0
    if not found:
        return {"erased": 0, "file": None}

    def kept() -> Iterator[pa.RecordBatch]:
        for batch in read_file(item.path, COLUMNS):
            yield batch.filter(pc.invert(matching(batch.column("subject"), item.wish.subjects)))

    written = write_file(item.directory, kept())
    return {"erased": found, "file": None if written is None else written.as_json()}


def _intend(location: str, record: dict[str, Any]) -> Path:
    directory = Path(location) / _RECORDS
    directory.mkdir(exist_ok=True)
    name = hashlib.sha256(json.dumps([record["subjects"], record["stream"]]).encode()).hexdigest()[:16]
    intent = directory / f"{name}.intent.json"
    if not intent.exists():
        _write(intent, record)
    return intent


def _finish(intent: Path, record: dict[str, Any]) -> str:
    done = intent.with_name(f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{intent.name.partition('.')[0]}.json")
    _write(done, record)
    intent.unlink()
    return str(done)


def _write(path: Path, record: dict[str, Any]) -> None:
    unfinished = path.with_name(f".{path.name}")
    with open(unfinished, "w") as file:
        json.dump(record, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def _ranges(sequences: list[int]) -> list[list[int]]:
    """Sequences as ranges, both ends inside."""
    ranges: list[list[int]] = []
    for sequence in sequences:
        if ranges and ranges[-1][1] == sequence - 1:
            ranges[-1][1] = sequence
        else:
            ranges.append([sequence, sequence])
    return ranges
