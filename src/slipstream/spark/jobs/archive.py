"""`archive`: a stream into a lake table, exactly once, from where the last run stopped.

The driver plans what is new, workers write Parquet files, and a commit of the table's log names them together with
the sequence they reach. A run that dies leaves files that no version names (`compact` and `erase` sweep them) and the
next run begins where the last commit ended. An erasure that comes in between makes a run forget what it has read and
not committed, and read again. After a commit, and when the table was found to be whole, the server may drop what is
archived: that is tiering.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from slipstream.spark.jobs.held import held
from slipstream.spark.jobs.ranges import (
    RETRY_NS,
    ReadRange,
    StreamNow,
    again,
    plan_stream,
    read_batches,
    stream_facts,
)
from slipstream.spark.jobs.report import Report, Say, counted, quiet
from slipstream.spark.jobs.tasks import JobError, Result, at_once, run_tasks, waves
from slipstream.spark.lake import (
    Archived,
    Lake,
    LakeConflict,
    LakeError,
    LakeFile,
    NoLake,
    Work,
    create_lake,
    is_erased,
    open_lake,
    working,
)
from slipstream.spark.runtime.connection import retrying
from slipstream.spark.runtime.target import Reach

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["archive"]

_ATTEMPTS = 20  # each is a version that somebody else made
_OF_ANOTHER = "the table at {place} holds stream {stream} ({identity}), not this one ({other})"


@dataclass(frozen=True)
class _WriteFile:
    piece: ReadRange
    directory: str
    codec: str
    job: str


@dataclass
class _Done:
    """What a run has archived."""

    rows: int = 0
    size: int = 0
    files: list[LakeFile] = field(default_factory=list)
    missing: str = ""  # sequences that were removed before they could be archived


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
    accept_gap: bool = False,
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
        accept_gap: go on when messages were removed before they could be archived; the table lacks them.
        say: gets a line now and then.

    Raises:
        JobError: the stream cannot be read, messages were removed before they could be archived, or a task failed.
        LakeError: the table belongs to another stream, or somebody else changes it all the time.
    """
    reach = reach or Reach()
    report = Report("archive")
    facts = stream_facts(reach, stream)
    lake = _lake(location, facts, format)
    begun, rows_before = lake.facts, sum(file.rows for file in lake.files())
    last = min(facts.last, upto) if upto is not None else facts.last
    done = _Done()
    with working(lake, "archive") as work, held(reach, stream, begun.archived_upto + 1):
        run = _Run(spark, reach, stream, last, work, codec, target_bytes, accept_gap, say, done)
        for _ in range(_ATTEMPTS):
            if run.go():
                break
            say(f"{location} or {stream} was changed by somebody else; reading again what is not committed")
        else:
            raise LakeError(f"{location} is changed all the time by somebody else; try again later")
    archived = lake.facts.archived_upto
    if drop:
        _check(location, archived, rows_before + done.rows, begun)
        report.figures["dropped"] = _drop(reach, stream, archived + 1, keep)
    rows, size, files = done.rows, done.size, len(done.files)
    report.figures = {
        "stream": stream,
        "table": location,
        "format": lake.format,
        "version": lake.version,
        "first_seq": begun.archived_upto + 1,
        "archived_upto": archived,
        "messages": rows,
        "files": files,
        "bytes": size,
        **({"missing": done.missing} if done.missing else {}),
        **report.figures,
    }
    return report.finish()


class _Gap(JobError):
    """The stream begins behind the end of the table."""

    def __init__(self, stream: str, first: int, last: int) -> None:
        super().__init__(
            f"messages {first} to {last} of {stream} were removed before they were archived; archive more often or "
            "give the stream higher limits. Accept the gap to go on without them (--accept-gap), or begin a new table"
        )
        self.missing = f"{first}-{last}"


