"""A program of JetStream's technical preview, written with nats-py's core client, against a real server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats

import slipstream


async def made(client: Any, verb: str, body: object) -> None:
    assert b"error" not in (await client.request(f"$JS.API.{verb}", json.dumps(body).encode())).data


async def state(client: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((await client.request("$JS.OBSERVABLE.INFO", b"wc p1")).data)
    return found


async def test_publish_next_ack_and_info(tmp_path: Path) -> None:
    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        config = {"name": "wc", "subjects": ["wc.*"], "storage": "file", "metadata": {"slipstream.preview": "true"}}
        await made(client, "STREAM.CREATE.wc", config)
        consumer = {"stream_name": "wc", "config": {"durable_name": "p1", "ack_policy": "explicit"}}
        await made(client, "CONSUMER.DURABLE.CREATE.wc.p1", consumer)
        # One after the other, and many in one commit.
        assert (await client.request("wc.1", b"hello 0")).data == b"+OK"
        acks = await asyncio.gather(*(client.request("wc.1", b"hello %d" % number) for number in range(1, 50)))
        assert {ack.data for ack in acks} == {b"+OK"}
        first = await client.request("$JS.RN.wc.p1", b"1", old_style=True)
        assert (first.data, first.reply) == (b"hello 0", "$JS.A.wc.p1.1.1.1")
        assert list((await state(client))["Pending"]) == ["1"]
        await client.request(first.reply, b"+OK")  # an ack with a reply is confirmed when it is safe
        assert (await state(client))["Pending"] is None
        await client.close()
    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        assert (await state(client))["AckFloor"] == {"ObsSeq": 1, "SetSeq": 1}
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox)
        await client.publish("$JS.RN.wc.p1", b"3", reply=inbox)
        replies = [(await subscription.next_msg(5)).reply for _ in range(3)]
        assert replies == [f"$JS.A.wc.p1.1.{seq}.{seq}" for seq in (2, 3, 4)]
        assert (await client.request("wc.1", b"more")).data == b"+OK"
        await client.close()
