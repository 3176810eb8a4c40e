"""What a stream has no more, read from its archive in the same query: the option `archive`.

The cut between the two is the stream's first message. It moves while queries are planned and read: an archive job that
runs meanwhile moves messages from the one side to the other. So a plan is made anew until the cut stood still, and a
task that finds the front of its range gone takes that from the archive. What is on neither side is an error.

What this is not: a fast way to read all of a large archive. `slipstream.spark.table` leaves that to Spark's own Parquet
reader and uses this for what is live.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from slipstream.spark.connection import Connection, retrying
from slipstream.spark.errors import DataLoss
from slipstream.spark.options import SourceOptions
from slipstream.spark.positions import StreamState
from slipstream.spark.ranges import RangePartition, Window, plan_range, read_range
from slipstream.spark.rows import Shaper

if TYPE_CHECKING:
    import pyarrow as pa

    from slipstream.spark.lake import Lake, Wish

__all__ = ["FilePartition", "plan_archived", "read_archived"]

_ATTEMPTS = 10


@dataclass(frozen=True, init=False)
class FilePartition(InputPartition):
    """One task: the messages of one file that are wanted."""

    path: str
    wish: Wish

    def __init__(self, path: str, wish: Wish) -> None:
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "wish", wish)


def plan_archived(
    connection: Connection, options: SourceOptions, name: str, first: int | None, last: int | None, window: Window
) -> list[InputPartition]:
    """Tasks for a range, part of which may be archived.

    Args:
        connection: to the server.
        options: of the read; `archive` is set.
        name: of the stream.
        first: None for the oldest message there is, archived or not.
        last: inside; None for the newest.
        window: subjects and times.

    Raises:
        DataLoss: the stream is gone, or messages are neither archived nor in the stream.
        LakeError: there is no such archive.
    """
    for _ in range(_ATTEMPTS):
        state = _state(connection, name)
        lake = _lake(options, state)  # after the stream: what that has no more is archived by now
        end = state.last if last is None else min(last, state.last)
        files, begin = _files(options, lake, state, first, end, window)
        tasks: list[InputPartition] = [*files]
        tasks += plan_range(connection, options, name, state.identity, begin, end, window)
        if _state(connection, name).first == state.first:
            return tasks
    raise DataLoss(f"the front of stream {name!r} moves so fast that no read can be planned; try again")


def read_archived(
    options: SourceOptions, shaper: Shaper, partition: RangePartition | FilePartition
) -> Iterator[pa.RecordBatch]:
    """The messages of a task.

    Raises:
        DataLoss: messages that were planned are gone.
    """
    if isinstance(partition, FilePartition):
        yield from _read_file(shaper, partition)
        return
    stream = partition.stream
    state = retrying(options.reach, options.read_timeout_ns, lambda connection: _state(connection, stream))
    if state.first > partition.first and state.identity == partition.identity:
        files, begin = _files(options, _lake(options, state), state, partition.first, partition.last, partition.window)
        rows = 0
        for file in files:
            for batch in _read_file(shaper, file):
                rows += batch.num_rows
                yield batch
        planned = None if partition.messages is None else partition.messages - rows
        partition = replace(partition, first=min(begin, partition.last + 1), messages=planned)
    yield from read_range(options, shaper, partition)


def _state(connection: Connection, name: str) -> StreamState:
    state = connection.state(name)
    if state is None:
        raise DataLoss(f"there is no stream {name!r} on this server")
    return state


def _lake(options: SourceOptions, state: StreamState) -> Lake:
    from slipstream.spark.lake import LakeError, open_lake

    lake = open_lake(options.archive)
    if lake.facts.identity != state.identity:
        known = lake.facts
        raise LakeError(f"the archive at {options.archive} is of another stream: {known.stream} {known.identity}")
    return lake


def _files(
    options: SourceOptions, lake: Lake, state: StreamState, first: int | None, last: int, window: Window
) -> tuple[list[FilePartition], int]:
    """The files of a range, and where its live part begins."""
    from slipstream.spark.lake import Wish, is_erased

    known = lake.files()
    oldest = known[0].first_seq if known else state.first
    begin = oldest if first is None else first
    if begin < oldest and begin < state.first and options.start.seq is not None and not options.adjust:
        raise DataLoss(
            f"startingSequence {begin} of stream {state.name!r} is older than what is archived (from {oldest}); set "
            "outOfRange=adjust to begin there"
        )
    archived_end = min(state.first - 1, last)
    if begin > archived_end:
        return [], max(begin, state.first)
    missing = max(begin, lake.facts.archived_upto + 1)
    is_strict = options.fail_on_data_loss and not options.adjust
    if missing <= archived_end and is_strict and not is_erased(options.archive, missing, archived_end):
        raise DataLoss(
            f"messages {missing} to {archived_end} of stream {state.name!r} are "
            "neither archived nor in the stream; set failOnDataLoss=false to read without them"
        )
    wish = Wish(begin, archived_end, window.start_time_ns, window.end_time_ns, window.subjects)
    return [FilePartition(lake.path_of(file), wish) for file in lake.select(wish)], state.first


def _read_file(shaper: Shaper, partition: FilePartition) -> Iterator[pa.RecordBatch]:
    from slipstream.spark.lake.files import read_file

    stored = {"size": "payload", "reply": "seq"}
    wanted = shaper.stream_columns
    columns = tuple(dict.fromkeys(stored.get(name, name) for name in wanted))
    try:
        for batch in read_file(partition.path, columns, partition.wish):
            yield shaper.shape(batch if columns == wanted else _derived(batch, wanted))
    except FileNotFoundError as error:
        raise DataLoss(
            f"{partition.path} is gone: the archive was compacted or something was erased while it was read; run the "
            "query again"
        ) from error


def _derived(batch: pa.RecordBatch, wanted: tuple[str, ...]) -> pa.RecordBatch:
    """Columns that a file does not have of itself."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = []
    for name in wanted:
        if name == "size":
            arrays.append(pc.cast(pc.binary_length(batch.column("payload")), pa.int32()))
        elif name == "reply":
            arrays.append(pa.nulls(batch.num_rows, pa.string()))
        else:
            arrays.append(batch.column(name))
    return pa.RecordBatch.from_arrays(arrays, names=list(wanted))
