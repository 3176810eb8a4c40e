"""What a stream has no more, read from its archive in the same query: the option `archive`.

The cut between the two is the stream's first message. It moves while queries are planned and read: an archive job that
runs meanwhile moves messages from the one side to the other. So a plan is made anew until the cut stood still, and a
task that finds the front of its range gone takes that from the archive. What is on neither side is an error.

What this is not: a fast way to read all of a large archive. `slipstream.spark.table` leaves that to Spark's own Parquet
reader and uses this for what is live. Where a streaming query stands and how far a batch goes is in `archived_stream`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from slipstream.spark.runtime.connection import Connection, retrying
from slipstream.spark.runtime.errors import DataLoss
from slipstream.spark.runtime.stream_state import StreamState
from slipstream.spark.source.options import SourceOptions
from slipstream.spark.source.ranges import RangePartition, Window, plan_range, read_range
from slipstream.spark.source.rows import Shaper

if TYPE_CHECKING:
    import pyarrow as pa

    from slipstream.spark.lake import Lake, LakeFile, Wish

__all__ = [
    "FilePartition",
    "Replaced",
    "check_gap",
    "first_wanted",
    "oldest_known",
    "open_archive",
    "plan_archived",
    "read_archived",
    "state_of",
]

Replaced = Callable[[], bool]
"""Whether newer messages, and no limit, took the place of those that are missing; asks the server."""

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
    connection: Connection,
    options: SourceOptions,
    name: str,
    first: int | None,
    last: int | None,
    window: Window,
    *,
    oldest_ns: int | None = 0,
) -> list[InputPartition]:
    """Tasks for a range, part of which may be archived.

    Args:
        connection: to the server.
        options: of the read; `archive` is set.
        name: of the stream.
        first: None for the oldest message there is, archived or not.
        last: inside; None for the newest.
        window: subjects and times.
        oldest_ns: no message of the range was stored before; None if their age does not matter. See `retention`.

    Raises:
        DataLoss: the stream is gone, or messages are neither archived nor in the stream.
        LakeError: there is no such archive.
    """
    for _ in range(_ATTEMPTS):
        state = state_of(connection, name)
        lake = open_archive(options, state)  # after the stream: what that has no more is archived by now
        end = state.last if last is None else min(last, state.last)
        begin = first_wanted(options, lake, state, first)
        files, live = _files(
            options, lake, state, begin, end, window, lambda: connection.retention(name).replaced(oldest_ns)
        )
        tasks: list[InputPartition] = [*files]
        tasks += plan_range(connection, options, name, state.identity, live, end, window)
        if state_of(connection, name).first == state.first:
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
        yield from _read_file(options, shaper, partition)
        return
    stream = partition.stream
    state = retrying(options.reach, options.read_timeout_ns, lambda connection: state_of(connection, stream))
    if state.first > partition.first and state.identity == partition.identity:

        def replaced() -> bool:
            return retrying(options.reach, options.read_timeout_ns, lambda one: one.retention(stream)).replaced(None)

        lake = open_archive(options, state)
        files, begin = _files(options, lake, state, partition.first, partition.last, partition.window, replaced)
        rows = 0
        for file in files:
            for batch in _read_file(options, shaper, file):
                rows += batch.num_rows
                yield batch
        planned = None if partition.messages is None else partition.messages - rows
        partition = replace(partition, first=min(begin, partition.last + 1), messages=planned)
    yield from read_range(options, shaper, partition)


def state_of(connection: Connection, name: str) -> StreamState:
    """The stream now.

    Raises:
        DataLoss: there is none.
    """
    state = connection.state(name)
    if state is None:
        raise DataLoss(f"there is no stream {name!r} on this server")
    return state


def open_archive(options: SourceOptions, state: StreamState) -> Lake:
    """The archive of a stream, as it is now.

    Raises:
        LakeError: there is none, or it is of another stream.
    """
    from slipstream.spark.lake import LakeError, open_lake

    lake = open_lake(options.archive)
    if lake.facts.identity != state.identity:
        known = lake.facts
        raise LakeError(f"the archive at {options.archive} is of another stream: {known.stream} {known.identity}")
    return lake


def oldest_known(lake: Lake, state: StreamState) -> int:
    """First sequence of what is archived or in the stream."""
    known = lake.files()
    return min(known[0].first_seq, state.first) if known else state.first


def first_wanted(options: SourceOptions, lake: Lake, state: StreamState, first: int | None) -> int:
    """Where a new query begins; None for the oldest message there is.

    Raises:
        DataLoss: `startingSequence` is older than that, and is not to be adjusted.
    """
    oldest = oldest_known(lake, state)
    if first is None:
        return oldest
    if first < oldest and options.start.seq is not None and not options.adjust:
        raise DataLoss(
            f"startingSequence {first} of stream {state.name!r} is older than what is archived (from {oldest}); set "
            "outOfRange=adjust to begin there"
        )
    return first


def check_gap(location: str, lake: Lake, state: StreamState, begin: int, last: int, replaced: Replaced) -> None:
    """Look whether what the stream has no more was archived, was erased on purpose, or was replaced by newer messages.

    Raises:
        DataLoss: neither.
    """
    from slipstream.spark.lake import is_erased

    missing = max(begin, lake.facts.archived_upto + 1)
    archived_end = min(state.first - 1, last)
    if missing <= archived_end and not is_erased(location, missing, archived_end) and not replaced():
        raise DataLoss(
            f"messages {missing} to {archived_end} of stream {state.name!r} are "
            "neither archived nor in the stream; set failOnDataLoss=false to read without them"
        )


def _files(
    options: SourceOptions,
    lake: Lake,
    state: StreamState,
    begin: int,
    last: int,
    window: Window,
    replaced: Replaced,
) -> tuple[list[FilePartition], int]:
    """The files of a range, and where its live part begins."""
    from slipstream.spark.lake import Wish

    archived_end = min(state.first - 1, last)
    if begin > archived_end:
        return [], max(begin, state.first)
    if options.fail_on_data_loss and not options.adjust:
        check_gap(options.archive, lake, state, begin, last, replaced)
    wish = Wish(begin, archived_end, window.start_time_ns, window.end_time_ns, window.subjects)
    return [FilePartition(lake.path_of(file), _within(wish, file)) for file in lake.select(wish)], state.first


def _within(wish: Wish, file: LakeFile) -> Wish:
    """The same wish, for this file's sequences alone: should it be replaced, other files have just these."""
    first, last = wish.first_seq or file.first_seq, file.last_seq if wish.last_seq is None else wish.last_seq
    return replace(wish, first_seq=max(first, file.first_seq), last_seq=min(last, file.last_seq))


