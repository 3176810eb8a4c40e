"""`materialize`: a key-value bucket as a table, the newest value of each key or everything that is kept.

Workers reduce their range of the bucket to one row a key before anything crosses to Spark, which then reduces over
ranges. The table is replaced in one commit; its version says up to which revision it goes. Only a table that this job
made of the same bucket is replaced.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream.spark.jobs.partial import partial_frame
from slipstream.spark.jobs.ranges import (
    NoStream,
    ReadRange,
    StreamNow,
    again,
    place,
    plan_stream,
    read_batches,
    stream_facts,
)
from slipstream.spark.jobs.report import Report, Say, counted, quiet
from slipstream.spark.jobs.tasks import JobError, at_once
from slipstream.spark.lake.places import is_object_store, place_at
from slipstream.spark.runtime.remote import is_remote
from slipstream.spark.runtime.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["bucket_frame", "materialize"]

_SCHEMA = "key string, value binary, op string, revision long, ts timestamp"
_READ = ("seq", "ts", "subject", "headers", "payload")
_MADE = "bucket-{bucket}"  # the transaction in the log of a table, by which we know our own
_MODES = ("newest", "history")


@dataclass(frozen=True)
class _ReduceRange:
    piece: ReadRange
    prefix: str
    newest: bool


def materialize(
    spark: SparkSession,
    bucket: str,
    location: str,
    *,
    reach: Reach | None = None,
    mode: str = "newest",
    say: Say = quiet,
) -> Report:
    """Write a bucket as a Delta table with the columns key, value, op, revision and ts.

    Args:
        spark: the session. bucket: its name. location: of the table; replaced if it is one of this bucket.
        reach: the server.
        mode: `newest` has one row a key that has a value; `history` has everything that the bucket keeps, deletions
        too. say: gets a line now and then.

    Raises:
        JobError: there is no such bucket, or the place holds something else.
    """
    report = Report("materialize")
    reach = reach or Reach()
    if mode not in _MODES:
        raise JobError(f"there is no mode {mode!r}; there are {', '.join(_MODES)}")
    _check_place(location, bucket)
    facts = _bucket_facts(reach, bucket)
    frame = bucket_frame(spark, bucket, reach=reach, mode=mode)
    say(f"bucket {bucket}: {counted(facts.messages, 'value')} up to revision {facts.last:,}")
    rows = _replace_table(frame, location, bucket, facts.last)
    report.figures = {
        "bucket": bucket,
        "table": location,
        "mode": mode,
        "entries": facts.messages,
        "rows": rows,
        "revision": facts.last,
    }
    return report.finish()


def bucket_frame(spark: SparkSession, bucket: str, *, reach: Reach | None = None, mode: str = "newest") -> DataFrame:
    """The bucket as a frame, reduced in the workers."""
    from pyspark.sql import functions as F

    reach = reach or Reach()
    facts = _bucket_facts(reach, bucket)
    pieces = plan_stream(reach, facts, facts.first, facts.last, target_bytes=32 << 20, at_once=at_once(spark))
    items = [_ReduceRange(piece, f"$KV.{bucket}.", mode == "newest") for piece in pieces]
    frame = partial_frame(spark, items, _reduce, _SCHEMA)
    if mode != "newest":
        return frame
    newest = F.max_by(F.struct("value", "op", "revision", "ts"), "revision").alias("last")
    return frame.groupBy("key").agg(newest).where("last.op = 'PUT'").select("key", "last.*")


def _bucket_facts(reach: Reach, bucket: str) -> StreamNow:
    try:
        return stream_facts(reach, f"KV_{bucket}")
    except NoStream as error:
        raise JobError(f"there is no bucket {bucket!r} on {place(reach)}") from error


def _reduce(item: _ReduceRange) -> Iterator[pa.RecordBatch]:
    """In a worker: the entries of a range, only the newest of each key if that is enough."""
    import pyarrow as pa

    def read() -> pa.Table:
        batches = [_entries(batch, item.prefix) for batch in read_batches(item.piece, _READ)]
        return pa.Table.from_batches(batches) if batches else None

    table = again(item.piece.reach, read)
    if table is None:
        return
    if item.newest:
        last = table.group_by("key").aggregate([("revision", "max")])
        table = table.join(last, keys=["key", "revision"], right_keys=["key", "revision_max"], join_type="left semi")
    yield from table.select(["key", "value", "op", "revision", "ts"]).combine_chunks().to_batches()


def _entries(batch: pa.RecordBatch, prefix: str) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = pc.utf8_slice_codeunits(batch.column("subject"), len(prefix))
    arrays = [
        keys,
        batch.column("payload"),
        _operations(batch.column("headers")),
        batch.column("seq"),
        batch.column("ts"),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=["key", "value", "op", "revision", "ts"])


def _operations(headers: pa.Array) -> pa.Array:
    """PUT where nothing else is said; most entries have no headers at all."""
    import pyarrow as pa

    if headers.null_count == len(headers):
        return pa.array(["PUT"] * len(headers), pa.string())
    return pa.array([_operation(entry) for entry in headers.to_pylist()], pa.string())


def _operation(headers: list[tuple[str, list[str]]] | None) -> str:
    fields = dict(headers or ())
    if "KV-Operation" in fields:
        return fields["KV-Operation"][0]
    reason = fields.get("Nats-Marker-Reason", [""])[0]
    return {"MaxAge": "PURGE", "Purge": "PURGE", "Remove": "DEL"}.get(reason, "PUT")


def _check_place(location: str, bucket: str) -> None:
    """Look whether there is nothing, or a table of this bucket.

    Raises:
        JobError: it is something else, which somebody may want to keep.
    """
    from deltalake import DeltaTable

    if is_object_store(location):
        if not place_at(location).list("_delta_log") and not place_at(location).list():
            return
    elif not Path(location).exists() or (Path(location).is_dir() and not any(Path(location).iterdir())):
        return
    if not DeltaTable.is_deltatable(location):
        raise JobError(f"{location} is there already and is no table of a bucket; name another place")
    table = DeltaTable(location)
    if table.transaction_version(_MADE.format(bucket=bucket)) is None or table.metadata().name != bucket:
        about = table.metadata().description or table.metadata().name or "somebody else's"
        raise JobError(f"{location} holds another table ({about}), not one of bucket {bucket}; name another place")


def _zoned(batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Times as instants: Spark writes them without saying so."""
    import pyarrow as pa

    fields = [pa.field("ts", pa.timestamp("us", "UTC")) if one.name == "ts" else one for one in batches.schema]
    schema = pa.schema(fields)

    def zoned() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays(
                [column.cast(field.type) for column, field in zip(batch.columns, fields, strict=True)], schema=schema
            )

    return pa.RecordBatchReader.from_batches(schema, zoned())


