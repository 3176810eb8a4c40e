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

        table = rows(await shown("list"))
        assert [row[0] for row in table[2:4]] == ["s0", "s1"]
        assert table[1][5:8] == ["Conns", "Subs", "Routes"]
        assert int(table[2][7]) >= 1
        assert table[4][1:3] == ["1", "2"], "clusters and servers, below all others"
        assert table[-2] == ["C", "2", "0", "0", table[-1][-1]]
        assert "---- ping statistics ----\n2 replies max: " in await shown("ping", "2")
        links = {tuple(row[:3]) for row in rows(await shown("report", "routes"))[2:]}
        assert links == {("s0", "C", "s1"), ("s1", "C", "s0")}
        only = rows(await shown("report", "routes", "--cluster", "C", "--host", "127.0.0.1", "--sort", "in-bytes"))
        assert len(only) > 2
        assert (
            "no server answers"
            in (await asyncio.to_thread(cli.call, "server", "req", "varz", "--tags", "none", *SYSTEM, status=1)).stderr
        )
        assert "Connections per server" in await shown("report", "connections")
        assert "Super Cluster Report" in await shown("report", "gateways")
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
        assert (table[2][:3], table[2][-1]) == (["hub", "leaf1", "A"], "no")
