"""The format `slipstream`: what Spark instantiates, and which reader or writer it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from slipstream.spark.runtime.connection import settle_worker
from slipstream.spark.source.options import read_source_options
from slipstream.spark.source.registered_schemas import with_registered
from slipstream.spark.source.schema import source_ddl

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["SlipstreamSource"]


class SlipstreamSource(DataSource):
    """Streams, buckets and object stores as tables."""

    @classmethod
    def name(cls) -> str:
        """What `format(...)` and `USING` take."""
        return "slipstream"

    def schema(self) -> str:
        """The columns of a read without a schema of the user's."""
        settle_worker()
        return source_ddl(with_registered(read_source_options(self.options, streaming=False)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        from slipstream.spark.readers.batch import batch_reader

        settle_worker()
        return batch_reader(schema, with_registered(read_source_options(self.options, streaming=False)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A read that goes on."""
        from slipstream.spark.readers.streaming import SlipstreamStreamReader

        return SlipstreamStreamReader(schema, with_registered(read_source_options(self.options, streaming=True)))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write."""
        from slipstream.spark.sink.writer import batch_writer

        return batch_writer(schema, self.options, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A write that goes on."""
        from slipstream.spark.sink.writer import stream_writer

        return stream_writer(schema, self.options)
