"""Clusters of three: of this server alone, and mixed with nats-server on either side. All deliver the same."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.request import urlopen

import nats
import pytest
from nats.errors import NoRespondersError

from slipstream.config.listener_options import ClusterOptions
from slipstream.config.options import Options
from slipstream.server.server import Server
from support.clusters import DEADLINE, connected, heard_by_all
from support.ports import free_port


@asynccontextmanager
async def cluster(kinds: str, monitoring: tuple[int, ...] = ()) -> AsyncIterator[list[str]]:
    """The client URLs of some servers, the first of which the others dial: `o` is ours, `n` nats-server."""
    seed, urls = free_port(), list[str]()
    ours: list[Server] = []
    theirs: list[subprocess.Popen[bytes]] = []
    try:
        for number, kind in enumerate(kinds):
            routes = () if number == 0 else (f"nats-route://127.0.0.1:{seed}",)
            port = free_port() if number else seed
            http = monitoring[number] if monitoring else 0
            if kind == "o":
                options = ClusterOptions(
                    name="C",
                    host="127.0.0.1",
                    port=port,
                    routes=routes,
                    accounts=("$SYS",),
                    auth_timeout_ns=2_000_000_000,
                )
                server = Server(
                    Options(host="127.0.0.1", port=-1, server_name=f"s{number}", cluster=options, http_port=http)
                )
                await server.start()
                ours.append(server)
                urls.append(server.url)
            else:
                client = free_port()
                command = ["nats-server", "-a", "127.0.0.1", "-p", str(client), "-n", f"s{number}"]
                command += ["--cluster_name", "C", "--cluster", f"nats://127.0.0.1:{port}"]
                command += ["--routes", routes[0]] if routes else []
                command += ["-m", str(http)] if http else []
                theirs.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
                urls.append(f"nats://127.0.0.1:{client}")
        yield urls
    finally:
        for server in ours:
            await server.stop()
        for process in theirs:
            process.terminate()
            process.wait()


async def deliveries(kinds: str) -> dict[str, object]:
    async with cluster(kinds) as urls:
        clients = [await connected(url) for url in urls]
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

        async def answer(message: nats.aio.msg.Msg) -> None:
            await message.respond(b"answer to " + message.data)

        await clients[2].subscribe("ask", cb=answer)
        # Interest goes the way of messages: when these have come back, so has what was told before.
        for client in clients:
            await client.flush()
        await heard_by_all(clients)
        await clients[0].publish("a.b", b"plain")
        await clients[1].publish("a.c", b"with header", headers={"k": "v"})
        await clients[2].publish("a.c.d", b"deep")
        for _ in range(90):
            await clients[0].publish("work", b"")
        answers = [(await client.request("ask", b"%d" % at, timeout=5)).data for at, client in enumerate(clients)]
        with pytest.raises(NoRespondersError):
            await clients[0].request("nobody.listens", b"", timeout=5)
        async with asyncio.timeout(DEADLINE):
            while any(len(found) < 5 for found in got) or sum(shared) < 90:
                await asyncio.sleep(0.02)
        await heard_by_all(clients)
        known = [sorted(url.netloc for url in client.discovered_servers) for client in clients]
        for client in clients:
            await client.close()
        assert all(len(names) == 2 for names in known)
        assert all(shared), "every server's worker gets its part"
        return {"got": [sorted(found, key=repr) for found in got], "answers": answers, "shared": sum(shared)}


@pytest.mark.parametrize("kinds", ["ooo", "noo", "onn"])
async def test_a_mesh_delivers_once_to_all_and_knows_itself(kinds: str) -> None:
    if "n" in kinds and shutil.which("nats-server") is None:
        pytest.skip("nats-server is not installed")
    found = await deliveries(kinds)
    expected = [
        ("a.b", b"plain", None),
        ("a.b", b"plain", None),
        ("a.c", b"with header", {"k": "v"}),
        ("a.c", b"with header", {"k": "v"}),
        ("a.c.d", b"deep", None),
    ]
    assert found["got"] == [expected] * 3
    assert found["answers"] == [b"answer to 0", b"answer to 1", b"answer to 2"]
    assert found["shared"] == 90


def shown(port: int, path: str) -> Any:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=DEADLINE) as answer:
        return json.load(answer)


@pytest.mark.skipif(shutil.which("nats-server") is None, reason="nats-server is not installed")
async def test_monitoring_shows_routes_as_nats_server_does() -> None:
    ports = (free_port(), free_port())
    async with cluster("on", ports) as urls:
        clients = [await connected(url) for url in urls]
        await heard_by_all(clients)
        async with asyncio.timeout(DEADLINE):
            # The routes of a pool are dialled one after the other.
            while {(await asyncio.to_thread(shown, port, "/varz"))["routes"] for port in ports} != {4}:
                await asyncio.sleep(0.05)
        await clients[1].subscribe("hello")
        await clients[1].flush()
        await heard_by_all(clients)
        ours, theirs = [await asyncio.to_thread(shown, port, "/routez?subs=detail") for port in ports]
        assert ours["num_routes"] == theirs["num_routes"] == 4  # a pool of three, and one for the system account
        assert ours.keys() == theirs.keys()
        # What is only shown when there is something to show may be on one side alone.
        sometimes = {"rtt", "subscriptions_list_detail", "account"}
        assert {name for one in ours["routes"] for name in one} - sometimes == {
            name for one in theirs["routes"] for name in one
        } - sometimes
        assert {one["remote_name"] for one in ours["routes"]} == {"s1"}
        assert {one["did_solicit"] for one in ours["routes"]} == {False}
        assert [one["account"] for one in ours["routes"] if "account" in one] == ["$SYS"]
        wanted = [
            (one["account"], one["subject"])
            for route in ours["routes"]
            for one in route.get("subscriptions_list_detail", ())
        ]
        assert ("$G", "hello") in wanted
        assert sum(one["in_msgs"] for one in ours["routes"]) > 0
        ours, theirs = [await asyncio.to_thread(shown, port, "/varz") for port in ports]
        assert (ours["routes"], ours["remotes"]) == (theirs["routes"], theirs["remotes"]) == (4, 1)
        assert ours["cluster"].keys() == theirs["cluster"].keys() - {"urls"}  # theirs was told whom to dial
        assert ours["cluster"]["name"] == theirs["cluster"]["name"] == "C"
        assert ours["in_msgs"] > ours["in_client_msgs"]
        for client in clients:
            await client.close()
