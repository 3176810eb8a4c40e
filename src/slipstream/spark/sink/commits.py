"""What tasks of a write tell the driver, and what the driver does when all of them are done.

    tasks: stage or publish ─► TaskDone ─► driver: commit once, fenced by (transaction, batch)

The commit of a staged write may be asked for twice, because the driver died after the first time and Spark runs the
batch again, or because an answer was lost: the server keeps the number of the last batch with the messages, and answers
"duplicate" (`jetstream.bulk.commits`). If such a batch is not what it was, its query has lost the end of its
checkpoint: Spark does not sync it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage

from slipstream.bulk import BulkError
from slipstream.bulk.writing import CommitResult, StagedPart
from slipstream.jetstream.bulk.errors import TOO_MANY_TXNS
from slipstream.spark.runtime.connection import Connection, drop_connection, get_connection, retrying
from slipstream.spark.runtime.errors import SparkSideError
from slipstream.spark.sink.options import SinkOptions
from slipstream.spark.sink.publish import PlainMessage, RowPublisher

__all__ = ["ATOMIC_MESSAGES_MAX", "TaskDone", "abort_parts", "commit_atomic", "commit_parts", "commit_stream"]

ATOMIC_MESSAGES_MAX = 1_000  # of one atomic batch; the limit of nats-server
_MARK = "Slipstream-Txn"
_STORE_FAILED = 10077  # what servers say of a full stream, among others
_LOOK_BACK = 10_000  # messages looked through for the mark of an earlier commit


@dataclass
class TaskDone(WriterCommitMessage):
    """The result of one task."""

    txn: str
    partition: int
    parts: dict[str, Any] = field(default_factory=dict)  # staged part by stream
    rows: int = 0
    dead: int = 0  # rows that went to the dead letters
    messages: list[PlainMessage] = field(default_factory=list)  # of an atomic batch
    dead_letters: list[PlainMessage] = field(default_factory=list)  # its dead letters
    replacing: list[str] = field(default_factory=list)  # subjects of objects written, of keys purged


def commit_parts(options: SinkOptions, done: Sequence[TaskDone], batch_id: int) -> None:
    """Make the staged parts of a batch visible, in the order of their partitions, all or nothing.

    Dead letters, which may go to another stream, come first: a batch that is committed has its dead letters.

    Raises:
        SparkSideError: the stream is full; or the server has the batch of a query, but not with these messages.
        BulkError: the server refused; nothing is visible.
    """
    main = options.target.one
    ordered = sorted(done, key=lambda one: one.partition)
    streams = sorted({stream for one in ordered for stream in one.parts}, key=lambda name: name == main)
    txn = ordered[0].txn
    is_query = txn != options.txn_id
    brief = not is_query and not options.txn_is_named  # nobody will repeat it later
    for stream in streams:
        parts = [one.parts[stream] for one in ordered if stream in one.parts]
        result = commit_stream(options, stream, txn, batch_id, parts, brief=brief)
        if result.duplicate and is_query and not options.skips_changed:
            _refuse_if_changed(options, stream, txn, batch_id, result.offered, sum(part["count"] for part in parts))


def commit_stream(
    options: SinkOptions, stream: str, txn: str, batch_id: int, parts: Sequence[StagedPart], *, brief: bool
) -> CommitResult:
    """Commit parts to one stream, again until the server has answered.

    Raises:
        SparkSideError: the stream is full and discards new messages, or remembers as many transactions as it can;
            trying again makes no room.
        BulkError: refused for another reason.
    """

    def commit(connection: Connection) -> CommitResult:
        try:
            return connection.client.commit(stream, txn, batch_id=batch_id, parts=parts, brief=brief)
        except BulkError as error:
            if error.err_code == _STORE_FAILED and "exceeded" in error.text:
                raise SparkSideError(
                    f"stream {stream!r} is full and refuses new messages (discard=new): {error.text}; nothing was "
                    "written; raise its limits or remove messages, then write again"
                ) from error
            if error.err_code == TOO_MANY_TXNS.err_code:
                raise SparkSideError(
                    f"{error.text}; nothing was written; every query, and every txnId of a batch write, takes a place "
                    "until it was idle for a month: write to another stream, or leave out txnId"
                ) from error
            raise

    return retrying(options.reach, options.write_timeout_ns, commit)


def _refuse_if_changed(
    options: SinkOptions, stream: str, txn: str, batch_id: int, offered: int | None, staged: int
) -> None:
    """A batch that is repeated has the same messages, and is the last one: else a query has forgotten what it wrote.

    Raises:
        SparkSideError: it is not.
    """
    if offered is None:
        fence = retrying(options.reach, options.write_timeout_ns, lambda found: found.client.fence(stream, txn))
        if fence is None or fence.batch_id == batch_id:
            return
        what = f"the query has committed batch {fence.batch_id} already, and now runs batch {batch_id} again"
    elif offered == staged:
        return
    else:
        what = f"what was committed as batch {batch_id} had {offered} messages, now it has {staged}"
    raise SparkSideError(
        f"stream {stream!r}: {what}; nothing was written now. The checkpoint has lost its newest files, or the query "
        "does not give the same rows twice. To lose nothing, start it with a new checkpoint and startingSequence after "
        "what has arrived; to go on with what was committed, set onChangedBatch=skip"
    )


def abort_parts(options: SinkOptions, done: Iterable[TaskDone]) -> None:
    """Drop what was staged for a batch that failed; what cannot be dropped now is swept by the server later."""
    staged = {(stream, one.txn) for one in done for stream in one.parts}
    for stream, txn in sorted(staged):
        try:
            get_connection(options.reach).client.abort(stream, txn)
        except BulkError:
            drop_connection(options.reach)
            return


def commit_atomic(options: SinkOptions, done: Sequence[TaskDone], batch_id: int) -> None:
    """Publish a batch as one atomic batch (ADR-50), unless it is there already.

    The last message carries the transaction and the batch; the stream's last sequence is a condition, so nothing can
    come between looking and writing. Dead letters may be for another stream, so they are no part of it: they are
    published before, with ids, so that those of a batch that runs again are dropped.

    Raises:
        SparkSideError: too many messages, or it cannot be told whether the batch was written.
    """
    ordered = sorted(done, key=lambda one: one.partition)
    messages = [message for one in ordered for message in one.messages]
    dead_letters = [letter for one in ordered for letter in one.dead_letters]
    if not messages and not dead_letters:
        return
    if len(messages) > ATOMIC_MESSAGES_MAX:
        raise SparkSideError(
            f"an atomic batch has at most {ATOMIC_MESSAGES_MAX} messages, this one has {len(messages)}; limit the "
            "source with maxMessagesPerTrigger, or write with mode=transaction to a Slipstream server"
        )
    stream, txn = options.target.one, ordered[0].txn

    def look(connection: Connection) -> int | None:
        return _last_unless_written(connection, stream, txn, batch_id)

    last = retrying(options.reach, options.write_timeout_ns, look)
    if last is None:
        return
    with RowPublisher(options.reach, ATOMIC_MESSAGES_MAX + 1) as publisher:
        for letter in dead_letters:
            publisher.publish(*letter)
        publisher.finish()
        if dead_letters:  # perhaps to this stream
            last = retrying(options.reach, options.write_timeout_ns, look)
        if messages and last is not None:
            publisher.publish_atomic(messages, last, f"{_MARK}: {txn} {batch_id}")


def _last_unless_written(connection: Connection, stream: str, txn: str, batch_id: int) -> int | None:
    """The last sequence of the stream, or None if it has this batch or a later one."""
    state = connection.state(stream)
    if state is None:
        raise SparkSideError(f"there is no stream {stream!r}")
    first = max(state.first, state.last - _LOOK_BACK + 1)
    newest = None
    if first <= state.last:
        for table in connection.client.read(stream, first, state.last, columns=("headers",), identity=state.identity):
            for headers in table.column("headers").to_pylist():
                for name, values in headers or ():
                    if name == _MARK and values and values[0].partition(" ")[0] == txn:
                        newest = int(values[0].partition(" ")[2])
    if newest is not None:
        return None if newest >= batch_id else state.last
    if first > state.first and batch_id > 0:
        raise SparkSideError(
            f"the last {_LOOK_BACK} messages of stream {stream!r} are from others: it cannot be told whether batch "
            f"{batch_id} was written; mode=atomic is for streams that one query writes"
        )
    return state.last
