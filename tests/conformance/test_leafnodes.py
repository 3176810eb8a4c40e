"""A hub and its leafs: of this server alone, of nats-server alone, and mixed on either side. All deliver the same."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.errors import NoRespondersError

from support.clusters import heard_by_all
from support.leaf_world import LeafWorld, until, until_shown
from support.ports import free_port

PAIRINGS = ["oo", "on", "no", "nn"]  # hub first: `o` is ours, `n` nats-server
NATS_SERVER = shutil.which("nats-server") is not None


def skip_without_nats_server(kinds: str) -> None:
    if "n" in kinds and not NATS_SERVER:
        pytest.skip("nats-server is not installed")


Got = list[tuple[str, bytes, dict[str, str] | None]]


def taking(into: Got) -> Callable[[nats.aio.msg.Msg], Awaitable[None]]:
    async def take(message: nats.aio.msg.Msg) -> None:
        into.append((message.subject, message.data, message.headers))

    return take


async def deliveries(kinds: str, directory: Path) -> dict[str, object]:
    """A script over a hub and two leafs of it, and what everybody got."""
    async with LeafWorld(directory) as world:
        hub = await world.hub(kinds[0])
        leafs = [await world.leaf(kind, hub) for kind in (kinds[1], kinds[1])]
        clients = [await world.client(server) for server in (hub, *leafs)]
        await heard_by_all(clients)
        got: list[Got] = [[] for _ in clients]
        shared: Counter[int] = Counter()
        for number, client in enumerate(clients):

            async def share(_message: nats.aio.msg.Msg, number: int = number) -> None:
                shared[number] += 1

            await client.subscribe("a.*", cb=taking(got[number]))
            await client.subscribe("a.>", cb=taking(got[number]))
            if number:
                await client.subscribe("work", queue="workers", cb=share)

        async def answer(message: nats.aio.msg.Msg) -> None:
            await message.respond(b"answer to " + message.data)

        await clients[1].subscribe("ask", cb=answer)
        await heard_by_all(clients)
        await clients[0].publish("a.b", b"plain")
        await clients[1].publish("a.c", b"with header", headers={"k": "v"})
        await clients[2].publish("a.c.d", b"deep")
        await clients[2].publish("a.big", b"x" * 100_000)
        for client in clients:
            for _ in range(30):
                await client.publish("work", b"")
        answers = [(await client.request("ask", b"%d" % at, timeout=5)).data for at, client in enumerate(clients)]
        for client in clients:
            with pytest.raises(NoRespondersError):
                await client.request("nobody.listens", b"", timeout=5)
        await until(lambda: all(len(found) >= 7 for found in got) and sum(shared.values()) >= 90)
        await heard_by_all(clients)
        return {"got": [sorted(found, key=repr) for found in got], "answers": answers, "shared": sum(shared.values())}


@pytest.mark.parametrize("kinds", PAIRINGS)
async def test_a_hub_and_two_leafs_deliver_once_to_all(kinds: str, tmp_path: Path) -> None:
    skip_without_nats_server(kinds)
    found = await deliveries(kinds, tmp_path)
    expected = [
        ("a.b", b"plain", None),
        ("a.b", b"plain", None),
        ("a.big", b"x" * 100_000, None),
        ("a.big", b"x" * 100_000, None),
        ("a.c", b"with header", {"k": "v"}),
        ("a.c", b"with header", {"k": "v"}),
        ("a.c.d", b"deep", None),
    ]
    assert found["got"] == [expected] * 3
    assert found["answers"] == [b"answer to 0", b"answer to 1", b"answer to 2"]
    assert found["shared"] == 90


ACCOUNTS = """
accounts {
  A { users [ {user: a, password: p} ] }
  B { users [ {user: b, password: p,
               permissions { publish { allow: ["up.>", "hello", "_INBOX.>"] }, subscribe { deny: "secret.>" } }} ] }
}
"""


@pytest.mark.parametrize("kinds", PAIRINGS)
async def test_a_leaf_has_the_account_and_the_rights_of_its_user(kinds: str, tmp_path: Path) -> None:
    """What it may not publish does not leave it, what it may not receive does not come, and its link lives on."""
    skip_without_nats_server(kinds)
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub(kinds[0], more=ACCOUNTS)
        leaf = await world.leaf(kinds[1], hub, url=f"nats-leaf://b:p@127.0.0.1:{hub.leaf_port}")
        a, b = [await world.client(hub, user=user, password="p") for user in "ab"]
        edge = await world.client(leaf)
        got: dict[str, Got] = {"a": [], "b": [], "edge": []}
        await a.subscribe(">", cb=taking(got["a"]))
        for subject in ("up.*", "down.*"):
            await b.subscribe(subject, cb=taking(got["b"]))
        for subject in ("up.*", "down.*", "secret.*", "secret.one", ">"):
            await edge.subscribe(subject, cb=taking(got["edge"]))
        await heard_by_all([edge, await world.client(hub, user="b", password="p")])
        for seen in got.values():
            seen.clear()
        await edge.publish("up.1", b"leaf")
        await edge.publish("down.1", b"leaf")
        await edge.publish("secret.one", b"leaf")
        admin = await world.client(hub, user="b", password="p")
        await admin.publish("up.2", b"hub")
        await heard_by_all([edge, admin])
        # The rights of this user hold for its clients at the hub as well: only what is above may be published.
        names = {who: [(s, d) for s, d, _ in seen if s != "hello"] for who, seen in got.items()}
        assert names["a"] == []
        assert sorted(names["b"]) == [("up.1", b"leaf"), ("up.2", b"hub")]
        assert Counter(names["edge"]) == Counter(
            {
                ("up.1", b"leaf"): 2,
                ("down.1", b"leaf"): 2,
                ("secret.one", b"leaf"): 3,
                ("up.2", b"hub"): 2,
            }
        )
        shown = await hub.shown("/leafz")
        assert [(one["account"], one["is_spoke"]) for one in shown["leafs"]] == [("B", False)]


@pytest.mark.parametrize("kinds", PAIRINGS)
async def test_what_a_remote_denies_stays_on_its_side(kinds: str, tmp_path: Path) -> None:
    skip_without_nats_server(kinds)
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub(kinds[0])
        leaf = await world.leaf(kinds[1], hub, 'deny_imports: "in.>", deny_exports: ["out.>", "quiet"]')
        top, edge = await world.client(hub), await world.client(leaf)
        high, low = Got(), Got()
        for subject in ("in.1", "out.*", "out.1", "quiet", "other"):
            await top.subscribe(subject, cb=taking(high))
            await edge.subscribe(subject, cb=taking(low))
        await heard_by_all([top, edge])
        for client, who in ((top, b"top"), (edge, b"edge")):
            for subject in ("in.1", "out.1", "quiet", "other"):
                await client.publish(subject, who)
        await heard_by_all([top, edge])
        assert sorted(high) == sorted(
            [
                ("in.1", b"top", None),
                ("in.1", b"edge", None),
                ("out.1", b"top", None),
                ("out.1", b"top", None),
                ("quiet", b"top", None),
                ("other", b"top", None),
                ("other", b"edge", None),
            ]
        )
        assert sorted(low) == sorted(
            [
                ("in.1", b"edge", None),
                *[("out.1", b"edge", None)] * 2,
                *[("out.1", b"top", None)] * 2,
                ("quiet", b"edge", None),
                ("quiet", b"top", None),
                ("other", b"edge", None),
                ("other", b"top", None),
            ]
        )


@pytest.mark.parametrize("kinds", PAIRINGS)
async def test_a_link_that_breaks_is_made_again(kinds: str, tmp_path: Path) -> None:
    skip_without_nats_server(kinds)
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub(kinds[0])
        leaf = await world.leaf(kinds[1], hub)
        edge = await world.client(leaf)
        await heard_by_all([await world.client(hub), edge])
        await hub.stop()
        other = await world.hub(kinds[0], name="hub", port=hub.leaf_port)
        await heard_by_all([await world.client(other), edge])
        assert (await other.shown("/leafz"))["leafnodes"] == 1
        assert (await leaf.shown("/varz"))["leafnodes"] == 1


@pytest.mark.parametrize("kinds", PAIRINGS)
async def test_the_side_that_dials_may_be_the_hub(kinds: str, tmp_path: Path) -> None:
    skip_without_nats_server(kinds)
    async with LeafWorld(tmp_path) as world:
        first = await world.hub(kinds[0])
        second = await world.leaf(kinds[1], first, "hub: true")
        await heard_by_all([await world.client(first), await world.client(second)])
        assert [one["is_spoke"] for one in (await first.shown("/leafz"))["leafs"]] == [True]
        assert [one["is_spoke"] for one in (await second.shown("/leafz"))["leafs"]] == [False]


@pytest.mark.parametrize("kinds", ["ooo", "noo", "ono", "oon", "nnn"])
async def test_a_leaf_of_a_leaf_and_a_loop(kinds: str, tmp_path: Path) -> None:
    """A chain of three delivers from end to end; who would close it to a ring is found out."""
    skip_without_nats_server(kinds)
    async with LeafWorld(tmp_path) as world:
        top = await world.hub(kinds[0], name="top")
        port = free_port()
        listen = f'leafnodes {{ listen: "127.0.0.1:{port}", compression: off, reconnect: "50ms", remotes [ '
        middle = await world.server(
            kinds[1],
            "middle",
            listen + f'{{ url: "nats-leaf://127.0.0.1:{top.leaf_port}", compression: off }} ] }}',
            port,
        )
        bottom = await world.leaf(kinds[2], middle)
        clients = [await world.client(server) for server in (top, middle, bottom)]
        await heard_by_all(clients)
        ring = await world.server(
            kinds[2],
            "ring",
            'leafnodes { reconnect: "50ms", remotes [ '
            f'{{ url: "nats-leaf://127.0.0.1:{top.leaf_port}", compression: off }}, '
            f'{{ url: "nats-leaf://127.0.0.1:{middle.leaf_port}", compression: off }} ] }}',
        )
        await until(lambda: any("Loop detected" in server.text() for server in (top, middle, ring)))
        # A link of the ring is gone, whichever heard of it first: nothing comes twice, or goes round for ever.
        await until(lambda: any("Leafnode connection closed" in server.text() for server in (top, middle, ring)))
        seen: list[Got] = [[], [], []]
        for number, client in enumerate(clients):
            await client.subscribe("once", cb=taking(seen[number]))
            await client.flush()
        for number, client in enumerate(clients):
            await client.publish("once", b"%d" % number)
            await client.flush()
        await until(lambda: all(any(data == b"%d" % at for _, data, _ in seen[at]) for at in range(3)))
        for client in clients:
            await client.flush()
        assert [data for found in seen for _, data, _ in found if len(found) != len({d for _, d, _ in found})] == []


@pytest.mark.parametrize("kinds", ["oo", "on", "no"])
async def test_a_leaf_of_a_server_in_a_cluster_reaches_all_of_it_once(kinds: str, tmp_path: Path) -> None:
    """Two hubs with a route between them, and a leaf at each; what a leaf sends comes to everybody, and once."""
    skip_without_nats_server(kinds)
    async with LeafWorld(tmp_path) as world:
        seed = free_port()
        cluster = f'cluster {{ name: C, listen: "127.0.0.1:{seed}", compression: off }}'
        first = await world.hub(kinds[0], more=cluster, name="first")
        cluster = f'cluster {{ name: C, listen: "127.0.0.1:{free_port()}", compression: off, '
        second = await world.hub(
            kinds[0], more=cluster + f'routes: ["nats-route://127.0.0.1:{seed}"] }}', name="second"
        )
        servers = [first, second, await world.leaf(kinds[1], first), await world.leaf(kinds[1], second)]
        clients = [await world.client(server) for server in servers]
        await heard_by_all(clients)
        got: list[Got] = [[] for _ in clients]
        workers: list[Got] = [[] for _ in clients]
        for number, client in enumerate(clients):
            await client.subscribe("all.*", cb=taking(got[number]))
            await client.subscribe("work", queue="w", cb=taking(workers[number]))
        await heard_by_all(clients)
        for number, client in enumerate(clients):
            await client.publish("all.x", b"%d" % number, headers={"n": str(number)})
            for _ in range(20):
                await client.publish("work", b"")
        await until(lambda: sum(map(len, workers)) >= 80)
        await heard_by_all(clients)
        expected = [("all.x", b"%d" % number, {"n": str(number)}) for number in range(4)]
        assert [sorted(found) for found in got] == [expected] * 4
        assert sum(map(len, workers)) == 80

        async def answer(message: nats.aio.msg.Msg) -> None:
            await message.respond(b"yes")

        await clients[3].subscribe("ask", cb=answer)
        await heard_by_all(clients)
        assert (await clients[2].request("ask", b"", timeout=5)).data == b"yes"


@pytest.mark.parametrize("kinds", PAIRINGS)
async def test_services_and_streams_of_other_accounts_cross(kinds: str, tmp_path: Path) -> None:
    """A leaf in one account asks a service, and hears a stream, that its hub imports from another."""
    skip_without_nats_server(kinds)
    accounts = """
    accounts {
      A { users [ {user: a, password: p} ], exports [ {service: "svc.*"}, {stream: "news.>"} ] }
      B { users [ {user: b, password: p} ],
          imports [ {service: {account: A, subject: "svc.*"}, to: "ask.*"},
                    {stream: {account: A, subject: "news.>"}} ] }
    }
    """
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub(kinds[0], more=accounts)
        leaf = await world.leaf(kinds[1], hub, url=f"nats-leaf://b:p@127.0.0.1:{hub.leaf_port}")
        provider = await world.client(hub, user="a", password="p")
        inside, edge = await world.client(hub, user="b", password="p"), await world.client(leaf)

        async def answer(message: nats.aio.msg.Msg) -> None:
            await message.respond(b"from " + message.subject.encode())

        await provider.subscribe("svc.*", cb=answer)
        news = Got()
        await edge.subscribe("news.*", cb=taking(news))
        await heard_by_all([inside, edge])
        await provider.flush()
        assert (await edge.request("ask.one", b"", timeout=5)).data == b"from svc.one"
        await provider.publish("news.today", b"sun")
        await until(lambda: len(news) == 1)
        assert news == [("news.today", b"sun", None)]


@pytest.mark.parametrize("kinds", PAIRINGS)
async def test_users_of_the_leaf_node_block_bind_accounts(kinds: str, tmp_path: Path) -> None:
    skip_without_nats_server(kinds)
    users = "authorization { users [ {user: one, password: p, account: A}, {user: two, password: p, account: B} ] }"
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub(kinds[0], users, "accounts { A {}, B {} }")
        leafs = [
            await world.leaf(kinds[1], hub, url=f"nats-leaf://{user}@127.0.0.1:{hub.leaf_port}")
            for user in ("one:p", "two:p", "one:wrong", "three:p")
        ]
        await until_shown(hub, "/leafz", lambda shown: shown["leafnodes"] >= 2)
        await until(lambda: all("Authorization Violation" in leaf.text() for leaf in leafs[2:]))
        shown = await hub.shown("/leafz")
        assert sorted((one["name"], one["account"]) for one in shown["leafs"]) == [
            (leafs[0].name, "A"),
            (leafs[1].name, "B"),
        ]


@pytest.mark.parametrize("kinds", PAIRINGS)
async def test_monitoring_and_events_show_leafs(kinds: str, tmp_path: Path) -> None:
    skip_without_nats_server(kinds)
    accounts = "accounts { $SYS { users [ {user: sys, password: p} ] }, A { users [ {user: a, password: p} ] } }"
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub(kinds[0], more=accounts)
        watcher = await world.client(hub, user="sys", password="p")
        events: list[tuple[str, Any]] = []

        async def note(message: nats.aio.msg.Msg) -> None:
            events.append((message.subject, json.loads(message.data)))

        await watcher.subscribe("$SYS.ACCOUNT.A.*", cb=note)
        await watcher.flush()
        leaf = await world.leaf(kinds[1], hub, url=f"nats-leaf://a:p@127.0.0.1:{hub.leaf_port}")
        inside, edge = await world.client(hub, user="a", password="p"), await world.client(leaf)
        await edge.subscribe("seen", cb=taking(Got()))
        await heard_by_all([inside, edge])
        for server, spoke, subject in ((hub, False, "seen"), (leaf, True, "hello")):
            shown = await until_shown(server, "/leafz?subs=1", lambda shown: shown["leafnodes"] == 1)
            [one] = shown["leafs"]
            assert one.keys() - {"compression"} == {
                *("id", "name", "is_spoke", "account", "ip", "port", "rtt", "in_msgs", "out_msgs", "in_bytes"),
                *("out_bytes", "subscriptions", "subscriptions_list"),
            }
            assert one["is_spoke"] is spoke
            assert one["subscriptions"] == len(one["subscriptions_list"])
            assert one["in_msgs"] > 0 and one["out_msgs"] > 0
            if not spoke:
                assert subject in one["subscriptions_list"]
        [remote] = (await leaf.shown("/varz"))["leaf"]["remotes"]
        assert remote["local_account"] == "$G"
        rows = (await hub.shown("/connz?subs=detail"))["connections"]
        [details] = [row["subscriptions_list_detail"] for row in rows if row["kind"] == "Leafnode"]
        assert not any("account" in one for one in details)
        varz = await hub.shown("/varz")
        assert varz["leafnodes"] == 1
        assert varz["in_msgs"] > varz["in_client_msgs"]
        assert (await hub.shown("/accountz?acc=A"))["account_detail"]["leafnode_connections"] == 1
        [stat] = [one for one in (await hub.shown("/accstatz"))["account_statz"] if one["acc"] == "A"]
        assert (stat["leafnodes"], stat["total_conns"]) == (1, stat["conns"] + 1)
        assert stat["received"]["leafs"]["msgs"] > 0
        await leaf.stop()
        await until(lambda: any("DISCONNECT" in subject and e["client"]["kind"] == "Leafnode" for subject, e in events))
        found = [(s, e) for s, e in events if e["client"]["kind"] == "Leafnode"]
        assert [subject.rpartition(".")[2] for subject, _ in found] == ["CONNECT", "DISCONNECT"]
        assert found[0][1].keys() == {"type", "id", "timestamp", "server", "client"}
        assert found[0][1]["client"].keys() == {"start", "host", "id", "acc", "user", "name", "ver", "name_tag", "kind"}
        assert (found[0][1]["client"]["name"], found[0][1]["client"]["user"]) == (leaf.name, "a")
        assert found[1][1]["reason"] == "Client Closed"


@pytest.mark.parametrize("kinds", PAIRINGS)
async def test_an_account_has_as_many_leafs_as_it_may(kinds: str, tmp_path: Path) -> None:
    skip_without_nats_server(kinds)
    accounts = "accounts { A { users [ {user: a, password: p} ], limits { max_leafnodes: 1 } } }"
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub(kinds[0], more=accounts)
        url = f"nats-leaf://a:p@127.0.0.1:{hub.leaf_port}"
        first = await world.leaf(kinds[1], hub, url=url)
        await until_shown(hub, "/leafz", lambda shown: shown["leafnodes"] == 1)
        second = await world.leaf(kinds[1], hub, url=url)
        await until(lambda: "maximum account active connections exceeded" in second.text())
        [one] = (await hub.shown("/leafz"))["leafs"]
        assert one["name"] == first.name
