"""Roll-ups among messages that are copied: what a bucket does when a key is purged.

A roll-up is a message that removes the older ones of its subject, or of the stream. The stream it was published to has
done that. A copy keeps the message with its header, and removes from the target what an earlier run has copied and the
roll-up has removed from the source meanwhile: so the target holds what the source holds. It may be done twice; a run
that goes on behind a commit does it for that commit once more, for whoever made it may have died in between.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from slipstream.bulk import BulkError, CommitResult, Fence
from slipstream.jetstream import headers
from slipstream.spark.jobs.ranges import (
    RETRY_NS,
    ReadRange,
    StreamNow,
    again,
    plan_stream,
    read_batches,
    reason,
    stream_facts,
)
from slipstream.spark.jobs.tasks import JobError, Result, run_tasks
from slipstream.spark.runtime.connection import Connection, retrying
from slipstream.spark.runtime.target import Reach

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["Rollups", "find_rollups"]

_HEADER: Final = "Nats-Rollup"
_WHOLE_STREAM: Final = ""  # instead of a subject


@dataclass(frozen=True)
class Rollups:
    """Does in one stream what roll-ups ask for."""

    spark: SparkSession
    reach: Reach
    facts: StreamNow

    def apply(self, commit: CommitResult, parts: Sequence[Result]) -> None:
        """After a commit: remove what the roll-ups in its parts remove. `parts` say which rows they are."""
        if commit.left_out:  # then rows have other places; those of the roll-ups can be looked up
            self.repeat(Fence(0, commit.first_seq, commit.last_seq, commit.count))
            return
        found: dict[str, int] = {}
        first = commit.first_seq
        for one in parts:
            found |= {subject: first + row for subject, row in one["rollups"].items()}
            first += one["part"]["count"]
        self._remove(found)

    def repeat(self, fence: Fence) -> None:
        """Do it once more for the messages of a commit."""
        if not fence.count:
            return
        now = stream_facts(self.reach, self.facts.name)
        pieces = plan_stream(self.reach, self.facts, max(fence.first_seq, now.first), min(fence.last_seq, now.last))
        found: dict[str, int] = {}
        for result in run_tasks(self.spark, [replace(one, messages=None) for one in pieces], _look):
            found |= result
        self._remove(found)

    def _remove(self, found: Mapping[str, int]) -> None:
        """Remove what is older than the roll-ups: sequences by subject."""

        def purge(connection: Connection) -> None:
            for subject, sequence in found.items():
                body: dict[str, object] = {"seq": sequence}
                if subject != _WHOLE_STREAM:
                    body["filter"] = subject
                connection.request(f"STREAM.PURGE.{self.facts.name}", body)

        try:
            retrying(self.reach, RETRY_NS, purge)
        except BulkError as error:
            raise JobError(f"{self.facts.name} refused to remove what was purged: {reason(error)}") from error


def _look(piece: ReadRange) -> Result:
    """In a worker: sequences of roll-ups in a range of the target."""

    def look() -> Result:
        found: dict[str, int] = {}
        for batch in read_batches(piece, ("seq", "subject", "hdr_raw")):
            sequences = batch.column("seq")
            found |= {subject: sequences[row].as_py() for subject, row in find_rollups(batch).items()}
        return found

    return again(piece.reach, look)


def find_rollups(batch: pa.RecordBatch, first_row: int = 0) -> dict[str, int]:
    """The last roll-up of each subject in a batch, by its row; columns `subject` and `hdr_raw`."""
    import pyarrow.compute as pc

    blocks, subjects = batch.column("hdr_raw"), batch.column("subject")
    found: dict[str, int] = {}
    for row in pc.indices_nonzero(pc.fill_null(pc.match_substring(blocks, _HEADER), False)).to_pylist():
        how = (headers.find(blocks[row].as_py(), _HEADER.encode()) or b"").lower()
        if how in (b"sub", b"all"):
            found[subjects[row].as_py() if how == b"sub" else _WHOLE_STREAM] = first_row + row
    return found
