"""Orders of a stream as a table, what each region sold as a view, and large orders as messages of another stream.

Spark finds the order of these definitions, keeps the checkpoints of the flows, and runs again only what is new. A flow
into the sink is exactly once: the number of a batch is part of its transaction.
"""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SERVERS = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
LARGE_CENTS = 140


def _session() -> SparkSession:
    spark = SparkSession.getActiveSession()
    assert spark is not None  # `spark-pipelines` makes it
    return spark


@dp.table
def orders() -> DataFrame:
    """Every order once, with its place in the stream."""
    return (
        _session()
        .readStream.format("slipstream")
        .options(servers=SERVERS, stream="ORDERS", starting="earliest")
        .options(payloadFormat="json", payloadSchema="order long, cents long")
        .load()
        .select("seq", "ts", "subject", "payload.order", "payload.cents")
    )


@dp.materialized_view
def revenue() -> DataFrame:
    """Cents by region."""
    return _session().read.table("orders").groupBy("subject").agg(F.sum("cents").alias("cents"))


dp.create_sink("large_orders", "slipstream", {"servers": SERVERS, "stream": "LARGE"})


@dp.append_flow(target="large_orders")
def to_large_orders() -> DataFrame:
    """Messages for whoever looks at large orders."""
    large = _session().readStream.table("orders").where(F.col("cents") >= LARGE_CENTS)
    return large.select(
        F.regexp_replace("subject", "^orders", "large").alias("subject"),
        F.to_json(F.struct("order", "cents")).alias("payload"),
    )
