"""Keys of `cluster` whose effect a peer sees on its socket, with nats-server beside it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.clusters import DEADLINE, HAS_NATS_SERVER, Node, connected, heard_by_all, until
from support.link_world import connect, info_line
from support.ports import free_port

pytestmark = pytest.mark.skipif(not HAS_NATS_SERVER, reason="nats-server is not installed")

Socket = tuple[asyncio.StreamReader, asyncio.StreamWriter]
KINDS = pytest.mark.parametrize("kind", ["o", "n"])


@asynccontextmanager
async def server(kind: str, directory: Path, cluster: str, more: str = "") -> AsyncIterator[Node]:
    node = Node(kind, 0, directory)
    try:
        await node.start(node.text([], f"pool_size: -1, compression: off, {cluster}", more))
        await (await connected(node.url)).close()
        yield node
    finally:
        await node.stop()


async def greeted(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, dict[str, Any]]:
    """A socket and the INFO that came first."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
                break
            except OSError:
                await asyncio.sleep(0.05)
        line = await reader.readline()
    return reader, writer, json.loads(line.removeprefix(b"INFO "))


async def introduced(node: Node) -> Socket:
    """A socket that says it is a server of the cluster."""
    reader, writer, _ = await greeted(node.route_port)
    writer.write(connect() + info_line())
    return reader, writer


@KINDS
async def test_advertise_is_where_peers_are_told_to_come(kind: str, tmp_path: Path) -> None:
    async with server(kind, tmp_path, 'advertise: "example.org:7777"') as node:
        _, writer, info = await greeted(node.route_port)
        assert (info["host"], info["port"]) == ("example.org", 7777)
        assert info["ip"] == "nats-route://example.org:7777/"
        writer.close()


@pytest.mark.parametrize("keys", ["listen", "host and port"])
@KINDS
async def test_a_peer_is_told_where_it_came_in(kind: str, keys: str, tmp_path: Path) -> None:
    """`listen`, or `host` and `port`: there it is, and INFO says so."""
    node, port = Node(kind, 0, tmp_path), free_port()
    where = f"host: 127.0.0.1, port: {port}" if keys == "host and port" else f'listen: "127.0.0.1:{port}"'
    try:
        await node.start(f'listen: "127.0.0.1:{node.client_port}"\ncluster {{ name: C, {where} }}\n')
        _, writer, info = await greeted(port)
        assert (info["host"], info["port"]) == ("127.0.0.1", port)
        writer.close()
    finally:
        await node.stop()


@KINDS
async def test_a_peer_that_answers_no_pings_is_gone(kind: str, tmp_path: Path) -> None:
    """`ping_interval` and `ping_max` of the block, which are not those of clients."""
    async with server(kind, tmp_path, 'ping_interval: "100ms", ping_max: 2') as node:
        reader, writer = await introduced(node)
        async with asyncio.timeout(DEADLINE):
            said = await reader.read()
        assert 2 <= said.count(b"PING\r\n") <= 3
        assert said.endswith(b"-ERR 'Stale Connection'\r\n")
        writer.close()
        client = await connected(node.url)
        await client.flush()
        await client.close()


async def test_connect_retries_counts_attempts_to_servers_that_were_heard_of(tmp_path: Path) -> None:
    async def tried(kind: str, retries: int) -> None:
        heard_of, configured = free_port(), free_port()
        directory = tmp_path / f"{kind}{retries}"
        directory.mkdir()
        cluster = f'connect_retries: {retries}, routes: ["nats://127.0.0.1:{configured}"]'
        async with server(kind, directory, cluster, "debug: true, connect_error_reports: 1") as node:

            def attempts(port: int) -> list[str]:
                lines = [line for line in node.log_text().splitlines() if str(port) in line]
                return [found[1] for line in lines if (found := re.search(r"\(attempt (\d+)\)", line))]

            reader, writer = await introduced(node)
            other = f"nats-route://127.0.0.1:{heard_of}/"
            writer.write(b"PING\r\n")
            async with asyncio.timeout(DEADLINE):
                while not (await reader.readline()).startswith(b"PONG"):
                    pass
            writer.write(info_line(server_id="OTHER", server_name="other", ip=other, port=heard_of))
            await until(lambda: len(attempts(heard_of)) > retries)
            # A route of the configuration is tried for ever, after the same pauses.
            before = len(attempts(configured))
            await until(lambda: len(attempts(configured)) > before + 1)
            assert attempts(heard_of) == [str(number + 1) for number in range(retries + 1)]
            writer.close()

    await asyncio.gather(*(tried(kind, retries) for kind in "on" for retries in (0, 1)))


