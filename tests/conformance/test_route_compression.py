"""Compressed routes: all pairs of modes come to what servers of nats-server come to, and everything arrives."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats
import pytest

from support.clusters import HAS_NATS_SERVER, Node, connected, heard_by_all, until
from tlsfiles import Authority

pytestmark = pytest.mark.skipif(not HAS_NATS_SERVER, reason="nats-server is not installed")

MODES = ("off", "accept", "s2_fast", "s2_better", "s2_best", "s2_auto")
# Each pair is eight servers; these show what the others repeat.
SHORT = {("off", "s2_fast"), ("accept", "s2_fast"), ("s2_auto", "s2_better")}
PAIRS = [
    pytest.param((one, other), id=f"{one}-{other}", marks=() if (one, other) in SHORT else pytest.mark.long)
    for one in MODES
    for other in MODES
    if one <= other
]


async def joined(kinds: str, modes: tuple[str, str], directory: Path, tls: str = "") -> list[Node]:
    first, second = (Node(kind, number, directory) for number, kind in enumerate(kinds))
    await first.start(first.text([], f"pool_size: 1, compression: {modes[0]}\n{tls}"))
    routes = [f"nats://localhost:{first.route_port}"]
    await second.start(second.text(routes, f"pool_size: 1, compression: {modes[1]}\n{tls}"))
    return [first, second]


async def agreed(nodes: list[Node]) -> list[set[str]]:
    found = [(await node.shown("/routez"))["routes"] for node in nodes]
    return [{route.get("compression", "") for route in routes} for routes in found]


async def exchange(clients: list[nats.NATS]) -> None:
    """Small and large, even and uneven bytes, in both directions, in order."""
    bodies = [b"", b"x", b"abc" * 1_000, bytes(range(256)) * 400, b"\0" * 900_000, *(b"%d" % at for at in range(500))]
    for number in (0, 1):
        got: list[bytes] = []

        async def take(message: nats.aio.msg.Msg, got: list[bytes] = got) -> None:
            got.append(message.data)

        subscription = await clients[1 - number].subscribe("bodies", cb=take)
        await clients[1 - number].flush()
        await heard_by_all(clients)
        for body in bodies:
            await clients[number].publish("bodies", body)
        await clients[number].flush()
        await until(lambda got=got: len(got) >= len(bodies), "all arrive")
        assert got == bodies
        await subscription.unsubscribe()
        await clients[1 - number].flush()
        await heard_by_all(clients)


@pytest.mark.parametrize("modes", PAIRS)
async def test_modes(modes: tuple[str, str], tmp_path: Path) -> None:
    """What two of ours agree on is what two of theirs do, and one of each."""
    shown = []
    for kinds in ("nn", "oo", "on", "no"):
        nodes = await joined(kinds, modes, tmp_path)
        try:
            clients = [await connected(node.url) for node in nodes]
            await heard_by_all(clients)
            if kinds != "nn":
                await exchange(clients)
            for client in clients:
                await client.close()
            shown.append(await agreed(nodes))
        finally:
            for node in nodes:
                await node.stop()
    if "s2_auto" in modes:
        # The level is a matter of how long the handshake took.
        shown = [[{mode.partition("_")[0] for mode in side} for side in one] for one in shown]
    assert all(one == shown[0] for one in shown), shown


@pytest.mark.parametrize("kinds", ["oo", "on", "no"])
async def test_with_tls(kinds: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("localhost", "127.0.0.1")
    tls = f'tls {{ {pair.block}, ca_file: "{authority.ca_file}", timeout: 5 }}'
    nodes = await joined(kinds, ("s2_fast", "s2_fast"), tmp_path, tls)
    try:
        clients = [await connected(node.url) for node in nodes]
        await heard_by_all(clients)
        await exchange(clients)
        assert await agreed(nodes) == [{"s2_fast"}, {"s2_fast"}]
        for client in clients:
            await client.close()
    finally:
        for node in nodes:
            await node.stop()


async def test_bytes_that_are_no_stream_end_the_route_alone(tmp_path: Path) -> None:
    """After the handshake, garbage comes where frames should: the route ends, the server goes on."""
    node = Node("o", 0, tmp_path)
    await node.start(node.text([], "compression: s2_fast"))
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", node.route_port)
        await reader.readline()
        writer.write(b'CONNECT {"name":"P","cluster":"C","headers":true}\r\n')
        writer.write(b'INFO {"server_id":"P","server_name":"p","cluster":"C","compression":"s2_fast"}\r\n')
        assert (await reader.read(10)) == b"\xff\x06\x00\x00S2sTwO"
        writer.write(b"\xff\x06\x00\x00nonsense")
        async with asyncio.timeout(20):
            while await reader.read(4096):
                pass
        writer.close()
        await (await connected(node.url)).close()
        assert "compressed bytes make no sense" in node.log_text()
    finally:
        await node.stop()
