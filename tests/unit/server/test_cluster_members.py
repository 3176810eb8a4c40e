"""Servers that join a cluster later, come back without their files, and are removed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("slipstream_raft")

import nats

from slipstream.replication.ids import short_id
from support.cluster_calls import call, create, published
from support.cluster_servers import Member, Trio, trio
from support.clusters import until
from support.ports import free_port

SYSTEM = """
accounts { A { users: [{user: a, password: p}], jetstream: enabled }, SYS { users: [{user: s, password: p}] } }
system_account: SYS, no_auth_user: a
"""


def voters(member: Member) -> set[int]:
    """The members of the meta group, as one of them has it."""
    meta = member.cluster.meta
    return set() if meta is None or meta.votes.outgoing else set(meta.votes.voters)


def ids(*members: Member) -> set[int]:
    return {member.cluster.node.id for member in members}


def copies(servers: Trio) -> dict[str, int]:
    """Servers whose replica of the stream is whole and a voter, for good, and how many messages it has."""
    found = {}
    for one in servers.running:
        replica = one.coordinator.hosting.kept.replica("A", "S")
        group = replica.group if replica is not None else None
        if replica is not None and group is not None and replica.fault is None:
            votes = group.votes
            if one.cluster.node.id in votes.voters and not votes.outgoing:
                found[one.name] = replica.messages
    return found


async def test_servers_come_later_come_back_empty_and_are_removed(tmp_path: Path) -> None:
    async with trio(tmp_path, SYSTEM) as servers:
        first = servers.members[0]
        user = await nats.connect(first.url)
        await create(user, "S", 3)
        for number in range(20):
            await published(user, "S.x", b"%d" % number)
        late = Member("n3", free_port(), servers.ports, tmp_path, SYSTEM)
        servers.members.append(late)
        await late.start()
        everybody = ids(*servers.members)
        await until(lambda: all(voters(one) == everybody for one in servers.members), "it is a member")
        await until(lambda: all(late.cluster.node.id in one.coordinator.state.nodes for one in servers.members))
        block = first.coordinator.blocks.meta_block()
        assert block is not None and (block["cluster_size"], block["quorum_needed"]) == (4, 3)
        assert {one["name"] for one in block["replicas"]} == {"n1", "n2", "n3"}  # type: ignore[attr-defined]

        wiped = next(one for one in servers.members[1:3] if not one.is_leader)
        before = wiped.cluster.node.id
        await wiped.stop()
        shutil.rmtree(tmp_path / wiped.name)
        await wiped.start()
        assert wiped.cluster.node.id != before
        everybody = ids(*servers.members)
        await until(lambda: all(voters(one) == everybody for one in servers.members), "it has the other's place")
        await until(lambda: first.coordinator.state.nodes[before].removed, "that never comes back")
        assert before not in everybody and first.coordinator.name_of(before) == wiped.name
        await until(lambda: copies(servers).get(wiped.name) == 20, "it has its streams again")
        info = await call(user, "STREAM.INFO.S")
        assert {"n0", "n1", "n2"} == {info["cluster"]["leader"], *(one["name"] for one in info["cluster"]["replicas"])}

        client = await nats.connect(first.url, user="s", password="p")
        events: list[Any] = []

        async def heard(message: Any) -> None:
            events.append(json.loads(message.data))

        await client.subscribe("$JS.EVENT.ADVISORY.SERVER.REMOVED", cb=heard)
        await client.flush()

        async def remove(**body: str) -> Any:
            answer = await client.request("$JS.API.SERVER.REMOVE", json.dumps(body).encode(), timeout=5)
            return json.loads(answer.data)

        assert (await remove(peer="nobody"))["error"]["err_code"] == 10044
        assert (await remove())["error"]["err_code"] == 10003
        gone = next(one for one in servers.members[1:3] if not one.is_leader)
        answer = await remove(peer_id=short_id(gone.cluster.node.id), peer="ignored")
        assert answer == {"type": "io.nats.jetstream.api.v1.meta_server_remove_response", "success": True}
        rest = [one for one in servers.members if one is not gone]
        await until(lambda: all(voters(one) == ids(*rest) for one in rest), "it is out")
        await until(lambda: gone.cluster.is_removed, "it knows")
        stayed = {"n0", "n1", "n2", "n3"} - {gone.name}
        await until(lambda: copies(servers) == dict.fromkeys(stayed, 20), "its copy is elsewhere")
        assert await published(user, "S.x", b"more") == 21
        await user.close()
        damaged = next(one for one in rest[1:] if not one.is_leader)
        await damaged.stop()
        for votes in (tmp_path / damaged.name).glob("jetstream/+cluster/replicas/*/VOTE"):
            votes.unlink()
        damaged.lines.clear()
        await damaged.start()
        await until(lambda: any("is repaired" in line for line in damaged.lines), "it has a copy")
        await until(lambda: copies(servers) == dict.fromkeys(stayed, 21), "it takes part")
        assert not damaged.coordinator.hosting.kept.faults()
        assert any("our server was removed from the cluster" in line for line in gone.lines)
        await until(lambda: bool(events), "others are told")
        assert (events[0]["server"], events[0]["cluster"]) == (gone.name, "C")
        assert (await remove(peer=gone.name))["error"]["err_code"] == 10044
        leader = next(one for one in rest if one.is_leader)
        assert (await remove(peer=leader.name))["success"]
        await until(lambda: leader.cluster.is_removed, "a leader goes, too")
        await client.close()
        gone.lines.clear()
        await gone.stop()
        await gone.start()
        assert gone.cluster.meta is None and any("was removed from the cluster" in line for line in gone.lines)
