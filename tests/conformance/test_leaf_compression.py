"""Compressed leaf links: all pairs of modes come to what servers of nats-server come to, and everything arrives."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.clusters import HAS_NATS_SERVER
from support.leaf_exchange import exchange
from support.leaf_world import LeafServer, LeafWorld, until_shown
from tlsfiles import Authority

pytestmark = pytest.mark.skipif(not HAS_NATS_SERVER, reason="nats-server is not installed")

MODES = ("off", "accept", "s2_fast", "s2_better", "s2_auto", "not_supported")
# Each pair is eight servers; these show what the others repeat.
SHORT = {("off", "s2_fast"), ("accept", "s2_fast"), ("s2_fast", "accept"), ("s2_auto", "s2_auto")}
PAIRS = [
    pytest.param((one, other), id=f"{one}-{other}", marks=() if (one, other) in SHORT else pytest.mark.long)
    for one in MODES
    for other in MODES
]


async def joined(
    world: LeafWorld, kinds: str, modes: tuple[str, str], listener: str = "", remote: str = ""
) -> tuple[LeafServer, LeafServer]:
    """A hub and its leaf, connected."""
    hub = await world.hub(kinds[0], listener, name=f"hub{kinds}", compression=modes[0])
    leaf = await world.leaf(kinds[1], hub, remote, url=f"nats-leaf://localhost:{hub.leaf_port}", compression=modes[1])
    for server in (hub, leaf):
        await until_shown(server, "/leafz", lambda shown: shown["leafnodes"] == 1)
    return hub, leaf


@pytest.mark.parametrize("modes", PAIRS)
async def test_modes(modes: tuple[str, str], tmp_path: Path) -> None:
    """What two of ours agree on is what two of theirs do, and one of each."""
    shown = []
    for kinds in ("nn", "oo", "on", "no"):
        async with LeafWorld(tmp_path) as world:
            servers = await joined(world, kinds, modes)
            if kinds != "nn":
                await exchange((await world.client(servers[0]), await world.client(servers[1])))
                await exchange((await world.client(servers[1]), await world.client(servers[0])))
            found = [(await server.shown("/leafz"))["leafs"][0].get("compression", "") for server in servers]
            if "s2_auto" in modes:
                # The level is a matter of how long the handshake took.
                found = [mode.partition("_")[0] for mode in found]
            shown.append(found)
    assert all(one == shown[0] for one in shown), shown


@pytest.mark.parametrize("first", ["false", "true"])
@pytest.mark.parametrize("kinds", ["oo", "on", "no"])
async def test_with_tls(kinds: str, first: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("localhost", "127.0.0.1")
    listener = f"tls {{ {pair.block}, handshake_first: {first}, timeout: 5 }}"
    remote = f'tls {{ ca_file: "{authority.ca_file}", handshake_first: {first}, timeout: 5 }}'
    async with LeafWorld(tmp_path) as world:
        hub, leaf = await joined(world, kinds, ("s2_fast", "s2_fast"), listener, remote)
        await exchange((await world.client(leaf), await world.client(hub)))
        await exchange((await world.client(hub), await world.client(leaf)))
        for server in (hub, leaf):
            assert (await server.shown("/leafz"))["leafs"][0]["compression"] == "s2_fast"
