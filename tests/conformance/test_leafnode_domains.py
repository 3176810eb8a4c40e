"""JetStream of a hub and of its leaf, each reached from the other by its domain: ours, nats-server, mixed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from nats.js.api import ConsumerConfig, StreamConfig, StreamSource
from nats.js.errors import NotFoundError

from conformance.test_leafnodes import PAIRINGS, skip_without_nats_server
from support.clusters import heard_by_all
from support.domains import external, jetstream, stored
from support.leaf_world import DEADLINE, LeafServer, LeafWorld
from support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


async def pair(world: LeafWorld, kinds: str, directory: Path) -> tuple[LeafServer, LeafServer]:
    hub = await world.hub(kinds[0], more=jetstream(directory, "hub"))
    return hub, await world.leaf(kinds[1], hub, more=jetstream(directory, "edge"))


@pytest.mark.parametrize("kinds", PAIRINGS)
async def test_each_jetstream_is_reached_by_its_domain(kinds: str, tmp_path: Path) -> None:
    skip_without_nats_server(kinds)
    async with LeafWorld(tmp_path) as world:
        hub, leaf = await pair(world, kinds, tmp_path)
        top, edge = await world.client(hub), await world.client(leaf)
        await heard_by_all([top, edge])
        # From above into the leaf, and from the leaf into the hub.
        for client, domain, other in ((top, "edge", edge), (edge, "hub", top)):
            far = client.jetstream(domain=domain, timeout=DEADLINE)
            account = await far.account_info()
            assert account.domain == domain
            name = f"OF_{domain}"
            await far.add_stream(StreamConfig(name=name, subjects=[f"{domain}.>"]))
            ack = await far.publish(f"{domain}.a", b"one")
            assert (ack.domain, ack.seq) == (domain, 1)
            with pytest.raises(NotFoundError):
                await client.jetstream(timeout=DEADLINE).stream_info(name)
            near = other.jetstream(timeout=DEADLINE)
            assert (await near.stream_info(name)).state.messages == 1
            for number in range(20):
                await far.publish(f"{domain}.a", b"%d" % number)
            pull = await far.pull_subscribe(f"{domain}.>", "D", stream=name)
            got = []
            while len(got) < 21:
                for message in await pull.fetch(21 - len(got), timeout=DEADLINE):
                    assert message.subject == f"{domain}.a"
                    got.append(message.data)
                    await message.ack_sync(timeout=DEADLINE)
            assert got == [b"one", *(b"%d" % number for number in range(20))]
            assert (await far.consumer_info(name, "D")).num_ack_pending == 0
            push = await far.subscribe(f"{domain}.>", stream=name, config=ConsumerConfig(deliver_policy="last"))
            message = await push.next_msg(timeout=DEADLINE)
            assert (message.subject, message.data) == (f"{domain}.a", b"19")
            await message.ack()
            await push.unsubscribe()


@pytest.mark.parametrize("kinds", PAIRINGS)
async def test_keys_and_objects_across(kinds: str, tmp_path: Path) -> None:
    skip_without_nats_server(kinds)
    async with LeafWorld(tmp_path) as world:
        hub, leaf = await pair(world, kinds, tmp_path)
        top, edge = await world.client(hub), await world.client(leaf)
        await heard_by_all([top, edge])
        far = edge.jetstream(domain="hub", timeout=DEADLINE)
        bucket = await far.create_key_value(bucket="B", history=3)
        here = await top.jetstream(timeout=DEADLINE).key_value("B")
        await here.put("k", b"from the hub")
        assert (await bucket.get("k")).value == b"from the hub"
        watcher = await bucket.watchall()
        await here.put("k2", b"seen")
        seen = []
        async with asyncio.timeout(DEADLINE):
            while b"seen" not in seen:
                entry = await watcher.updates(timeout=DEADLINE)
                seen.append(None if entry is None else entry.value)
        await watcher.stop()
        store = await far.create_object_store(bucket="O")
        body = bytes(range(256)) * 1_200
        await store.put("large", body)
        near = await top.jetstream(timeout=DEADLINE).object_store("O")
        assert (await near.get("large")).data == body
        await near.put("back", body[::-1])
        assert (await store.get("back")).data == body[::-1]
        await store.delete("large")
        assert [one.name for one in await near.list(ignore_deletes=True)] == ["back"]


@pytest.mark.parametrize("kinds", PAIRINGS)
async def test_a_mirror_and_a_source_store_and_forward_over_a_link_that_breaks(kinds: str, tmp_path: Path) -> None:
    """The edge goes on without its hub; when the link is back, all arrives once, in order."""
    skip_without_nats_server(kinds)
    async with LeafWorld(tmp_path) as world:
        hub, leaf = await pair(world, kinds, tmp_path)
        top, edge = await world.client(hub), await world.client(leaf)
        await heard_by_all([top, edge])
        local = edge.jetstream(timeout=DEADLINE)
        await local.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
        above = top.jetstream(timeout=DEADLINE)
        await above.add_stream(
            StreamConfig(name="MIRROR", mirror=StreamSource(name="ORDERS", external=external("edge")))
        )
        await above.add_stream(
            StreamConfig(name="ALL", sources=[StreamSource(name="ORDERS", external=external("edge"))])
        )
        for number in range(50):
            await local.publish("orders.new", b"%d" % number)
        expected = [b"%d" % number for number in range(50)]
        assert await stored(above, "MIRROR", 50) == expected
        assert await stored(above, "ALL", 50) == expected
        await hub.stop()
        for number in range(50, 100):
            await local.publish("orders.new", b"%d" % number)
        again = await world.hub(kinds[0], more=jetstream(tmp_path, "hub"), port=hub.leaf_port)
        above = (await world.client(again)).jetstream(timeout=DEADLINE)
        expected = [b"%d" % number for number in range(100)]
        assert await stored(above, "MIRROR", 100) == expected
        assert await stored(above, "ALL", 100) == expected


@pytest.mark.parametrize("kinds", PAIRINGS)
async def test_a_leaf_without_jetstream_has_that_of_its_hub_by_default(kinds: str, tmp_path: Path) -> None:
    skip_without_nats_server(kinds)
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub(kinds[0], more=jetstream(tmp_path, "hub"))
        leaf = await world.leaf(
            kinds[1],
            hub,
            "account: A",
            "accounts { A { users [ {user: a, password: p} ] } }, no_auth_user: a, default_js_domain { A: hub }",
        )
        top, edge = await world.client(hub), await world.client(leaf)
        await heard_by_all([top, edge])
        js = edge.jetstream(timeout=DEADLINE)
        await js.add_stream(StreamConfig(name="S", subjects=["s.>"]))
        assert (await js.publish("s.1", b"x")).domain == "hub"
        bucket = await js.create_key_value(bucket="B")
        await bucket.put("k", b"v")
        assert (await bucket.get("k")).value == b"v"
        assert (await top.jetstream(timeout=DEADLINE).stream_info("KV_B")).state.messages == 1


@pytest.mark.parametrize(
    "kinds", ["oo", pytest.param("on", marks=pytest.mark.long), pytest.param("no", marks=pytest.mark.long)]
)
async def test_cut_wires_neither_lose_nor_double_in_either_direction(kinds: str, tmp_path: Path) -> None:
    skip_without_nats_server(kinds)
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub(kinds[0], more=jetstream(tmp_path, "hub"))
        async with TcpProxy(hub.leaf_port) as wire:
            url = f"nats-leaf://127.0.0.1:{wire.port}"
            more = "ignore_discovered_servers: true"
            leaf = await world.leaf(kinds[1], hub, more, jetstream(tmp_path, "edge"), url)
            top, edge = await world.client(hub), await world.client(leaf)
            await heard_by_all([top, edge])
            above, below = top.jetstream(timeout=DEADLINE), edge.jetstream(timeout=DEADLINE)
            await below.add_stream(StreamConfig(name="UP", subjects=["up.>"]))
            await above.add_stream(StreamConfig(name="DOWN", subjects=["down.>"]))
            await above.add_stream(
                StreamConfig(name="UP_COPY", mirror=StreamSource(name="UP", external=external("edge")))
            )
            await below.add_stream(
                StreamConfig(name="DOWN_COPY", sources=[StreamSource(name="DOWN", external=external("hub"))])
            )
            for turn in range(3):
                wire.heal()
                for number in range(100):
                    await below.publish("up.x", b"%d.%d" % (turn, number))
                    await above.publish("down.x", b"%d.%d" % (turn, number))
                    if number == 50:
                        wire.cut()
            wire.heal()
            expected = [b"%d.%d" % (turn, number) for turn in range(3) for number in range(100)]
            assert await stored(above, "UP_COPY", 300) == expected
            assert await stored(below, "DOWN_COPY", 300) == expected
