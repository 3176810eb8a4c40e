"""What a cluster of three says about itself: advisories about leaders, `cluster` members, alternates, usage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

pytest.importorskip("slipstream_raft")

from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.consumer.consumers import Consumers
from slipstream.jetstream.consumer.state import ConsumerState
from slipstream.jetstream.consumer.stored import stored_consumers
from slipstream.replication.hosting import Hosting
from support.cluster_calls import call, create, published
from support.cluster_servers import Member, Trio, trio
from support.clusters import heard_by_all, until

ACCOUNTS = """
accounts { $SYS { users: [{ user: sys, password: sys }] }, A { jetstream: enabled, users: [{ user: a, password: a }] } }
no_auth_user: a
"""


async def heard(servers: Trio, **login: str) -> tuple[Client, dict[str, list[dict[str, Any]]]]:
    """A client of n2, and the advisories that come from now on, by their subjects."""
    clients = [await nats.connect(servers.named(name).url, **login) for name in ("n2", "n0", "n1")]
    client, *others = clients
    found: dict[str, list[dict[str, Any]]] = {}

    async def note(message: Msg) -> None:
        found.setdefault(message.subject.removeprefix("$JS.EVENT.ADVISORY."), []).append(json.loads(message.data))

    for subject in ("STREAM.*.*", "CONSUMER.*.*.*", "DOMAIN.*"):
        await client.subscribe(f"$JS.EVENT.ADVISORY.{subject}", cb=note)
    # Servers hear of subscriptions in their order: who knows of a later one knows of these.
    await heard_by_all(clients)
    for other in others:
        await other.close()
    return client, found


async def test_who_listens_hears_of_leaders(tmp_path: Path) -> None:
    async with trio(tmp_path, ACCOUNTS) as servers:
        client, own = await heard(servers)
        system, all_ = await heard(servers, user="sys", password="sys")
        shown = set()
        for member in map(servers.named, ("n0", "n1", "n2")):
            assert member.server is not None
            asked = f"$SYS.REQ.SERVER.{member.server.hub.identity.id}.STATSZ"
            meta = json.loads((await system.request(asked, timeout=5)).data)["statsz"]["jetstream"]["meta"]
            shown.add((member.is_leader, meta["name"], "replicas" in meta))
        assert shown == {(True, "C", True), (False, "_meta_", False)}
        made = await create(client, "S")
        await call(
            client, "CONSUMER.CREATE.S.c", stream_name="S", config={"durable_name": "c", "ack_policy": "explicit"}
        )
        await until(lambda: "CONSUMER.LEADER_ELECTED.S.c" in all_ and "CONSUMER.CREATED.S.c" in own, "both are heard")
        (elected,) = own["STREAM.LEADER_ELECTED.S"]
        assert elected["type"] == "io.nats.jetstream.advisory.v1.stream_leader_elected"
        assert (elected["stream"], elected["leader"]) == ("S", made["cluster"]["leader"])
        assert {one["name"] for one in elected["replicas"]} == {"n0", "n1", "n2"} and "account" not in elected
        assert all_["STREAM.LEADER_ELECTED.S"][0]["account"] == "A"
        (consumer,) = own["CONSUMER.LEADER_ELECTED.S.c"]
        assert (consumer["stream"], consumer["consumer"], consumer["leader"]) == ("S", "c", elected["leader"])
        block = (await call(client, "STREAM.INFO.S"))["cluster"]
        assert block["leader_since"].startswith("20")
        assert all(0 < one["active"] < 5_000_000_000 for one in block["replicas"])
        # Another leader, of the stream and of the meta group.
        await call(client, "STREAM.LEADER.STEPDOWN.S")
        await until(lambda: len(own["CONSUMER.LEADER_ELECTED.S.c"]) > 1, "another one leads")
        assert own["STREAM.LEADER_ELECTED.S"][-1]["leader"] != elected["leader"]
        leader = (await servers.leader()).name
        answer = await system.request("$JS.API.META.LEADER.STEPDOWN", b"", timeout=5)
        assert json.loads(answer.data)["success"]
        await until(lambda: "DOMAIN.LEADER_ELECTED" in all_, "another one leads")
        assert (await servers.leader()).name != leader
        (domain,) = all_["DOMAIN.LEADER_ELECTED"]
        assert domain["cluster"] == "C" and len(domain["replicas"]) == 3 and len(domain["leader"]) == 8
        # Limits of consumers are looked at by who has them.
        body = {"name": "S", "subjects": ["S.>"], "num_replicas": 3}
        refused = await call(client, "STREAM.UPDATE.S", **body, consumer_limits={"max_ack_pending": 5})
        assert refused["error"]["description"] == "change to limits violates consumers: c"
        allowed = await call(client, "STREAM.UPDATE.S", **body, consumer_limits={"max_ack_pending": 5000})
        assert allowed["config"]["consumer_limits"] == {"max_ack_pending": 5000}
        # What can be read in the place of a stream, what all copies take, and lists of what is not there.
        await call(client, "STREAM.CREATE.M", name="M", mirror={"name": "S"})
        alternates = (await call(client, "STREAM.INFO.S"))["alternates"]
        assert alternates == [{"name": "S", "cluster": "C"}, {"name": "M", "cluster": "C"}]
        assert "alternates" not in await call(client, "STREAM.INFO.M")
        await published(client, "S.x", bytes(1000))
        await until(
            lambda: (
                sum(member.coordinator.hosting.kept.followed_bytes("A", StorageType.FILE) for member in servers.members)
                > 2000
            ),
            "copied",
        )
        info = await call(client, "INFO")
        assert info["storage"] >= 3000 and info["consumers"] == 1
        listed = await call(client, "CONSUMER.LIST.NO")
        assert "error" not in listed and (listed["total"], listed["limit"], listed["consumers"]) == (0, 256, [])
        purged = json.loads((await system.request("$JS.API.ACCOUNT.PURGE.A", b"", timeout=5)).data)
        assert purged["initiated"]
        await until(lambda: not servers.members[0].coordinator.state.account("A").streams, "nothing is left")
        # Two of three are gone.
        await create(client, "LOST")
        for name in ("d", "c"):
            body = {"durable_name": name, "ack_policy": "explicit"}
            await call(client, f"CONSUMER.CREATE.LOST.{name}", stream_name="LOST", config=body)
        n2 = servers.named("n2")
        await until(lambda: "LOST.d" in known_on(n2) and "LOST.c" in known_on(n2), "it has both consumers")
        for name in ("n0", "n1"):
            await servers.named(name).stop()
        await until(lambda: "STREAM.QUORUM_LOST.LOST" in own and "STREAM.QUORUM_LOST.LOST" in all_, "it is told")
        assert [one["name"] for one in own["STREAM.QUORUM_LOST.LOST"][0]["replicas"] if one["current"]] == ["n2"]
        lost = [f"CONSUMER.QUORUM_LOST.LOST.{name}" for name in "cd"]
        await until(lambda: all(subject in told for subject in lost for told in (own, all_)), "of consumers as well")
        (consumer,) = own[lost[0]]
        assert consumer["type"] == "io.nats.jetstream.advisory.v1.consumer_quorum_lost"
        assert (consumer["stream"], consumer["consumer"]) == ("LOST", "c") and "leader" not in consumer
        assert (
            consumer["replicas"] == own["STREAM.QUORUM_LOST.LOST"][0]["replicas"] and all_[lost[0]][0]["account"] == "A"
        )
        assert any("consumer 'A > LOST > c' has NO quorum, stalled." in line for line in n2.lines)
        await client.close()
        await system.close()


def known_on(member: Member) -> set[str]:
    """Consumers of the account that a server has in its copies, or leads."""
    assert member.server is not None and member.server.jetstream is not None
    hosting, account = member.coordinator.hosting, member.server.jetstream.accounts["A"]
    found = {f"{one.name}.{name}" for one, store in hosting.kept.followed("A") for name in stored_consumers(store)}
    for stream in account.streams.values():
        if isinstance(stream.interest, Consumers):
            found |= {f"{stream.name}.{name}" for name in stream.interest.consumers}
    return found


async def asked(system: Client, what: str, **options: object) -> dict[str, dict[str, Any]]:
    """What each server says about itself, by its name."""
    inbox = system.new_inbox()
    answers = await system.subscribe(inbox)
    await system.publish(f"$SYS.REQ.SERVER.PING.{what}", json.dumps(options).encode(), reply=inbox)
    said = [json.loads((await answers.next_msg(timeout=10)).data) for _ in range(3)]
    await answers.unsubscribe()
    return {one["server"]["name"]: one["data"] for one in said}


def only_consumer(shown: dict[str, Any]) -> dict[str, Any]:
    (stream,) = shown["account_details"][0]["stream_detail"]
    (consumer,) = stream["consumer_detail"]
    return consumer  # type: ignore[no-any-return]


def acked_on(hosting: Hosting, account: str) -> list[int]:
    """Up to where consumers of the account's copies have acks, on a server that leads none."""
    states = (parts for _, store in hosting.kept.followed(account) for parts in store.journal.entries().values())
    return [ConsumerState.decode(parts).acks.shown_floor[1] for parts in states]


