"""One table of a stream: its archive below, the live stream above, cut at one sequence.

    orders = slipstream.spark.table(spark, "ORDERS", archive="./lake/orders")
    orders = slipstream.spark.table(spark, "ORDERS", archive="./lake/orders", as_of=1_000_000)

The cut is taken once, when the table is made: the archive's newest version, and the stream up to its last sequence
then. Every message is in exactly one of the two.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from slipstream.spark.jobs.ranges import stream_facts
from slipstream.spark.jobs.tasks import JobError
from slipstream.spark.lake import Lake, Wish, open_lake
from slipstream.spark.target import Reach

if TYPE_CHECKING:
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
    as_of: int | datetime | None = None,
    version: int | None = None,
    reach: Reach | None = None,
) -> DataFrame:
    """A stream as a frame: archived messages and live ones, each once.

    Args:
        spark: the session.
        stream: its name.
        archive: location of its archive; without one only what the server has.
        as_of: show the stream as it was at a sequence (inside) or a time (outside).
        version: of the archive; the newest by default.
        reach: the server.

    Raises:
        JobError: messages between the archive and the stream are missing.
        LakeError: there is no such archive, or it is of another stream.
    """
    reach = reach or Reach()
    facts = stream_facts(reach, stream)
    last = min(facts.last, as_of) if isinstance(as_of, int) else facts.last
    before_ns = _nanoseconds(as_of) if isinstance(as_of, datetime) else None
    if archive is None:
        return _live(spark, reach, stream, facts.first, last, before_ns)
    lake = open_lake(archive)
    if lake.facts.identity != facts.identity:
        raise JobError(f"the archive at {archive} is of another stream: {lake.facts.stream} {lake.facts.identity}")
    upto = lake.facts.archived_upto if version is None else max((f.last_seq for f in lake.files(version)), default=0)
    if facts.first > upto + 1 and facts.messages:
        raise JobError(f"messages {upto + 1} to {facts.first - 1} of {stream} are neither archived nor in the stream")
    cold = _cold(spark, lake, Wish(last_seq=min(upto, last), end_ns=before_ns), version)
    return cold.unionByName(_live(spark, reach, stream, upto + 1, last, before_ns))


def _cold(spark: SparkSession, lake: Lake, wish: Wish, version: int | None) -> DataFrame:
    from pyspark.sql import functions as F

    files = lake.select(wish, version)
    if not files:
        return spark.createDataFrame([], _EMPTY)
    frame = spark.read.parquet(*(lake.path_of(file) for file in files)).where(F.col("seq") <= F.lit(wish.last_seq))
    if wish.end_ns is not None:
        frame = frame.where(F.col("ts_ns") < wish.end_ns)
    return frame.select(*_COLUMNS)


def _live(spark: SparkSession, reach: Reach, stream: str, first: int, last: int, before_ns: int | None) -> DataFrame:
    if first > last:
        return spark.createDataFrame([], _EMPTY)
    reader = spark.read.format("slipstream").option("stream", stream)
    for name in reach.__dataclass_fields__:
        value = getattr(reach, name)
        if value is not None and name != "timeout":
            reader = reader.option(_OPTION_NAMES.get(name, name), value)
    reader = reader.option("startingSequence", first).option("endingSequence", last).option("outOfRange", "adjust")
    if before_ns is not None:
        reader = reader.option("endingTime", _iso(before_ns))
    return reader.load().select(*_COLUMNS)


def _nanoseconds(moment: datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.astimezone()
    return int(aware.timestamp()) * 10**9 + aware.microsecond * 1000


def _iso(time_ns: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_ns // 1000)).isoformat()


_EMPTY = "stream string, seq long, ts timestamp, subject string, headers map<string, array<string>>, payload binary"