@dataclass
class _Run:
    """One run: everything it needs, and what it has done."""

    spark: SparkSession
    reach: Reach
    stream: str
    last: int
    work: Work
    codec: str
    target_bytes: int
    accept_gap: bool
    say: Say
    done: _Done

    def go(self) -> bool:
        """Archive from where the table ends; False if something changed so that this has to begin anew."""
        lake = self.work.lake
        facts = stream_facts(self.reach, self.stream)
        lake.reload()  # after the stream: what that has no more, another run may just have archived
        known = lake.facts
        try:
            _check_front(lake, facts)
        except _Gap as gap:
            if not self.accept_gap:
                raise
            self.done.missing = gap.missing
        pieces = plan_stream(
            self.reach,
            facts,
            known.archived_upto + 1,
            self.last,
            target_bytes=self.target_bytes,
            at_once=at_once(self.spark),
        )
        for wave in waves(self.spark, pieces):
            items = [_WriteFile(piece, lake.location, self.codec, self.work.job) for piece in wave]
            results = run_tasks(self.spark, items, _write)
            if not all(result["is_whole"] for result in results):
                # Somebody deletes messages, or has archived and dropped them; the front tells if they are lost.
                self.work.discard()
                return False
            added = [LakeFile(**result["file"]) for result in results if result["file"] is not None]
            if not self._commit(known, wave[-1].last, added):
                return False
            known = known.upto(wave[-1].last)
            self.done.rows += sum(file.rows for file in added)
            self.done.size += sum(file.size for file in added)
            self.done.files += added
            written = f"{counted(self.done.rows, 'message')} in {counted(len(self.done.files), 'file')}"
            self.say(f"archived up to {wave[-1].last:,} of {self.last:,}: {written}")
        # The rest of the range has no messages.
        return known.archived_upto >= self.last or self._commit(known, self.last, [])

    def _commit(self, known: Archived, upto: int, added: Sequence[LakeFile]) -> bool:
        """Make a version, unless what was read may have been erased or archived by somebody else meanwhile."""
        lake = self.work.lake
        for _ in range(_ATTEMPTS):
            if (lake.facts.erasures, lake.facts.archived_upto) != (known.erasures, known.archived_upto):
                break
            try:
                self.work.commit(lake.facts.upto(upto), add=added, operation="archive")
                return True
            except LakeConflict:
                lake.reload()
        self.work.discard()
        return False


def _check_front(lake: Lake, facts: StreamNow) -> None:
    """Look whether the stream still has what follows the archived messages."""
    done = lake.facts.archived_upto
    # Without messages the first sequence is that of the next one.
    if done and facts.first > done + 1 and not is_erased(lake.location, done + 1, facts.first - 1):
        raise _Gap(facts.name, done + 1, facts.first - 1)


def _check(location: str, archived: int, rows: int, begun: Archived) -> None:
    """Look at the table as a reader would, before anything is removed from the server.

    Raises:
        LakeError: the table lacks something.
    """
    lake = open_lake(location)
    erased = lake.facts.erased - begun.erased
    found = sum(file.rows for file in lake.files())
    if lake.facts.archived_upto < archived or (lake.facts.archived_upto == archived and found < rows - erased):
        raise LakeError(
            f"{location} has {found:,} messages up to {lake.facts.archived_upto:,} instead of {rows - erased:,} up to "
            f"{archived:,}; nothing was dropped from the server"
        )
    lake.check_content()


def _lake(location: str, facts: StreamNow, kind: str) -> Lake:
    try:
        lake = open_lake(location)
    except NoLake:
        return create_lake(location, Archived(facts.name, facts.identity), kind)
    if lake.facts.identity != facts.identity:
        known = lake.facts
        text = _OF_ANOTHER.format(place=location, stream=known.stream, identity=known.identity, other=facts.identity)
        raise LakeError(text)
    return lake


def _write(item: _WriteFile) -> Result:
    """In a worker: one piece of the stream into one file; tells if messages that were planned are gone."""
    from slipstream.spark.lake.files import COLUMNS, write_file

    piece = replace(item.piece, messages=None)

    def write() -> Result:
        file = write_file(item.directory, read_batches(piece, COLUMNS), job=item.job, codec=item.codec)
        rows = file.rows if file else 0
        is_whole = item.piece.messages in (None, rows)
        return {"file": None if file is None else file.as_json(), "is_whole": is_whole}

    return again(piece.reach, write)


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
