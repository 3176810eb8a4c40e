"""Orders processed exactly once, whatever fails.

The publisher repeats every publish that it is not sure of: the message id makes repetitions harmless. The worker writes
its result and its progress in one transaction, then confirms with a double ack: what comes again is recognised.

    python examples/order_processing.py
"""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import tempfile
from pathlib import Path

import nats
from nats.js import JetStreamContext

import slipstream

ORDERS = 500


async def publish_orders(jetstream: JetStreamContext) -> None:
    """Publish every order, some of them more than once, as after a lost acknowledgement."""
    for number in range(ORDERS):
        order = json.dumps({"order": number, "cents": 100 + number}).encode()
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            await jetstream.publish("orders.new", order, headers={"Nats-Msg-Id": f"order-{number}"})


async def process_orders(jetstream: JetStreamContext, ledger: sqlite3.Connection) -> int:
    """Book orders until none is left; die now and then between booking and acknowledging."""
    orders = await jetstream.pull_subscribe("orders.new", durable="ledger", stream="ORDERS")
    repeated = 0
    while True:
        try:
            batch = await orders.fetch(50, timeout=1)
        except TimeoutError:
            return repeated
        for message in batch:
            sequence = message.metadata.sequence.stream
            with ledger:  # booking and remembering the sequence are one transaction
                new = ledger.execute("INSERT OR IGNORE INTO processed VALUES (?)", (sequence,)).rowcount
                if new:
                    order = json.loads(message.data)
                    ledger.execute("INSERT INTO booked VALUES (?, ?)", (order["order"], order["cents"]))
                repeated += not new
            if random.random() < 0.05:
                await message.nak()  # as if this worker had died here: the message comes again
            else:
                await message.ack_sync()


async def main() -> None:
    """Run both sides against a server of this program's own."""
    with tempfile.TemporaryDirectory() as directory:
        ledger = sqlite3.connect(Path(directory) / "ledger.db")
        ledger.execute("CREATE TABLE booked (number INTEGER, cents INTEGER)")
        ledger.execute("CREATE TABLE processed (sequence INTEGER PRIMARY KEY)")
        async with slipstream.Server(port=0, store_dir=directory) as server:
            client = await nats.connect(server.url)
            jetstream = client.jetstream()
            await jetstream.add_stream(name="ORDERS", subjects=["orders.>"])
            await publish_orders(jetstream)
            kept = (await jetstream.stream_info("ORDERS")).state.messages
            repeated = await process_orders(jetstream, ledger)
            await client.close()
        booked, distinct = ledger.execute("SELECT count(*), count(DISTINCT number) FROM booked").fetchone()
        ledger.close()
    print(f"{ORDERS} orders, {kept} kept by the stream, {repeated} deliveries repeated, {booked} booked")
    assert kept == booked == distinct == ORDERS


if __name__ == "__main__":
    asyncio.run(main())
