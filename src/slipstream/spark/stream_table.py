"""One table of a stream: its archive below, the live stream above, cut at one sequence.

    orders = slipstream.spark.table(spark, "ORDERS", archive="./lake/orders")
    orders = slipstream.spark.table(spark, "ORDERS", archive="./lake/orders", as_of=1_000_000)

The cut is taken once, when the table is made: the archive's newest version, and the stream up to its last sequence
then. Every message is in exactly one of the two. What is archived and dropped from the stream before it is read is
found in the archive (`archived`); what cannot be found is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from slipstream.spark.jobs.ranges import stream_facts
from slipstream.spark.jobs.tasks import JobError
from slipstream.spark.lake import Lake, Wish, is_erased, open_lake
from slipstream.spark.lake.places import is_object_store
from slipstream.spark.runtime.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["table"]

_COLUMNS = ("stream", "seq", "ts", "subject", "headers", "payload")
_OPTION_NAMES = {
    "creds_file": "credsFile",
    "nkey_file": "nkeyFile",
    "password_env": "passwordEnv",
    "token_env": "tokenEnv",
    "tls_ca": "tlsCa",
    "tls_cert": "tlsCert",
    "tls_key": "tlsKey",
    "api_prefix": "apiPrefix",
}


def table(
    spark: SparkSession,
    stream: str,
    *,
    archive: str | None = None,
    as_of: int | str | datetime | None = None,
    version: int | None = None,
    reach: Reach | None = None,
) -> DataFrame:
    """A stream as a frame: archived messages and live ones, each once.

    Args:
        spark: the session.
        stream: its name.
        archive: location of its archive; without one only what the server has.
        as_of: show the stream as it was at a sequence (inside) or a time (outside); a time is a `datetime` (local
            without a zone) or a text such as `2026-01-31` or `2026-01-31T12:00:00+01:00` (UTC without a zone).
        version: of the archive; the newest by default.
        reach: the server.

    Raises:
        JobError: messages between the archive and the stream are missing, or `as_of` is neither.
        LakeError: there is no such archive, or it is of another stream.
    """
    reach = reach or Reach()
    facts = stream_facts(reach, stream)
    upto_seq, before_ns = _moment(as_of)
    last = facts.last if upto_seq is None else min(facts.last, upto_seq)
    if archive is None:
        return _live(spark, reach, stream, facts.first, last, before_ns, None)
    lake = open_lake(archive)  # after the stream: what that has no more is archived by now
    if lake.facts.identity != facts.identity:
        raise JobError(f"the archive at {archive} is of another stream: {lake.facts.stream} {lake.facts.identity}")
    upto = lake.facts.archived_upto if version is None else max((f.last_seq for f in lake.files(version)), default=0)
    found = lake.facts.archived_upto
    end = min(facts.first - 1, last)
    if end > found and not is_erased(archive, found + 1, end):
        raise JobError(f"messages {found + 1} to {end} of {stream} are neither archived nor in the stream")
    cold = _cold(spark, lake, Wish(last_seq=min(upto, last), end_ns=before_ns), version)
    oldest = min([facts.first, *(file.first_seq for file in lake.files()[:1])])
    begin = upto + 1 if upto else oldest
    return cold.unionByName(_live(spark, reach, stream, begin, last, before_ns, archive))


def _cold(spark: SparkSession, lake: Lake, wish: Wish, version: int | None) -> DataFrame:
    from pyspark.sql import functions as F

    files = lake.select(wish, version)
    if not files:
        return spark.createDataFrame([], _EMPTY)
    paths = [lake.path_of(file) for file in files]
    if is_object_store(lake.location):
        return _in_store(spark, paths, wish)
    frame = spark.read.parquet(*paths).where(F.col("seq") <= F.lit(wish.last_seq))
    if wish.end_ns is not None:
        frame = frame.where(F.col("ts_ns") < wish.end_ns)
    return frame.select(*_COLUMNS)


def _in_store(spark: SparkSession, paths: list[str], wish: Wish) -> DataFrame:
    """Files of an object store, a task a file: Spark's own reader knows no stores unless it was given jars for them."""

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from slipstream.spark.lake.files import read_file

        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read_file(paths[number], _COLUMNS, wish)

    return spark.range(0, len(paths), 1, len(paths)).mapInArrow(read, _EMPTY)


def _live(
    spark: SparkSession,
    reach: Reach,
    stream: str,
    first: int,
    last: int,
    before_ns: int | None,
    archive: str | None,
) -> DataFrame:
    if first > last:
        return spark.createDataFrame([], _EMPTY)
    reader = spark.read.format("slipstream").option("stream", stream)
    for name in reach.__dataclass_fields__:
        value = getattr(reach, name)
        if value is not None and name != "timeout":
            reader = reader.option(_OPTION_NAMES.get(name, name), value)
    reader = reader.option("startingSequence", first).option("endingSequence", last)
    if archive is not None:
        reader = reader.option("archive", archive)
    if before_ns is not None:
        reader = reader.option("endingTime", _iso(before_ns))
    return reader.load().select(*_COLUMNS)


def _moment(as_of: object) -> tuple[int | None, int | None]:
    """The last sequence, or the time before which messages were stored.

    Raises:
        JobError: it is neither.
    """
    if as_of is None:
        return None, None
    if isinstance(as_of, int) and not isinstance(as_of, bool) and as_of >= 0:
        return as_of, None
    if isinstance(as_of, str):
        try:
            as_of = datetime.fromisoformat(as_of.strip())
        except ValueError as error:
            raise JobError(f"as_of: {as_of!r} is no time such as 2026-01-31 or 2026-01-31T12:00:00Z") from error
        as_of = as_of if as_of.tzinfo is not None else as_of.replace(tzinfo=UTC)
    if not isinstance(as_of, datetime):
        raise JobError(f"as_of is a sequence, a time, or the text of a time, not {as_of!r}")
    aware = as_of.astimezone(UTC)  # one without a zone is local, as those that Spark collects are
    return None, (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def _iso(time_ns: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_ns // 1000)).isoformat()


_EMPTY = "stream string, seq long, ts timestamp, subject string, headers map<string, array<string>>, payload binary"
