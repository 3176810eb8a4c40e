"""State by key in a streaming query: balances of accounts, and an alarm whenever one falls below zero.

python examples/spark_state.py

`transformWithState` keeps a value for each account in Spark's state store, with the checkpoint. The query is stopped
half-way and started again; every alarm is in the stream ALARMS exactly once.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

import slipstream.spark
from slipstream.testing import ServerThread

ACCOUNTS = 5
BOOKINGS = 200
ALARM = "account string, seq long, balance long"
_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Balances(StatefulProcessor):
    """One account at a time: its bookings of a batch, and the balance that was left by those before."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self._balance = handle.getValueState("balance", "cents long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Book in the order of the stream: Spark shuffles rows."""
        kept = self._balance.get()
        balance = kept[0] if kept else 0
        for row in sorted(rows, key=lambda row: int(row["seq"])):
            was_covered = balance >= 0
            balance += row["cents"]
            if was_covered and balance < 0:
                yield Row(account=key[0], seq=row["seq"], balance=balance)
        self._balance.update((balance,))

    def close(self) -> None:
        """Nothing is open."""


def cents_of(number: int) -> int:
    """Every fourth booking takes away more than the others bring."""
    return -35 if number % 4 == 3 else 10


def expected_alarms() -> list[tuple[str, int, int]]:
    """The same without Spark."""
    balances = dict.fromkeys(range(ACCOUNTS), 0)
    alarms = []
    for number in range(BOOKINGS):
        account = number % ACCOUNTS
        before, balances[account] = balances[account], balances[account] + cents_of(number)
        if before >= 0 > balances[account]:
            alarms.append((f"accounts.{account}", number + 1, balances[account]))
    return alarms


async def publish(url: str, first: int, last: int) -> None:
    """Bookings as JSON, one subject an account."""
    client = await nats.connect(url)
    jetstream = client.jetstream()
    await jetstream.add_stream(name="ACCOUNTS", subjects=["accounts.*"])
    await jetstream.add_stream(name="ALARMS", subjects=["alarms.*"])
    for number in range(first, last):
        await jetstream.publish(f"accounts.{number % ACCOUNTS}", json.dumps({"cents": cents_of(number)}).encode())
    await client.close()


def run(spark: SparkSession, url: str, checkpoint: str) -> None:
    """Everything that is new since the last run."""
    bookings = (
        spark.readStream.format("slipstream")
        .options(servers=url, stream="ACCOUNTS", starting="earliest", maxMessagesPerTrigger=60)
        .options(payloadFormat="json", payloadSchema="cents long")
        .load()
        .select(F.col("subject").alias("account"), "seq", "payload.cents")
    )
    alarms = bookings.groupBy("account").transformWithState(Balances(), ALARM, "Append", "None")
    messages = alarms.select(
        F.regexp_replace("account", "^accounts", "alarms").alias("subject"),
        F.to_json(F.struct("account", "seq", "balance")).alias("payload"),
    )
    sink = messages.writeStream.format("slipstream").options(servers=url, stream="ALARMS")
    sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    """Half of the bookings, then the other half with the state that the first run left."""
    with tempfile.TemporaryDirectory() as directory, ServerThread(jetstream=True) as server:
        spark = slipstream.spark.session("test")
        spark.conf.set(_STATE_STORE, _ROCKSDB)  # what transformWithState needs
        for first, last in ((0, BOOKINGS // 2), (BOOKINGS // 2, BOOKINGS)):
            asyncio.run(publish(server.url, first, last))
            run(spark, server.url, str(Path(directory) / "checkpoint"))
        spark.conf.unset(_STATE_STORE)
        read = spark.read.format("slipstream").options(servers=server.url, stream="ALARMS", payloadFormat="json")
        rows = read.option("payloadSchema", ALARM).load().select("payload.*").collect()
        spark.stop()
    found = sorted((row["account"], row["seq"], row["balance"]) for row in rows)
    print(f"{len(found)} alarms, each once")
    assert found == sorted(expected_alarms())


if __name__ == "__main__":
    main()
