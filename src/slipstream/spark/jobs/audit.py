"""`audit`: count, gaps and checksums of a stream, of its archive, or of both against each other.

Reading verifies the checksum of every record. Digests are per block of sequences, so that a difference has a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from slipstream.spark.jobs.digest import BLOCK, COLUMNS, BlockDigest, Digester, combined
from slipstream.spark.jobs.ranges import ReadRange, again, plan_stream, read_batches, stream_facts
from slipstream.spark.jobs.report import Report, Say, quiet
from slipstream.spark.jobs.tasks import JobError, Result, run_tasks, waves
from slipstream.spark.lake import Lake, LakeFile, Wish, open_lake
from slipstream.spark.runtime.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["archive_blocks", "audit", "stream_blocks"]

_BLOCKS_A_TASK = 5
_DIFFERENCES_SHOWN = 20


@dataclass(frozen=True)
class _DigestFiles:
    paths: tuple[str, ...]
    wish: Wish
    places: bool


@dataclass(frozen=True)
class _DigestRange:
    piece: ReadRange
    places: bool


def audit(
    spark: SparkSession,
    stream: str | None = None,
    *,
    location: str | None = None,
    reach: Reach | None = None,
    first: int | None = None,
    last: int | None = None,
    say: Say = quiet,
) -> Report:
    """Check a stream, an archive, or the archive against the stream where both have messages.

    Args:
        spark: the session.
        stream: its name; may be left out if only the archive is checked.
        location: of the archive.
        reach: the server.
        first: begin at this sequence.
        last: end with this sequence.
        say: gets a line now and then.

    Raises:
        JobError: neither is named, or something cannot be read; damage that reading finds is an error that names it.
    """
    if stream is None and location is None:
        raise JobError("name a stream, an archive, or both")
    report = Report("audit")
    reach = reach or Reach()
    lake = open_lake(location) if location else None
    low, high = first or 1, last
    if lake is not None and stream is not None:
        facts = stream_facts(reach, stream)
        if lake.facts.identity != facts.identity:
            raise JobError(f"the archive at {location} is of another stream: {lake.facts.stream} {lake.facts.identity}")
        low = max(low, facts.first, lake.files()[0].first_seq if lake.files() else lake.facts.archived_upto + 1)
        high = min(lake.facts.archived_upto, high or lake.facts.archived_upto)
    live: list[BlockDigest] = []
    cold: list[BlockDigest] = []
    if stream is not None:
        live = stream_blocks(spark, reach, stream, low, high, say=say)
        _describe(report, "stream", live)
    if lake is not None:
        cold = archive_blocks(spark, lake, Wish(low, high), say=say)
        _describe(report, "archive", cold)
    if stream is not None and lake is not None:
        _compare(report, live, cold)
    return report.finish()


def stream_blocks(
    spark: SparkSession,
    reach: Reach,
    stream: str,
    first: int = 1,
    last: int | None = None,
    *,
    places: bool = True,
    say: Say = quiet,
) -> list[BlockDigest]:
    """The digests of a stream's messages, block by block."""
    facts = stream_facts(reach, stream)
    low, high = max(first, facts.first), facts.last if last is None else min(last, facts.last)
    pieces: list[ReadRange] = []
    for start in range(low - low % BLOCK, high + 1, BLOCK * _BLOCKS_A_TASK):
        end = min(start + BLOCK * _BLOCKS_A_TASK - 1, high)
        # A plan of the whole range would cut blocks into pieces; a task takes whole blocks.
        pieces += _whole(plan_stream(reach, facts, max(start, low), end, target_bytes=1 << 40))
    blocks: list[BlockDigest] = []
    for wave in waves(spark, pieces):
        results = run_tasks(spark, [_DigestRange(piece, places) for piece in wave], _digest_range)
        blocks += _blocks(results)
        say(f"read {blocks[-1].last if blocks else 0:,} of {high:,} in {stream}")
    return blocks


def archive_blocks(
    spark: SparkSession, lake: Lake, wish: Wish, *, places: bool = True, say: Say = quiet
) -> list[BlockDigest]:
    """The digests of an archive's messages, block by block."""
    files = lake.select(wish)
    if not files:
        return []
    low = max(wish.first_seq or 0, files[0].first_seq)
    high = files[-1].last_seq if wish.last_seq is None else min(wish.last_seq, files[-1].last_seq)
    tasks = []
    for start in range(low - low % BLOCK, high + 1, BLOCK * _BLOCKS_A_TASK):
        part = Wish(
            max(start, low), min(start + BLOCK * _BLOCKS_A_TASK - 1, high), wish.start_ns, wish.end_ns, wish.subjects
        )
        paths = tuple(lake.path_of(file) for file in _in_order(files) if part.may_hold(file))
        if paths:
            tasks.append(_DigestFiles(paths, part, places))
    blocks: list[BlockDigest] = []
    for wave in waves(spark, tasks):
        blocks += _blocks(run_tasks(spark, wave, _digest_files))
        say(f"read {blocks[-1].last if blocks else 0:,} of {high:,} in {lake.location}")
    return blocks


def _digest_range(item: _DigestRange) -> Result:
    def digest() -> Result:
        return _digested(read_batches(item.piece, COLUMNS), item.places)

    return again(item.piece.reach, digest)


def _digest_files(item: _DigestFiles) -> Result:
    from slipstream.spark.lake.files import read_file

    def batches() -> Iterator[pa.RecordBatch]:
        for path in item.paths:
            yield from read_file(path, COLUMNS, item.wish)

    return _digested(batches(), item.places)


def _digested(batches: Iterable[pa.RecordBatch], places: bool) -> Result:
    digester = Digester(places=places)
    for batch in batches:
        digester.add(batch)
    digester.close()
    return {"blocks": [asdict(block) for block in digester.blocks]}


def _blocks(results: Iterable[Result]) -> list[BlockDigest]:
    return [BlockDigest(**block) for result in results for block in result["blocks"]]


def _whole(pieces: list[ReadRange]) -> list[ReadRange]:
    assert len(pieces) <= 1
    return pieces


def _in_order(files: Iterable[LakeFile]) -> list[LakeFile]:
    return sorted(files, key=lambda file: file.first_seq)


def _describe(report: Report, what: str, blocks: list[BlockDigest]) -> None:
    messages = sum(block.messages for block in blocks)
    span = blocks[-1].last - blocks[0].first + 1 if blocks else 0
    report.figures |= {
        f"{what}_messages": messages,
        f"{what}_bytes": sum(block.bytes for block in blocks),
        f"{what}_first": blocks[0].first if blocks else 0,
        f"{what}_last": blocks[-1].last if blocks else 0,
        f"{what}_gaps": span - messages,
        f"{what}_digest": combined(blocks),
    }


def _compare(report: Report, live: list[BlockDigest], cold: list[BlockDigest]) -> None:
    ours, theirs = ({block.number: block for block in blocks} for blocks in (live, cold))
    differ = [number for number in sorted({*ours, *theirs}) if _digest(ours, number) != _digest(theirs, number)]
    report.ok = not differ
    report.figures["equal"] = not differ
    report.figures["blocks_compared"] = len({*ours, *theirs})
    report.tables["differences"] = [
        {
            "first_seq": number * BLOCK,
            "last_seq": (number + 1) * BLOCK - 1,
            "stream_messages": ours[number].messages if number in ours else 0,
            "archive_messages": theirs[number].messages if number in theirs else 0,
        }
        for number in differ[:_DIFFERENCES_SHOWN]
    ]


def _digest(blocks: dict[int, BlockDigest], number: int) -> str:
    return blocks[number].digest if number in blocks else ""
