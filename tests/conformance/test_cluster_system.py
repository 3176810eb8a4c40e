"""The system account over a cluster: who answers what, and which events come, as with servers of nats-server alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest

from support.clusters import HAS_NATS_SERVER, Node, cluster, connected, heard_by_all, until

pytestmark = pytest.mark.skipif(not HAS_NATS_SERVER, reason="nats-server is not installed")

ACCOUNTS = """
accounts {
  A { users: [{user: a, password: p}] }
  B { users: [{user: b, password: p}] }
  LIMITED { users: [{user: l, password: p}], limits { max_connections: 3 } }
  $SYS { users: [{user: s, password: p}] }
}
"""


@asynccontextmanager
async def system_cluster(kinds: str, directory: Path) -> AsyncIterator[tuple[list[Node], list[nats.NATS]]]:
    """Servers with accounts, a client of the system account at each, and each known to each."""
    async with cluster(kinds, directory, "", ACCOUNTS) as nodes:
        clients = [await connected(node.url, user="s", password="p") for node in nodes]
        await heard_by_all(clients)
        try:
            yield nodes, clients
        finally:
            for client in clients:
                await client.close()


async def answers(client: nats.NATS, subject: str, body: bytes, count: int) -> list[Any]:
    """What is answered until a number of answers is there, and what a later question of all servers brings before."""
    inbox, got = client.new_inbox(), list[Any]()

    async def take(message: nats.aio.msg.Msg) -> None:
        got.append(json.loads(message.data) if message.data else message.headers)

    subscription = await client.subscribe(inbox, cb=take)
    await client.publish(subject, body, reply=inbox)
    async with asyncio.timeout(20):
        while len(got) < count:
            await asyncio.sleep(0.02)
    await all_answer(client)
    await subscription.unsubscribe()
    return got


async def all_answer(client: nats.NATS) -> None:
    """Ask all three servers something else: what they had to say before comes before these answers."""
    inbox, heard = client.new_inbox(), set[str]()

    async def note(message: nats.aio.msg.Msg) -> None:
        heard.add(json.loads(message.data)["server"]["name"])

    subscription = await client.subscribe(inbox, cb=note)
    await client.publish("$SYS.REQ.SERVER.PING.CONNZ", b"", reply=inbox)
    await until(lambda: len(heard) == 3, "every server answers")
    await subscription.unsubscribe()


async def answer_to_login(node: Node) -> str:
    """What a client of the limited account hears: PONG, or why not."""
    reader, writer = await asyncio.open_connection("127.0.0.1", node.client_port)
    try:
        await reader.readline()
        writer.write(b'CONNECT {"user":"l","pass":"p","verbose":false}\r\nPING\r\n')
        while True:
            line = (await reader.readline()).decode()
            if not line.startswith("INFO"):
                return line.strip()
    finally:
        writer.close()
        await writer.wait_closed()


def names(found: list[Any]) -> list[str]:
    return sorted(one["server"]["name"] for one in found)


@pytest.mark.parametrize("kinds", ["nnn", "ooo", "non"])
async def test_every_server_answers_once(kinds: str, tmp_path: Path) -> None:
    async with system_cluster(kinds, tmp_path) as (_nodes, clients):
        everybody = ["s0", "s1", "s2"]
        for number, client in enumerate(clients):
            found = await answers(client, "$SYS.REQ.USER.INFO", b"", 1)
            assert names(found) == [f"s{number}"]
        for client in clients[:2]:
            for subject in ("", ".VARZ", ".CONNZ", ".ROUTEZ", ".STATSZ", ".HEALTHZ", ".SUBSZ", ".ACCOUNTZ"):
                found = await answers(client, f"$SYS.REQ.SERVER.PING{subject}", b"", 3)
                assert names(found) == everybody, subject
            found = await answers(client, "$SYS.REQ.ACCOUNT.PING.STATZ", b'{"accounts":["$SYS"]}', 3)
            assert names(found) == everybody
            found = await answers(client, "$SYS.REQ.ACCOUNT.$SYS.CONNZ", b"", 3)
            assert names(found) == everybody
            assert [one["data"]["num_connections"] for one in found] == [1, 1, 1]
            found = await answers(client, "$SYS.REQ.SERVER.PING.VARZ", b'{"server_name":"s2"}', 1)
            assert names(found) == ["s2"]
            ids = {one["name"]: one["id"] for one in await answers(client, "$SYS.REQ.SERVER.PING.IDZ", b"", 3)}
            for name, server_id in ids.items():
                assert names(await answers(client, f"$SYS.REQ.SERVER.{server_id}.VARZ", b"", 1)) == [name]


@pytest.mark.parametrize("kinds", ["nnn", "ooo", "non", "ono"])
async def test_what_an_account_asks_of_itself(kinds: str, tmp_path: Path) -> None:
    async with system_cluster(kinds, tmp_path) as (nodes, _clients):
        mine = [await connected(node.url, user="a", password="p") for node in nodes]
        await heard_by_all(mine)
        for number, client in enumerate(mine):
            found = await answers(client, "$SYS.REQ.USER.INFO", b"", 1)
            assert [(one["server"]["name"], one["data"]["user"]) for one in found] == [(f"s{number}", "a")]
            found = await answers(client, "$SYS.REQ.SERVER.PING.CONNZ", b"", 3)
            assert sorted((one["server"]["name"], one["data"]["num_connections"]) for one in found) == [
                (f"s{other}", 1) for other in range(3)
            ]
            found = await answers(client, "$SYS.REQ.ACCOUNT.PING.STATZ", b"", 3)
            assert names(found) == ["s0", "s1", "s2"]
        for client in mine:
            await client.close()


@pytest.mark.parametrize("kinds", ["nnn", "ooo", "non"])
async def test_events_of_all_servers_are_heard_at_each(kinds: str, tmp_path: Path) -> None:
    async with system_cluster(kinds, tmp_path) as (nodes, clients):
        got: list[list[tuple[str, str, int]]] = [[] for _ in clients]
        for number, client in enumerate(clients):

            async def take(message: nats.aio.msg.Msg, number: int = number) -> None:
                event = json.loads(message.data)
                what = message.subject.rpartition(".")[2]
                got[number].append((what, event["server"]["name"], event.get("conns", -1)))

            for subject in ("$SYS.ACCOUNT.A.CONNECT", "$SYS.ACCOUNT.A.DISCONNECT", "$SYS.ACCOUNT.A.SERVER.CONNS"):
                await client.subscribe(subject, cb=take)
        await heard_by_all(clients)
        for node in nodes:
            first = await connected(node.url, user="a", password="p")
            second = await connected(node.url, user="a", password="p")
            await first.close()
            await second.close()
        expected = sorted(
            (what, f"s{number}", count)
            for number in range(3)
            for what, count in (
                *(("CONNECT", -1), ("DISCONNECT", -1)) * 2,
                *(("CONNS", count) for count in (1, 2, 1, 0)),
            )
        )
        async with asyncio.timeout(20):
            while any(len(set(one)) < len(set(expected)) for one in got):
                await asyncio.sleep(0.05)
        assert [sorted(one) for one in got] == [expected] * 3


@pytest.mark.parametrize("kinds", ["nnn", "ooo", "non", "ono"])
async def test_connections_of_an_account_are_counted_over_all_servers(kinds: str, tmp_path: Path) -> None:
    """Three may connect, wherever: the fourth is refused, until one has gone."""
    async with system_cluster(kinds, tmp_path) as (nodes, clients):
        told: list[set[str]] = [set() for _ in clients]
        for number, client in enumerate(clients):

            async def hear(message: nats.aio.msg.Msg, number: int = number) -> None:
                event = json.loads(message.data)
                if event["conns"] == 1:
                    told[number].add(event["server"]["name"])

            await client.subscribe("$SYS.ACCOUNT.LIMITED.SERVER.CONNS", cb=hear)
        await heard_by_all(clients)
        inside = [await connected(node.url, user="l", password="p") for node in nodes]
        # A server knows what a client of it has heard.
        await until(lambda: all(len(one) == 3 for one in told), "all servers know of all")
        refused = 0
        for node in nodes:
            refused += "maximum account active connections exceeded" in (await answer_to_login(node)).lower()
        assert refused == 3
        await inside[0].close()
        async with asyncio.timeout(20):
            while await answer_to_login(nodes[1]) != "PONG":
                await asyncio.sleep(0.1)
        for client in inside[1:]:
            await client.close()
