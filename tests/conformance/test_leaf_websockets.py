"""Leaf links over WebSocket, also through a proxy: of this server and of nats-server. What arrives is the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.clusters import HAS_NATS_SERVER
from support.http_proxy import HttpProxy
from support.leaf_exchange import exchange
from support.leaf_world import LeafServer, LeafWorld, until, until_shown
from support.ports import free_port
from tlsfiles import Authority

needs_nats_server = pytest.mark.skipif(not HAS_NATS_SERVER, reason="nats-server is not installed")
# The kinds of hub and leaf, whether the hub compresses frames, and what the leaf asks for.
LINKS = [
    pytest.param(kinds, compresses, remote, id=f"{kinds}-{name}", marks=() if kinds == "oo" else needs_nats_server)
    for kinds in ("oo", "on", "no")
    for name, compresses, remote in (
        ("masked", False, "ws_no_masking: false"),
        ("deflate", True, "ws_compression: true\nws_no_masking: true"),
        ("refused", False, "ws_compression: true, compression: s2_fast"),
    )
]


async def hub_of(
    world: LeafWorld, kind: str, websocket: str = "", more: str = "", s2: str = "off"
) -> tuple[LeafServer, int]:
    port = free_port()
    tls = "" if "tls" in websocket else "no_tls: true"
    block = f'websocket {{ listen: "127.0.0.1:{port}"\n{tls}\n{websocket} }}\n{more}'
    return await world.hub(kind, more=block, compression=s2), port


async def are_linked(*servers: LeafServer) -> None:
    for server in servers:
        await until_shown(server, "/leafz", lambda shown: shown["leafnodes"] == 1)


@pytest.mark.parametrize(("kinds", "compresses", "remote"), LINKS)
async def test_a_leaf_over_websocket_carries_everything(
    kinds: str, compresses: bool, remote: str, tmp_path: Path
) -> None:
    """Masked or not, compressed by either layer or by none: all bodies arrive, in order, both ways."""
    async with LeafWorld(tmp_path) as world:
        hub, port = await hub_of(world, kinds[0], f"compression: {str(compresses).lower()}", s2="s2_fast")
        s2 = "off" if "s2_fast" not in remote else "s2_fast"
        leaf = await world.leaf(
            kinds[1], hub, remote.replace(", compression: s2_fast", ""), url=f"ws://127.0.0.1:{port}", compression=s2
        )
        await are_linked(hub, leaf)
        await exchange((await world.client(hub), await world.client(leaf)))
        await exchange((await world.client(leaf), await world.client(hub)))
        shown = (await hub.shown("/leafz"))["leafs"][0]
        assert (shown["compression"] == "s2_fast") == (s2 == "s2_fast")


@needs_nats_server
@pytest.mark.parametrize("kinds", ["oo", "on", "no"])
async def test_tls_a_proxy_and_rights_hold_over_websocket(kinds: str, tmp_path: Path) -> None:
    """The proxy is asked for the hub with its password, TLS goes through it, and the user's rights are those there."""
    authority = Authority(tmp_path)
    pair = authority.issue("localhost", "127.0.0.1")
    accounts = """
      accounts { A { users [ {user: a, password: p, allowed_connection_types: [STANDARD, LEAFNODE_WS],
                              permissions { publish: ["up.>", "_INBOX.>"] }} ] } }
    """
    async with HttpProxy("me", "secret") as proxy, LeafWorld(tmp_path) as world:
        hub, port = await hub_of(world, kinds[0], f"tls {{ {pair.block} }}", accounts)
        leaf = await world.leaf(
            kinds[1],
            hub,
            f'tls {{ ca_file: "{authority.ca_file}" }}\n'
            f'proxy {{ url: "http://127.0.0.1:{proxy.port}", username: me, password: secret, timeout: "2s" }}',
            url=f"wss://a:p@localhost:{port}/some/way",
        )
        await are_linked(hub, leaf)
        assert set(proxy.asked) == {f"localhost:{port}"} and proxy.refused == 0
        there, here = await world.client(hub, user="a", password="p"), await world.client(leaf)
        got: list[str] = []

        async def take(message: object) -> None:
            got.append(message.subject)  # type: ignore[attr-defined]

        for subject in ("up.one", "side.one"):
            await there.subscribe(subject, cb=take)
        await there.flush()
        await until_shown(leaf, "/leafz?subs=1", lambda shown: "up.one" in json.dumps(shown))
        for subject in ("side.one", "up.one"):
            await here.publish(subject, b"")
        await until(lambda: got)
        assert got == ["up.one"]


