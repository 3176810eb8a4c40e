"""Leaders of streams leave a server whose link to its hub is away (`jetstream_cluster_migrate`)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest

from support.clusters import DEADLINE, HAS_NATS_SERVER, Node, connected, heard_by_all
from support.ports import free_port

EDGE = """
accounts {
  SYS { users: [{ user: sys, password: sys }] }
  A { jetstream: enabled, users: [{ user: a, password: a }] }
}
system_account: SYS
no_auth_user: a
"""


async def leader(client: nats.NATS) -> str:
    """Who leads the stream; empty: nobody says."""
    try:
        answer: dict[str, Any] = json.loads((await client.request("$JS.API.STREAM.INFO.S", b"", timeout=2)).data)
    except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
        return ""
    return str(answer.get("cluster", {}).get("leader", ""))


async def stored(client: nats.NATS, body: bytes) -> None:
    """Publish, and again while nobody leads."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                await client.jetstream().publish("s", body, timeout=5)
                return
            except (nats.errors.TimeoutError, nats.js.errors.NoStreamResponseError):
                await asyncio.sleep(0.05)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("delay", ["true", '{ leader_migrate_delay: "100ms" }'])
@pytest.mark.parametrize("kind", ["n", "o"])
async def test_a_leader_whose_hub_is_gone_hands_over(kind: str, delay: str, tmp_path: Path) -> None:
    if kind == "n" and not HAS_NATS_SERVER:
        pytest.skip("nats-server is not installed")
    hubs, edges = [Node("o", 10 + number, tmp_path) for number in range(3)], [Node(kind, n, tmp_path) for n in range(3)]
    ports = [free_port() for _ in hubs]
    routes = [f"nats://127.0.0.1:{edge.route_port}" for edge in edges]
    try:
        for hub, port in zip(hubs, ports, strict=True):
            await hub.start(f'listen: "127.0.0.1:{hub.client_port}"\nleafnodes {{ listen: "127.0.0.1:{port}" }}')
        for edge, port in zip(edges, ports, strict=True):
            remote = f'{{ url: "nats://127.0.0.1:{port}", account: A, jetstream_cluster_migrate: {delay} }}'
            more = (
                f'{EDGE}\njetstream {{ store_dir: "{tmp_path}/{edge.name}", max_file: 64MB, domain: edge }}\n'
                f"leafnodes {{ reconnect: 1, remotes: [{remote}] }}"
            )
            await edge.start(edge.text(routes, more=more))
        clients = [await connected(edge.url) for edge in edges]
        await heard_by_all(clients)
        config = json.dumps({"name": "S", "subjects": ["s"], "num_replicas": 3}).encode()
        async with asyncio.timeout(2 * DEADLINE):
            while not await leader(clients[0]):
                try:
                    await clients[0].request("$JS.API.STREAM.CREATE.S", config, timeout=5)
                except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
                    await asyncio.sleep(0.1)
        before = await leader(clients[0])
        # The leader keeps its place as long as its link is there.
        await stored(clients[0], b"1")
        assert await leader(clients[1]) in (before, "")
        await hubs[int(before[1:])].stop()
        async with asyncio.timeout(2 * DEADLINE):
            while await leader(clients[0]) in (before, ""):
                await asyncio.sleep(0.05)
        await stored(clients[0], b"2")
        for client in clients:
            await client.close()
    finally:
        for node in (*edges, *hubs):
            await node.stop()


@pytest.mark.timeout(120)
async def test_leaders_stay_when_all_are_cut_off(tmp_path: Path) -> None:
    """nats-server has no leader then; here streams are led by somebody, and leaders do not wander."""
    edges = [Node("o", number, tmp_path) for number in range(3)]
    routes = [f"nats://127.0.0.1:{edge.route_port}" for edge in edges]
    nowhere = free_port()
    try:
        for edge in edges:
            remote = f'{{ url: "nats://127.0.0.1:{nowhere}", account: A, jetstream_cluster_migrate: true }}'
            more = (
                f'{EDGE}\njetstream {{ store_dir: "{tmp_path}/{edge.name}", max_file: 64MB, domain: edge }}\n'
                f"leafnodes {{ reconnect: 1, remotes: [{remote}] }}"
            )
            await edge.start(edge.text(routes, more=more))
        client = await connected(edges[0].url)
        config = json.dumps({"name": "S", "subjects": ["s"], "num_replicas": 3}).encode()
        async with asyncio.timeout(2 * DEADLINE):
            while not await leader(client):
                try:
                    await client.request("$JS.API.STREAM.CREATE.S", config, timeout=5)
                except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
                    await asyncio.sleep(0.1)

        def moves() -> list[int]:
            return [edge.log_text().count("its leafnode is away") for edge in edges]

        async with asyncio.timeout(2 * DEADLINE):
            while sum(moves()) < 2:
                await asyncio.sleep(0.05)
        for number in range(5):
            await stored(client, b"%d" % number)
        assert max(moves()) == 1, "each tries once"
        await client.close()
    finally:
        for edge in edges:
            await edge.stop()
