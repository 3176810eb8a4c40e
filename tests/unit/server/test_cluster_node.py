"""Servers that found a cluster over real sockets and files, agree on something, and go on after all were gone."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("slipstream_raft")

from slipstream.replication.meta.entries import Node
from support.cluster_servers import Member, trio
from support.clusters import until
from support.ports import free_port


async def test_a_cluster_is_founded_and_goes_on(tmp_path: Path) -> None:
    ports = [free_port() for _ in range(3)]
    members = [Member(f"n{number}", port, ports, tmp_path) for number, port in enumerate(ports)]

    async def leader() -> Member:
        await until(lambda: any(member.is_leader for member in members), "somebody leads")
        return next(member for member in members if member.is_leader)

    async def agreed(node: Node) -> None:
        done: list[bool] = []
        while done != [True]:  # who led may be deposed meanwhile
            done.clear()
            found = (await leader()).cluster.meta
            assert found is not None
            found.propose([node], done.append)
            await until(lambda: bool(done), "it is decided")
        running = [member for member in members if member.server is not None]
        await until(lambda: all(member.entries.get(node.id) == node for member in running), "all are told")

    try:
        for member in members:
            await member.start()
        await agreed(Node(id=7, name="seven", cluster="C"))
        first = await leader()
        assert first.cluster.charter is not None and first.cluster.charter.members == ["n0", "n1", "n2"]
        await first.stop()
        await agreed(Node(id=8, name="eight", cluster="C"))
        await first.start()
        await until(lambda: first.entries.keys() == {7, 8}, "it catches up")
        for member in members:
            await member.stop()
        for member in members:
            await member.start()
        await agreed(Node(id=9, name="nine", cluster="C"))
        assert all(member.entries.keys() == {7, 8, 9} for member in members)
    finally:
        for member in members:
            await member.stop()


async def test_a_promise_survives_damage_to_one_copy_and_without_any_the_server_is_another(tmp_path: Path) -> None:
    async with trio(tmp_path) as servers:
        victim = servers.members[1]
        await victim.stop()
        copies = [tmp_path / victim.name / "jetstream" / "+cluster" / name for name in ("PROMISE", "PROMISE.2")]
        whole = copies[0].read_bytes()
        copies[0].write_bytes(whole[:-1])
        await victim.start()
        await until(lambda: victim.cluster.meta is not None and victim.cluster.meta.leader != 0, "it takes part")
        before = victim.cluster.node.id
        assert copies[0].read_bytes() == whole  # made good
        await victim.stop()
        flipped = bytearray(whole)
        flipped[-3] ^= 1
        copies[0].write_bytes(flipped)
        copies[1].write_bytes(b"")
        victim.lines.clear()
        await victim.start()
        said = [line for line in victim.lines if line.startswith("[ERR] JetStream cluster:")]
        assert len(said) == 1 and "joins as a new server" in said[0]
        assert victim.cluster.node.id != before
        assert (copies[0].parent.with_name("+cluster.damaged.1") / "PROMISE").read_bytes() == flipped
        await until(lambda: _voters(victim) == {member.cluster.node.id for member in servers.members}, "it takes part")
        before = victim.cluster.node.id
        for names in (["VOTE"], ["log/0000000001.0000.seg"], ["VOTE", "log/0000000001.0000.seg"]):
            await victim.stop()
            for name in names:
                (copies[0].parent / name).unlink()
            victim.lines.clear()
            await victim.start()  # what it voted and acknowledged is forgotten: silent until it has a copy, a learner
            await until(lambda: any("the meta group is repaired" in line for line in victim.lines), "it has a copy")
            everybody = {member.cluster.node.id for member in servers.members}
            await until(lambda everybody=everybody: _voters(victim) == everybody, "it takes part")  # type: ignore[misc]
            assert victim.cluster.node.id == before


def _voters(member: Member) -> set[int]:
    meta = member.cluster.meta
    return set() if meta is None or meta.votes.outgoing else set(meta.votes.voters)