@needs_nats_server
@pytest.mark.parametrize("kind", "on")
async def test_what_stands_in_the_way_is_said_and_tried_again(kind: str, tmp_path: Path) -> None:
    """A proxy with another password, a port that speaks no WebSocket, a hub without leaf nodes."""
    async with HttpProxy("me", "secret") as proxy, LeafWorld(tmp_path) as world:
        hub, port = await hub_of(world, "o")
        wrong = f'proxy {{ url: "http://127.0.0.1:{proxy.port}", username: me, password: wrong }}'
        denied = await world.leaf(kind, hub, wrong, url=f"ws://127.0.0.1:{port}")
        await until(lambda: "proxy CONNECT failed: 407" in denied.text() and proxy.refused > 1)
        lost = await world.leaf(kind, hub, url=f"ws://127.0.0.1:{hub.http}")
        await until(lambda: "invalid websocket connection" in lost.text())
        other = free_port()
        plain = f'websocket {{ listen: "127.0.0.1:{other}", no_tls: true }}'
        empty = await world.server("o", "plain", plain)
        stray = await world.leaf(kind, hub, url=f"ws://127.0.0.1:{other}")
        await until(lambda: "leafnode websocket endpoint not enabled" in empty.text())
        await until(lambda: "invalid websocket connection" in stray.text())


@needs_nats_server
@pytest.mark.parametrize("kinds", ["oo", "on", "no"])
async def test_a_hub_speaks_tls_first_with_those_who_do(kinds: str, tmp_path: Path) -> None:
    """`handshake_first: auto` lets in leafs of both manners: who says nothing gets INFO in clear after the time."""
    authority = Authority(tmp_path)
    pair = authority.issue("localhost", "127.0.0.1")
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub(kinds[0], f'tls {{ {pair.block}, handshake_first: "300ms" }}')
        for first in ("true", "false"):
            await world.leaf(
                kinds[1],
                hub,
                f'tls {{ ca_file: "{authority.ca_file}", handshake_first: {first} }}',
                url=f"tls://localhost:{hub.leaf_port}",
            )
        await until_shown(hub, "/leafz", lambda shown: shown["leafnodes"] == 2)


@needs_nats_server
@pytest.mark.parametrize("kinds", ["oo", "on", "no"])
async def test_a_leaf_over_websocket_finds_another_server_of_the_cluster(kinds: str, tmp_path: Path) -> None:
    """The hub tells where its cluster's WebSocket ports are; when it goes, the leaf goes there."""
    routes = [free_port(), free_port()]
    ports = [free_port(), free_port()]
    async with LeafWorld(tmp_path) as world:
        hubs = []
        for at in range(2):
            route = f"nats-route://127.0.0.1:{routes[1 - at]}"
            cluster = f'cluster {{ name: c, listen: "127.0.0.1:{routes[at]}", routes: ["{route}"] }}'
            websocket = f'websocket {{ listen: "127.0.0.1:{ports[at]}", no_tls: true }}'
            hubs.append(await world.hub(kinds[0], more=f"{cluster}\n{websocket}", name=f"hub{at}"))
        for hub in hubs:
            await until_shown(hub, "/varz", lambda shown: len(shown.get("ws_connect_urls", ())) == 2)
        leaf = await world.leaf(kinds[1], hubs[0], url=f"ws://127.0.0.1:{ports[0]}")
        await are_linked(hubs[0], leaf)
        await hubs[0].stop()
        await are_linked(hubs[1])
