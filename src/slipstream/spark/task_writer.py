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
from slipstream.spark.commits import TaskDone, commit_stream
from slipstream.spark.connection import Connection, drop_connection, retrying, settle_worker
from slipstream.spark.errors import OptionError, SparkSideError
from slipstream.spark.publish import Publisher, header_block
from slipstream.spark.sink_options import SinkOptions
from slipstream.spark.sink_rows import BadRow, RowRules

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TaskPlace", "write_task"]

_BAD_ROWS_NAMED = 3  # in an error text
_DEAD_PAYLOAD_MAX = 64 << 10  # bytes of a dead letter's payload; the rest is cut off


@dataclass(frozen=True)
class TaskPlace:
    """Where in a query a task is."""

    txn: str
    batch: int
    partition: int


@dataclass(frozen=True)
class _Room:
    """What the target takes."""

    stream: str
    subjects: tuple[str, ...]
    max_bytes: int


@dataclass(frozen=True)
class _Task:
    """A task at work."""

    options: SinkOptions
    room: _Room
    place: TaskPlace
    done: TaskDone


def write_task(
    options: SinkOptions, rules: RowRules, mode: str, place: TaskPlace, batches: Iterator[pa.RecordBatch]
) -> TaskDone:
    """Write the rows of one task.

    Raises:
        SparkSideError: a row cannot be a message and there is no place for dead letters.
        BulkError: the server refused or was lost; Spark runs the task again.
    """
    settle_worker()
    room = retrying(options.reach, options.write_timeout_ns, lambda connection: _room(options, connection))
    done = TaskDone(place.txn, place.partition)
    if rules.kind == "object":
        from slipstream.spark.object_sink import object_messages

        checked = object_messages(options, done, batches)
    else:
        checked = _checked(options, rules, room, done, batches)
    writer = {"transaction": _stage, "append": _append, "msgid": _publish_ids, "atomic": _collect}[mode]
    try:
        writer(_Task(options, room, place, done), checked)
    except BulkError:
        drop_connection(options.reach)
        raise
    return done


# A stream of (messages, dead letters): both as the bulk client and the publisher take them.
_Checked = Iterator[tuple["pa.RecordBatch", "pa.RecordBatch | None"]]


def _checked(
    options: SinkOptions, rules: RowRules, room: _Room, done: TaskDone, batches: Iterator[pa.RecordBatch]
) -> _Checked:
    for batch in batches:
        if not batch.num_rows:
            continue
        messages = rules.messages(batch)
        done.replacing += rules.purged(batch)
        bad = rules.bad_rows(messages, room.max_bytes, room.subjects if options.to_dlq else ())
        if not bad:
            done.rows += messages.num_rows
            yield messages, None
            continue
        if not options.to_dlq:
            text = "; ".join(f"row {one.row}: {one.reason}" for one in bad[:_BAD_ROWS_NAMED])
            raise SparkSideError(
                f"{len(bad)} of {messages.num_rows} rows cannot be messages of {room.stream}: {text}; "
                "set onError=dlq and dlqSubject to put such rows aside"
            )
        good = _without(messages, bad)
        done.rows += good.num_rows
        done.dead += len(bad)
        yield good, _dead_letters(options, messages, bad)


def _stage(task: _Task, checked: _Checked) -> None:
    """Stage the rows; the driver commits."""
    options, place = task.options, task.place
    stages: dict[str, Any] = {}

    def stage(connection: Connection, stream: str) -> Any:
        if stream not in stages:
            attempt = secrets.randbits(31)
            stages[stream] = connection.client.stage(stream, place.txn, part=place.partition, attempt=attempt)
        return stages[stream]

    def begin(connection: Connection) -> Connection:
        stage(connection, task.room.stream)
        return connection

    connection = retrying(options.reach, options.write_timeout_ns, begin)
    dead_stream = _dead_stream(options, connection)
    for messages, dead in checked:
        if messages.num_rows:
            stage(connection, task.room.stream).write(messages)
        if dead is not None and dead_stream:
            stage(connection, dead_stream).write(dead)
    task.done.parts = {stream: one.close() for stream, one in stages.items()}


