"""Templates in a cluster: the first publish makes a stream, once, whichever server the publisher is connected to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.js.errors import APIError, ServiceUnavailableError

pytest.importorskip("slipstream_raft")

from support.cluster_calls import call, published
from support.cluster_servers import Trio, trio
from support.clusters import heard_by_all, until

NOBODY_LEADS = 10008
METADATA = {"slipstream.template": "T_{2}", "slipstream.template.max": "8"}


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Trio]:
    async with trio(tmp_path) as running:
        yield running


async def template(servers: Trio, client: Client, replicas: int, **metadata: str) -> dict[str, Any]:
    """Make it when somebody leads: a busy machine may let another server lead while clients come."""
    body = {"name": "ALL", "subjects": ["tenant.*.>"], "num_replicas": replicas}
    while True:
        await servers.leader()
        made = await call(client, "STREAM.CREATE.ALL", **body, metadata={**METADATA, **metadata})
        if made.get("error", {}).get("err_code") != NOBODY_LEADS:
            return made


async def clients_of(servers: Trio) -> list[Client]:
    """One of each server, when all servers know what the others want."""
    clients = [await nats.connect(member.url) for member in servers.members]
    await heard_by_all(clients)
    return clients


async def stored(client: Client, tenant: int, number: int) -> tuple[str, int]:
    """Publish until it is acknowledged, as publishers do: a busy machine may let another server lead a new stream."""
    while True:
        try:
            headers = {"Nats-Msg-Id": str(number)}
            ack = await client.jetstream().publish(f"tenant.{tenant}.event", b"%d" % number, timeout=5, headers=headers)
        except (ServiceUnavailableError, nats.errors.TimeoutError):
            continue
        return ack.stream, ack.seq


@pytest.mark.parametrize("replicas", [1, 3])
async def test_streams_are_made_once_from_any_server(servers: Trio, replicas: int) -> None:
    clients = await clients_of(servers)
    made = await template(servers, clients[0], replicas)
    assert "error" not in made
    await published(clients[0], "tenant.0.event", b"first")
    await heard_by_all(clients, "again")
    acks = await asyncio.gather(*(stored(clients[number % 3], number % 6, number) for number in range(60)))
    assert sorted(acks) == sorted((f"T_{tenant}", seq + (tenant == 0)) for tenant in range(6) for seq in range(1, 11))
    for tenant in range(6):
        info = await call(clients[tenant % 3], f"STREAM.INFO.T_{tenant}")
        assert info["config"]["num_replicas"] == replicas and info["config"]["subjects"] == [f"tenant.{tenant}.>"]
        assert info["state"]["messages"] == 10 + (tenant == 0)
    shown = await call(clients[1], "STREAM.INFO.ALL")
    assert shown["state"]["messages"] == 0 and shown["template"] == {"streams": 6, "limit": 8}
    for more in (6, 7):
        await stored(clients[2], more, 60 + more)
    with pytest.raises(APIError, match="has made 8 streams"):
        await clients[2].jetstream().publish("tenant.8.event", b"", timeout=20)
    for client in clients:
        await client.close()


async def test_another_leader_goes_on_making_them(servers: Trio) -> None:
    clients = await clients_of(servers)
    await template(servers, clients[0], 3)
    assert await published(clients[0], "tenant.a.event", b"1") == 1
    before = (await call(clients[0], "STREAM.INFO.ALL"))["cluster"]["leader"]
    assert (await call(clients[0], "STREAM.LEADER.STEPDOWN.ALL"))["success"]

    def leader() -> str:
        found = [one for one in servers.members if "ALL" in one.server.jetstream.accounts["$G"].streams]  # type: ignore[union-attr]
        return found[0].name if len(found) == 1 else before

    await until(lambda: leader() != before, "another one leads")
    assert await published(clients[1], "tenant.b.event", b"1") == 1
    assert await published(clients[2], "tenant.a.event", b"2") == 2  # it is there, whoever leads the template
    info = await call(clients[0], "STREAM.INFO.T_b")
    assert info["state"]["messages"] == 1 and info["config"]["num_replicas"] == 3
    for client in clients:
        await client.close()


async def test_what_templates_of_a_cluster_cannot_do(servers: Trio) -> None:
    clients = await clients_of(servers)
    refused = await template(servers, clients[0], 1, **{"slipstream.template.idle": "30m"})
    assert refused["error"]["err_code"] == 10052 and "not for clusters" in refused["error"]["description"]
    for client in clients:
        await client.close()
