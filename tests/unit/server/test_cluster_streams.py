"""Streams of a cluster of three servers, asked for on any of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats
import pytest

pytest.importorskip("slipstream_raft")

from slipstream.server.jetstream.cluster import JetStreamCluster
from slipstream.server.jetstream.facts import RunningJetStream
from slipstream.server.links.protocol import LinkProtocol
from support.cluster_calls import call, create, published
from support.cluster_servers import Member, Trio, trio
from support.clusters import until


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Trio]:
    async with trio(tmp_path) as running:
        yield running


async def test_streams_are_made_on_any_server_and_seen_on_all(servers: Trio) -> None:
    clients = [await nats.connect(member.url) for member in servers.members]
    try:
        for number, client in enumerate(clients):
            made = await create(client, f"R3{number}")
            assert made["did_create"] and made["config"]["num_replicas"] == 3
            cluster = made["cluster"]
            assert cluster["name"] == "C" and cluster["raft_group"].startswith("S-R3F-")
            names = {cluster["leader"], *(replica["name"] for replica in cluster["replicas"])}
            assert names == {"n0", "n1", "n2"}
            made = await create(client, f"R1{number}", 1)
            assert set(made["cluster"]) == {"name", "leader"}
        # One copy each, on three servers.
        leaders = [(await call(clients[0], f"STREAM.INFO.R1{number}"))["cluster"]["leader"] for number in range(3)]
        assert sorted(leaders) == ["n0", "n1", "n2"]
        for client in clients:
            assert (await call(client, "STREAM.NAMES"))["streams"] == ["R10", "R11", "R12", "R30", "R31", "R32"]
            listed = await call(client, "STREAM.LIST")
            assert [one["config"]["name"] for one in listed["streams"]] == ["R10", "R11", "R12", "R30", "R31", "R32"]
            assert listed["total"] == 6 and "missing" not in listed
            info = await call(client, "INFO")
            assert (info["streams"], info["consumers"]) == (6, 0)
            again = await create(client, "R30")
            assert "did_create" not in again and again["config"]["name"] == "R30"
            assert (await create(client, "R30", 1))["error"]["err_code"] == 10058
            assert (await create(client, "R5", 5))["error"]["err_code"] == 10005
            overlap = await call(client, "STREAM.CREATE.X", name="X", subjects=["R31.x"])
            assert overlap["error"]["err_code"] == 10065
            for subject in ("STREAM.INFO.NO", "STREAM.DELETE.NO", "CONSUMER.INFO.NO.c", "STREAM.LEADER.STEPDOWN.NO"):
                assert (await call(client, subject))["error"]["err_code"] == 10059
        for number, client in enumerate(clients):
            assert (await call(client, f"STREAM.DELETE.R3{number}"))["success"]
        assert (await call(clients[0], "STREAM.NAMES"))["streams"] == ["R10", "R11", "R12"]
        await until(lambda: not any(_has_replicas(member) for member in servers.members), "all have heard that they go")
    finally:
        for client in clients:
            await client.close()


async def test_what_is_published_is_on_all_and_survives_its_leader(servers: Trio) -> None:
    client = await nats.connect(servers.members[0].url)
    try:
        await create(client, "S")
        js = client.jetstream()
        for number in range(10):
            assert (await js.publish("S.x", b"%d" % number)).seq == number + 1
        config = {"durable_name": "c", "ack_policy": "explicit"}
        made = await call(client, "CONSUMER.CREATE.S.c", stream_name="S", config=config)
        assert made["name"] == "c"
        copied = {"name": "d", "durable_name": "d", "num_replicas": 3}
        made = await call(client, "CONSUMER.CREATE.S.d", stream_name="S", config=copied)
        assert made["config"]["num_replicas"] == 3
        more = {**copied, "num_replicas": 5}
        assert (await call(client, "CONSUMER.CREATE.S.d", stream_name="S", config=more))["error"]["err_code"] == 10126
        reader = await js.pull_subscribe_bind(consumer="c", stream="S")
        for message in await reader.fetch(4):
            await message.ack_sync()
        first = (await call(client, "STREAM.INFO.S"))["cluster"]["leader"]
    finally:
        await client.close()
    await servers.named(first).stop()
    await servers.leader()  # it may have led the meta group, too
    client = await nats.connect(servers.running[0].url)
    try:
        assert await published(client, "S.x", b"10") == 11
        found = await call(client, "STREAM.INFO.S")
        assert found["cluster"]["leader"] != first and found["state"]["messages"] == 11
        offline = [replica["name"] for replica in found["cluster"]["replicas"] if replica.get("offline")]
        assert offline == [first]
        reader = await client.jetstream().pull_subscribe_bind(consumer="c", stream="S")
        messages = [message.data for message in await reader.fetch(7)]
        assert messages == [b"%d" % number for number in range(4, 11)]
        assert (await create(client, "T"))["did_create"]  # two of three are enough
        await servers.named(first).start()
        await until(lambda: _caught_up(servers.named(first), "S", 11), "it has what it missed")
    finally:
        await client.close()


def _has_replicas(member: Member) -> bool:
    return any(kept.replica is not None for kept in member.coordinator.hosting.kept)


def _caught_up(member: Member, stream: str, messages: int) -> bool:
    replica = member.coordinator.hosting.kept.replica("$G", stream)
    return replica is not None and replica.messages == messages


async def test_an_update_is_everywhere_and_leaders_step_down(servers: Trio) -> None:
    client = await nats.connect(servers.members[0].url)
    try:
        await create(client, "S")
        for number in range(6):
            await published(client, "S.x", b"%d" % number)
        config = {"name": "S", "subjects": ["S.>"], "num_replicas": 3}
        changed = await call(client, "STREAM.UPDATE.S", **config, max_msgs=4)
        assert changed["config"]["max_msgs"] == 4 and changed["state"]["messages"] == 4
        for more, code in (
            ({"storage": "memory"}, 10052),
            ({"placement": {"tags": ["x"]}}, 10005),
        ):
            refused = await call(client, "STREAM.UPDATE.S", **{**config, **more})
            assert refused["error"]["err_code"] == code
        leader = (await call(client, "STREAM.INFO.S"))["cluster"]["leader"]
        refused = await call(client, "STREAM.LEADER.STEPDOWN.S", placement={"preferred": leader})
        assert refused["error"]["description"] == f'preferred server "{leader}" is already leader'
        refused = await call(client, "STREAM.LEADER.STEPDOWN.S", placement={"preferred": "nx"})
        assert refused["error"]["description"] == 'preferred server "nx" not known'
        other = next(name for name in ("n0", "n1", "n2") if name != leader)
        assert (await call(client, "STREAM.LEADER.STEPDOWN.S", placement={"preferred": other}))["success"]
        assert await published(client, "S.x", b"6") == 7
        found = await call(client, "STREAM.INFO.S")
        assert found["cluster"]["leader"] == other and found["config"]["max_msgs"] == 4
        assert found["state"]["messages"] == 4
    finally:
        await client.close()


async def test_a_stream_gets_other_servers(servers: Trio) -> None:
    client = await nats.connect(servers.members[0].url)
    try:
        made = await create(client, "S")
        for number in range(5):
            await published(client, "S.x", b"%d" % number)
        leader = made["cluster"]["leader"]
        config = {"name": "S", "subjects": ["S.>"]}
        changed = await call(client, "STREAM.UPDATE.S", **config, num_replicas=2)
        assert changed["config"]["num_replicas"] == 2
        await _settled(servers, "S", 2)
        found = (await call(client, "STREAM.INFO.S"))["cluster"]
        peers = [found["leader"], *(one["name"] for one in found["replicas"])]
        assert leader in peers and len(peers) == 2
        free = next(name for name in ("n0", "n1", "n2") if name not in peers)
        for body, code in (({"peer": free}, 10040), ({"peer": "x"}, 10040), ({"peer": ""}, 10003), ({}, 10003)):
            assert (await call(client, "STREAM.PEER.REMOVE.S", **body))["error"]["err_code"] == code
        assert (await call(client, "STREAM.PEER.REMOVE.NO", peer="n0"))["error"]["err_code"] == 10059
        # The leader goes, by its name or the short form of its number, and who was free comes in its place.
        assert (await call(client, "STREAM.PEER.REMOVE.S", peer=found["leader"]))["success"]
        await _settled(servers, "S", 2)
        after = (await call(client, "STREAM.INFO.S"))["cluster"]
        assert {after["leader"], *(one["name"] for one in after["replicas"])} == {found["replicas"][0]["name"], free}
        assert await published(client, "S.x", b"5") == 6
        await call(client, "STREAM.UPDATE.S", **config, num_replicas=3)
        await _settled(servers, "S", 3)
        refused = await call(client, "STREAM.PEER.REMOVE.S", peer=after["replicas"][0]["peer"])
        assert refused["error"] == {"code": 503, "err_code": 10075, "description": "peer remap failed"}
        await until(lambda: all(_caught_up(member, "S", 6) for member in servers.members), "all have all")
    finally:
        await client.close()


async def test_a_stream_that_was_made_is_published_to_at_once(servers: Trio) -> None:
    """Who makes it is told by the server that keeps it, behind its interest, however slow the way from there is."""
    leader = await servers.leader()
    asked, keeper = (member for member in servers.members if member is not leader)
    client, watcher = await nats.connect(asked.url), await nats.connect(leader.url)
    try:
        audited = await watcher.subscribe("$JS.EVENT.ADVISORY.API")
        await watcher.flush()
        slow = _routes_from(asked, keeper)
        for transport in slow:
            transport.pause_reading()

        async def make_and_publish() -> int:
            made = await client.request("$JS.API.STREAM.CREATE.S", json.dumps(config).encode(), timeout=10)
            assert json.loads(made.data)["did_create"]
            return (await client.jetstream().publish("S.x", b"first")).seq

        config = {"name": "S", "subjects": ["S.>"], "placement": {"tags": [f"is:{keeper.name}"]}}
        published_first = asyncio.create_task(make_and_publish())
        # Who leads the meta group is done with the call, and what it sent has come.
        assert json.loads((await audited.next_msg(10)).data)["subject"] == "$JS.API.STREAM.CREATE.S"
        assert (await call(client, "STREAM.NAMES"))["streams"] == ["S"]
        for transport in slow:
            transport.resume_reading()
        assert await published_first == 1
    finally:
        await client.close()
        await watcher.close()


def _routes_from(member: Member, other: Member) -> list[asyncio.Transport]:
    """What a server reads from another."""
    assert member.server is not None and member.server.mesh is not None and other.server is not None
    routes = member.server.mesh.roster.routes()
    edges = [route.end.edge for route in routes if route.remote_id == other.server.hub.identity.id]
    return [edge.transport for edge in edges if isinstance(edge, LinkProtocol)]


async def test_one_copy_becomes_three_and_one_again(servers: Trio) -> None:
    """The same messages, consumers and buckets, whatever the number of copies and wherever they are."""
    client = await nats.connect(servers.members[0].url)
    try:
        js = client.jetstream()
        await create(client, "S", 1)
        for number in range(10):
            await published(client, "S.x", b"%d" % number)
        config = {"durable_name": "c", "ack_policy": "explicit"}
        await call(client, "CONSUMER.CREATE.S.c", stream_name="S", config=config)
        reader = await js.pull_subscribe_bind(consumer="c", stream="S")
        for message in await reader.fetch(4):
            await message.ack_sync()
        bucket = await js.create_key_value(bucket="B")
        await bucket.put("key", b"value")
        for name, subjects in (("S", ["S.>"]), ("KV_B", ["$KV.B.>"])):
            found = (await call(client, f"STREAM.INFO.{name}"))["config"]
            changed = await call(client, f"STREAM.UPDATE.{name}", **{**found, "subjects": subjects, "num_replicas": 3})
            assert changed["config"]["num_replicas"] == 3
            await _settled(servers, name, 3)
        await until(lambda: all(_caught_up(member, "S", 10) for member in servers.members), "all have all")
        found = (await call(client, "STREAM.INFO.S"))["cluster"]
        assert found["raft_group"].startswith("S-R3F-") and len(found["replicas"]) == 2
        assert (await bucket.get("key")).value == b"value"
        before = found["leader"]
        info = (await call(client, "STREAM.INFO.S"))["config"]
        await call(client, "STREAM.UPDATE.S", **{**info, "num_replicas": 1})
        await _settled(servers, "S", 1)
        found = (await call(client, "STREAM.INFO.S"))["cluster"]
        assert set(found) == {"name", "leader"}
        # ... and elsewhere.
        assert (await call(client, "STREAM.PEER.REMOVE.S", peer=found["leader"]))["success"]
        await _settled(servers, "S", 1)
        after = (await call(client, "STREAM.INFO.S"))["cluster"]["leader"]
        assert after != found["leader"] and before in ("n0", "n1", "n2")
        assert await published(client, "S.x", b"10") == 11
        reader = await js.pull_subscribe_bind(consumer="c", stream="S")
        assert [message.data for message in await reader.fetch(7)] == [b"%d" % number for number in range(4, 11)]
    finally:
        await client.close()


async def _settled(servers: Trio, stream: str, copies: int) -> None:
    """The servers of a stream are those that it should have, and nobody else has any of it."""

    def is_settled() -> bool:
        found = [member.coordinator.state.find("$G", stream) for member in servers.members]
        kept = [member.coordinator.hosting.kept.replica("$G", stream) for member in servers.members]
        return (
            all(one is not None and not one.is_moving and len(one.peers) == copies for one in found)
            and sum(replica is not None for replica in kept) == copies
        )

    await until(is_settled, f"{copies} servers keep it")


async def test_who_leaves_hands_over_first(servers: Trio, monkeypatch: pytest.MonkeyPatch) -> None:
    """The streams and the cluster get another leader while the old one is still there, and nobody misses one."""
    client = await nats.connect(servers.members[0].url)
    for number in range(3):
        await create(client, f"S{number}")
    await client.close()
    leader = await servers.leader()
    others = [member for member in servers.members if member is not leader]
    left: list[bool] = []
    hand_over = JetStreamCluster.hand_over

    async def noted(cluster: JetStreamCluster) -> None:
        left.append(cluster.coordinator.leads_anything)
        await hand_over(cluster)
        left.append(cluster.coordinator.leads_anything)

    monkeypatch.setattr(JetStreamCluster, "hand_over", noted)
    await leader.stop()
    assert left == [True, False], "before the server ended"
    await until(lambda: any(member.is_leader for member in others))
    for name in ("S0", "S1", "S2"):
        await until(lambda name=name: any(member.coordinator.hosting.kept.led("$G", name) for member in others))  # type: ignore[misc]


async def test_all_start_again(servers: Trio) -> None:
    client = await nats.connect(servers.members[0].url)
    for name, replicas in (("R3", 3), ("R1", 1), ("GONE", 1)):
        await create(client, name, replicas)
        await published(client, f"{name}.x", b"kept")
    await call(client, "STREAM.DELETE.GONE")
    await client.close()
    await servers.stop()
    await servers.start()
    await servers.leader()
    client = await nats.connect(servers.members[1].url)
    try:
        assert (await call(client, "STREAM.NAMES"))["streams"] == ["R1", "R3"]
        for name in ("R3", "R1"):
            assert await published(client, f"{name}.x", b"more") == 2
        assert (await call(client, "STREAM.INFO.R1"))["state"]["messages"] == 2
    finally:
        await client.close()


async def test_the_meta_group_is_shown_and_steps_down(tmp_path: Path) -> None:
    extra = (
        'http: "127.0.0.1:-1", system_account: SYS, no_auth_user: a\n'
        "accounts { SYS { users: [{user: s, password: s}] }\n"
        "  A { jetstream: enabled, users: [{user: a, password: a}] } }"
    )
    async with trio(tmp_path, extra) as servers:
        client = await nats.connect(servers.members[0].url, user="s", password="s")
        try:

            async def asked(subject: str, member: Member) -> dict[str, Any]:
                assert member.server is not None
                answer = await client.request(f"$SYS.REQ.SERVER.{member.server.identity.id}.{subject}", timeout=5)
                found: dict[str, Any] = json.loads(answer.data)["data"]
                return found

            first = await servers.leader()
            for member in servers.members:
                meta = (await asked("JSZ", member))["meta_cluster"]
                assert (meta["name"], meta["leader"], meta["cluster_size"]) == ("C", first.name, 3)
                assert {one["name"] for one in meta["replicas"]} == {"n0", "n1", "n2"} - {member.name}
                assert meta["snapshot"]["pending_entries"] > 0 and meta["snapshot"]["pending_size"] > 0
                assert meta["snapshot"]["last_time"] == "0001-01-01T00:00:00Z"
                assert (await asked("HEALTHZ", member))["status"] == "ok"
                shown = (await asked("RAFTZ", member))["SYS"]["_meta_"]
                assert shown["state"] == ("LEADER" if member is first else "FOLLOWER") and shown["size"] == 3
                assert {one["name"] for one in shown["peers"].values()} == {"n0", "n1", "n2"} - {member.name}
            user = await nats.connect(servers.members[0].url)
            group = (await create(user, "X"))["cluster"]["raft_group"]
            await user.close()
            # A majority has it when it is made; the third one soon.
            await until(
                lambda: all(len(member.coordinator.hosting.kept.groups()) == 1 for member in servers.members),
                "all keep it",
            )
            body = json.dumps({"account": "A"}).encode()
            states = []
            for member in servers.members:
                assert member.server is not None
                subject = f"$SYS.REQ.SERVER.{member.server.identity.id}.RAFTZ"
                found = json.loads((await client.request(subject, body, timeout=5)).data)["data"]["A"]
                assert list(found) == [group]
                states.append(found[group]["state"])
            assert sorted(states) == ["FOLLOWER", "FOLLOWER", "LEADER"]
            unknown = await call(client, "META.LEADER.STEPDOWN", placement={"preferred": "nx"})
            assert unknown["error"]["description"] == 'preferred server "nx" not known'
            nowhere = await call(client, "META.LEADER.STEPDOWN", placement={"cluster": "X"})
            assert nowhere["error"]["description"] == "no replacement peer connected"
            other = next(member for member in servers.members if member is not first)
            assert (await call(client, "META.LEADER.STEPDOWN", placement={"preferred": other.name}))["success"]
            await until(lambda: other.is_leader, "the other leads")
            assert (await call(client, "ACCOUNT.PURGE.NOBODY"))["initiated"]
        finally:
            await client.close()


async def test_without_a_majority_everybody_says_so(servers: Trio) -> None:
    client = await nats.connect(servers.members[0].url)
    try:
        await create(client, "S")
        for member in servers.members[1:]:
            await member.stop()
        node = servers.members[0]
        await until(lambda: node.coordinator.is_leaderless, "nobody leads for a while")
        for subject in ("INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.DELETE.S", "STREAM.INFO.NO"):
            assert (await call(client, subject))["error"]["err_code"] == 10008
        assert (await create(client, "T"))["error"]["err_code"] == 10008
        assert node.server is not None and node.server.jetstream is not None
        shown = [problem.text for problem in RunningJetStream(node.server.jetstream).problems("", "", "")]
        assert shown == ["JetStream has not established contact with a meta leader"]
    finally:
        await client.close()
