"""A pipeline on Spark: orders come in, revenue goes out exactly once, the stream is archived, both are one table.

python examples/spark_pipeline.py
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

import nats
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slipstream.spark
from slipstream.spark import Reach, jobs
from slipstream.testing import ServerThread

ORDERS = 5_000
REGIONS = ("us", "eu", "apac")


async def publish_orders(url: str, begin: int, count: int) -> None:
    """Orders as JSON, one subject a region."""
    client = await nats.connect(url)
    jetstream = client.jetstream()
    for number in range(begin, begin + count):
        order = json.dumps({"order": number, "cents": 100 + number % 50}).encode()
        await jetstream.publish_async(f"orders.{REGIONS[number % 3]}", order, wait_stall=60)
    await jetstream.publish_async_completed()
    await client.close()


async def make_streams(url: str) -> None:
    """Orders in, revenue out."""
    client = await nats.connect(url)
    await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
    await client.jetstream().add_stream(name="REVENUE", subjects=["revenue.>"])
    await client.close()


def run_pipeline(spark: SparkSession, url: str, checkpoint: str) -> None:
    """Everything that is new since the last run, as one message a micro-batch and region."""
    orders = (
        spark.readStream.format("slipstream")
        .options(servers=url, stream="ORDERS", starting="earliest", maxMessagesPerTrigger=2000)
        .options(payloadFormat="json", payloadSchema="order long, cents long")
        .load()
    )

    def write(batch: DataFrame, batch_id: int) -> None:
        revenue = batch.groupBy("subject").agg(F.sum("payload.cents").alias("cents"), F.count("*").alias("orders"))
        messages = revenue.select(
            F.regexp_replace("subject", "^orders", "revenue").alias("subject"),
            F.to_json(F.struct("cents", "orders")).alias("payload"),
        )
        # The same batch has the same transaction: run again after a crash, it adds nothing.
        messages.write.format("slipstream").mode("append").options(
            servers=url, stream="REVENUE", txnId=f"revenue-{batch_id}"
        ).save()

    query = orders.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query.start().awaitTermination()


def main() -> None:
    """Two runs of the pipeline, an archive, one table over both."""
    with tempfile.TemporaryDirectory() as directory, ServerThread(jetstream=True) as server:
        url, checkpoint, lake = server.url, str(Path(directory) / "checkpoint"), str(Path(directory) / "lake")
        asyncio.run(make_streams(url))
        spark = slipstream.spark.session("test")
        for begin in (0, ORDERS):
            asyncio.run(publish_orders(url, begin, ORDERS))
            run_pipeline(spark, url, checkpoint)

        reach = Reach(servers=url)
        report = jobs.archive(spark, "ORDERS", lake, reach=reach, drop=True, keep=1000)
        table = slipstream.spark.table(spark, "ORDERS", archive=lake, reach=reach)
        total = table.select(F.sum(F.get_json_object(F.col("payload").cast("string"), "$.cents").cast("long"))).first()
        revenue = spark.read.format("slipstream").options(servers=url, stream="REVENUE", payloadFormat="json")
        sums = revenue.option("payloadSchema", "cents long, orders long").load()
        counted = sums.agg(F.sum("payload.cents"), F.sum("payload.orders")).first()
        spark.stop()
    assert total is not None and counted is not None
    print(f"{report['messages']} orders archived, {report['dropped']} of them dropped by the server")
    print(f"the table of archive and stream still sums all of them: {total[0]} cents")
    print(f"revenue counted by the pipeline: {counted[0]} cents of {counted[1]} orders")
    assert counted[1] == 2 * ORDERS and counted[0] == total[0]


if __name__ == "__main__":
    main()
