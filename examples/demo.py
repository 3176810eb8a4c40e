"""The product in a minute: a server in this process, spoken to by the official Python client."""

from __future__ import annotations

import asyncio
import tempfile
import time

import nats
from nats.aio.msg import Msg

import slipstream

MESSAGES = 10_000
STORED = 2_000


async def publish_and_subscribe(url: str) -> None:
    """Wildcards, queue groups and ten thousand messages."""
    client = await nats.connect(url)
    orders = await client.subscribe("orders.*")
    workers = [await client.subscribe("orders.>", queue="workers") for _ in range(2)]
    started = time.perf_counter()
    for number in range(MESSAGES):
        await client.publish(f"orders.{number % 7}", b"%d" % number)
    await client.flush()
    seen = [await orders.next_msg(timeout=5) for _ in range(MESSAGES)]
    seconds = time.perf_counter() - started
    in_order = all(int(message.data) == number for number, message in enumerate(seen))
    shares = [worker.pending_msgs for worker in workers]
    print(
        f"  orders.* received {len(seen)} messages in order: {in_order}, in {seconds:.2f} s (the client is the limit)"
    )
    print(f"  the queue group shared them: {shares[0]} + {shares[1]} = {sum(shares)}")
    assert in_order and sum(shares) == MESSAGES
    await client.close()


async def request_and_reply(url: str) -> None:
    """A service, a requester, and what happens when nobody answers."""
    client = await nats.connect(url)

    async def double(request: Msg) -> None:
        await request.respond(b"%d" % (2 * int(request.data)))

    await client.subscribe("double", cb=double)
    answer = await client.request("double", b"21", timeout=2)
    print(f"  request 21 on `double`: {answer.data.decode()}")
    assert answer.data == b"42"
    try:
        await client.request("nobody.home", b"", timeout=2)
    except nats.errors.NoRespondersError:
        print("  request on `nobody.home`: no responders, answered at once")
    else:
        raise AssertionError("a request nobody serves must fail")
    await client.close()


async def publish_to_a_stream(url: str) -> None:
    """Every acknowledgement means that the message is on disk."""
    client = await nats.connect(url)
    jetstream = client.jetstream()
    await jetstream.add_stream(name="ORDERS", subjects=["orders.>"])
    started = time.perf_counter()
    for number in range(STORED):
        await jetstream.publish_async(f"orders.{number % 7}", b"%d" % number)
    await jetstream.publish_async_completed()
    seconds = time.perf_counter() - started
    print(f"  {STORED} orders stored and acknowledged in {seconds:.2f} s, each on disk before its ack")
    await client.close()


async def consume_from_a_stream(url: str) -> None:
    """Another server, the same directory: nothing is missing, and the consumer gets it in order."""
    client = await nats.connect(url)
    jetstream = client.jetstream()
    consumer = await jetstream.pull_subscribe("orders.>", durable="billing", stream="ORDERS")
    numbers: list[int] = []
    while len(numbers) < STORED:
        for message in await consumer.fetch(500, timeout=5):
            numbers.append(int(message.data))
            await message.ack()
    state = (await jetstream.stream_info("ORDERS")).state
    print(f"  after a restart the stream holds {state.messages} messages; `billing` consumed {len(numbers)} in order")
    assert numbers == list(range(STORED)) and state.messages == STORED
    await client.close()


async def main() -> None:
    """Start, use, stop."""
    started = time.perf_counter()
    async with slipstream.Server(host="127.0.0.1", port=0) as server:
        print(f"Slipstream {slipstream.__version__} listens on {server.url} ({time.perf_counter() - started:.3f} s)")
        print("Publish and subscribe:")
        await publish_and_subscribe(server.url)
        print("Request and reply:")
        await request_and_reply(server.url)
    with tempfile.TemporaryDirectory() as directory:
        print("Streams:")
        async with slipstream.Server(host="127.0.0.1", port=0, store_dir=directory) as server:
            await publish_to_a_stream(server.url)
        async with slipstream.Server(host="127.0.0.1", port=0, store_dir=directory) as server:
            await consume_from_a_stream(server.url)
    print("Servers stopped. Everything worked.")


if __name__ == "__main__":
    asyncio.run(main())
