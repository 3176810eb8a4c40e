"""Superclusters: of this server alone, and with nats-server on either side. All deliver the same.

Each server has a `gateway` block with a gateways entry for each other cluster.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.errors import NoRespondersError

from support.clusters import DEADLINE, HAS_NATS_SERVER, connected, heard_by_all
from support.superclusters import supercluster


def needs(kinds: str) -> None:
    if "n" in kinds and not HAS_NATS_SERVER:
        pytest.skip("nats-server is not installed")


async def deliveries(kinds: str, directory: Path) -> dict[str, object]:
    async with supercluster(kinds, directory) as whole:
        await whole.connected()
        clients = [await connected(member.url) for member in whole.members]
        await heard_by_all(clients)
        got: list[list[tuple[str, bytes, dict[str, str] | None]]] = [[] for _ in clients]
        shared = [0] * len(clients)
        for number, client in enumerate(clients):

            async def take(message: nats.aio.msg.Msg, number: int = number) -> None:
                got[number].append((message.subject, message.data, message.headers))

            async def share(_message: nats.aio.msg.Msg, number: int = number) -> None:
                shared[number] += 1

            await client.subscribe("a.*", cb=take)
            await client.subscribe("a.>", cb=take)
            await client.subscribe("work", queue="workers", cb=share)
            await client.subscribe(f"far.{number}", queue="workers", cb=share)

        async def answer(message: nats.aio.msg.Msg) -> None:
            await message.respond(b"answer to " + message.data)

        await clients[-1].subscribe("ask", cb=answer)
        for client in clients:
            await client.flush()
        await heard_by_all(clients)
        await clients[0].publish("a.b", b"plain")
        await clients[1].publish("a.c", b"with header", headers={"k": "v"})
        await clients[-1].publish("a.c.d", b"deep")
        for _ in range(20):
            await clients[0].publish("work", b"")
            await clients[0].publish(f"far.{len(clients) - 1}", b"")
        answers = [(await client.request("ask", b"%d" % at, timeout=5)).data for at, client in enumerate(clients)]
        with pytest.raises(NoRespondersError):
            await clients[0].request("nobody.listens", b"", timeout=5)
        async with asyncio.timeout(DEADLINE):
            while any(len(found) < 5 for found in got) or sum(shared) < 40:
                await asyncio.sleep(0.02)
        await heard_by_all(clients)
        for client in clients:
            await client.close()
        at_home = sum(
            count for member, count in zip(whole.members, shared, strict=True) if member.cluster == whole[0].cluster
        )
        return {
            "got": [sorted(found, key=repr) for found in got],
            "answers": answers,
            "shared": sum(shared),
            "at home": at_home,
        }


@pytest.mark.parametrize("kinds", ["o-o", "o-n", "n-o", "oo-o", "on-no"])
async def test_clusters_deliver_once_to_all_and_prefer_their_own_queue_groups(kinds: str, tmp_path: Path) -> None:
    needs(kinds)
    found = await deliveries(kinds, tmp_path)
    expected = [
        ("a.b", b"plain", None),
        ("a.b", b"plain", None),
        ("a.c", b"with header", {"k": "v"}),
        ("a.c", b"with header", {"k": "v"}),
        ("a.c.d", b"deep", None),
    ]
    count = len(kinds.replace("-", ""))
    assert found["got"] == [expected] * count
    assert found["answers"] == [b"answer to %d" % at for at in range(count)]
    assert found["shared"] == 40
    assert found["at home"] == 20


def without_values(shown: Any) -> Any:
    """The names of all that is shown."""
    if isinstance(shown, dict):
        return {name: without_values(value) for name, value in shown.items()}
    if not isinstance(shown, list) or not all(isinstance(one, dict) for one in shown):
        return None
    return [without_values(one) for one in sorted(shown, key=lambda one: (str(one.get("name")), sorted(one)))]


async def test_monitoring_shows_gateways_as_nats_server_does(tmp_path: Path) -> None:
    needs("n")
    async with supercluster("o-n", tmp_path) as whole:
        await whole.connected()
        clients = [await connected(member.url) for member in whole.members]
        await heard_by_all(clients)
        for client in clients:
            await client.subscribe("shown")
            await client.subscribe("shown", queue="g")
            await client.flush()
        await heard_by_all(clients, "again")
        paths = "/gatewayz", "/gatewayz?accs=1", "/gatewayz?acc_name=$G&subs=1", "/gatewayz?acc_name=$G&subs=detail"
        for path in paths:
            ours, theirs = [await member.node.shown(path) for member in whole.members]
            text = repr([ours, theirs])
            for name, shown, other in (("A", ours, "B"), ("B", theirs, "A")):
                assert shown["name"] == name
                assert set(shown["outbound_gateways"]) == set(shown["inbound_gateways"]) == {other}, text
            for field in ("outbound_gateways", "inbound_gateways"):
                ours[field]["A"] = ours[field].pop("B")
            assert without_rtt(without_values(ours)) == without_rtt(without_values(theirs)), text
        nobody = [await member.node.shown("/gatewayz?gw_name=nobody") for member in whole.members]
        for field in ("outbound_gateways", "inbound_gateways"):
            assert nobody[0][field] == nobody[1][field]
        [ours] = (await whole[0].node.shown("/gatewayz?acc_name=$G&subs=1"))["outbound_gateways"]["B"]["accounts"]
        [theirs] = (await whole[1].node.shown("/gatewayz?acc_name=$G&subs=1"))["outbound_gateways"]["A"]["accounts"]
        assert sorted(ours.pop("subscriptions_list")) == sorted(theirs.pop("subscriptions_list"))
        assert ours == theirs
        varz = [(await member.node.shown("/varz"))["gateway"] for member in whole.members]
        assert varz[0].keys() == varz[1].keys()
        for client in clients:
            await client.close()


def without_rtt(shown: Any) -> Any:
    """The round trip time is there after the first PING."""
    if isinstance(shown, dict):
        return {name: without_rtt(value) for name, value in shown.items() if name != "rtt"}
    return [without_rtt(one) for one in shown] if isinstance(shown, list) else shown
