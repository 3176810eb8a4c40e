"""`erase`: messages that have to go, from the stream and from its archive, with a record of what was erased.

    1. an intent is written beside the table: what, when, on whose word;
    2. the stream: every message that matches is deleted, its bytes overwritten by the server;
    3. the archive: only files that hold such messages are written anew without them, one commit, old files removed,
       and what the table's log says about their subjects;
    4. the intent becomes the record: counts, sequences as ranges, and a digest of all this.

Each step may be done again: after a crash the same call finishes what an open intent began. There is a commit also
when no file is hit: a job that has read such messages from the stream and not committed them yet is told by it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from slipstream.spark.jobs.deleting import delete_messages
from slipstream.spark.jobs.ranges import ReadRange, again, plan_stream, read_batches, stream_facts
from slipstream.spark.jobs.report import Report, Say, counted, quiet
from slipstream.spark.jobs.tasks import JobError, Result, run_tasks
from slipstream.spark.lake import (
    LakeConflict,
    LakeError,
    LakeFile,
    Vacuumed,
    Wish,
    Work,
    note_erased,
    open_lake,
    vacuum,
    working,
)
from slipstream.spark.lake.erasures import RECORDS
from slipstream.spark.lake.places import Place, joined, place_at
from slipstream.spark.runtime.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["erase"]

_RECORDS_HERE = "erasures"  # where there is no table
_ATTEMPTS = 20  # each is a version that somebody else made


@dataclass(frozen=True)
class _RewriteWithout:
    directory: str
    path: str
    wish: Wish
    job: str


@dataclass(frozen=True)
class _Rewritten:
    """What became of a file."""

    erased: int
    file: LakeFile | None  # without the erased messages; None if nothing is left, or nothing was erased


def erase(
    spark: SparkSession | None,
    subjects: Sequence[str],
    *,
    stream: str | None = None,
    location: str | None = None,
    reach: Reach | None = None,
    reason: str = "",
    record: str | None = None,
    note: Callable[[Sequence[Sequence[int]]], None] | None = None,
    say: Say = quiet,
) -> Report:
    """Erase all messages whose subject matches.

    Args:
        spark: the session; None: files are written by this process, one after the other.
        subjects: filters, with or without wildcards; at least one.
        stream: erase there; the stream must allow deletions.
        location: erase in this archive.
        reach: the server.
        reason: kept in the record.
        record: directory to keep the record in; by default `_erasures` in the archive, else `erasures` here.
        note: gets the ranges of sequences that are about to be deleted from the stream; by default the archive does.
        say: gets a line now and then.

    Raises:
        JobError: nothing is named, or a message could not be erased; the intent stays, and a second call goes on.
        LakeError: the archive is changed all the time by somebody else.
    """
    if not subjects or (stream is None and location is None):
        raise JobError("name the subjects to erase, and a stream, an archive, or both")
    report = Report("erase")
    reach, wish = reach or Reach(), Wish(subjects=tuple(subjects))
    lake = open_lake(location) if location else None
    about: dict[str, Any] = {
        "subjects": list(subjects),
        "stream": stream,
        "archive": location,
        "reason": reason,
        "asked_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    records = record or (joined(location, RECORDS) if location else _RECORDS_HERE)
    intent = _intend(place_at(records), about)
    if note is None and location:
        note = partial(note_erased, location)
    live = _erase_in_stream(reach, stream, subjects, note, say) if stream else []
    hit: dict[str, _Rewritten] = {}
    vacuumed = Vacuumed(0, 0)
    if lake is not None:
        with working(lake, "erase") as work:
            hit = _erase_in_archive(spark, work, wish, say)
        vacuumed = vacuum(lake)  # the old files hold what has to go
        if vacuumed.in_flight:
            files = counted(vacuumed.in_flight, "file")
            say(f"{location}: {files} of jobs that still run; should one of them die, erase again ten minutes later")
    about |= {
        "stream_messages": len(live),
        "stream_sequences": _ranges(live),
        "archive_messages": sum(one.erased for one in hit.values()),
        "archive_files": len(hit),
        "files_in_flight": vacuumed.in_flight,
        "done_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    about["sha256"] = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    report.figures["record"] = _finish(records, intent, about)
    report.figures |= {
        "stream_messages": about["stream_messages"],
        "archive_messages": about["archive_messages"],
        "archive_files": about["archive_files"],
        "files_in_flight": about["files_in_flight"],
        "sha256": about["sha256"],
    }
    return report.finish()


def _erase_in_stream(
    reach: Reach,
    stream: str,
    subjects: Sequence[str],
    note: Callable[[Sequence[Sequence[int]]], None] | None,
    say: Say,
) -> list[int]:
    facts = stream_facts(reach, stream)
    sequences: list[int] = []
    for piece in plan_stream(reach, facts, facts.first, facts.last, subjects=subjects):
        sequences += again(reach, partial(_sequences, piece))
    if note is not None and sequences:
        note(_ranges(sequences))
    delete_messages(reach, stream, sequences, say)
    return sequences


def _sequences(piece: ReadRange) -> list[int]:
    return [sequence for batch in read_batches(piece, ("seq",)) for sequence in batch.column("seq").to_pylist()]


def _erase_in_archive(spark: SparkSession | None, work: Work, wish: Wish, say: Say) -> dict[str, _Rewritten]:
    """Write the files that hold such messages anew; returns what became of each, by its path."""
    lake, seen = work.lake, dict[str, _Rewritten]()
    for _ in range(_ATTEMPTS):
        candidates = lake.select(wish)
        seen |= _rewritten(spark, work, [file for file in candidates if file.path not in seen], wish)
        if any(file.path not in seen for file in candidates):
            lake.reload()
            lake.check_files(lake.files())
            continue
        hit = [file for file in candidates if seen[file.path].erased]
        erased = sum(seen[file.path].erased for file in hit)
        added = [one for one in (seen[file.path].file for file in hit) if one is not None]
        facts = replace(lake.facts, erased=lake.facts.erased + erased, erasures=lake.facts.erasures + 1)
        try:
            work.commit(facts, add=added, remove=hit, operation="erase")
        except LakeConflict:
            lake.reload()  # there may be new files, and files put together
            continue
        if hit:
            files = f"{len(hit):,} of {counted(len(candidates), 'file')}"
            say(f"{lake.location}: {counted(erased, 'message')} erased in {files}")
        return {file.path: seen[file.path] for file in hit}
    raise LakeError(f"{lake.location} is changed all the time by somebody else; try again later")


def _rewritten(spark: SparkSession | None, work: Work, files: Sequence[LakeFile], wish: Wish) -> dict[str, _Rewritten]:
    lake = work.lake
    items = [_RewriteWithout(lake.location, lake.path_of(file), wish, work.job) for file in files]
    results = run_tasks(spark, items, _rewrite_without)
    return {
        file.path: _Rewritten(result["erased"], None if result["file"] is None else LakeFile(**result["file"]))
        for file, result in zip(files, results, strict=True)
        if "is_gone" not in result
    }


def _rewrite_without(item: _RewriteWithout) -> Result:
    """In a worker: look whether a file holds such messages; if so, write it anew without them."""
    try:
        return _without(item)
    except FileNotFoundError:
        return {"is_gone": True}  # somebody has replaced it and removed it


def _without(item: _RewriteWithout) -> Result:
    import pyarrow.compute as pc

    from slipstream.spark.lake.files import matching, read_file, read_rows, schema_of, write_file

    found = 0
    for batch in read_file(item.path, ["subject"]):
        found += pc.sum(matching(batch.column(0), item.wish.subjects)).as_py() or 0
    if not found:
        return {"erased": 0, "file": None}

    schema = schema_of([item.path])

    def kept() -> Iterator[pa.RecordBatch]:
        for batch in read_rows(item.path, schema):
            yield batch.filter(pc.invert(matching(batch.column("subject"), item.wish.subjects)))

    written = write_file(item.directory, kept(), job=item.job, schema=schema)
    return {"erased": found, "file": None if written is None else written.as_json()}


def _intend(records: Place, record: dict[str, Any]) -> str:
    """Note what is about to be done, before anything is; the name of the note."""
    name = hashlib.sha256(json.dumps([record["subjects"], record["stream"]]).encode()).hexdigest()[:16]
    intent = f"{name}.intent.json"
    with suppress(FileExistsError):  # the same erasure, which did not end
        records.create(intent, _text(record))
    return intent


def _finish(location: str, intent: str, record: dict[str, Any]) -> str:
    records = place_at(location)
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    done = f"{moment}-{intent.partition('.')[0]}-{record['sha256'][:8]}.json"
    records.write(done, _text(record))
    records.remove(intent)  # the same erasure may run twice at a time
    return joined(location, done)


def _text(record: dict[str, Any]) -> bytes:
    return json.dumps(record, indent=2).encode()


def _ranges(sequences: list[int]) -> list[list[int]]:
    """Sequences as ranges, both ends inside."""
    ranges: list[list[int]] = []
    for sequence in sequences:
        if ranges and ranges[-1][1] == sequence - 1:
            ranges[-1][1] = sequence
        else:
            ranges.append([sequence, sequence])
    return ranges
