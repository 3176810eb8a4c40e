"""Batch reads: the range is fixed when the query is planned, then read in parallel.

Spark plans a DataFrame's read once and keeps the plan: the same DataFrame, or view, reads the same range again. Up to
4.3 that goes for pushed filters, too: a query without filters on a DataFrame that a filtered query was run on gets the
filtered range, which is wrong. So filters are taken only when `pushdown=true` says that the DataFrame is used for one
query; otherwise `subjects`, `startingSequence` and their like narrow a read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from slipstream.kernels.subjects.subject import matches
from slipstream.spark.archive.archived import FilePartition, plan_archived, read_archived
from slipstream.spark.runtime.connection import Connection, retrying
from slipstream.spark.runtime.errors import DataLoss
from slipstream.spark.runtime.stream_state import StreamState
from slipstream.spark.source.filters import Pushed, push
from slipstream.spark.source.options import SourceOptions
from slipstream.spark.source.positions import range_start
from slipstream.spark.source.ranges import RangePartition, Window, plan_range, read_range
from slipstream.spark.source.rows import shaper
from slipstream.spark.source.schema import source_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["FilteringReader", "SlipstreamReader", "batch_reader"]


def batch_reader(schema: StructType, options: SourceOptions) -> DataSourceReader:
    """The reader for these options."""
    if options.target.kind == "object":
        from slipstream.spark.source.objects import ObjectReader

        return ObjectReader(schema, options)
    return FilteringReader(schema, options) if options.pushdown else SlipstreamReader(schema, options)


class SlipstreamReader(DataSourceReader):
    """Reads streams or buckets from beginning to end."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        """Check the columns; nothing is asked of a server yet."""
        self.options = options
        self.shaper = shaper(source_columns(schema, options), options)
        self.pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        """One task for each piece; fixed from now on."""
        if self.pushed.empty:
            return []
        return retrying(self.options.reach, self.options.read_timeout_ns, self._plan)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        if not isinstance(partition, RangePartition | FilePartition):
            return iter(())  # Spark's stand-in when there are no tasks
        if self.options.archive or isinstance(partition, FilePartition):
            return read_archived(self.options, self.shaper, partition)
        return read_range(self.options, self.shaper, partition)

    def _plan(self, connection: Connection) -> list[InputPartition]:
        options, pushed = self.options, self.pushed
        window = Window(
            subjects=options.subjects if pushed.subjects is None else pushed.subjects,
            start_time_ns=_latest(options.start.time_ns, pushed.start_time_ns),
            end_time_ns=_earliest(options.end_time_ns, pushed.end_time_ns),
        )
        tasks: list[InputPartition] = []
        for name in connection.stream_names(options.target):
            if options.archive and not options.start.latest:
                first = _latest(options.start.seq, pushed.first)
                last = _earliest(options.end_seq, pushed.last)
                tasks += plan_archived(connection, options, name, first, last, window)
                continue
            state = connection.state(name)
            if state is None:
                raise DataLoss(f"there is no stream {name!r} on this server")
            first, last = self._range(connection, state)
            tasks += plan_range(connection, options, name, state.identity, first, last, window)
        return tasks

    def _range(self, connection: Connection, state: StreamState) -> tuple[int, int]:
        options, pushed = self.options, self.pushed
        first = state.last + 1 if options.start.latest else state.first
        if options.start.seq is not None:
            retention = partial(connection.retention, state.name)
            first = range_start(state.name, options.start.seq, state, adjust=options.adjust, retention=retention)
        last = state.last if options.end_seq is None else min(options.end_seq, state.last)
        if pushed.first is not None:
            first = max(first, pushed.first)
        if pushed.last is not None:
            last = min(last, pushed.last)
        return first, last


class FilteringReader(SlipstreamReader):
    """The same, with filters of the query answered by the server."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the filters that narrow the range or the subjects; the others stay with Spark."""
        pushed, left = push(filters, bucket=self.options.target.kind == "bucket")
        if pushed.subjects is not None and self.options.subjects:
            both = _both(pushed.subjects, self.options.subjects)
            if both is None:
                # The option is the filter; Spark checks the one of the query.
                on_subjects = [one for one in filters if getattr(one, "attribute", ()) == ("subject",)]
                left = [one for one in filters if one in left or one in on_subjects]
            pushed = replace(pushed, subjects=both)
        self.pushed = pushed
        return left


def _both(pushed: tuple[str, ...], options: tuple[str, ...]) -> tuple[str, ...] | None:
    """Literal subjects that the option's filters let through; None if wildcards would have to be intersected."""
    if any(subject.endswith(".>") for subject in pushed):
        return None
    return tuple(one for one in pushed if any(matches(wide.encode(), one.encode()) for wide in options))


def _latest(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)


def _earliest(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)
