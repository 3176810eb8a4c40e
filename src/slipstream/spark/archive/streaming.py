"""Streaming reads of a stream and its archive: where a query begins, whether its place is good, how far a batch goes.

    archive  |1 ............ 800|
    stream                   |801 ......... 1000|      a batch may begin in the one and end in the other
                              border

Offsets are plain sequences, as without an archive: which side a message is on is decided anew whenever somebody looks,
by the stream's first message. So a checkpoint does not care whether messages are archived and dropped meanwhile.

What this is not: the tasks of a batch, which are planned and read by `archived`, as for batch reads; or the count of
messages, which is made by `archived_measure`.

Invariant: numbers of messages below the border come from the archive as it was after the border was seen, and a
measure whose border moved meanwhile is made again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.datasource import InputPartition

from slipstream.spark.archive.archived import (
    Replaced,
    check_gap,
    first_wanted,
    oldest_known,
    open_archive,
    plan_archived,
    state_of,
)
from slipstream.spark.archive.measure import first_at, measure_both, measure_files, within_bytes
from slipstream.spark.runtime.connection import Connection
from slipstream.spark.runtime.errors import DataLoss
from slipstream.spark.runtime.stream_state import Measure, Measured, StreamState
from slipstream.spark.source.offsets import StreamPosition
from slipstream.spark.source.options import SourceOptions, StartingPoint
from slipstream.spark.source.ranges import Window, plan_range

if TYPE_CHECKING:
    from slipstream.spark.lake import Lake

__all__ = ["StreamArchive"]

_T = TypeVar("_T")
_ATTEMPTS = 10
_COUNTS_MAX = 16  # remembered; a query that waits asks for two


class StreamArchive:
    """The archive of a streaming query's stream."""

    def __init__(self, options: SourceOptions) -> None:
        """Nothing is opened yet."""
        self._options = options
        # A batch has its place from the checkpoint: how a new query begins does not count for it.
        self.reading = replace(options, start=StartingPoint(), adjust=False)
        self._opened: tuple[StreamState, Lake] | None = None
        self._counts: dict[tuple[object, ...], Measured] = {}  # by what was asked, for a query that waits

    def check(self, state: StreamState) -> None:
        """Look whether there is an archive, and it is that of the stream.

        Raises:
            LakeError: there is none, or it is of another stream.
        """
        self._opened = (state, open_archive(self._options, state))

    def start(self, connection: Connection, state: StreamState) -> int:
        """First sequence of a new query.

        Raises:
            DataLoss: it is older than what is archived, and that is not to be adjusted.
            LakeError: there is no such archive.
        """
        self.check(state)
        lake, start = self._lake(state), self._options.start
        upto = lake.facts.archived_upto
        if start.latest:
            return state.last + 1
        if start.time_ns is not None:
            time_ns = start.time_ns
            archived = self._look(state, lambda files: first_at(files, time_ns, state.first - 1))
            if archived is not None:
                return archived
            live = connection.seq_at(state, time_ns, self._options.transport)
            # What is missing between the two may be younger than the time, unless the stream has older messages.
            return min(upto + 1, live) if upto and live == state.first and not self._options.adjust else live
        begin = first_wanted(self._options, lake, state, start.seq)
        if self._options.adjust:
            begin = max(begin, oldest_known(lake, state) if begin <= upto else state.first)
        return begin

    def has(self, at: StreamPosition, state: StreamState) -> bool:
        """Whether a place is on this side of the border: the stream has no more what is there."""
        return at.identity == state.identity and at.seq < state.first

    def check_place(self, at: StreamPosition, state: StreamState, replaced: Replaced) -> None:
        """Look whether everything between a place and the stream's first message is archived.

        Raises:
            DataLoss: something is not, and was neither erased nor replaced by newer messages.
            LakeError: there is no such archive.
        """
        lake = self._lake(state)
        oldest = oldest_known(lake, state)
        # What an erasure took from the front of an archive leaves no other trace than its number.
        if oldest - at.seq > lake.facts.erased and lake.files() and not replaced():
            raise DataLoss(
                f"messages {at.seq} to {oldest - 1} of stream {state.name!r} are neither archived nor in the stream: "
                "its archive begins behind them; set failOnDataLoss=false to read without them"
            )
        check_gap(self._options.archive, lake, state, at.seq, state.first - 1, replaced)

    def measure(self, connection: Connection, state: StreamState) -> Measure:
        """Counts messages on both sides of the border; `state` is the stream when somebody last looked."""
        live = connection.measure(self._options.subjects, self._options.transport)

        def ask(stream: str, first: int, last: int, max_messages: int | None, max_bytes: int | None) -> Measured:
            seen = state
            for _ in range(_ATTEMPTS):
                found = measure_both(
                    self._count, live, seen, first, last, max_messages=max_messages, max_bytes=max_bytes
                )
                border, seen = seen.first, state_of(connection, stream)
                if seen.first == border or seen.first <= first or found.last < border:
                    return found
            raise DataLoss(f"the front of stream {stream!r} moves so fast that no batch can be planned; try again")

        return within_bytes(ask, self._options.limits)

    def plan(
        self, connection: Connection, state: StreamState, place: StreamPosition, last: int, window: Window
    ) -> list[InputPartition]:
        """The tasks of a batch.

        Raises:
            DataLoss: messages are neither archived nor in the stream.
            LakeError: there is no such archive.
        """
        name = state.name
        if place.seq >= state.first:
            tasks = plan_range(connection, self.reading, name, place.identity, place.seq, last, window)
            if state_of(connection, name).first <= place.seq:
                return [*tasks]
        elif last > state.last and self.reading.fail_on_data_loss:
            raise DataLoss(
                f"stream {name!r} ends at {state.last}, but this query has read up to {last}: the server has lost "
                "messages or was restored from a backup; set failOnDataLoss=false to go on with what is there"
            )
        return plan_archived(connection, self.reading, name, place.seq, last, window, oldest_ns=None)

    def _lake(self, state: StreamState) -> Lake:
        """The archive, opened after the stream's first message was where it is now."""
        if self._opened is None or self._opened[0].first != state.first or self._opened[0].identity != state.identity:
            self.check(state)
        assert self._opened is not None
        return self._opened[1]

    def _count(
        self, state: StreamState, first: int, last: int, max_messages: int | None, max_bytes: int | None
    ) -> Measured:
        """Count archived messages; once, while nothing changes: a query that waits asks again and again."""

        def count(lake: Lake) -> Measured:
            asked = (lake.version, first, last, max_messages, max_bytes)
            if asked not in self._counts:
                if len(self._counts) >= _COUNTS_MAX:
                    self._counts.clear()
                subjects = self._options.subjects
                self._counts[asked] = measure_files(lake, first, last, subjects, max_messages, max_bytes)
            return self._counts[asked]

        return self._look(state, count)

    def _look(self, state: StreamState, call: Callable[[Lake], _T]) -> _T:
        """Read files of the archive, as it is now if it was rewritten since it was opened."""
        for _ in range(_ATTEMPTS):
            try:
                return call(self._lake(state))
            except FileNotFoundError:
                self._opened = None
        raise DataLoss(f"the archive at {self._options.archive} is rewritten all the time, or lacks files; try again")
