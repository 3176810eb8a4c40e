"""The sink: `df.write` and `df.writeStream` to streams, buckets and object stores.

| mode | guarantee | server |
|---|---|---|
| `transaction` | exactly once: parts are staged, one commit fenced by (query, batch) makes them visible | Slipstream |
| `atomic` | exactly once up to 1,000 messages a batch, for a stream with one writer | 2.12 and later |
| `msgid` | exactly once within the stream's duplicate window, if ids repeat | any |
| `append` | at least once | any |

`auto`, the default, is `transaction` where the server offers it and refuses to choose a weaker one by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from slipstream.spark.runtime.connection import Connection, retrying
from slipstream.spark.runtime.errors import OptionError, SparkSideError
from slipstream.spark.sink.commits import TaskDone, abort_parts, commit_atomic, commit_parts
from slipstream.spark.sink.dead_letters import dead_stream
from slipstream.spark.sink.options import SinkOptions, read_sink_options
from slipstream.spark.sink.replaced import remove_replaced
from slipstream.spark.sink.rows import RowRules, row_rules
from slipstream.spark.sink.task_writer import TaskPlace, write_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = [
    "SlipstreamStreamWriter",
    "SlipstreamWriter",
    "batch_writer",
    "commit_tasks",
    "prepared",
    "stream_writer",
]

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


def batch_writer(schema: StructType, options: Mapping[str, str], *, overwrite: bool) -> SlipstreamWriter:
    """The writer of one batch.

    Raises:
        OptionError, SchemaError: options or columns do not fit.
    """
    if overwrite:
        raise OptionError("mode", "a stream cannot be overwritten; write with df.write.mode('append')")
    if any(name.lower() == "onchangedbatch" for name in options):
        raise OptionError("onChangedBatch", "goes with df.writeStream; a batch write is repeated by its txnId alone")
    return SlipstreamWriter(*prepared(schema, options))


def stream_writer(schema: StructType, options: Mapping[str, str]) -> SlipstreamStreamWriter:
    """The writer of a streaming query.

    Raises:
        OptionError, SchemaError: options or columns do not fit.
    """
    if any(name.lower() == "txnid" for name in options):
        raise OptionError("txnId", "goes with df.write; a streaming query has its own")
    return SlipstreamStreamWriter(*prepared(schema, options))


class SlipstreamWriter(DataSourceArrowWriter):
    """Writes one batch; the transaction is the option `txnId`, or a new one."""

    def __init__(self, options: SinkOptions, rules: RowRules, mode: str) -> None:
        """Remember what was checked."""
        self.options = options
        self.rules = rules
        self.mode = mode

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs in a task."""
        place = TaskPlace(self.options.txn_id, 0, _context().partitionId())
        return write_task(self.options, self.rules, self.mode, place, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Runs on the driver when all tasks are done."""
        commit_tasks(self.options, self.mode, _known(messages), 0)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Runs on the driver when a task failed for good."""
        abort_parts(self.options, _known(messages))


class SlipstreamStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a query; the transaction is the query, so it goes on after a restart."""

    def __init__(self, options: SinkOptions, rules: RowRules, mode: str) -> None:
        """Remember what was checked."""
        self.options = options
        self.rules = rules
        self.mode = mode

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs in a task."""
        context = _context()
        query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if not query or not batch:
            raise SparkSideError("Spark did not say which query and batch this is; without them nothing can be fenced")
        place = TaskPlace(f"spark-{query}", int(batch), context.partitionId())
        return write_task(self.options, self.rules, self.mode, place, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Runs on the driver when all tasks are done."""
        commit_tasks(self.options, self.mode, _known(messages), batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Runs on the driver when a task failed for good."""
        abort_parts(self.options, _known(messages))


def prepared(schema: StructType, given: Mapping[str, str]) -> tuple[SinkOptions, RowRules, str]:
    """Options and columns checked against each other and the server; which mode it is.

    Raises:
        OptionError, SchemaError: they do not fit.
    """
    options = read_sink_options(given)
    rules = row_rules(schema, options)
    mode = retrying(options.reach, options.write_timeout_ns, lambda connection: _ready(options, connection))
    if mode == "msgid" and rules.id_column is None and not rules.source_ids and not options.deterministic:
        raise OptionError(
            "mode",
            "msgid needs ids that are the same when a batch runs again: a column 'msg_id', idColumn, the columns "
            "'stream' and 'seq' of the source, or deterministic=true if it gives the same rows in the same order",
        )
    return options, rules, mode


def _ready(options: SinkOptions, connection: Connection) -> str:
    """See that the target is there; which mode it is."""
    name, mode = options.target.one, options.mode
    if connection.state(name) is None:
        if not options.create_stream:
            kind = {"stream": "stream", "bucket": "bucket", "object": "object store"}[options.target.kind]
            hint = (
                "; create it, or set createStream=true and streamSubjects" if kind == "stream" else "; create it first"
            )
            raise OptionError(
                options.target.kind, f"there is no {kind} {options.target.names[0]!r} on this server{hint}"
            )
        if not options.stream_subjects:
            raise OptionError("streamSubjects", "says which subjects the stream to be created takes, e.g. 'orders.>'")
        body: dict[str, object] = {"name": name, "subjects": list(options.stream_subjects), "storage": "file"}
        connection.request(f"STREAM.CREATE.{name}", body)
    if options.dlq_subject is not None:
        dead_stream(connection, options.dlq_subject)
    if mode == "auto":
        if not connection.is_slipstream:
            raise OptionError(
                "mode",
                "this server has no staged writes: choose msgid (exactly once within the duplicate window), atomic "
                "(exactly once, 1,000 messages a batch) or append (at least once)",
            )
        return "transaction"
    if mode == "transaction" and not connection.is_slipstream:
        raise OptionError("mode", "transaction needs a Slipstream server; choose msgid, atomic or append")
    return mode


def commit_tasks(options: SinkOptions, mode: str, done: Sequence[TaskDone], batch_id: int) -> None:
    """Make what tasks have written visible, and remove what it replaces."""
    if mode == "transaction" and done:
        commit_parts(options, done, batch_id)
    elif mode == "atomic" and done:
        commit_atomic(options, done, batch_id)
    remove_replaced(options, (subject for one in done for subject in one.replacing))


def _known(messages: Sequence[WriterCommitMessage | None]) -> list[TaskDone]:
    """What tasks said; one that failed says nothing."""
    return [one for one in messages if isinstance(one, TaskDone)]


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SparkSideError("a write has to run in a Spark task")
    return context