def _staging(frame: DataFrame, location: str) -> Path:
    """Where Spark's files are before they are the table: beside it, so that all its machines reach it.

    Raises:
        JobError: there is no such place.
    """
    if not is_object_store(location):
        place = Path(location)
        return place.parent / f".{place.name}.{uuid.uuid4().hex}"
    spark = frame.sparkSession
    if is_remote(spark) or not (spark.conf.get("spark.master") or "local").startswith("local"):
        raise JobError("a table in an object store is made by a session on this machine: local[*]")
    return Path(tempfile.gettempdir()) / f"slipstream-{uuid.uuid4().hex}"


def _replace_table(frame: DataFrame, location: str, bucket: str, revision: int) -> int:
    """Let Spark write Parquet files, then make them the table in one commit."""
    import pyarrow.dataset as dataset
    from deltalake import CommitProperties, Transaction, write_deltalake

    staged = _staging(frame, location)
    try:
        frame.write.parquet(str(staged))
        if not staged.exists():
            raise JobError(f"Spark wrote {staged} on a machine of its own; use a place that it and this machine share")
        files: Any = dataset.dataset(str(staged), format="parquet")
        rows = int(files.count_rows())
        write_deltalake(
            location,
            _zoned(files.scanner().to_reader()),
            mode="overwrite",
            schema_mode="overwrite",
            name=bucket,
            commit_properties=CommitProperties(app_transactions=[Transaction(_MADE.format(bucket=bucket), revision)]),
        )
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return rows