async def test_who_keeps_a_copy_shows_it_as_its_own(tmp_path: Path) -> None:
    async with trio(tmp_path, ACCOUNTS) as servers:
        client = await nats.connect(servers.named("n2").url)
        system = await nats.connect(servers.named("n2").url, user="sys", password="sys")
        leader = (await create(client, "S"))["cluster"]["leader"]
        await call(
            client, "CONSUMER.CREATE.S.c", stream_name="S", config={"durable_name": "c", "ack_policy": "explicit"}
        )
        await published(client, "S.x", bytes(1000))
        (taken,) = await (await client.jetstream().pull_subscribe_bind("c", stream="S")).fetch(1)
        await taken.ack_sync()
        hosting = [member.coordinator.hosting for member in servers.members if member.name != leader]
        await until(lambda: all(acked_on(one, "A") == [1] for one in hosting), "every copy has the ack")
        found = await asked(system, "JSZ", accounts=True, streams=True, consumer=True, raft=True)
        for name, one in found.items():
            assert (one["streams"], one["consumers"], one["messages"]) == (1, 1, 1), name
            assert one["bytes"] == one["storage"] == found[leader]["bytes"] > 1000
            assert one.get("streams_leader", 0) == one.get("consumers_leader", 0) == (name == leader)
            assert one["ha_assets"] == 2, "the meta group and the stream's"
            (stream,) = one["account_details"][0]["stream_detail"]
            assert (stream["name"], stream["cluster"]["leader"], stream["state"]["last_seq"]) == ("S", leader, 1)
            assert stream["stream_raft_group"] == stream["cluster"]["raft_group"]
            assert stream["consumer_raft_groups"] == [{"name": "c", "raft_group": stream["stream_raft_group"]}]
            consumer = only_consumer(one)
            assert consumer["delivered"]["stream_seq"] == consumer["ack_floor"]["stream_seq"] == 1
        groups = await asked(system, "RAFTZ", account="A")
        for name, one in groups.items():
            (group,) = one["A"].values()
            assert group["state"] == ("LEADER" if name == leader else "FOLLOWER") and group["leader_since"] > "2026"
            for other in group["peers"].values():
                assert other["last_seen"].endswith("s")
                assert (other.get("last_replicated_index") == group["pindex"]) is (name == leader)
        led = await asked(system, "JSZ", accounts=True, streams=True, stream_leader_only=True)
        assert {name: "stream_detail" in one["account_details"][0] for name, one in led.items()} == {
            name: name == leader for name in found
        }
        # Whoever keeps it is asked in vain for what is not there, and only for that.
        health = await asked(system, "HEALTHZ", account="A", stream="S", consumer="c")
        assert all(one["status"] == "ok" for one in health.values())
        for named, missing in (({"stream": "T"}, 'stream "T"'), ({"stream": "S", "consumer": "d"}, 'consumer "d"')):
            health = await asked(system, "HEALTHZ", account="A", **named)
            assert all(f"{missing} not found" in one["error"] for one in health.values())
        await client.close()
        await system.close()
