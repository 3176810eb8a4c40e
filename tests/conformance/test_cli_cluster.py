"""`slipstream server` over several servers: lists, totals and reports on what connects them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.cli import Cli
from support.clusters import DEADLINE, HAS_NATS_SERVER, cluster, connected, heard_by_all
from support.leaf_world import LeafWorld, until_shown
from support.superclusters import supercluster

pytestmark = pytest.mark.skipif(not HAS_NATS_SERVER, reason="nats-server is not installed")

SYSTEM = ("--user", "s", "--password", "p")
ACCOUNTS = "accounts { $SYS { users: [{user: s, password: p}] }, A { users: [{user: a, password: p}] } }"

# Headings, as `nats` shows them for several servers.
LIST = "Name Cluster Host Version JS Conns Subs Routes GWs Mem CPU_% Cores Slow Uptime RTT"
CONNECTIONS = "CID Name Server Cluster IP Account Uptime In_Msgs Out_Msgs In_Bytes Out_Bytes Subs"
JETSTREAM = "Server Cluster Streams Consumers Messages Bytes Memory File API_Req Pending"
ROUTES = "Server Cluster Name Account Address ID Uptime RTT Subs Bytes_In Bytes_Out"
GATEWAYS = "Server Name Port Kind Connection ID Uptime RTT Bytes Accounts"
LEAFNODES = "Server Name Account Address RTT Msgs_In Msgs_Out Bytes_In Bytes_Out Subs Compressed Spoke"
HEALTH = "Server Cluster Domain Status Type Error"


def headings(text: str) -> list[str]:
    return [word.replace("_", " ") for word in text.split()]


def rows(screen: str) -> list[list[str]]:
    """The cells of all tables."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in screen.splitlines() if line.startswith("│")]


@pytest.mark.parametrize("kinds", ["oo", "on"])
async def test_what_is_shown_of_a_cluster(kinds: str, tmp_path: Path) -> None:
    async with cluster(kinds, tmp_path, "pool_size: 1", ACCOUNTS) as nodes:
        clients = [await connected(node.url, user="s", password="p") for node in nodes]
        await heard_by_all(clients)
        cli = Cli(tmp_path, nodes[0].url)
        cli.env["COLUMNS"] = "200"

        async def shown(*words: str, status: int = 0) -> str:
            return str((await asyncio.to_thread(cli.call, "server", *words, *SYSTEM, status=status)).stdout)

        table = rows(await shown("list", "--sort", "name"))
        assert [row[0] for row in table[2:4]] == ["s0", "s1"]
        assert table[1] == headings(LIST)
        assert int(table[2][7]) >= 1 and table[2][8] == "0"
        assert table[4][1:3] == ["1", "2"], "clusters and servers, below all others"
        assert table[-2] == ["C", "2", "0", "0", table[-1][-1]]
        assert "---- ping statistics ----\n2 replies max: " in await shown("ping", "2")
        table = rows(await shown("report", "routes"))
        assert table[1] == headings(ROUTES)
        assert [row[:3] for row in table[2:-1] if row[0]] == [["s0", "C", "s1"], ["s1", "C", "s0"]]
        assert table[-1][:5] == ["2", "1", "", "", str(len(table) - 3)], "servers, clusters and routes"
        only = rows(await shown("report", "routes", "--cluster", "C", "--host", "127.0.0.1", "--sort", "in-bytes"))
        assert len(only) > 2
        assert (
            "no server answers"
            in (await asyncio.to_thread(cli.call, "server", "req", "varz", "--tags", "none", *SYSTEM, status=1)).stderr
        )
        table = rows(await shown("report", "connections"))
        assert table[0] == ["Top 3 Connections out of 3 by subs"] and table[1] == headings(CONNECTIONS)
        assert {tuple(row[2:4]) for row in table[2:5]} == {("s0", "C"), ("s1", "C")}
        assert table[5][1] == "Totals for 3 connections"
        assert table[6:] == [
            ["Connections per server"],
            ["Server", "Cluster", "Connections"],
            ["s1", "C", "1"],
            ["s0", "C", "2"],
        ]
        table = rows(await shown("report", "health"))
        assert table[1:] == [
            headings(HEALTH),
            ["s0", "C", "", "ok (200)", "", ""],
            ["s1", "C", "", "ok (200)", "", ""],
            ["2", "1", "", "ok: 2 / err: 0", "", "0"],
        ]
        table = rows(await shown("report", "gateways"))
        assert (table[0], table[1]) == (["Super Cluster Report"], headings(GATEWAYS))
        assert table[-1][:2] == ["2", "1"] and table[-1][4] == "0"
        for client in clients:
            await client.close()


