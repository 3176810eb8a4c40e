"""Spark reads what `slipstream lake run` has written."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import slipstream.spark
from slipstream.bulk import connect
from slipstream.lake.delta_table import open_delta
from slipstream.lake.iceberg_table import IcebergCatalogue
from slipstream.lake.writing import StreamWriter, WriteSettings
from slipstream.spark import jobs
from slipstream.spark.runtime.target import Reach
from support.spark_streams import Streams

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def test_spark_reads_the_tables(spark: SparkSession, streams: Streams, reach: Reach, name: str, tmp_path: Path) -> None:
    streams.create(name)
    streams.fill(name, 100)
    catalogue = IcebergCatalogue(str(tmp_path / "iceberg"), {}, "streams", ("day",))
    with connect(reach) as client:
        for open_table in (lambda one, identity: open_delta(str(tmp_path), one, identity), catalogue.open):
            writer = StreamWriter(name, open_table, WriteSettings(file_bytes=2000, compact_files=3))
            assert writer.turn(client).written == 100
            writer.release(client)
    lake = str(tmp_path / name)
    streams.purge(name, seq=51)
    streams.fill(name, 10)
    assert slipstream.spark.table(spark, name, archive=lake, reach=reach).count() == 110
    audit = jobs.audit(spark, location=lake)
    assert audit.ok and audit["archive_messages"] == 100
    files = [row["file_path"] for row in catalogue.open(name, None)._table.inspect.files().to_pylist()]
    found = spark.read.parquet(*files).select("seq", "payload").orderBy("seq").collect()
    assert [row.seq for row in found] == list(range(1, 101))