def _append(task: _Task, checked: _Checked) -> None:
    """At least once: on our server a small transaction a task, elsewhere plain publishes."""
    options, done = task.options, task.done
    offers = retrying(options.reach, options.write_timeout_ns, lambda connection: connection.is_slipstream)
    if not offers:
        _publish(options, checked, None)
        return
    own = TaskPlace(f"append-{secrets.token_hex(11)}", 0, 0)
    _stage(replace(task, place=own), checked)
    parts, done.parts = done.parts, {}

    for stream, part in parts.items():
        commit_stream(options, stream, own.txn, 0, [part], brief=True)


def _publish_ids(task: _Task, checked: _Checked) -> None:
    """Publish with message ids: a stream drops an id that it has had within its window."""
    _publish(task.options, checked, task.place)


def _publish(options: SinkOptions, checked: _Checked, place: TaskPlace | None) -> None:
    number = 0
    with Publisher(options.reach, options.max_in_flight) as publisher:
        for messages, dead in checked:
            extra = None
            if place is not None and "msg_id" not in messages.schema.names:
                numbers = range(number, number + messages.num_rows)
                extra = {"Nats-Msg-Id": [f"{place.txn}:{place.batch}:{place.partition}:{one}" for one in numbers]}
            publisher.publish_batch(messages, extra)
            number += messages.num_rows
            if dead is not None:
                publisher.publish_batch(dead)
        publisher.finish()


def _collect(task: _Task, checked: _Checked) -> None:
    """Hand the messages to the driver, which publishes them as one batch."""
    for messages, dead in checked:
        for batch in (messages, dead) if dead is not None else (messages,):
            for row in batch.to_pylist():
                payload = row["payload"] or b""
                data = payload.encode() if isinstance(payload, str) else payload
                task.done.messages.append((row["subject"], data, header_block(row)))


def _room(options: SinkOptions, connection: Connection) -> _Room:
    stream = options.target.one
    info = connection.client.stream_info(stream)
    config = info["config"]
    limit = connection.client._link.max_payload
    own = int(config.get("max_msg_size", -1))
    return _Room(stream, tuple(config.get("subjects") or ()), min(limit, own) if own > 0 else limit)


def _without(messages: pa.RecordBatch, bad: list[BadRow]) -> pa.RecordBatch:
    import pyarrow as pa

    wrong = {one.row for one in bad}
    return messages.filter(pa.array([row not in wrong for row in range(messages.num_rows)]))


def _dead_letters(options: SinkOptions, messages: pa.RecordBatch, bad: list[BadRow]) -> pa.RecordBatch:
    """The bad rows as messages that say what is wrong with them."""
    import pyarrow as pa

    subjects, payloads = messages.column("subject"), messages.column("payload")
    contents, blocks = [], []
    for one in bad:
        payload = payloads[one.row].as_py() or b""
        data = payload.encode() if isinstance(payload, str) else payload
        contents.append(data[:_DEAD_PAYLOAD_MAX])
        lines = {
            "Slipstream-Error": one.reason,
            "Slipstream-Subject": subjects[one.row].as_py() or "",
            "Slipstream-Size": str(len(data)),
        }
        text = "".join(f"{name}: {_one_line(value)}\r\n" for name, value in lines.items())
        blocks.append(b"NATS/1.0\r\n" + text.encode() + b"\r\n")
    subject = pa.repeat(pa.scalar(options.dlq_subject), len(bad))
    arrays = [subject, pa.array(contents, pa.binary()), pa.array(blocks, pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, names=["subject", "payload", "hdr_raw"])


def _one_line(text: str) -> str:
    return " ".join(text.split())[:1_000]


def _dead_stream(options: SinkOptions, connection: Connection) -> str | None:
    """The stream that takes dead letters."""
    if options.dlq_subject is None:
        return None
    found = connection.request("STREAM.NAMES", {"subject": options.dlq_subject}).get("streams") or []
    if len(found) != 1:
        raise OptionError("dlqSubject", f"{options.dlq_subject!r} is not a subject of exactly one stream")
    return str(found[0])
