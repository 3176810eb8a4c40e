"""`replay`: messages of an archive back into a stream, by sequence, time or subject."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slipstream.spark.jobs.copying import copy_into, copy_name
from slipstream.spark.jobs.ranges import stream_facts
from slipstream.spark.jobs.report import Report, Say, quiet
from slipstream.spark.lake import Wish, open_lake
from slipstream.spark.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["replay"]

_CONTENT = ("subject", "hdr_raw", "payload")
_MARKED = ("stream", "seq", "ts_ns", "subject", "headers", "payload")


@dataclass(frozen=True)
class _FilePart:
    path: str
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
    name: str = "",
    say: Say = quiet,
) -> Report:
    """Publish archived messages into a stream, in their order, exactly once.

    Args:
        spark: the session.
        location: of the archive.
        stream: where to; its subjects must cover those of the messages.
        reach: the server.
        wish: which messages; all by default.
        version: of the archive; the newest by default.
        mark: add headers that say where a message was: `Nats-Orig-Stream`, `-Sequence` and `-Time-Stamp`. Without them
            the copy is equal to the byte.
        name: another name makes the same replay a new one, which adds the messages once more.
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
    target = stream_facts(reach, stream)
    parts = [_FilePart(lake.path_of(file), wish, mark) for file in files]
    txn = copy_name("replay", lake.facts.identity, [file.path for file in files], wish, mark, target.identity, name)
    done = copy_into(spark, reach, stream, txn, parts, _read, say=say)
    report.figures = {
        "table": location,
        "version": version,
        "files": len(files),
        "stream": stream,
        "messages": done.messages,
        "batches": done.batches,
        "repeated_batches": done.repeated_batches,
        "first_seq": done.first_seq,
        "last_seq": done.last_seq,
    }
    return report.finish()


def _read(part: _FilePart) -> Iterator[pa.RecordBatch]:
    from slipstream.spark.lake.files import read_file

    for batch in read_file(part.path, _MARKED if part.mark else _CONTENT, part.wish):
        yield _marked(batch) if part.mark else batch


def _marked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with the place of each message in its headers."""
    import pyarrow as pa

    from slipstream.bulk.arrow import HEADERS_TYPE

    columns = batch.to_pydict()
    headers = [
        [
            *(known or []),
            ("Nats-Orig-Stream", [stream]),
            ("Nats-Orig-Sequence", [str(sequence)]),
            ("Nats-Orig-Time-Stamp", [_rfc3339(time_ns)]),
        ]
        for known, stream, sequence, time_ns in zip(
            columns["headers"], columns["stream"], columns["seq"], columns["ts_ns"], strict=True
        )
    ]
    arrays = [batch.column("subject"), pa.array(headers, HEADERS_TYPE), batch.column("payload")]
    return pa.RecordBatch.from_arrays(arrays, names=["subject", "headers", "payload"])


def _rfc3339(time_ns: int) -> str:
    from datetime import UTC, datetime

    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
