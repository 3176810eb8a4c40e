"""Templates with nats-py: the first publish makes a stream, over a real server and its restart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import nats
import pytest
from nats.js.errors import APIError

import slipstream

METADATA = {"slipstream.template": "T_{2}", "slipstream.template.max": "20"}


async def test_streams_are_made_by_publishing(tmp_path: Path) -> None:
    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        config = {"name": "ALL", "subjects": ["tenant.*.>"], "storage": "file", "metadata": METADATA}
        made = await client.request("$JS.API.STREAM.CREATE.ALL", json.dumps(config).encode())
        assert b"error" not in made.data
        # Many publishers at once, each stream made by whoever is first.
        acks = await asyncio.gather(
            *(js.publish(f"tenant.{number % 20}.event", b"%d" % number) for number in range(200))
        )
        assert sorted((ack.stream, ack.seq) for ack in acks) == sorted(
            (f"T_{tenant}", seq) for tenant in range(20) for seq in range(1, 11)
        )
        with pytest.raises(APIError, match="has made 20 streams"):
            await js.publish("tenant.more.event", b"")
        await client.close()
    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        assert (await js.publish("tenant.3.event", b"again")).seq == 11
        reader = await js.pull_subscribe("tenant.3.>", durable="r", stream="T_3")
        assert [message.data for message in await reader.fetch(3)] == [b"3", b"23", b"43"]
        assert (await js.stream_info("ALL")).state.messages == 0
        await client.close()
