"""How many messages an archive has, alone or with its stream behind it, and where a batch of them ends.

Sequences decide: those of whole files are in the table's log, so that of one file at most they are read, and sizes only
where bytes are limited.

What this is not: talk to a server. The stream's side is asked through `Measure`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from slipstream.spark.runtime.stream_state import Measure, Measured, StreamState
from slipstream.spark.source.options import ReadLimits

if TYPE_CHECKING:
    import pyarrow as pa

    from slipstream.spark.lake import Lake

__all__ = ["first_at", "measure_both", "measure_files", "within_bytes"]

_RECORD_HEAD_BYTES = 32  # of a message in the stream, beside subject, headers and payload
_RECORD_STEP_BYTES = 8


def within_bytes(measure: Measure, limits: ReadLimits) -> Measure:
    """Let a count that only asks for a least number of messages end at the limit of bytes, too, if it may.

    A stream knows the bytes of its messages; those of an archive have to be read, and should not all be.
    """
    bytes_most, least = limits.max_bytes, limits.min_messages or 1
    if bytes_most is None:
        return measure

    def ask(stream: str, first: int, last: int, max_messages: int | None, max_bytes: int | None) -> Measured:
        if max_bytes is not None:
            return measure(stream, first, last, max_messages, max_bytes)
        within = measure(stream, first, last, max_messages, bytes_most)
        if within.last == last or within.messages >= least:
            return within
        counted = measure(stream, first, last, least, None)
        return replace(counted, bytes=bytes_most + 1)  # there is more than the limit; how much more does not matter

    return ask


def measure_both(
    count: Callable[[StreamState, int, int, int | None, int | None], Measured],
    live: Measure,
    state: StreamState,
    first: int,
    last: int,
    *,
    max_messages: int | None,
    max_bytes: int | None,
) -> Measured:
    """Measure a range that may begin in the archive and end in the stream.

    Args:
        count: measures the archive.
        live: measures the stream.
        state: the stream; its first message is the border.
        first: first sequence.
        last: last sequence, inside.
        max_messages: cut the range before it has more.
        max_bytes: cut it before it has more, but not before it has one message.
    """
    border = state.first
    if first >= border:
        return live(state.name, first, last, max_messages, max_bytes)
    archived_end = min(border - 1, last)
    archived = count(state, first, archived_end, max_messages, max_bytes)
    if archived.last < archived_end or archived_end == last:
        return archived
    left_messages = None if max_messages is None else max_messages - archived.messages
    left_bytes = None if max_bytes is None else max_bytes - archived.bytes
    if (left_messages is not None and left_messages <= 0) or (left_bytes is not None and left_bytes <= 0):
        return archived
    rest = live(state.name, border, last, left_messages, left_bytes)
    if archived.messages and left_bytes is not None and rest.bytes > left_bytes:
        return archived  # the next message, which is always taken when it is the first, does not fit
    return Measured(rest.last, archived.messages + rest.messages, archived.bytes + rest.bytes)


def measure_files(
    lake: Lake,
    first: int,
    last: int,
    subjects: tuple[str, ...],
    max_messages: int | None,
    max_bytes: int | None,
) -> Measured:
    """Count what an archive has of a range, and cut it before limits are exceeded; one message is always taken.

    Sequences of one file at most are read if messages are limited, those that count and their sizes if bytes are.

    Raises:
        FileNotFoundError: a file is gone.
    """
    from slipstream.spark.lake import Wish
    from slipstream.spark.lake.files import read_file

    wish = Wish(first, last, subjects=subjects)
    columns = ["seq"] if max_bytes is None else ["seq", "subject", "hdr_raw", "payload"]
    messages = size = 0
    taken = first - 1
    for file in lake.select(wish):
        is_whole = not subjects and max_bytes is None and first <= file.first_seq and file.last_seq <= last
        if is_whole and (max_messages is None or messages + file.rows <= max_messages):
            messages, taken = messages + file.rows, file.last_seq
            continue
        for batch in read_file(lake.path_of(file), columns, wish):
            rows, bytes_of_rows = _fitting(
                batch,
                None if max_messages is None else max_messages - messages,
                None if max_bytes is None else max_bytes - size,
                is_first=not messages,
            )
            messages, size = messages + rows, size + bytes_of_rows
            if rows:
                taken = batch.column("seq")[rows - 1].as_py()
            if rows < batch.num_rows:
                return Measured(taken, messages, size)
    return Measured(last, messages, size)


def first_at(lake: Lake, time_ns: int, last: int) -> int | None:
    """The first archived message that was stored at or after a time, up to a sequence."""
    from slipstream.spark.lake import Wish
    from slipstream.spark.lake.files import read_file

    wish = Wish(last_seq=last, start_ns=time_ns)
    for file in lake.select(wish):
        for batch in read_file(lake.path_of(file), ["seq"], wish):
            found: int = batch.column("seq")[0].as_py()
            return found
    return None


def _fitting(
    batch: pa.RecordBatch, messages_left: int | None, bytes_left: int | None, *, is_first: bool
) -> tuple[int, int]:
    """How many rows of a batch fit, and their bytes; 0 bytes if those do not matter."""
    import pyarrow.compute as pc

    rows = batch.num_rows if messages_left is None else min(batch.num_rows, messages_left)
    if bytes_left is None:
        return rows, 0
    sums = pc.cumulative_sum(_record_bytes(batch))
    rows = min(rows, pc.sum(pc.less_equal(sums, bytes_left)).as_py() or 0)
    if is_first:
        rows = max(rows, 1)
    return rows, sums[rows - 1].as_py() if rows else 0


def _record_bytes(batch: pa.RecordBatch) -> pa.Array:
    """About what the messages would take in the stream: limits mean the same on both sides."""
    import pyarrow as pa
    import pyarrow.compute as pc

    total = pa.scalar(_RECORD_HEAD_BYTES + _RECORD_STEP_BYTES - 1, pa.int64())
    for name in ("subject", "hdr_raw", "payload"):
        total = pc.add(pc.cast(pc.fill_null(pc.binary_length(batch.column(name)), 0), pa.int64()), total)
    return pc.subtract(total, pc.bit_wise_and(total, _RECORD_STEP_BYTES - 1))
