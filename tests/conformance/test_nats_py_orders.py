"""Orders by keys with nats-py, which does not know of them: many workers, a crash, each order as it is promised."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

import nats
from nats.errors import TimeoutError as NatsTimeout
from nats.js.api import ConsumerConfig

import slipstream

KEYS, EACH, WORKERS = 20, 15, 16


async def consumer(js: Any, name: str, **order: str) -> Any:
    metadata = {"slipstream.delivery": order.pop("kind")} | {f"slipstream.delivery.{k}": v for k, v in order.items()}
    config = ConsumerConfig(durable_name=name, ack_policy="explicit", max_ack_pending=200, metadata=metadata)
    await js.add_consumer("JOBS", config)
    return await js.pull_subscribe_bind(name, "JOBS")


async def test_many_workers_keep_the_order_of_each_key_over_a_restart(tmp_path: Path) -> None:
    seen: dict[str, list[int]] = defaultdict(list)
    busy: set[str] = set()
    total = 0

    async def work(workers: Any, most: int) -> None:
        nonlocal total
        while total < most:
            try:
                jobs = await workers.fetch(3, timeout=0.5)
            except NatsTimeout:
                continue
            for job in jobs:
                key = job.subject.split(".")[1]
                assert key not in busy
                busy.add(key)
            for job in jobs:
                await asyncio.sleep(0)
                key = job.subject.split(".")[1]
                seen[key].append(int(job.data))
                total += 1
                busy.discard(key)
                await job.ack_sync()

    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        await js.add_stream(name="JOBS", subjects=["jobs.>"])
        for number in range(EACH):
            for key in range(KEYS):
                await js.publish(f"jobs.{key}.x", b"%d" % number)
        workers = [await consumer(js, "W", kind="key-shared", key="token:2") for _ in range(WORKERS)]
        await asyncio.gather(*(work(each, KEYS * EACH // 2) for each in workers))
        await client.close()
    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        workers = [await js.pull_subscribe_bind("W", "JOBS") for _ in range(WORKERS)]
        await asyncio.gather(*(work(each, KEYS * EACH) for each in workers))
        await client.close()
    assert seen == {str(key): list(range(EACH)) for key in range(KEYS)}


async def test_turns_and_priorities(tmp_path: Path) -> None:
    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        await js.add_stream(name="JOBS", subjects=["jobs.>"])
        for tenant in ("big", "big", "big", "small"):
            await js.publish(f"jobs.{tenant}", b"", headers={"Urgency": "1" if tenant == "small" else "5"})
        for order in ({"kind": "fair"}, {"kind": "priority", "key": "header:Urgency"}):
            workers = await consumer(js, order["kind"], **order)
            got = [job.subject for job in await workers.fetch(4, timeout=5)]
            expected = ["jobs.big", "jobs.small"] if order["kind"] == "fair" else ["jobs.small", "jobs.big"]
            assert got[:2] == expected and len(got) == 4
        await client.close()