async def test_what_is_shown_of_a_supercluster(tmp_path: Path) -> None:
    """The meta group as its leader sees it: others do not list themselves."""
    stores = [str(tmp_path / f"store{number}") for number in range(3)]
    more = f'{ACCOUNTS}\njetstream {{ store_dir: "STORE", max_file: 64MB, max_mem: 64MB }}'
    async with supercluster("oo-o", tmp_path, more=more, all_listed=True, replaced={"STORE": stores}) as whole:
        await whole.connected("$SYS")
        cli = Cli(tmp_path, whole[0].url)
        cli.env["COLUMNS"] = "200"

        async def shown(*words: str) -> list[list[str]]:
            return rows(str((await asyncio.to_thread(cli.call, "server", *words, *SYSTEM)).stdout))

        async with asyncio.timeout(2 * DEADLINE):
            while len(meta := [row for row in await shown("report", "jetstream") if len(row) == 7]) < 4:
                await asyncio.sleep(0.1)
        assert [row[0] for row in meta[1:]] == ["s0", "s1", "s2"]
        assert [row[2] for row in meta[1:]].count("yes") == 1
        table = await shown("report", "jetstream")
        assert table[1] == headings(JETSTREAM)
        assert [row[0].removesuffix("*") for row in table[2:5]] == ["s0", "s1", "s2"]
        assert ["*" in row[0] for row in table[2:5]].count(True) == 1
        assert table[5][:5] == ["", "", "0", "0", "0"] and table[5][-1] == "0", "what all come to"
        table = await shown("report", "gateways")
        assert table[1] == headings(GATEWAYS)
        assert [row[:2] for row in table[2:-1] if row[0]] == [["s0", "A"], ["s1", "A"], ["s2", "B"]]
        links = [row[3:6] for row in table[2:-1] if not row[0]]
        assert {row[0] for row in links} == {"Inbound", "Outbound", ""}
        assert all(row[1].split()[1].startswith("127.0.0.1:") and row[2].startswith("gid:") for row in links)
        assert table[-1][:5] == ["3", "2", "", "", str(len(links))]
        overview = [row for row in await shown("list") if len(row) == 5]
        assert [row[:4] for row in overview[1:]] == [["A", "2", "2", "1"], ["B", "1", "1", "2"], ["", "3", "3", "3"]]


async def test_what_is_shown_of_leaf_nodes(tmp_path: Path) -> None:
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub("o", more=ACCOUNTS)
        await world.leaf("o", hub, url=f"nats-leaf://a:p@127.0.0.1:{hub.leaf_port}")
        await until_shown(hub, "/leafz", lambda shown: shown["leafnodes"] == 1)
        cli = Cli(tmp_path, hub.url)
        cli.env["COLUMNS"] = "200"
        words = ("server", "report", "leafnodes", "--account", "A", *SYSTEM)
        table = rows((await asyncio.to_thread(cli.call, *words)).stdout)
        assert table[1] == headings(LEAFNODES)
        assert (table[2][:3], table[2][-1]) == (["hub", "leaf1", "A"], "false")
        words = ("server", "report", "connections", "--account", "A", *SYSTEM)
        table = rows((await asyncio.to_thread(cli.call, *words)).stdout)
        assert table[2][0].startswith("L") and table[2][1:3] == ["leaf1", "hub"]


async def test_leaf_links_stand_beside_clients(tmp_path: Path) -> None:
    """/connz lists them with the fields that nats-server gives them."""
    found = {}
    for kind in "on":
        (tmp_path / kind).mkdir()
        async with LeafWorld(tmp_path / kind) as world:
            hub = await world.hub(kind, more=ACCOUNTS)
            await world.leaf("o", hub, url=f"nats-leaf://a:p@127.0.0.1:{hub.leaf_port}")
            await until_shown(hub, "/leafz", lambda shown: shown["leafnodes"] == 1)
            for query in ("?auth=1&subs=1", "?acc=A&auth=1&subs=1"):
                (found[kind],) = (await hub.shown(f"/connz{query}"))["connections"]
    ours, theirs = ({name: link[name] for name in link if name != "rtt"} for link in (found["o"], found["n"]))
    assert list(ours) == list(theirs)
    same = ("kind", "name", "authorized_user", "account", "name_tag")
    assert {name: ours[name] for name in same} == {name: theirs[name] for name in same}
    assert (ours["kind"], ours["account"]) == ("Leafnode", "A")
