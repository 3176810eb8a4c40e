"""Frames of what workers make of their items: Arrow batches that Spark then puts together.

This goes through a small Python data source, because that takes Arrow batches as they are and needs no pandas.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["partial_frame"]

Item = TypeVar("Item")
_NAME = "slipstream-partial"


def partial_frame(
    spark: SparkSession, items: Sequence[Item], work: Callable[[Item], Iterator[pa.RecordBatch]], schema: str
) -> DataFrame:
    """A frame of all batches, one task an item.

    Args:
        spark: where.
        items: picklable.
        work: a function of a module.
        schema: of the batches, as Spark writes it.
    """
    spark.dataSource.register(PartialSource)
    packed = base64.b64encode(cloudpickle.dumps((work, list(items)))).decode()  # type: ignore[no-untyped-call]
    return spark.read.format(_NAME).schema(schema).option("work", packed).load()


class PartialSource(DataSource):
    """Items and what to do with them, as an option."""

    @classmethod
    def name(cls) -> str:
        """How it is registered."""
        return _NAME

    def reader(self, schema: Any) -> DataSourceReader:
        """Read the work."""
        return _PartialReader(self.options["work"])


class _PartialReader(DataSourceReader):
    def __init__(self, packed: str) -> None:
        self._packed = packed

    def partitions(self) -> Sequence[InputPartition]:
        _, items = self._work()
        return [InputPartition(number) for number in range(len(items))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from slipstream.spark.runtime.connection import settle_worker

        settle_worker()
        work, items = self._work()
        if items:
            yield from work(items[partition.value])

    def _work(self) -> tuple[Callable[[Any], Iterator[Any]], list[Any]]:
        work, items = cloudpickle.loads(base64.b64decode(self._packed))
        return work, items
