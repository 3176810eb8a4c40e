"""What a task of a write does with its rows: stage them, publish them, or hand them to the driver.

A task that runs again stages anew under another number; only parts that the driver names in its commit count, so
speculative and dead attempts leave nothing behind but space, which the server sweeps.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slipstream.bulk import BulkError
from slipstream.spark.runtime.connection import Connection, drop_connection, retrying, settle_worker
from slipstream.spark.sink.checks import BadRow, Room, refusal
from slipstream.spark.sink.commits import TaskDone, commit_stream
from slipstream.spark.sink.dead_letters import DeadLetterRows, dead_stream
from slipstream.spark.sink.options import SinkOptions
from slipstream.spark.sink.publish import ATOMIC_LINES_BYTES, RowPublisher, plain_messages
from slipstream.spark.sink.rows import RowRules

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TaskPlace", "write_task"]


@dataclass(frozen=True)
class TaskPlace:
    """Where in a query a task is."""

    txn: str
    batch: int
    partition: int


@dataclass(frozen=True)
class _Task:
    """A task at work."""

    options: SinkOptions
    mode: str
    room: Room
    place: TaskPlace
    done: TaskDone
    dead_letters: DeadLetterRows | None


def write_task(
    options: SinkOptions, rules: RowRules, mode: str, place: TaskPlace, batches: Iterator[pa.RecordBatch]
) -> TaskDone:
    """Write the rows of one task.

    Raises:
        SparkSideError: a row cannot be a message and there is no place for dead letters.
        BulkError: the server refused or was lost; Spark runs the task again.
    """
    settle_worker()
    room = retrying(options.reach, options.write_timeout_ns, lambda connection: _room(options, mode, connection))
    with_ids = mode in ("msgid", "atomic")
    dead_letters = (
        DeadLetterRows(options.dlq_subject, place.partition, with_ids=with_ids) if options.dlq_subject else None
    )
    task = _Task(options, mode, room, place, TaskDone(place.txn, place.partition), dead_letters)
    if rules.kind == "object":
        from slipstream.spark.sink.object_sink import object_messages

        checked = object_messages(options, room, task.done, dead_letters, batches)
    else:
        checked = _checked(task, rules, batches)
    writer = {"transaction": _stage, "append": _append, "msgid": _publish, "atomic": _collect}[mode]
    try:
        writer(task, checked)
    except BulkError:
        drop_connection(options.reach)
        raise
    return task.done


# A stream of (messages, dead letters): both as the bulk client and the publisher take them.
_Checked = Iterator[tuple["pa.RecordBatch", "pa.RecordBatch | None"]]


def _checked(task: _Task, rules: RowRules, batches: Iterator[pa.RecordBatch]) -> _Checked:
    done, number = task.done, 0
    for batch in batches:
        if not batch.num_rows:
            continue
        messages = rules.messages(batch)
        if task.mode == "msgid" and not rules.needs_ids:
            messages = _numbered(messages, task.place, number)
        number += messages.num_rows
        bad = rules.bad_rows(batch, messages, task.room)
        if bad and task.dead_letters is None:
            raise refusal(task.room, bad, messages.num_rows)
        good = _without(messages, bad)
        done.replacing += rules.purged(_without(batch, bad))
        done.rows += good.num_rows
        done.dead += len(bad)
        yield good, task.dead_letters.batch(messages, bad) if task.dead_letters is not None and bad else None


def _numbered(messages: pa.RecordBatch, place: TaskPlace, first: int) -> pa.RecordBatch:
    """Messages with ids by their place, which are the same when the query gives the same rows in the same order."""
    import pyarrow as pa

    numbers = range(first, first + messages.num_rows)
    ids = pa.array([f"{place.txn}:{place.batch}:{place.partition}:{one}" for one in numbers])
    return messages.append_column("msg_id", ids)


def _stage(task: _Task, checked: _Checked) -> None:
    """Stage the rows; the driver commits."""
    options, place = task.options, task.place
    stages: dict[str, Any] = {}

    def stage(connection: Connection, stream: str) -> Any:
        if stream not in stages:
            attempt = secrets.randbits(31)
            stages[stream] = connection.client.stage(
                stream, place.txn, part=place.partition, attempt=attempt, keep_s=options.stage_keep_s
            )
        return stages[stream]

    def begin(connection: Connection) -> Connection:
        stage(connection, task.room.stream)
        return connection

    connection = retrying(options.reach, options.write_timeout_ns, begin)
    dead_letters = dead_stream(connection, options.dlq_subject) if options.dlq_subject is not None else ""
    for messages, dead in checked:
        if messages.num_rows:
            stage(connection, task.room.stream).write(messages)
        if dead is not None:
            stage(connection, dead_letters).write(dead)
    task.done.parts = {stream: one.close() for stream, one in stages.items()}


def _append(task: _Task, checked: _Checked) -> None:
    """At least once: on our server a small transaction a task, elsewhere plain publishes."""
    options, done = task.options, task.done
    offers = retrying(options.reach, options.write_timeout_ns, lambda connection: connection.is_slipstream)
    if not offers:
        _publish(task, checked)
        return
    own = TaskPlace(f"append-{secrets.token_hex(11)}", 0, 0)
    _stage(replace(task, place=own), checked)
    parts, done.parts = done.parts, {}

    for stream, part in parts.items():
        commit_stream(options, stream, own.txn, 0, [part], brief=True)


def _publish(task: _Task, checked: _Checked) -> None:
    """Publish one by one. A stream drops a message whose id it has had within its window."""
    with RowPublisher(task.options.reach, task.options.max_in_flight) as publisher:
        for messages, dead in checked:
            publisher.publish_batch(messages)
            if dead is not None:
                publisher.publish_batch(dead)
        publisher.finish()


def _collect(task: _Task, checked: _Checked) -> None:
    """Hand the messages to the driver, which publishes them as one batch, and the dead letters before it."""
    for messages, dead in checked:
        task.done.messages += plain_messages(messages)
        if dead is not None:
            task.done.dead_letters += plain_messages(dead)


def _room(options: SinkOptions, mode: str, connection: Connection) -> Room:
    stream = options.target.one
    info = connection.client.stream_info(stream)
    config = info["config"]
    limit = connection.client.link.max_payload
    own = int(config.get("max_msg_size", -1))
    return Room(
        stream,
        tuple(config.get("subjects") or ()),
        min(limit, own) if own > 0 else limit,
        ATOMIC_LINES_BYTES if mode == "atomic" else 0,
    )


def _without(rows: pa.RecordBatch, bad: list[BadRow]) -> pa.RecordBatch:
    import pyarrow as pa

    if not bad:
        return rows
    wrong = {one.row for one in bad}
    return rows.filter(pa.array([row not in wrong for row in range(rows.num_rows)]))