def _read_file(options: SourceOptions, shaper: Shaper, partition: FilePartition) -> Iterator[pa.RecordBatch]:
    """The wanted messages of a file, or of those that a compaction or erasure has put in its place."""
    from slipstream.spark.lake import open_lake

    wish, files = partition.wish, [(partition.path, partition.wish.last_seq or 0)]
    for _ in range(_ATTEMPTS):
        try:
            for path, last in files:
                yield from _shaped(shaper, path, wish)
                wish = replace(wish, first_seq=last + 1)
            return
        except FileNotFoundError:  # when it is opened: nothing of it was delivered
            lake = open_lake(options.archive)
            files = [(lake.path_of(file), file.last_seq) for file in lake.select(wish)]
    raise DataLoss(
        f"{partition.path} is gone, and so is what took its place: the archive is rewritten all the time; run the "
        "query again"
    )


def _shaped(shaper: Shaper, path: str, wish: Wish) -> Iterator[pa.RecordBatch]:
    from slipstream.spark.lake.files import read_file

    stored = {"size": "payload", "reply": "seq"}
    wanted = shaper.stream_columns
    columns = tuple(dict.fromkeys(stored.get(name, name) for name in wanted))
    for batch in read_file(path, columns, wish):
        yield shaper.shape(batch if columns == wanted else _derived(batch, wanted))


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
