"""Backups of streams of a cluster, taken and restored on any of its servers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

pytest.importorskip("slipstream_raft")

from support.backups import BackupClient
from support.cluster_calls import call, create, published
from support.cluster_servers import Member, Trio, trio
from support.clusters import until

MESSAGES = 20


async def fill(client: Client, name: str, replicas: int) -> None:
    """A stream with gaps, and a consumer in the middle of its work."""
    await create(client, name, replicas)
    for number in range(MESSAGES):
        await published(client, f"{name}.{number % 3}", b"%d" % number * 50)
    for seq in (1, 7, MESSAGES):
        assert (await call(client, f"STREAM.MSG.DELETE.{name}", seq=seq))["success"]
    config = {"durable_name": "c", "ack_policy": "explicit"}
    await call(client, f"CONSUMER.CREATE.{name}.c", stream_name=name, config=config)
    reader = await client.jetstream().pull_subscribe_bind(consumer="c", stream=name)
    for message in (await reader.fetch(10))[:4]:
        await message.ack_sync()


async def contents(client: Client, name: str) -> Any:
    """What must be the same afterwards."""
    info = await call(client, f"STREAM.INFO.{name}", deleted_details=True)
    info["state"].pop("last_ts")  # of a message that is not in the backup
    consumer = await call(client, f"CONSUMER.INFO.{name}.c")
    assert "error" not in consumer, consumer
    kept = [consumer[key] for key in ("num_ack_pending", "num_redelivered", "num_pending")]
    pairs = [(consumer[key]["consumer_seq"], consumer[key]["stream_seq"]) for key in ("delivered", "ack_floor")]
    answers = [await call(client, f"STREAM.MSG.GET.{name}", seq=seq) for seq in range(1, MESSAGES + 2)]
    messages = [answer.get("message") or answer["error"]["err_code"] for answer in answers]
    return info["config"], info["state"], kept, pairs, messages


def port_of(member: Member) -> int:
    assert member.server is not None
    return member.server.hub.port


async def backed_up(servers: Trio, name: str) -> tuple[Any, bytes]:
    def back_up() -> tuple[Any, bytes]:
        client = BackupClient(port_of(servers.members[1]))
        answer, data, end, _ = client.back_up(name, chunk_size=1024)
        client.close()
        assert b"204" in end
        return answer, data

    return await asyncio.to_thread(back_up)


async def restored(servers: Trio, name: str, answer: Any, data: bytes) -> Any:
    def restore() -> Any:
        client = BackupClient(port_of(servers.members[2]))
        found = client.restore(name, answer, data, chunk=700)
        client.close()
        return found

    return await asyncio.to_thread(restore)


async def test_a_backup_is_the_stream(tmp_path: Path) -> None:
    async with trio(tmp_path) as servers:
        client = await nats.connect(servers.members[0].url)
        before = {}
        for name, replicas in (("ONE", 1), ("THREE", 3)):
            await fill(client, name, replicas)
            before[name] = await contents(client, name)
            answer, data = await backed_up(servers, name)
            taken = await restored(servers, name, answer, data)
            assert taken["error"]["err_code"] == 10130  # it is there
            await call(client, f"STREAM.DELETE.{name}")
            found = await restored(servers, name, answer, data)
            assert "error" not in found, found
            assert found["config"]["num_replicas"] == replicas
            assert len(found["cluster"].get("replicas", [])) == replicas - 1
            assert await contents(client, name) == before[name]
            assert await published(client, f"{name}.1", b"next") == MESSAGES + 1
            removed = await call(client, f"STREAM.MSG.DELETE.{name}", seq=MESSAGES + 1)
            assert "error" not in removed, removed
            before[name] = await contents(client, name)
        # What was restored is on the disks of all.
        await client.close()
        for member in servers.members:
            await member.stop()
        for member in servers.members:
            await member.start()
        await servers.leader()
        client = await nats.connect(servers.members[0].url)
        for name, expected in before.items():
            await until_led(client, name)
            assert await contents(client, name) == expected
        await client.close()


async def until_led(client: Client, name: str) -> None:
    async with asyncio.timeout(20):
        while "error" in await call(client, f"STREAM.INFO.{name}"):
            await asyncio.sleep(0.05)


async def test_half_a_backup_leaves_nothing(tmp_path: Path) -> None:
    async with trio(tmp_path) as servers:
        client = await nats.connect(servers.members[0].url)
        await fill(client, "S", 3)
        answer, data = await backed_up(servers, "S")
        await call(client, "STREAM.DELETE.S")
        damaged = await restored(servers, "S", answer, data[: len(data) // 2])
        assert damaged["error"]["err_code"] == 10062
        await until(lambda: _unknown(servers), "nothing of it is left")
        # The server that takes it in ends before all is there.
        begun = await call(client, "STREAM.RESTORE.S", config=answer["config"], state=answer["state"])
        await client.request(begun["deliver_subject"], data[:2000], timeout=5)
        assert (await call(client, "STREAM.INFO.S"))["error"]["err_code"] == 10059
        assert (await call(client, "STREAM.NAMES"))["streams"] is None
        taking = next(
            member
            for member in servers.members
            if (one := member.coordinator.state.find("$G", "S"))
            and member.coordinator.hosting.kept.held(one) is not None
        )
        await client.close()
        await taking.stop()
        await servers.leader()
        await until(lambda: _unknown(servers), "nothing of it is left")
        client = await nats.connect(servers.running[0].url)
        again = await client.request("$JS.API.STREAM.INFO.S", timeout=5)
        assert json.loads(again.data)["error"]["err_code"] == 10059
        assert (await create(client, "S"))["did_create"]
        await client.close()


def _unknown(servers: Trio) -> bool:
    return all(member.coordinator.state.find("$G", "S") is None for member in servers.running)
