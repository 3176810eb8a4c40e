"""A job queue with three workers, retries with back-off, and dead letters.

python examples/job_queue.py
"""

from __future__ import annotations

import asyncio
from collections import Counter

import nats
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, RetentionPolicy, StorageType

import slipstream

JOBS = 60
ATTEMPTS = 3


async def work(name: str, jetstream: JetStreamContext, done: Counter[str]) -> None:
    """One worker: take a job, do it, or hand it back."""
    queue = await jetstream.pull_subscribe_bind("workers", "JOBS")
    while True:
        try:
            [job] = await queue.fetch(1, timeout=1)
        except TimeoutError:
            return
        number = int(job.data)
        if number % 20 == 13:
            await job.nak(delay=0.01)  # fails each time: after three attempts it is a dead letter
        elif number % 10 == 7 and job.metadata.num_delivered == 1:
            await job.nak(delay=0.01)  # fails the first time only
        else:
            done[name] += 1
            await job.ack_sync()


async def main() -> None:
    """Fill the queue, work it off, look at what could not be done."""
    async with slipstream.Server(port=0, jetstream=True) as server:
        client = await nats.connect(server.url)
        jetstream = client.jetstream()
        await jetstream.add_stream(
            name="JOBS", subjects=["jobs.>"], retention=RetentionPolicy.WORK_QUEUE, storage=StorageType.MEMORY
        )
        await jetstream.add_stream(name="DEAD", subjects=["dead.>"], storage=StorageType.MEMORY)
        await jetstream.add_consumer(
            "JOBS",
            ConsumerConfig(
                durable_name="workers", ack_wait=30, max_deliver=ATTEMPTS, metadata={"slipstream.dlq": "dead.jobs"}
            ),
        )
        for number in range(JOBS):
            await jetstream.publish("jobs.compute", b"%d" % number)
        done: Counter[str] = Counter()
        await asyncio.gather(*(work(name, jetstream, done) for name in ("ann", "bob", "cem")))
        dead = (await jetstream.stream_info("DEAD")).state.messages
        letter = await jetstream.get_last_msg("DEAD", "dead.jobs")
        await client.close()
    print(f"done: {dict(done)}, dead letters: {dead}")
    print(f"the last one: job {letter.data.decode() if letter.data else ''}, {letter.headers}")
    assert sum(done.values()) == JOBS - 3 and dead == 3


if __name__ == "__main__":
    asyncio.run(main())
