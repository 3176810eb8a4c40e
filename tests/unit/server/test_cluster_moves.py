"""Streams that are moved off a server, and moves that are cancelled, by the account and by the system account."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

pytest.importorskip("slipstream_raft")

from slipstream.replication.replica.member_moves import MemberMoves
from support.cluster_calls import call, create, published
from support.cluster_servers import Trio, trio
from support.clusters import until

SYSTEM = """
accounts {
  A { users: [{user: a, password: p}], jetstream: enabled }
  B { users: [{user: b, password: p}] }
  SYS { users: [{user: s, password: p}] }
}
system_account: SYS, no_auth_user: a
"""
MOVE, CANCEL = "ACCOUNT.STREAM.MOVE", "ACCOUNT.STREAM.CANCEL_MOVE"


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Trio]:
    async with trio(tmp_path, SYSTEM) as running:
        yield running


def hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaders of streams take no step on the way to other servers."""
    monkeypatch.setattr(MemberMoves, "look", lambda *_: None)


def keepers(info: dict[str, Any]) -> set[str]:
    cluster = info["cluster"]
    return {cluster["leader"], *(one["name"] for one in cluster.get("replicas", ()))}


async def settled(servers: Trio, copies: int) -> None:
    def is_settled() -> bool:
        found = [member.coordinator.state.find("A", "S") for member in servers.members]
        kept = [member.coordinator.hosting.kept.replica("A", "S") for member in servers.members]
        return (
            all(one is not None and not one.is_moving and not one.gone and len(one.peers) == copies for one in found)
            and sum(replica is not None for replica in kept) == copies
        )

    await until(is_settled, f"{copies} servers keep it, and no others")


async def clients_of(servers: Trio) -> tuple[Client, Client]:
    """One of the account, and one of the system account."""
    return (
        await nats.connect(servers.members[0].url),
        await nats.connect(servers.members[1].url, user="s", password="p"),
    )


async def test_a_stream_is_moved_off_a_server(servers: Trio) -> None:
    user, system = await clients_of(servers)
    await create(user, "S", 2)
    for number in range(5):
        await published(user, "S.x", b"%d" % number)
    before = keepers(await call(user, "STREAM.INFO.S"))
    free = ({"n0", "n1", "n2"} - before).pop()
    leaves = sorted(before)[0]
    answer = await call(system, f"{MOVE}.A.S", server=leaves)
    assert answer["type"].endswith(".stream_update_response") and answer["config"]["num_replicas"] == 2
    assert answer["config"].get("placement") is None
    await settled(servers, 2)
    now = keepers(await call(user, "STREAM.INFO.S"))
    assert now == before - {leaves} | {free}
    # Nobody is named: one of them goes.
    assert "error" not in await call(user, f"{MOVE}.A.S", tags=[f"is:{leaves}"])
    await settled(servers, 2)
    after = keepers(await call(user, "STREAM.INFO.S"))
    assert leaves in after and len(after & now) == 1
    assert await published(user, "S.x", b"5") == 6
    await user.close()
    await system.close()


async def test_a_move_is_cancelled(servers: Trio, monkeypatch: pytest.MonkeyPatch) -> None:
    user, system = await clients_of(servers)
    config = {"name": "S", "subjects": ["S.>"]}
    await create(user, "S", 2, placement={"tags": ["!is:none"]})
    await published(user, "S.x", b"1")
    before = keepers(await call(user, "STREAM.INFO.S"))
    free = ({"n0", "n1", "n2"} - before).pop()
    with monkeypatch.context() as patch:
        hold(patch)
        moving = await call(
            user, "STREAM.UPDATE.S", **config, num_replicas=2, placement={"tags": [f"!is:{sorted(before)[0]}"]}
        )
        desired = moving["cluster"]["desired"]
        assert desired["origin"] == {"replicas": 2, "placement": {"tags": ["!is:none"]}}
        assert {one["name"] for one in desired["replicas"]} == before - {sorted(before)[0]} | {free}
        # What else is asked for meanwhile: another move, other copies.
        for asked in ({"num_replicas": 2, "placement": {"tags": ["is:n0"]}}, {"num_replicas": 3}):
            refused = await call(user, "STREAM.UPDATE.S", **config, **asked)
            assert refused["error"]["err_code"] == 10124
        assert (await call(system, f"{MOVE}.A.S"))["error"]["err_code"] == 10124
        changed = await call(user, "STREAM.UPDATE.S", **config, num_replicas=2, max_msgs=9)
        assert changed["config"]["max_msgs"] == 9
        cancelled = await call(system, f"{CANCEL}.A.S")
        assert cancelled["type"].endswith(".stream_cancel_move_response")
        assert cancelled["config"]["placement"] == {"tags": ["!is:none"]} and cancelled["config"]["max_msgs"] == 9
        assert {one["name"] for one in cancelled["cluster"]["desired"]["replicas"]} == before
        again = await call(user, "STREAM.CANCEL_MOVE.S")  # it is on its way back
        assert {one["name"] for one in again["cluster"]["desired"]["replicas"]} == before
    await settled(servers, 2)
    info = await call(user, "STREAM.INFO.S")
    assert keepers(info) == before and "desired" not in info["cluster"]
    assert (await call(user, "STREAM.CANCEL_MOVE.S"))["error"]["err_code"] == 10129
    assert await published(user, "S.x", b"2") == 2
    await user.close()
    await system.close()


async def test_other_copies_are_cancelled(servers: Trio, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a stream with one copy, which has become a group."""
    user, system = await clients_of(servers)
    config = {"name": "S", "subjects": ["S.>"]}
    await create(user, "S", 1)
    await published(user, "S.x", b"1")
    before = keepers(await call(user, "STREAM.INFO.S"))
    with monkeypatch.context() as patch:
        hold(patch)
        scaled = await call(user, "STREAM.UPDATE.S", **config, num_replicas=3)
        assert scaled["config"]["num_replicas"] == 3 and scaled["cluster"]["desired"]["origin"] == {"replicas": 1}
        moved = await call(user, "STREAM.UPDATE.S", **config, num_replicas=3, placement={"tags": ["is:n0"]})
        assert moved["error"]["err_code"] == 10226
        assert (await call(system, f"{MOVE}.A.S"))["error"]["err_code"] == 10226
        assert (await call(user, "STREAM.UPDATE.S", **config, num_replicas=2))["config"]["num_replicas"] == 2
        cancelled = await call(user, f"{CANCEL}.A.S")
        assert cancelled["config"]["num_replicas"] == 1
    await settled(servers, 1)
    assert keepers(await call(user, "STREAM.INFO.S")) == before
    assert await published(user, "S.x", b"2") == 2
    await user.close()
    await system.close()
