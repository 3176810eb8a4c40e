"""Leaf links when things change: remotes come and go by a reload, and a leaf finds another server of the cluster."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest

from slipstream.config.reload import diff
from support.clusters import HAS_NATS_SERVER
from support.config_loading import loaded
from support.leaf_world import DEADLINE, LeafServer, LeafWorld, until_shown
from support.ports import free_port
from tlsfiles import Authority

pytestmark = pytest.mark.skipif(not HAS_NATS_SERVER, reason="nats-server is not installed")


async def reload(server: LeafServer, config: str) -> list[str]:
    """Give one of ours another configuration; why that is refused, if it is."""
    assert server.ours is not None
    text = f'server_name: {server.name}\nlisten: "127.0.0.1:{server.port}"\nhttp: "127.0.0.1:{server.http}"\n{config}'
    options = loaded(text).options
    plan = diff(server.ours.options, options)
    if not plan.refusals:
        server.ours.reload(options)
    return [str(refusal) for refusal in plan.refusals]


async def crosses(sender: nats.NATS, receiver: nats.NATS) -> None:
    """What one publishes reaches the other, sooner or later."""
    came = asyncio.Event()

    async def take(_message: nats.aio.msg.Msg) -> None:
        came.set()

    subscription = await receiver.subscribe("crosses", cb=take)
    await receiver.flush()
    async with asyncio.timeout(DEADLINE):
        while not came.is_set():
            await sender.publish("crosses", b"")
            await sender.flush()
            await asyncio.sleep(0.01)
    await subscription.unsubscribe()


@pytest.mark.parametrize("kinds", ["oo", "on", "no"])
async def test_remotes_come_and_go_by_a_reload(kinds: str, tmp_path: Path) -> None:
    async with LeafWorld(tmp_path) as world:
        hubs = [await world.hub(kind, name=f"hub{number}") for number, kind in enumerate(kinds)]
        urls = [f"nats-leaf://127.0.0.1:{hub.leaf_port}" for hub in hubs]

        def remotes(*entries: str) -> str:
            return f'leafnodes {{ reconnect: "50ms", remotes [ {", ".join(entries)} ] }}'

        first, second = (f'{{ url: "{url}", compression: off }}' for url in urls)
        leaf = await world.server("o", "leaf", "")
        client = await world.client(leaf)
        assert await reload(leaf, remotes(first)) == []
        await crosses(await world.client(hubs[0]), client)
        assert await reload(leaf, remotes(first, second)) == []
        await crosses(await world.client(hubs[1]), client)
        kept = (await leaf.shown("/leafz"))["leafs"][0]["id"]
        # Another one is disabled: the first is not touched.
        assert await reload(leaf, remotes(first, f'{{ url: "{urls[1]}", compression: off, disabled: true }}')) == []
        await until_shown(hubs[1], "/leafz", lambda shown: shown["leafnodes"] == 0)
        shown = await until_shown(leaf, "/leafz", lambda shown: shown["leafnodes"] == 1)
        assert shown["leafs"][0]["id"] == kept
        assert await reload(leaf, remotes(first, second)) == []
        await until_shown(hubs[1], "/leafz", lambda shown: shown["leafnodes"] == 1)
        # Another way to compress is agreed upon with a new link.
        assert await reload(leaf, remotes(first, f'{{ url: "{urls[1]}", compression: s2_fast }}')) == []
        await crosses(await world.client(hubs[1]), client)
        assert await reload(leaf, remotes(second)) == []
        await until_shown(hubs[0], "/leafz", lambda shown: shown["leafnodes"] == 0)
        await crosses(client, await world.client(hubs[1]))
        assert await reload(leaf, "") == []
        for hub in hubs:
            await until_shown(hub, "/leafz", lambda shown: shown["leafnodes"] == 0)
        assert "removed" in leaf.text()


# What a reload may change of a remote; nats-server takes few of them (`test_link_reloads`).
KEYS_OF_A_REMOTE = (
    *("hub: true", "deny_imports: a", "deny_exports: a", "no_randomize: true", "isolate: true"),
    *("request_isolation: true", 'first_info_timeout: "4s"', 'dial_timeout: "3s"', "ignore_discovered_servers: true"),
    *("jetstream_cluster_migrate: true", "account: A", "compression: s2_fast", "tls { insecure: true }", ""),
)


async def test_each_other_setting_of_a_remote_has_a_new_link(tmp_path: Path) -> None:
    """Nothing of it waits for the next time that the link breaks."""
    accounts = "accounts { A { users [ {user: a, password: a} ] } }\n"
    authority = Authority(tmp_path)
    tls = f"tls {{ {authority.issue('127.0.0.1').block} }}"
    async with LeafWorld(tmp_path) as world:
        hubs = [await world.hub("o", name="hub"), await world.hub("o", tls, name="secure")]
        leaf = await world.server("o", "leaf", accounts)
        link = 0
        for key in KEYS_OF_A_REMOTE:
            hub = hubs["tls" in key]
            entry = f'url: "nats-leaf://127.0.0.1:{hub.leaf_port}"\n{key}'
            assert await reload(leaf, f'{accounts}leafnodes {{ reconnect: "50ms", remotes [ {{ {entry} }} ] }}') == []

            def is_new(shown: dict[str, Any]) -> bool:
                return [one["id"] > link for one in shown["leafs"]] == [True]  # noqa: B023

            link = (await until_shown(leaf, "/leafz", is_new))["leafs"][0]["id"]


async def test_a_remote_that_is_to_be_encrypted_from_now_on(tmp_path: Path) -> None:
    """The link that is there is not: it ends."""
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub("o")
        url = f"nats-leaf://127.0.0.1:{hub.leaf_port}"
        leaf = await world.leaf("o", hub)
        await until_shown(hub, "/leafz", lambda shown: shown["leafnodes"] == 1)
        entry = f'url: "{url}", compression: off, tls {{ insecure: true }}'
        assert await reload(leaf, f'leafnodes {{ reconnect: "50ms", remotes [ {{ {entry} }} ] }}') == []
        await until_shown(hub, "/leafz", lambda shown: shown["leafnodes"] == 0)
        assert f'Reloaded: LeafNode Remote urls=["{url}"], account="$G" changed' in leaf.text()


async def test_other_pings_are_those_of_links_that_are_there(tmp_path: Path) -> None:
    """Who stays silent is given up by the new rule; by the old one it would stay for minutes."""
    rare, often = 'ping_interval: "200ms", ping_max: 1000\n', 'ping_interval: "50ms", ping_max: 3\n'
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub("o", more=rare)
        reader, writer = await asyncio.open_connection("127.0.0.1", hub.leaf_port)
        async with asyncio.timeout(DEADLINE):
            await reader.readline()
            writer.write(b'CONNECT {"server_id": "SILENT", "name": "silent"}\r\n')
            await reader.readuntil(b"PING\r\n")
            block = f'leafnodes {{ listen: "127.0.0.1:{hub.leaf_port}", compression: off }}\n'
            assert await reload(hub, block + often) == []
            said = await reader.read()
        writer.close()
        assert said.endswith(b"-ERR 'Stale Connection'\r\n")


@pytest.mark.parametrize("compression", ["off", "s2_fast"])
async def test_another_compression_of_the_listener_is_agreed_upon_anew(compression: str, tmp_path: Path) -> None:
    before = {"off": "s2_fast", "s2_fast": "off"}[compression]
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub("o", compression=before)
        leaf = await world.leaf("n", hub, compression="s2_auto")
        await until_shown(leaf, "/leafz", lambda shown: shown["leafnodes"] == 1)
        block = f'leafnodes {{ listen: "127.0.0.1:{hub.leaf_port}", compression: {compression} }}'
        assert await reload(hub, block) == []
        shown = await until_shown(
            hub, "/leafz", lambda shown: [leaf["compression"] == compression for leaf in shown["leafs"]] == [True]
        )
        assert shown["leafs"][0]["compression"] == compression


@pytest.mark.parametrize("kinds", ["ooo", "oon", "noo", "ono"])
async def test_a_leaf_finds_another_server_of_the_cluster(kinds: str, tmp_path: Path) -> None:
    async with LeafWorld(tmp_path) as world:
        route = free_port()
        cluster = f'cluster {{ name: c, listen: "127.0.0.1:{route}", pool_size: 1 }}'
        first = await world.hub(kinds[0], more=cluster, name="first")
        routes = f'routes: ["nats-route://127.0.0.1:{route}"]'
        cluster = f'cluster {{ name: c, listen: "127.0.0.1:{free_port()}", pool_size: 1, {routes} }}'
        second = await world.hub(kinds[1], more=cluster, name="second")
        leaf = await world.leaf(kinds[2], first)
        await until_shown(second, "/routez", lambda shown: shown["num_routes"] >= 1)
        client = await world.client(leaf)
        await crosses(await world.client(first), client)
        await crosses(client, await world.client(second))
        await first.stop()
        await until_shown(second, "/leafz", lambda shown: [leaf["name"] for leaf in shown["leafs"]] == [leaf.name])
        await crosses(await world.client(second), client)


@pytest.mark.parametrize("kinds", ["oo", "no"])
async def test_a_server_that_does_not_advertise_is_not_told_of(kinds: str, tmp_path: Path) -> None:
    async with LeafWorld(tmp_path) as world:
        route = free_port()
        cluster = f'cluster {{ name: c, listen: "127.0.0.1:{route}", pool_size: 1 }}'
        first = await world.hub(kinds[0], more=cluster, name="first")
        routes = f'routes: ["nats-route://127.0.0.1:{route}"]'
        for name, more in (("hidden", "no_advertise: true"), ("shown", "")):
            cluster = f'cluster {{ name: c, listen: "127.0.0.1:{free_port()}", pool_size: 1, {routes} }}'
            await world.hub(kinds[1], more, cluster, name=name)
        await until_shown(first, "/routez", lambda shown: shown["num_routes"] >= 2)
        told = await leaf_urls(first, 2)
        assert len(told) == 2 and f"127.0.0.1:{first.leaf_port}" in told


async def leaf_urls(server: LeafServer, count: int) -> list[str]:
    """What INFO of the leaf node port says, when it names so many servers."""
    async with asyncio.timeout(DEADLINE):
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.leaf_port)
            line = await reader.readline()
            writer.close()
            urls: list[str] = json.loads(line[5:])["leafnode_urls"]
            if len(urls) >= count:
                return urls
            await asyncio.sleep(0.02)
