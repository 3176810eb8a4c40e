"""Copies into a stream, exactly once: workers stage parts, the driver commits them in order, wave after wave.

    fence of the copy ──► sources above it ──► a wave is staged ──► committed as (fence, last sequence of the wave]
          ▲                                                              │ ok: that is the fence now
          └────────────── somebody else has come further ◄───────────────┘

A copy has a name that says what is copied, not how far. The number of a commit is the last sequence of the source that
it covers, and the target keeps it together with the messages. So whatever happens between two runs (a crash anywhere,
more cores, a source that has grown, an archive whose files were put together), the next one goes on behind the last
commit. A commit names the fence it goes on from, so of two copies at once, or one and the late commit of another that
died, only one is taken.

Invariants: sources are in the order of their sequences and do not overlap; every message of the source up to the fence
was offered to the target, once.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from slipstream.bulk import BulkError, CommitResult, Fence
from slipstream.bulk.writing import StagedPart
from slipstream.jetstream.bulk.errors import FENCE_MOVED
from slipstream.spark.jobs.digest import ContentDigest
from slipstream.spark.jobs.ranges import RETRY_NS, StreamNow, again, reason
from slipstream.spark.jobs.report import Say, counted
from slipstream.spark.jobs.rollups import Rollups, find_rollups
from slipstream.spark.jobs.tasks import JobError, Result, run_tasks, waves
from slipstream.spark.runtime.connection import Connection, get_connection, retrying
from slipstream.spark.runtime.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["Copied", "CopiedPart", "CopyTarget", "copied_upto", "copy_into", "copy_name", "open_target"]


class _Source(Protocol):
    """Messages of a source, up to and with the sequence `last`. Picklable."""

    @property
    def last(self) -> int: ...


SourceT = TypeVar("SourceT", bound=_Source)


@dataclass(frozen=True)
class CopyTarget:
    """Where a copy goes, and under which name."""

    reach: Reach
    facts: StreamNow
    name: str  # see `copy_name`
    again_of: str | None = None  # name of the copy that is made once more; afterwards it has come as far as this one
    copied: bool = True  # messages come from a stream as they are; else they are held to what publishes are held to
    rollups: Rollups | None = None  # how to do what roll-ups among the messages ask for, if the stream does so
    renames: bool = False  # the stream stores messages under other subjects than they come with


@dataclass(frozen=True)
class CopiedPart:
    """What one task has copied: messages of the source up to `upto`, in the target `first_seq` and following."""

    upto: int
    first_seq: int
    count: int
    digest: str


@dataclass
class Copied:
    """What a copy has done."""

    before: int = 0  # sequences of the source up to here were copied by earlier runs
    upto: int = 0  # and up to here they are copied now
    messages: int = 0
    left_out: int = 0  # messages that the target did not store
    batches: int = 0
    first_seq: int = 0  # in the target
    last_seq: int = 0
    parts: list[CopiedPart] = field(default_factory=list)  # only of commits without messages left out


@dataclass(frozen=True)
class _StagePart:
    reach: Reach
    stream: str
    txn: str
    part: int
    source: Any
    read: Callable[[Any], Iterator[pa.RecordBatch]]
    digest: bool
    rollups: bool


def open_target(
    spark: SparkSession, reach: Reach, facts: StreamNow, name: str, *, again: bool = False, copied: bool = True
) -> CopyTarget:
    """A stream that messages are copied to.

    Args:
        spark: the session.
        reach: the server.
        facts: the stream.
        name: of the copy; see `copy_name`.
        again: do not go on with the copy of that name, but make it once more from its beginning.
        copied: messages come from a stream as they are, with headers that were for that one.

    Raises:
        JobError: the server cannot be reached.
    """
    try:
        info = retrying(reach, RETRY_NS, lambda connection: connection.client.stream_info(facts.name))
    except BulkError as error:
        raise JobError(f"{facts.name}: {reason(error)}") from error
    config = info["config"]
    rolls_up = copied and config.get("allow_rollup_hdrs") and not config.get("deny_purge")
    return CopyTarget(
        reach,
        facts,
        f"{name}-{secrets.token_hex(12)}" if again else name,
        name if again else None,
        copied,
        Rollups(spark, reach, facts) if rolls_up else None,
        bool(config.get("subject_transform")),
    )


def copy_name(job: str, *what: object) -> str:
    """A name for a copy that is the same whenever the same is copied.

    The target is not in it, for it is the target that remembers the name.

    Args:
        job: what copies.
        what: the source and what selects messages of it; not how far it goes.
    """
    return f"{job}-{hashlib.sha256(json.dumps(what, default=str).encode()).hexdigest()[:24]}"


def copied_upto(target: CopyTarget) -> Fence | None:
    """The last commit of a copy; its `batch_id` is a sequence of the source. None if there is none.

    Raises:
        JobError: the server cannot stage parts, or refused.
    """
    stream = target.facts.name
    try:
        if not get_connection(target.reach).is_slipstream:
            raise JobError("this server cannot take staged parts; a copy that is made exactly once needs Slipstream")
        return retrying(target.reach, RETRY_NS, lambda connection: connection.client.fence(stream, target.name))
    except BulkError as error:
        raise JobError(f"{stream}: {reason(error)}") from error


def copy_into(
    spark: SparkSession,
    target: CopyTarget,
    sources_above: Callable[[int], Sequence[SourceT]],
    read: Callable[[SourceT], Iterator[pa.RecordBatch]],
    *,
    digest: bool = False,
    say: Say,
) -> Copied:
    """Add to a stream what the source has and no run has copied yet, in the order of the source.

    Args:
        spark: the session.
        target: where to, and the name of the copy.
        sources_above: the messages behind a sequence, in pieces.
        read: reads a piece in a worker; columns as the sink takes them, headers as `hdr_raw`.
        digest: make digests of what is copied, for `Copied.parts`.
        say: gets a line now and then.

    Raises:
        JobError: the server cannot stage parts, refuses the messages, or a task failed.
    """
    fence = copied_upto(target)
    done = Copied(before=_number(fence), upto=_number(fence))
    while True:
        if target.rollups is not None and fence is not None:
            target.rollups.repeat(fence)  # whoever committed this may have died before they were done
        for wave in waves(spark, sources_above(done.upto)):
            items = [_part(target, number, one, read, digest) for number, one in enumerate(wave)]
            results = run_tasks(spark, items, _stage)
            result = _commit(target, done.upto, wave[-1].last, results)
            if result is None:
                break
            done.upto = wave[-1].last
            _note(done, wave, results, result)
            if target.rollups is not None:
                target.rollups.apply(result, results)
            copied = f"{counted(done.messages, 'message')} in {counted(done.batches, 'commit')}"
            say(f"{target.facts.name}: {copied}, last sequence {done.last_seq:,}")
        else:
            _bring_up(target, done.upto)
            return done
        fence = copied_upto(target)
        if _number(fence) <= done.upto:
            raise JobError(f"{target.facts.name} has forgotten commits of this copy; was it restored from a backup?")
        done.upto = _number(fence)
        say(f"{target.facts.name}: another run has copied up to {done.upto:,} meanwhile; going on behind it")


def _number(fence: Fence | None) -> int:
    return 0 if fence is None else fence.batch_id


def _part(
    target: CopyTarget, number: int, source: SourceT, read: Callable[[SourceT], Iterator[pa.RecordBatch]], digest: bool
) -> _StagePart:
    rollups = target.rollups is not None
    return _StagePart(target.reach, target.facts.name, target.name, number, source, read, digest, rollups)


def _stage(item: _StagePart) -> Result:
    """In a worker: read a source and stage it."""

    def stage() -> Result:
        client = get_connection(item.reach).client
        digest = ContentDigest() if item.digest else None
        rollups: dict[str, int] = {}
        # A task that Spark runs twice, or another copy of this name, must not write into the same part.
        attempt = secrets.randbits(31)
        with client.stage(item.stream, item.txn, part=item.part, attempt=attempt) as part:
            for batch in item.read(item.source):
                if item.rollups:
                    rollups |= find_rollups(batch, part.count)
                if digest is not None:
                    digest.add(batch)
                part.write(batch)
            staged = dict(part.close())
        return {"part": staged, "digest": digest.hexdigest() if digest else "", "rollups": rollups}

    return again(item.reach, stage)


def _commit(target: CopyTarget, after: int, number: int, results: Sequence[Result]) -> CommitResult | None:
    """Commit a wave behind `after`; None if another run has committed something there."""
    staged = [cast(StagedPart, one["part"]) for one in results if one["part"]["count"]]
    tries = 0

    def commit(connection: Connection) -> CommitResult:
        nonlocal tries
        tries += 1
        return connection.client.commit(
            target.facts.name,
            target.name,
            number,
            staged,
            identity=target.facts.identity,
            after=after or -1,
            copied=target.copied,
        )

    try:
        result = retrying(target.reach, RETRY_NS, commit)
    except BulkError as error:
        if error.err_code == FENCE_MOVED.err_code:
            return None
        raise JobError(f"{target.facts.name} refused the messages: {reason(error)}") from error
    if not result.duplicate:
        return result
    # Our own commit, whose answer was lost, has as many messages as we have staged.
    if tries > 1 and result.offered == sum(part["count"] for part in staged):
        return replace(result, left_out=result.offered - result.count)
    return None


def _bring_up(target: CopyTarget, upto: int) -> None:
    """What was copied once more needs no other copy: let the one of the usual name go on behind it as well."""
    if target.again_of is None:
        return
    usual = replace(target, name=target.again_of)
    before = _number(copied_upto(usual))
    if before < upto:
        _commit(usual, before, upto, [])  # if another run comes in between, it has seen to that itself


def _note(done: Copied, wave: Sequence[_Source], results: Sequence[Result], result: CommitResult) -> None:
    done.batches += 1
    done.messages += result.count
    done.left_out += result.left_out
    if not result.count:
        return
    done.first_seq = done.first_seq or result.first_seq
    done.last_seq = result.last_seq
    if result.left_out:
        return
    first = result.first_seq
    for source, one in zip(wave, results, strict=True):
        count = one["part"]["count"]
        if count:
            done.parts.append(CopiedPart(source.last, first, count, one["digest"]))
        first += count
