"""How clusters come to be and how servers leave: names that were made up, attempts, lame ducks."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest

from support.clusters import HAS_NATS_SERVER, Node, connected, heard_by_all, until

pytestmark = pytest.mark.skipif(not HAS_NATS_SERVER, reason="nats-server is not installed")


async def connected_info(node: Node) -> dict[str, Any]:
    """What a client is told first."""
    reader, writer = await asyncio.open_connection("127.0.0.1", node.client_port)
    line = await reader.readline()
    writer.close()
    await writer.wait_closed()
    found: dict[str, Any] = json.loads(line[5:])
    return found


# With a nats-server as the one that is dialled it is chance whether a name that is given gets through.
@pytest.mark.parametrize(
    ("kinds", "named"),
    [("ooo", False), ("nno", False), ("oon", False), ("non", False), ("ooo", True), ("oon", True), ("ono", True)],
)
async def test_servers_without_a_name_agree_on_one(kinds: str, named: bool, tmp_path: Path) -> None:
    """A name that is configured wins, otherwise the one that comes last in order."""
    nodes = [Node(kind, number, tmp_path) for number, kind in enumerate(kinds)]
    try:
        for number, node in enumerate(nodes):
            routes = [f"nats://127.0.0.1:{nodes[0].route_port}"] if number else []
            name = "name: given" if named and number == 2 else "no_advertise: false"
            await node.start(node.text(routes, name=name))
        clients = [await connected(node.url) for node in nodes]
        await heard_by_all(clients)
        async with asyncio.timeout(20):
            while True:
                names = {(await node.shown("/varz"))["cluster"].get("name", "") for node in nodes}
                if len(names) == 1 and (names == {"given"}) == named:
                    break
                await asyncio.sleep(0.1)
        for client in clients:
            await client.close()
    finally:
        for node in nodes:
            await node.stop()


@pytest.mark.parametrize("kinds", ["ooo", "noo", "ono", "nnn"])
async def test_a_lame_duck_moves_its_clients(kinds: str, tmp_path: Path) -> None:
    nodes = [Node(kind, number, tmp_path) for number, kind in enumerate(kinds)]
    more = 'lame_duck_duration: "30s", lame_duck_grace_period: "10ms"'
    try:
        for number, node in enumerate(nodes):
            routes = [f"nats://127.0.0.1:{nodes[0].route_port}"] if number else []
            await node.start(node.text(routes, more=more))
        others = [await connected(node.url) for node in nodes[1:]]
        await heard_by_all(others)
        client = await connected(nodes[0].url, allow_reconnect=True, reconnect_time_wait=0.1)
        await heard_by_all([client, *others])
        got: list[bytes] = []

        async def take(message: nats.aio.msg.Msg) -> None:
            got.append(message.data)

        await client.subscribe("moved", cb=take)
        await client.flush()
        await until(lambda: len(client.discovered_servers) == 2, "it knows the other servers")
        left = f"127.0.0.1:{nodes[0].client_port}"
        nodes[0].leave()
        await until(
            lambda: client.is_connected and client.connected_url is not None and client.connected_url.netloc != left,
            "connected elsewhere",
        )
        async with asyncio.timeout(20):
            # Others no longer tell their clients of it.
            while left in ((await connected_info(nodes[1])).get("connect_urls") or []):
                await asyncio.sleep(0.05)

        async def arrives() -> None:
            while not got:
                await others[0].publish("moved", b"x")
                await others[0].flush()
                await asyncio.sleep(0.05)

        async with asyncio.timeout(20):
            await arrives()
        for one in (client, *others):
            await one.close()
    finally:
        for node in nodes:
            await node.stop()


@pytest.mark.parametrize("kind", ["o", "n"])
@pytest.mark.parametrize("backoff", [False, True])
async def test_a_configured_route_is_tried_again(kind: str, backoff: bool, tmp_path: Path) -> None:
    """Every second, or after pauses that grow."""
    first, second = Node("o", 0, tmp_path), Node(kind, 1, tmp_path)
    more = "debug: true, connect_error_reports: 1"
    try:
        text = second.text([f"nats://127.0.0.1:{first.route_port}"], f"connect_backoff: {str(backoff).lower()}", more)
        await second.start(text)
        # After attempts at 0, 1 and 2 s, or at 0, 1 and 3 s.
        await until(lambda: "(attempt 3)" in second.log_text(), "three attempts")
        await first.start(first.text([]))
        clients = [await connected(node.url) for node in (first, second)]
        await heard_by_all(clients)
        for client in clients:
            await client.close()
    finally:
        await first.stop()
        await second.stop()
