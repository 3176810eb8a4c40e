"""The sink without Spark: tasks and commit as Spark calls them, so that a test may stop, repeat or reorder them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from slipstream.spark.sink.commits import TaskDone
from slipstream.spark.sink.task_writer import TaskPlace, write_task
from slipstream.spark.sink.writer import commit_tasks, prepared

MESSAGE = {"subject": pa.string(), "payload": pa.binary()}
HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))
Row = tuple[Any, ...]


class Sink:
    """A write to one target; `columns` are the types of its DataFrame."""

    def __init__(self, url: str, columns: dict[str, pa.DataType], **options: str) -> None:
        self._schema = pa.schema(columns)
        self.options, self.rules, self.mode = prepared(from_arrow_schema(self._schema), {"servers": url, **options})

    def task(self, rows: Sequence[Row], partition: int = 0, batch: int = 0, txn: str = "query") -> TaskDone:
        """Run one task."""
        columns: list[tuple[Any, ...]] = list(zip(*rows, strict=True)) or [()] * len(self._schema)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        batches = iter([pa.RecordBatch.from_arrays(arrays, schema=self._schema)])
        return write_task(self.options, self.rules, self.mode, TaskPlace(txn, batch, partition), batches)

    def commit(self, done: Sequence[TaskDone], batch: int = 0) -> None:
        """What the driver does when all tasks are done."""
        commit_tasks(self.options, self.mode, done, batch)

    def write(self, *partitions: Sequence[Row], batch: int = 0, txn: str = "query") -> None:
        """A whole batch."""
        self.commit([self.task(rows, number, batch, txn) for number, rows in enumerate(partitions)], batch)
