"""Reads that go on: Spark asks where the stream ends, plans a batch, reads it, commits it.

Runs in one long-lived planner process on the driver, except `read`, which runs in tasks and knows nothing but its
partition.

    initialOffset ─► latestOffset ─► partitions(start, end) ─► read … ─► commit(end) ─► latestOffset ─► …

Invariants: `partitions` of the same two offsets gives the same messages, also after a restart; what is not committed is
held, where the server can; a loss is an error unless the user accepts it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from slipstream.spark.archive.archived import FilePartition, read_archived
from slipstream.spark.archive.streaming import StreamArchive
from slipstream.spark.runtime.connection import Connection, retrying
from slipstream.spark.runtime.errors import DataLoss, OptionError
from slipstream.spark.runtime.stream_state import Measure, StreamState
from slipstream.spark.source.admission import BatchAdmission
from slipstream.spark.source.durable import DurableAcks
from slipstream.spark.source.holds import SourceHolds
from slipstream.spark.source.offsets import Offset, StreamPosition
from slipstream.spark.source.options import ReadLimits, SourceOptions
from slipstream.spark.source.positions import checked, range_start
from slipstream.spark.source.ranges import RangePartition, Window, plan_range, read_range
from slipstream.spark.source.rows import shaper
from slipstream.spark.source.schema import source_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["SlipstreamStreamReader"]

_T = TypeVar("_T")


class SlipstreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads streams or buckets as they grow."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        """Check columns and options; nothing is asked of a server yet."""
        if options.end_seq is not None or options.end_time_ns is not None:
            raise OptionError("endingSequence", "does not go with a streaming read; use it with spark.read")
        self.options = options
        self.columns = source_columns(schema, options)
        self._window = Window(subjects=options.subjects)
        self._target: dict[str, int] | None = None  # last sequences of a query that is to finish
        self._admission: BatchAdmission | None = None
        self._holds = SourceHolds(options.hold_timeout_ns)
        self._quiet: dict[str, tuple[int, int]] = {}  # end of a stream without news, and when that was last so
        self._acks: dict[str, DurableAcks] = {}
        self._archive = StreamArchive(options) if options.archive else None

    # --- where ------------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        return self._ask(self._initial).to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends, within the limits."""
        begin = Offset.from_json(start)
        everything = isinstance(limit, ReadAllAvailable) and self.options.limits != ReadLimits()
        return self._ask(lambda connection: self._next_end(connection, begin, everything)).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Tells Spark that there are limits; which ones, and how they combine, is kept here."""
        limits = self.options.limits
        if limits.max_messages is not None:
            return ReadMaxRows(limits.max_messages)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        if limits.min_messages is not None:
            return ReadMinRows(limits.min_messages)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of a query that is to finish with what is there now."""
        self._target = {name: state.last for name, state in self._ask(self._states).items()}

    def reportLatestOffset(self) -> dict[str, Any]:
        """The end of the streams now; Spark's progress shows it, and lag is the difference."""
        states = self._ask(self._states)
        return Offset(
            {name: StreamPosition(state.last + 1, state.identity) for name, state in states.items()}
        ).to_json()

    # --- what -------------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a batch, the same for the same offsets."""
        begin, until = Offset.from_json(start), Offset.from_json(end)
        return self._ask(lambda connection: self._plan(connection, begin, until))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        if self._archive is not None and isinstance(partition, RangePartition | FilePartition):
            return read_archived(self._archive.reading, shaper(self.columns, self.options), partition)
        if not isinstance(partition, RangePartition):
            return iter(())
        if self.options.target.kind == "object":
            from slipstream.spark.source.objects import read_objects

            return read_objects(self.options, self.columns, partition, deleted=True)
        return read_range(self.options, shaper(self.columns, self.options), partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Everything before `end` is done: the server may let it go, and the durable consumer is told."""
        done = Offset.from_json(end)
        self._ask(lambda connection: self._commit(connection, done))

    def stop(self) -> None:
        """The query ends. What is not committed stays held until the hold's time is over, for a restart."""

    # --- inside -----------------------------------------------------------------------------------------------------

    def _ask(self, call: Callable[[Connection], _T]) -> _T:
        return retrying(self.options.reach, self.options.read_timeout_ns, call)

    def _states(self, connection: Connection) -> dict[str, StreamState]:
        """The streams that are there; `checked` knows whether one is missing."""
        found = {name: connection.state(name) for name in connection.stream_names(self.options.target)}
        return {name: state for name, state in found.items() if state is not None}

    def _initial(self, connection: Connection) -> Offset:
        states = self._states(connection)
        missing = [name for name in connection.stream_names(self.options.target) if name not in states]
        if missing:
            raise DataLoss(f"there is no stream {missing[0]!r} on this server")
        offset = Offset({name: self._begin(connection, state) for name, state in states.items()})
        self._check_durable(connection, states)
        self._hold(connection, offset.positions)
        return offset

    def _begin(self, connection: Connection, state: StreamState) -> StreamPosition:
        seq = self._start(connection, state)
        return StreamPosition(seq, state.identity, self._oldest_ns(connection, state, seq), waits=seq > state.last + 1)

    def _start(self, connection: Connection, state: StreamState) -> int:
        if self._archive is not None:
            return self._archive.start(connection, state)
        start = self.options.start
        if start.latest:
            return state.last + 1
        if start.seq is not None:
            retention = partial(connection.retention, state.name)
            return range_start(state.name, start.seq, state, adjust=self.options.adjust, retention=retention)
        if start.time_ns is not None:
            return connection.seq_at(state, start.time_ns, self.options.transport)
        return state.first

    def _oldest_ns(self, connection: Connection, state: StreamState, seq: int) -> int:
        """As `Connection.oldest_ns`; not known where messages from `seq` on are archived."""
        return 0 if self._archive is not None and seq < state.first else connection.oldest_ns(state, seq)

    def _next_end(self, connection: Connection, begin: Offset, everything: bool) -> Offset:
        if self._admission is None:
            now = time.monotonic_ns()
            self._admission = BatchAdmission(self.options.limits, filtered=bool(self.options.subjects), now_ns=now)
            self._check_durable(connection, begin.positions)
            self._check_archive(connection)
            self._hold(connection, begin.positions)
        elif self._holding(connection):
            self._holds.renew(connection, time.monotonic_ns())
        asked_ns = time.monotonic_ns()
        states = self._states(connection)
        places = self._places(connection, begin.positions, states)
        self._hold_new(connection, places)
        self._quiet |= {name: (at.seq, asked_ns) for name, at in places.items() if at.seq == states[name].last + 1}
        if self._target is not None:
            states = {
                name: replace(state, last=min(state.last, self._target.get(name, 0))) for name, state in states.items()
            }
        measure = self._measure(connection, states)
        end = self._admission.next_end(
            places,
            states,
            measure,
            now_ns=time.monotonic_ns(),
            everything=everything,
            may_wait=self._target is None,
        )
        ends: dict[str, StreamPosition] = {}
        for name, at in end.positions.items():
            known, place = begin.positions.get(name), places[name]
            if known is not None and at == place:
                ends[name] = known  # also where an accepted loss moved the place: that alone is no batch
                continue
            joined = known is None or known.identity != at.identity
            oldest_ns = self._oldest_ns(connection, states[name], at.seq)
            ends[name] = replace(at, oldest_ns=oldest_ns, joined_at=place.seq if joined else 0)
        return Offset(ends)

    def _places(
        self, connection: Connection, begin: Mapping[str, StreamPosition], states: Mapping[str, StreamState]
    ) -> dict[str, StreamPosition]:
        """Where each stream is read on; those that appeared since are read from their beginning."""
        places = {
            name: StreamPosition(state.first, state.identity) for name, state in states.items() if name not in begin
        }
        for name, at in begin.items():
            place = self._checked(connection, name, at, states.get(name))
            if place is not None:
                places[name] = place
        return places

    def _checked(
        self, connection: Connection, name: str, at: StreamPosition, state: StreamState | None
    ) -> StreamPosition | None:
        fail, retention = self.options.fail_on_data_loss, partial(connection.retention, name)
        seq, since_ns = self._quiet.get(name, (0, 0))
        quiet_ns = time.monotonic_ns() - since_ns if seq == at.seq else None
        if self._archive is not None and state is not None and self._archive.has(at, state):
            if fail:
                self._archive.check_place(at, state, lambda: retention().replaced(at.oldest_ns, quiet_ns))
            return at
        return checked(name, at, state, fail=fail, retention=retention, quiet_ns=quiet_ns)

    def _measure(self, connection: Connection, states: Mapping[str, StreamState]) -> Measure:
        if self._archive is None or not states:
            return connection.measure(self.options.subjects, self.options.transport)
        (state,) = states.values()  # an archive is that of one stream
        return self._archive.measure(connection, state)

    def _plan(self, connection: Connection, begin: Offset, end: Offset) -> list[InputPartition]:
        tasks: list[InputPartition] = []
        window = self._window
        if self.options.target.kind == "object":
            window = Window(subjects=(f"$O.{self.options.target.names[0]}.M.>",))
        moved = list(begin.streams_with(end))
        self._hold_new(connection, {**{name: start for name, start, _ in moved}, **begin.positions})
        for name, start, stop in moved:
            state = connection.state(name)
            place = self._checked(connection, name, start, state)
            if state is None or place is None or place.identity != stop.identity:
                continue  # an accepted loss: the stream of this batch is gone
            if self._archive is not None:
                tasks += self._archive.plan(connection, state, place, stop.seq - 1, window)
                continue
            tasks += plan_range(connection, self.options, name, place.identity, place.seq, stop.seq - 1, window)
        return tasks

    def _commit(self, connection: Connection, done: Offset) -> None:
        self._hold(connection, done.positions)
        if self.options.durable is None:
            return
        for name, at in done.positions.items():
            if at.seq <= 1:
                continue
            self._acks_of(connection, name, self.options.durable).ack_through(at.seq - 1)

    def _check_archive(self, connection: Connection) -> None:
        """Look for the archive before a batch is made, also if everything is live."""
        if self._archive is not None:
            for state in self._states(connection).values():
                self._archive.check(state)

    def _check_durable(self, connection: Connection, streams: Iterable[str]) -> None:
        """Look for the consumers before a batch is made; a stream that is gone is somebody else's matter."""
        if self.options.durable is not None:
            for name in streams:
                if connection.state(name) is not None:
                    self._acks_of(connection, name, self.options.durable)

    def _acks_of(self, connection: Connection, stream: str, consumer: str) -> DurableAcks:
        link = connection.client.link
        acks = self._acks.get(stream)
        if acks is None or not acks.uses(link):
            acks = self._acks[stream] = DurableAcks(link, stream, consumer)
        return acks

    def _hold(self, connection: Connection, positions: Mapping[str, StreamPosition]) -> None:
        if self._holding(connection):
            self._holds.keep(connection, positions, time.monotonic_ns())

    def _hold_new(self, connection: Connection, positions: Mapping[str, StreamPosition]) -> None:
        if self._holding(connection):
            self._holds.keep_new(connection, positions, time.monotonic_ns())

    def _holding(self, connection: Connection) -> bool:
        return self.options.hold and self.options.transport in ("auto", "bulk") and connection.is_slipstream
