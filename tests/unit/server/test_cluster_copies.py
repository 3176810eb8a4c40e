"""Mirrors and sources in a cluster of three: whoever leads them reads, and goes on behind what was agreed on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

pytest.importorskip("slipstream_raft")

from slipstream.config.record import replace
from slipstream.server.server import Server
from support.cluster_calls import call, create, published
from support.cluster_servers import trio
from support.config_loading import loaded
from support.ports import free_port

BOTH = [{"name": "O"}, {"name": "P"}]
COPIES: dict[str, dict[str, Any]] = {
    "M1": {"mirror": {"name": "O"}, "placement": {"tags": ["is:n1"]}},
    "M3": {"mirror": {"name": "O"}, "num_replicas": 3},
    "S1": {"sources": BOTH, "placement": {"tags": ["is:n1"]}},
    "S3": {"sources": BOTH, "num_replicas": 3},
}


async def shown(client: Client, stream: str) -> list[tuple[int, bytes]]:
    """Sequences and payloads of all messages."""
    last_seq = (await call(client, f"STREAM.INFO.{stream}"))["state"]["last_seq"]
    found = [await client.jetstream().get_msg(stream, seq) for seq in range(1, last_seq + 1)]
    return [(message.seq or 0, message.data or b"") for message in found]


async def when(client: Client, stream: str, messages: int) -> dict[str, Any]:
    """What a stream is like when it has so many messages."""
    async with asyncio.timeout(25):
        while (found := await call(client, f"STREAM.INFO.{stream}")).get("state", {}).get("messages") != messages:
            await asyncio.sleep(0.05)
    return found


async def led_by(client: Client, stream: str, server: str) -> None:
    """Have a server lead a stream."""
    async with asyncio.timeout(25):
        while (await call(client, f"STREAM.INFO.{stream}")).get("cluster", {}).get("leader") != server:
            await call(client, f"STREAM.LEADER.STEPDOWN.{stream}", placement={"preferred": server})
            await asyncio.sleep(0.1)


async def test_copies_go_on_where_the_last_leader_left_off(tmp_path: Path) -> None:
    async with trio(tmp_path) as servers:
        client = await nats.connect(servers.named("n1").url)
        await create(client, "O")
        await create(client, "P", 1, placement={"tags": ["is:n1"]})
        for number in range(10):
            await published(client, "O.x", b"o%d" % number)
            await published(client, "P.x", b"p%d" % number)
        for name, body in COPIES.items():
            made = await call(client, f"STREAM.CREATE.{name}", name=name, **body)
            assert "error" not in made, made
        infos = {name: await when(client, name, 10 * (1 + name.startswith("S"))) for name in COPIES}
        assert infos["M3"]["mirror"]["name"] == "O" and infos["M3"]["mirror"]["lag"] == 0
        assert {one["name"] for one in infos["S3"]["sources"]} == {"O", "P"}
        for name in ("M3", "S3"):
            await led_by(client, name, "n0")
        # Messages come in while the origin gets another leader, and while that of the copies ends.
        publishing = asyncio.create_task(_publish(client))
        await led_by(client, "O", "n2")
        await servers.named("n0").stop()
        await servers.leader()
        count = await publishing
        origin = await shown(client, "O")
        assert len(origin) >= count
        for name in ("M1", "M3"):
            await when(client, name, len(origin))
            assert await shown(client, name) == origin
        others = await shown(client, "P")
        for name in ("S1", "S3"):
            await when(client, name, len(origin) + len(others))
            copied = [payload for _, payload in await shown(client, name)]
            for letter, messages in (b"o", origin), (b"p", others):
                assert [one for one in copied if one.startswith(letter)] == [payload for _, payload in messages]
        # A stream that was a mirror becomes one of its own.
        body = {"name": "M3", "num_replicas": 3, "subjects": ["own"], "storage": "file"}
        assert "error" not in await call(client, "STREAM.UPDATE.M3", **body)
        assert await published(client, "own", b"!") == origin[-1][0] + 1
        assert "mirror" not in await call(client, "STREAM.INFO.M3")
        await client.close()


async def _publish(client: Client) -> int:
    """To both origins, for a while; how many are in the replicated one at least."""
    for number in range(10, 60):
        await published(client, "O.x", b"o%d" % number)
        await published(client, "P.x", b"p%d" % number)
        await asyncio.sleep(0.02)
    return 60


async def test_a_stream_of_another_domain_is_copied_over_a_leaf(tmp_path: Path) -> None:
    port = free_port()
    options = loaded(f'listen: "127.0.0.1:-1", leafnodes {{ listen: "127.0.0.1:{port}" }}').options
    options = replace(
        options, jetstream=replace(options.jetstream, enabled=True, domain="hub", store_dir=str(tmp_path / "hub"))
    )
    hub = Server(options, log=lambda *_: None)
    await hub.start()
    remote = f'jetstream {{ domain: edge }}, leafnodes {{ remotes: [{{ url: "nats://127.0.0.1:{port}" }}] }}'
    try:
        async with trio(tmp_path, remote) as servers:
            origin = await nats.connect(f"nats://127.0.0.1:{hub.hub.port}")
            await create(origin, "O", 1)
            await published(origin, "O.x", b"1")
            client = await nats.connect(servers.named("n1").url)
            far = {"name": "O", "external": {"api": "$JS.hub.API", "deliver": "deliver.hub"}}
            for name, body in {"M": {"mirror": far}, "S": {"sources": [far]}}.items():
                made = await call(client, f"STREAM.CREATE.{name}", name=name, num_replicas=3, **body)
                assert "error" not in made, made
                await when(client, name, 1)
                await led_by(client, name, "n0")
            await servers.named("n0").stop()
            await servers.leader()
            await published(origin, "O.x", b"2")
            for name in ("M", "S"):
                await when(client, name, 2)
                assert await shown(client, name) == [(1, b"1"), (2, b"2")]
            await origin.close()
            await client.close()
    finally:
        await hub.stop()
