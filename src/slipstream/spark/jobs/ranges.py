"""Ranges of a stream as work: planned once by the driver, read by workers, again and again if need be."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from slipstream.bulk import BulkError, Plan
from slipstream.jetstream.errors_table import STREAM_NOT_FOUND
from slipstream.spark.jobs.tasks import JobError
from slipstream.spark.runtime.connection import back_off, drop_connection, get_connection, retrying
from slipstream.spark.runtime.pieces import even_pieces
from slipstream.spark.runtime.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "NoStream",
    "ReadRange",
    "StreamNow",
    "again",
    "place",
    "plan_stream",
    "read_batches",
    "reason",
    "stream_facts",
]

_T = TypeVar("_T")
_SECRET = re.compile(r"(?<=//)[^@,/]*@")
_CALL = re.compile(r"^(?:STREAM|CONSUMER|BULK)(?:\.[A-Z]+)+(?:\.\S+)?: (?:staged part invalid: )?")
RETRY_NS = 60_000_000_000
FIRST_ANSWER_NS = 2_000_000_000  # a server that is not there at the beginning is a wrong address


class NoStream(JobError):
    """There is no stream of the name that was given."""


@dataclass(frozen=True)
class ReadRange:
    """Sequences `first` to `last` of one stream, both inside."""

    reach: Reach
    stream: str
    identity: str
    first: int
    last: int
    messages: int | None = None  # exactly so many; None if that is not known
    subjects: tuple[str, ...] = ()
    start_ns: int | None = None
    end_ns: int | None = None


@dataclass(frozen=True)
class StreamNow:
    """A stream now."""

    name: str
    identity: str
    first: int
    last: int
    messages: int


def stream_facts(reach: Reach, stream: str) -> StreamNow:
    """Ask for a stream.

    Raises:
        NoStream: there is none.
        JobError: the server cannot be reached, or refused.
    """
    try:
        info = retrying(reach, FIRST_ANSWER_NS, lambda connection: connection.client.stream_info(stream))
    except BulkError as error:
        if error.err_code == STREAM_NOT_FOUND.err_code:
            raise NoStream(f"there is no stream {stream!r} on {place(reach)}") from error
        raise JobError(f"{stream}: {reason(error)}") from error
    state = info["state"]
    first = state["first_seq"] if state["messages"] else state["last_seq"] + 1
    return StreamNow(stream, info["identity"], first, state["last_seq"], state["messages"])


def plan_stream(
    reach: Reach,
    facts: StreamNow,
    first: int,
    last: int,
    *,
    subjects: Sequence[str] = (),
    start_ns: int | None = None,
    end_ns: int | None = None,
    target_bytes: int = 128 << 20,
    at_once: int = 1,
) -> list[ReadRange]:
    """Cut a range into pieces of about equal size; none without messages.

    Args:
        reach: the server.
        facts: the stream.
        first: first sequence.
        last: last sequence, inside.
        subjects: filters; empty for all.
        start_ns: only messages stored at or after this time.
        end_ns: only messages stored before this time.
        target_bytes: about so many bytes of messages a piece, or fewer.
        at_once: so many pieces are worked on at a time; there are rather more pieces than some of them idle at the end.

    Raises:
        JobError: the server refused.
    """
    if last < first:
        return []

    def ask(partitions: int | None) -> Plan:
        return retrying(
            reach,
            RETRY_NS,
            lambda connection: connection.client.plan(
                facts.name,
                first,
                last,
                subjects=subjects,
                start_time_ns=start_ns,
                end_time_ns=end_ns,
                partitions=partitions,
                target_bytes=target_bytes,
                identity=facts.identity,
            ),
        )

    try:
        plan = ask(None)
        pieces = even_pieces(len(plan.splits), plan.bytes, target_bytes, at_once)
        if pieces > len(plan.splits):
            plan = ask(pieces)
    except BulkError as error:
        raise JobError(f"{facts.name}: {reason(error)}") from error
    window = (tuple(subjects), start_ns, end_ns)
    return [
        ReadRange(reach, facts.name, facts.identity, one.first, one.last, one.messages if plan.exact else None, *window)
        for one in plan.splits
        if one.messages or not plan.exact
    ]


def read_batches(piece: ReadRange, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """All messages of a piece, in order; an error if one is missing."""
    client = get_connection(piece.reach).client
    yield from client.read(
        piece.stream,
        piece.first,
        piece.last,
        subjects=piece.subjects,
        start_time_ns=piece.start_ns,
        end_time_ns=piece.end_ns,
        columns=columns,
        identity=piece.identity,
        expect_messages=piece.messages,
    )


def place(reach: Reach) -> str:
    """The servers, without secrets that their addresses may hold."""
    return _SECRET.sub("", reach.servers)


def reason(error: BulkError) -> str:
    """What went wrong, without the name of the call that did."""
    return _CALL.sub("", str(error))


def again(reach: Reach, work: Callable[[], _T]) -> _T:
    """Do a piece of work from its beginning until it works: servers restart, connections break.

    Raises:
        BulkError: for a reason that will not pass, or for too long.
    """
    deadline = time.monotonic() + RETRY_NS / 1e9
    attempt = 0
    while True:
        try:
            return work()
        except BulkError as error:
            drop_connection(reach)
            pause = back_off(attempt)
            if not error.retryable or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        attempt += 1
