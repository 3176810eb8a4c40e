"""JetStream over clusters that gateways join: one set of streams for all, as with nats-server alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest

from support.clusters import DEADLINE, HAS_NATS_SERVER, connected, heard_by_all, until
from support.superclusters import Supercluster, supercluster

MORE = """
accounts {
  SYS { users: [{ user: sys, password: sys }] }
  A { jetstream: enabled, users: [{ user: a, password: a }] }
}
system_account: SYS
no_auth_user: a
jetstream { store_dir: "STORE", max_mem: 64MB, max_file: 256MB }
"""


@asynccontextmanager
async def streams_everywhere(kinds: str, directory: Path) -> AsyncIterator[tuple[Supercluster, list[nats.NATS]]]:
    """A supercluster whose servers have agreed on who leads, and a client at each."""
    if "n" in kinds and not HAS_NATS_SERVER:
        pytest.skip("nats-server is not installed")
    stores = [str(directory / f"store{number}") for number in range(len(kinds.replace("-", "")))]
    async with supercluster(kinds, directory, more=MORE, all_listed=True, replaced={"STORE": stores}) as whole:
        await whole.connected("A", "SYS")
        clients = [await connected(member.url) for member in whole.members]
        await heard_by_all(clients)
        for client in clients:
            await call(client, "INFO")
        try:
            yield whole, clients
        finally:
            for client in clients:
                await client.close()


async def call(client: nats.NATS, name: str, body: object = None) -> Any:
    """Call the API, until somebody answers who can."""
    async with asyncio.timeout(2 * DEADLINE):
        while True:
            try:
                sent = b"" if body is None else json.dumps(body).encode()
                answer = json.loads((await client.request(f"$JS.API.{name}", sent, timeout=5)).data)
            except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
                await asyncio.sleep(0.1)
                continue
            if answer.get("error", {}).get("err_code") != 10008:
                return answer
            await asyncio.sleep(0.1)


async def made(client: nats.NATS, name: str, **config: object) -> dict[str, Any]:
    """Make a stream, and say where it is or why not."""
    answer = await call(client, f"STREAM.CREATE.{name}", {"name": name, "storage": "file", **config})
    if "error" in answer:
        return {"error": answer["error"]}
    found = answer["cluster"]
    return {"cluster": found["name"], "copies": 1 + len(found.get("replicas") or ())}


async def told(kinds: str, directory: Path) -> dict[str, object]:
    """What clients of two clusters see of streams here and there."""
    async with streams_everywhere(kinds, directory) as (_whole, clients):
        near, far = clients[0], clients[-1]
        out: dict[str, object] = {}
        for number, client in enumerate(clients):
            out[f"made at {number}"] = await made(client, f"S{number}", subjects=[f"s{number}.>"])
        out["in A"] = await made(far, "INA", subjects=["ina.>"], placement={"cluster": "A"})
        out["in B"] = await made(near, "INB", subjects=["inb.>"], placement={"cluster": "B"})
        out["in C"] = await made(near, "INC", subjects=["inc.>"], placement={"cluster": "C"})
        out["taken"] = await made(far, "OTHER", subjects=["ina.x"])
        out["two copies"] = await made(near, "TWO", subjects=["two.>"], num_replicas=2)
        out["from the other side"] = await made(far, "TOO", subjects=["too.>"], num_replicas=2)
        for client in clients:
            for stream in ("ina", "inb", "two"):
                await acknowledged(client, f"{stream}.a", b"1")
        for name in ("INA", "INB", "TWO"):
            infos = [await call(client, f"STREAM.INFO.{name}") for client in clients]
            out[name] = [(info["state"]["messages"], info["cluster"]["name"]) for info in infos]
        names = [(await call(client, "STREAM.NAMES"))["streams"] for client in clients]
        out["names"] = names
        mirror = {"name": "M", "storage": "file", "mirror": {"name": "INA"}, "placement": {"cluster": "B"}}
        source = {"name": "SRC", "storage": "file", "sources": [{"name": "INB"}], "placement": {"cluster": "A"}}
        for config in (mirror, source):
            answer = await call(far, f"STREAM.CREATE.{config['name']}", config)
            out[f"copy {config['name']}"] = answer["cluster"]["name"]
        for name in ("M", "SRC"):
            async with asyncio.timeout(DEADLINE):
                while (await call(near, f"STREAM.INFO.{name}"))["state"]["messages"] < len(clients):
                    await asyncio.sleep(0.05)
        for number, client in enumerate(clients):
            subscription = await client.jetstream().pull_subscribe("ina.>", durable=f"d{number}", stream="INA")
            out[f"read at {number}"] = [one.data for one in await fetched(subscription, len(clients))]
        out["deleted"] = (await call(far, "STREAM.DELETE.INA")).get("success")
        async with asyncio.timeout(DEADLINE):  # the server that keeps it has yet to hear that it was deleted
            while "error" not in (gone := await call(near, "STREAM.INFO.INA")):
                await asyncio.sleep(0.05)
        out["gone"] = gone["error"]
        return out


async def acknowledged(client: nats.NATS, subject: str, body: bytes) -> None:
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                await client.jetstream().publish(
                    subject, body, timeout=5, headers={"Nats-Msg-Id": f"{id(client)}{subject}"}
                )
                return
            except (nats.js.errors.NoStreamResponseError, nats.errors.TimeoutError):
                await asyncio.sleep(0.05)  # the other cluster has not heard of the stream yet


async def fetched(subscription: Any, count: int) -> list[Any]:
    found: list[Any] = []
    async with asyncio.timeout(DEADLINE):
        while len(found) < count:
            try:
                for message in await subscription.fetch(count - len(found), timeout=2):
                    await message.ack()
                    found.append(message)
            except (nats.errors.TimeoutError, nats.js.errors.ServiceUnavailableError):
                await asyncio.sleep(0.05)  # the other cluster has not heard of the consumer yet
    return found


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kinds", ["oo-oo"])
async def test_one_jetstream_for_all_clusters(kinds: str, tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    (tmp_path / "n").mkdir()
    ours = await told(kinds, tmp_path / "o")
    theirs = await told(kinds.replace("o", "n"), tmp_path / "n")
    assert {name: (ours[name], theirs[name]) for name in theirs if ours[name] != theirs[name]} == {}


@pytest.mark.timeout(120)
async def test_a_cluster_that_goes_takes_its_streams_and_brings_them_back(tmp_path: Path) -> None:
    async with streams_everywhere("oo-o", tmp_path) as (whole, clients):
        assert await made(clients[0], "FAR", subjects=["far"], placement={"cluster": "B"}) == {
            "cluster": "B",
            "copies": 1,
        }
        await acknowledged(clients[0], "far", b"1")
        await clients[2].close()
        await whole[2].node.stop()
        # Most servers are here: they go on, and know that there is a stream that nobody can reach.
        assert (await made(clients[1], "NEAR", subjects=["near"], num_replicas=2))["copies"] == 2
        await acknowledged(clients[1], "near", b"1")
        assert (await made(clients[1], "NOT", placement={"cluster": "B"}))["error"]["err_code"] == 10005
        assert set((await call(clients[1], "STREAM.NAMES"))["streams"]) == {"FAR", "NEAR"}
        await whole[2].start()
        await whole.connected("A", "SYS")
        clients[2] = await connected(whole[2].url)
        await heard_by_all(clients)
        await acknowledged(clients[1], "far", b"2")
        found = await call(clients[0], "STREAM.INFO.FAR")
        assert (found["state"]["messages"], found["cluster"]["name"]) == (2, "B")


async def test_jetstream_of_two_kinds_is_refused_on_both_sides(tmp_path: Path) -> None:
    """Core NATS would cross, but calls of the API would be answered twice."""
    if not HAS_NATS_SERVER:
        pytest.skip("nats-server is not installed")
    stores = [str(tmp_path / f"store{number}") for number in range(4)]
    words = "JetStream of nats-server and of Slipstream cannot be in one supercluster"
    async with supercluster("oo-nn", tmp_path, more=MORE, all_listed=True, replaced={"STORE": stores}) as whole:
        for member in whole.members:
            await until(lambda member=member: words in member.node.log_text(), f"{member.node.name} says so")
        for member in whole.of("A"):
            assert member.node.server is not None and member.node.server.supercluster is not None
            wanted = member.node.server.supercluster.outbound
            await until(lambda wanted=wanted: not wanted, "no connection stays")
            assert not member.node.server.supercluster.inbound


@pytest.mark.parametrize("kinds", ["oo-n", "nnn-n", "oo-o"])
async def test_a_cluster_without_jetstream_has_that_of_the_others(kinds: str, tmp_path: Path) -> None:
    if not HAS_NATS_SERVER:
        pytest.skip("nats-server is not installed")
    count = len(kinds) - 2  # the last server has none
    enabled = "jetstream: enabled,"
    more = MORE.replace(MORE[MORE.index("jetstream {") :], "BLOCK\n").replace(enabled, "ENABLED")
    blocks = [f'jetstream {{ store_dir: "{tmp_path}/store{number}" }}' for number in range(count)]
    # nats-server passes calls on to others of its kind if it knows that the account may make them.
    replaced = {"BLOCK": [*blocks, ""], "ENABLED": [*[enabled] * count, enabled if kinds == "nnn-n" else ""]}
    async with supercluster(kinds, tmp_path, more=more, all_listed=True, replaced=replaced) as whole:
        await whole.connected("A", "SYS")
        clients = [await connected(member.url) for member in whole.members]
        await heard_by_all(clients)
        assert await made(clients[-1], "S", subjects=["s"]) == {"cluster": "A", "copies": 1}
        for client in clients:
            await acknowledged(client, "s", b"1")
        assert (await call(clients[-1], "STREAM.INFO.S"))["state"]["messages"] == len(clients)
        for client in clients:
            await client.close()