@pytest.mark.parametrize("kinds", ["oo", "on", "no", "nn"])
async def test_who_does_not_advertise_is_not_told_to_clients_of_others(kinds: str, tmp_path: Path) -> None:
    nodes = [Node(kind, number, tmp_path) for number, kind in enumerate(kinds)]
    try:
        await nodes[0].start(nodes[0].text([], "no_advertise: true"))
        await nodes[1].start(nodes[1].text([f"nats://127.0.0.1:{nodes[0].route_port}"]))
        clients = [await connected(node.url) for node in nodes]
        await heard_by_all(clients)
        told = []
        for node in nodes:
            _, writer, info = await greeted(node.client_port)
            told.append(info.get("connect_urls") or [])
            writer.close()
        assert told[0] == [], "nor does it tell its own clients of anybody"
        # nats-server does not name itself either while it knows of no other.
        assert told[1] == ([f"127.0.0.1:{nodes[1].client_port}"] if kinds[1] == "o" else [])
        for client in clients:
            await client.close()
    finally:
        for node in nodes:
            await node.stop()


@KINDS
async def test_a_peer_that_reads_slowly_is_ended_or_waited_for(kind: str, tmp_path: Path) -> None:
    """`write_deadline`, and `write_timeout` as what follows from it."""
    async with server(kind, tmp_path, 'write_deadline: "200ms", write_timeout: close') as node:
        reader, writer = await introduced(node)
        writer.write(b"RS+ $G flood\r\n")
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        client = await connected(node.url)
        async with asyncio.timeout(DEADLINE):
            while "Slow Consumer" not in node.log_text():
                await client.publish("flood", b"x" * 500_000)
                await client.flush()
        assert "WriteDeadline of 200ms" in node.log_text()
        async with asyncio.timeout(DEADLINE):
            while (await node.shown("/routez"))["num_routes"]:
                await asyncio.sleep(0.05)
        assert client.is_connected
        await client.close()
        writer.transport.abort()


# --- a reload while a peer is connected ------------------------------------------------------------------------------


async def reloaded(node: Node, cluster: str, more: str = "") -> None:
    """Give a server other keys; returns when it has them."""
    before = node.log_text().count("Reloaded")
    node.reload(node.text([], f"pool_size: -1, compression: off, {cluster}", more))
    await until(lambda: node.log_text().count("Reloaded") > before or node.kind == "o", "a reload")


async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What was said is handled, and the route is there."""
    writer.write(b"PING\r\n")
    async with asyncio.timeout(DEADLINE):
        await reader.readuntil(b"PONG\r\n")


@pytest.mark.parametrize("where", ["cluster", "server"])
@KINDS
async def test_other_pings_are_those_of_routes_that_are_there(kind: str, where: str, tmp_path: Path) -> None:
    """Whoever is connected and stays silent is given up by the new rule; by the old one it would stay for minutes."""
    rare, often = 'ping_interval: "200ms", ping_max: 1000', 'ping_interval: "50ms", ping_max: 3'
    keys = {"cluster": (rare, often), "server": ("", "")}[where]
    more = {"cluster": ("", ""), "server": (rare, often)}[where]
    async with server(kind, tmp_path, keys[0], more[0]) as node:
        reader, writer = await introduced(node)
        async with asyncio.timeout(DEADLINE):
            await reader.readuntil(b"PING\r\n")
            await reloaded(node, keys[1], more[1])
            said = await reader.read()
        assert said.endswith(b"-ERR 'Stale Connection'\r\n")
        writer.close()


@KINDS
async def test_a_peer_whose_password_is_not_good_any_more_has_to_leave(kind: str, tmp_path: Path) -> None:
    async with server(kind, tmp_path, "authorization { user: u, password: p }") as node:
        reader, writer, _ = await greeted(node.route_port)
        writer.write(connect(user="u", **{"pass": "p"}) + info_line())
        await answers(reader, writer)
        # Something else changes: who is there stays.
        await reloaded(node, "authorization { user: u, password: p }, connect_retries: 3")
        await answers(reader, writer)
        await reloaded(node, "authorization { user: u, password: other }")
        async with asyncio.timeout(DEADLINE):
            said = await reader.read()
        assert said.endswith(b"-ERR 'Authorization Violation'\r\n")
        assert "authentication error" in node.log_text()
        writer.close()


@KINDS
async def test_another_name_is_told_and_ends_no_route(kind: str, tmp_path: Path) -> None:
    async with server(kind, tmp_path, "") as node:
        reader, writer = await introduced(node)
        await answers(reader, writer)
        node.reload(node.text([], "pool_size: -1, compression: off", name="name: D"))
        await until(lambda: "Cluster name updated to D" in node.log_text())
        await answers(reader, writer)
        for port in (node.client_port, node.route_port):
            _, other, info = await greeted(port)
            assert info["cluster"] == "D"
            other.close()
        writer.close()
