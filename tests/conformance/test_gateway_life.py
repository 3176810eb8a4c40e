"""Superclusters at work: who hears of whom, servers that go, accounts and what they share, leaf nodes, `$SYS`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import nats
import pytest

from support.clusters import DEADLINE, HAS_NATS_SERVER, Node, connected, heard_by_all, until
from support.config_loading import loaded
from support.ports import free_port
from support.superclusters import supercluster

ACCOUNTS = """
accounts {
  SYS { users: [{ user: sys, password: sys }] }
  OWNER {
    users: [{ user: owner, password: owner }]
    exports: [ { service: "svc.>" }, { stream: "news.>" } ]
  }
  GUEST {
    users: [{ user: guest, password: guest }]
    imports: [
      { service: { account: OWNER, subject: "svc.time" }, to: "time" }
      { stream: { account: OWNER, subject: "news.>" }, prefix: "from" }
    ]
  }
}
system_account: SYS
no_auth_user: owner
"""


def needs(kinds: str) -> None:
    if "n" in kinds and not HAS_NATS_SERVER:
        pytest.skip("nats-server is not installed")


@pytest.mark.parametrize("kinds", ["o-o-o", "o-n-o", "n-o-o"])
async def test_clusters_that_know_one_hear_of_all(kinds: str, tmp_path: Path) -> None:
    needs(kinds)
    async with supercluster(kinds, tmp_path, "connect_retries: 5", one_sided=True) as whole:
        await whole.connected()
        clients = [await connected(member.url) for member in whole.members]
        await heard_by_all(clients)
        shown = await whole[2].node.shown("/gatewayz")
        assert {name: one["configured"] for name, one in shown["outbound_gateways"].items()} == {
            "A": True,
            "B": False,
        }
        for client in clients:
            await client.close()


@pytest.mark.parametrize("kinds", ["o-oo", "o-nn", "n-oo"])
async def test_a_cluster_is_reached_at_another_server_when_one_goes(kinds: str, tmp_path: Path) -> None:
    needs(kinds)
    async with supercluster(kinds, tmp_path) as whole:
        await whole.connected()
        clients = [await connected(member.url) for member in whole.members]
        await heard_by_all(clients)
        shown = await whole[0].node.shown("/gatewayz")
        port = shown["outbound_gateways"]["B"]["connection"]["port"]
        [gone] = [member for member in whole.of("B") if member.gateway_port == port]
        await clients[whole.members.index(gone)].close()
        await gone.node.stop()
        kept = [client for client, member in zip(clients, whole.members, strict=True) if member is not gone]
        await heard_by_all(kept)
        # One that was never configured at A: it was told where it is reached.
        shown = await whole[0].node.shown("/gatewayz")
        assert shown["outbound_gateways"]["B"]["connection"]["port"] != port
        for client in kept:
            await client.close()


@pytest.mark.parametrize("kinds", ["o-o", "o-n", "n-o"])
async def test_accounts_share_across_clusters(kinds: str, tmp_path: Path) -> None:
    needs(kinds)
    async with supercluster(kinds, tmp_path, more=ACCOUNTS) as whole:
        await whole.connected("OWNER", "GUEST")
        owners = [await connected(member.url, user="owner", password="owner") for member in whole.members]
        guests = [await connected(member.url, user="guest", password="guest") for member in whole.members]
        got: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()

        async def time(message: nats.aio.msg.Msg) -> None:
            await message.respond(b"noon")

        async def note(message: nats.aio.msg.Msg) -> None:
            got.put_nowait((message.subject, message.data))

        await owners[1].subscribe("svc.time", cb=time)
        await guests[1].subscribe("from.news.*", cb=note)
        for client in (*owners, *guests):
            await client.flush()
        await heard_by_all(owners)
        await heard_by_all(guests)
        for _ in range(3):
            assert (await guests[0].request("time", b"", timeout=5)).data == b"noon"
        await owners[0].publish("news.today", b"sun")
        assert await asyncio.wait_for(got.get(), DEADLINE) == ("from.news.today", b"sun")
        # What is told to the exporting account is one copy, and nothing of the other account crosses.
        await owners[0].publish("from.news.fake", b"no")
        await heard_by_all(guests)
        assert got.empty()
        for client in (*owners, *guests):
            await client.close()


@pytest.mark.parametrize("kinds", ["o-o", "o-n", "n-o"])
async def test_a_leaf_of_one_cluster_is_served_by_another(kinds: str, tmp_path: Path) -> None:
    needs(kinds)
    port = free_port()
    # Both have the text, and each cluster its own port.
    more = f'{ACCOUNTS}\nleafnodes {{ listen: "127.0.0.1:PORT" }}'
    async with supercluster(kinds, tmp_path, more=more, replaced={"PORT": [str(port), str(free_port())]}) as whole:
        await whole.connected("OWNER")
        leaf = Node("o", 9, tmp_path)
        text = (
            f'listen: "127.0.0.1:{leaf.client_port}"\nserver_name: leaf\nhttp: "127.0.0.1:{leaf.http_port}"\n'
            f'leafnodes {{ remotes: [{{ url: "nats-leaf://owner:owner@127.0.0.1:{port}" }}] }}'
        )
        assert loaded(text)
        await leaf.start(text)
        try:
            edge, far = await connected(leaf.url), await connected(whole[1].url)
            await heard_by_all([edge, far])

            async def answer(message: nats.aio.msg.Msg) -> None:
                await message.respond(message.subject.encode())

            await far.subscribe("far", cb=answer)
            await edge.subscribe("edge", cb=answer)
            await far.flush()
            await edge.flush()
            await heard_by_all([edge, far])
            # New connections: their inboxes are known nowhere yet.
            fresh = [await connected(url) for url in (leaf.url, whole[1].url)]
            assert (await fresh[0].request("far", b"", timeout=5)).data == b"far"
            assert (await fresh[1].request("edge", b"", timeout=5)).data == b"edge"
            for client in (edge, far, *fresh):
                await client.close()
        finally:
            await leaf.stop()


@pytest.mark.parametrize("kinds", ["o-o", "o-n", "n-o"])
async def test_the_system_account_sees_all_clusters(kinds: str, tmp_path: Path) -> None:
    needs(kinds)
    async with supercluster(kinds, tmp_path, more=ACCOUNTS) as whole:
        await whole.connected("SYS")
        for member in whole.members:
            client = await connected(member.url, user="sys", password="sys")
            inbox = client.new_inbox()
            subscription = await client.subscribe(inbox)
            # One request of a connection that is new: each server answers it, whatever it knows of the inbox.
            await client.publish("$SYS.REQ.SERVER.PING", b"", reply=inbox)
            servers = [json.loads((await subscription.next_msg(timeout=DEADLINE)).data)["server"] for _ in range(2)]
            found = {server["name"]: server.get("cluster", "") for server in servers}
            assert found == {"s0": "A", "s1": "B"}
            other = whole.members[1 - whole.members.index(member)]
            identity = (await other.node.shown("/varz"))["server_id"]
            answer = await client.request(f"$SYS.REQ.SERVER.{identity}.GATEWAYZ", b"", timeout=5)
            assert json.loads(answer.data)["data"]["name"] == other.cluster
            stats = json.loads((await client.request(f"$SYS.REQ.SERVER.{identity}.STATSZ", b"", timeout=5)).data)
            [gateway] = stats["statsz"]["gateways"]
            assert gateway["name"] == member.cluster and gateway["inbound_connections"] == 1
            async with asyncio.timeout(DEADLINE):
                while stats["statsz"]["active_servers"] != 2:  # it counts those that it has heard of
                    await asyncio.sleep(0.05)
                    answer = await client.request(f"$SYS.REQ.SERVER.{identity}.STATSZ", b"", timeout=5)
                    stats = json.loads(answer.data)
            await client.close()


async def test_an_answer_finds_the_server_that_asked_whatever_is_known_of_its_inbox(tmp_path: Path) -> None:
    """Requests of many new connections, at all servers of a cluster: most inboxes are younger than what is told."""
    needs("n")
    async with supercluster("ono-on", tmp_path) as whole:
        await whole.connected()
        responders = [await connected(member.url) for member in whole.of("B")]

        async def answer(message: nats.aio.msg.Msg) -> None:
            await message.respond(message.data)

        for responder in responders:
            await responder.subscribe("echo", queue="q", cb=answer)
            await responder.flush()
        seen = [await connected(member.url) for member in whole.members]
        await heard_by_all(seen)
        for _ in range(10):
            for at, member in enumerate(whole.of("A")):
                client = await connected(member.url)
                assert (await client.request("echo", b"%d" % at, timeout=5)).data == b"%d" % at
                await client.close()
        for client in (*responders, *seen):
            await client.close()


async def answer_to_login(port: int) -> str:
    """What a client of the account with a limit hears: PONG, or why not."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        await reader.readline()
        writer.write(b'CONNECT {"user":"few","pass":"few","verbose":false}\r\nPING\r\n')
        while (line := (await reader.readline()).decode()).startswith("INFO"):
            pass
        return line.strip()
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("kinds", ["n-n", "o-o", "oo-n", "nn-o"])
async def test_connections_of_an_account_are_counted_over_all_clusters(kinds: str, tmp_path: Path) -> None:
    """As many may connect as there are servers, wherever: one more is refused, until one has gone."""
    needs(kinds)
    count = len(kinds.replace("-", ""))
    limited = f"FEW {{ users: [{{ user: few, password: few }}], limits {{ max_connections: {count} }} }}"
    more = ACCOUNTS.replace("accounts {", f"accounts {{ {limited}", 1)
    async with supercluster(kinds, tmp_path, more=more) as whole:
        await whole.connected("SYS")
        systems = [await connected(member.url, user="sys", password="sys") for member in whole.members]
        told: list[set[str]] = [set() for _ in systems]
        for number, client in enumerate(systems):

            async def hear(message: nats.aio.msg.Msg, number: int = number) -> None:
                event = json.loads(message.data)
                if event["conns"] == 1:
                    told[number].add(event["server"]["name"])

            await client.subscribe("$SYS.ACCOUNT.FEW.SERVER.CONNS", cb=hear)
        await heard_by_all(systems)
        inside = [await connected(member.url, user="few", password="few") for member in whole.members]
        # A server knows what a client of it has heard.
        await until(lambda: all(len(one) == count for one in told), "all servers know of all")
        for member in whole.members:
            assert (
                "maximum account active connections exceeded"
                in (await answer_to_login(member.node.client_port)).lower()
            )
        await inside[0].close()
        async with asyncio.timeout(DEADLINE):
            while await answer_to_login(whole[-1].node.client_port) != "PONG":
                await asyncio.sleep(0.1)
        for client in (*inside[1:], *systems):
            await client.close()


async def test_a_cluster_that_goes_takes_its_connections_with_it(tmp_path: Path) -> None:
    limited = "FEW { users: [{ user: few, password: few }], limits { max_connections: 1 } }"
    more = ACCOUNTS.replace("accounts {", f"accounts {{ {limited}", 1)
    async with supercluster("o-o", tmp_path, more=more) as whole:
        await whole.connected("SYS")
        inside = await connected(whole[1].url, user="few", password="few")
        async with asyncio.timeout(DEADLINE):
            while await answer_to_login(whole[0].node.client_port) == "PONG":
                await asyncio.sleep(0.05)
        await whole[1].node.stop()
        await inside.close()
        async with asyncio.timeout(DEADLINE):
            while await answer_to_login(whole[0].node.client_port) != "PONG":
                await asyncio.sleep(0.05)
