"""Ranges of sequences as Spark tasks: planned on the driver, read in workers.

Invariant: a task that runs again reads the same range of the same stream, and delivers every message that was planned
or fails. Nothing but the connection is kept between tasks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from slipstream.bulk import BulkError, Plan
from slipstream.spark.runtime.connection import Connection, back_off, drop_connection, get_connection, settle_worker
from slipstream.spark.runtime.errors import DataLoss
from slipstream.spark.runtime.pieces import even_pieces, tasks_at_once
from slipstream.spark.source.options import SourceOptions
from slipstream.spark.source.rows import Shaper

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RangePartition", "Window", "plan_range", "read_range"]


@dataclass(frozen=True)
class Window:
    """What a read wants of a stream beside the range of sequences; times in nanoseconds, the end outside."""

    subjects: tuple[str, ...] = ()
    start_time_ns: int | None = None
    end_time_ns: int | None = None


@dataclass(frozen=True, init=False)
class RangePartition(InputPartition):
    """One task: sequences `first` to `last`, both inside."""

    stream: str
    identity: str
    first: int
    last: int
    messages: int | None  # exactly so many; None if the server could only estimate
    window: Window

    def __init__(self, stream: str, identity: str, first: int, last: int, messages: int | None, window: Window) -> None:
        values = {"stream": stream, "identity": identity, "first": first, "last": last}
        for name, value in {**values, "messages": messages, "window": window}.items():
            object.__setattr__(self, name, value)


def plan_range(
    connection: Connection, options: SourceOptions, stream: str, identity: str, first: int, last: int, window: Window
) -> list[RangePartition]:
    """Cut a range into tasks of about equal size.

    Raises:
        BulkError: the server refused.
    """
    if last < first:
        return []

    def ask(partitions: int | None) -> Plan:
        return connection.client.plan(
            stream,
            first,
            last,
            subjects=window.subjects,
            start_time_ns=window.start_time_ns,
            end_time_ns=window.end_time_ns,
            partitions=partitions,
            target_bytes=options.target_bytes,
            min_rows=options.min_rows,
            identity=identity,
            transport=options.transport,
        )

    plan = ask(options.partitions)
    if options.partitions is None and plan.exact:
        pieces = even_pieces(len(plan.splits), plan.bytes, options.target_bytes, tasks_at_once())
        pieces = min(pieces, plan.messages // max(options.min_rows, 1))
        if pieces > len(plan.splits):
            plan = ask(pieces)
    return [
        RangePartition(stream, plan.identity, one.first, one.last, one.messages if plan.exact else None, window)
        for one in plan.splits
        if one.messages or not plan.exact
    ]


def read_range(options: SourceOptions, shaper: Shaper, partition: RangePartition) -> Iterator[pa.RecordBatch]:
    """The messages of a partition as Spark expects them.

    A connection that is lost on the way is made anew, and the read goes on behind the last message delivered, until
    nothing came for `readTimeout`.

    Raises:
        BulkError: the server refused, or could not be reached for too long.
        DataLoss: messages that were planned are gone.
    """
    settle_worker()
    wanted = shaper.stream_columns
    # The sequence tells where to go on; Spark gets it only if asked for.
    columns = wanted if "seq" in wanted else (*wanted, "seq")
    left, rows, attempt = partition, 0, 0
    deadline = time.monotonic() + options.read_timeout_ns / 1e9
    while True:
        try:
            for batch in _batches(options, columns, left):
                if not batch.num_rows:
                    continue
                rows += batch.num_rows
                left = replace(left, first=batch.column("seq")[-1].as_py() + 1, messages=None)
                yield shaper.shape(batch if columns is wanted else batch.select(wanted))
                deadline, attempt = time.monotonic() + options.read_timeout_ns / 1e9, 0
            break
        except BulkError as error:
            drop_connection(options.reach)
            pause = back_off(attempt)
            if not error.retryable or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        attempt += 1
    _check_count(options, partition, rows)


def _batches(options: SourceOptions, columns: tuple[str, ...], left: RangePartition) -> Iterator[pa.RecordBatch]:
    if left.first > left.last:
        return
    connection = get_connection(options.reach)
    reader = connection.client.read(
        left.stream,
        left.first,
        left.last,
        subjects=left.window.subjects,
        start_time_ns=left.window.start_time_ns,
        end_time_ns=left.window.end_time_ns,
        columns=columns,
        batch_rows=options.batch_rows,
        batch_bytes=options.batch_bytes,
        identity=left.identity,
        transport=options.transport,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    with reader:
        yield from reader


def _check_count(options: SourceOptions, partition: RangePartition, rows: int) -> None:
    """What was planned has to come: fewer messages were removed on the way, and nobody else would notice."""
    if partition.messages is None or rows == partition.messages or not options.fail_on_data_loss:
        return
    if rows < partition.messages and not _replaced(options, partition):
        raise DataLoss(
            f"stream {partition.stream!r} has {rows} of the {partition.messages} messages from {partition.first} to "
            f"{partition.last} that were planned: the others were removed before they could be read; set "
            "failOnDataLoss=false to accept that"
        )


def _replaced(options: SourceOptions, partition: RangePartition) -> bool:
    """Whether newer messages replaced older ones, as in a bucket: then fewer are no loss.

    Limits take the oldest messages, so they did not if the stream still begins before the range. What a bucket lets
    expire while it is read is no loss, either.
    """
    connection = get_connection(options.reach)
    state = connection.state(partition.stream)
    if state is None:
        return False
    retention = connection.retention(partition.stream)
    return retention.replaced(None) or (retention.per_subject > 0 and state.first <= partition.first)
