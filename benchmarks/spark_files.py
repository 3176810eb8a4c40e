"""A Spark source that decodes files of raw records with the kernel of the real one: a read without a server."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["RecordFiles"]

_COLUMNS = ("stream", "seq", "ts", "subject", "headers", "payload")


class RecordFiles(DataSource):
    """Option `directory`: a file a task."""

    @classmethod
    def name(cls) -> str:
        """The format."""
        return "record_files"

    def schema(self) -> str:
        """As a stream's."""
        return (
            "stream string, seq bigint, ts timestamp, subject string, headers map<string,array<string>>, payload binary"
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of all files."""
        return _Reader(self.options["directory"])


@dataclass(frozen=True)
class _Reader(DataSourceReader):
    directory: str

    def partitions(self) -> list[InputPartition]:
        """One for each file."""
        return [InputPartition(str(path)) for path in sorted(Path(self.directory).iterdir())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a file."""
        from slipstream.bulk.arrow import message_schema, record_batch
        from slipstream.kernels.bulk.arrowrows import RowDecoder
        from slipstream.spark.runtime.connection import settle_worker

        settle_worker()
        schema = message_schema(_COLUMNS)
        decoder = RowDecoder(_COLUMNS, b"D", 65_536, 8 << 20)
        with open(partition.value, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = 0
            while at < len(data):
                at = decoder.feed(data, at)  # up to the end, or as far as a batch goes
                if decoder.rows:
                    yield record_batch(decoder, schema)
