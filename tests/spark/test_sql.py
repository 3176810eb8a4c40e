"""`slipstream sql` and Spark see the same rows of a stream and its archive."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import slipstream
import slipstream.spark
from slipstream.spark import jobs
from slipstream.spark.runtime.target import Reach
from support.spark_streams import Streams

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


def test_the_same_rows_as_spark(spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str) -> None:
    streams.create(name)
    streams.fill(name, 300)
    streams.publish([(f"{name}.x", b"\xff\x00")], b"NATS/1.0\r\nA: 1\r\nA: 2\r\nB: x\r\n\r\n")
    jobs.archive(spark, name, lake, reach=reach, upto=200, drop=True)
    table = slipstream.spark.table(spark, name, archive=lake, reach=reach)
    table.createOrReplaceTempView("both")
    archives = {name: lake}
    for query in (
        "SELECT stream, seq, subject, payload FROM {} ORDER BY seq",
        f"SELECT subject, count(*) AS n, max(seq) AS m FROM {{}} WHERE subject LIKE '{name}.%' GROUP BY 1 ORDER BY 1",
        f"SELECT seq, subject FROM {{}} WHERE subject IN ('{name}.1', '{name}.x') AND seq > 150 ORDER BY seq",
        "SELECT count(*) AS n FROM {} WHERE ts >= timestamp '2020-01-01'",
    ):
        expected = [row.asDict() for row in spark.sql(query.format("both")).collect()]
        for row in expected:
            if "payload" in row:
                row["payload"] = bytes(row["payload"])
        assert expected
        assert (
            slipstream.sql(streams.url, query.format(f'"{name}"'), archives=archives).read_all().to_pylist() == expected
        )
    headers = "SELECT headers FROM {} WHERE seq = 301"
    found = slipstream.sql(streams.url, headers.format(f'"{name}"'), archives=archives).read_all().to_pylist()
    assert (
        dict(found[0]["headers"])
        == spark.sql(headers.format("both")).collect()[0].headers
        == {"A": ["1", "2"], "B": ["x"]}
    )
