"""Superclusters for tests: clusters of servers of either kind, joined by gateways.

`oo-n` is a cluster `A` of two servers of ours and a cluster `B` of one nats-server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.clusters import DEADLINE, Node
from support.ports import free_port


class Member:
    """One server of a supercluster."""

    def __init__(self, node: Node, cluster: str) -> None:
        self.node = node
        self.cluster = cluster
        self.gateway_port = free_port()
        self.text = ""

    @property
    def url(self) -> str:
        """Where clients connect."""
        return self.node.url

    def compose(self, routes: list[str], remotes: dict[str, list[str]], gateway: str, more: str) -> None:
        """Write its configuration."""
        entries = ", ".join(f"{{ name: {name}, urls: {json.dumps(urls)} }}" for name, urls in remotes.items())
        block = (
            f'gateway {{ name: {self.cluster}, listen: "127.0.0.1:{self.gateway_port}", gateways: [{entries}]\n'
            f"{gateway} }}\n"
        )
        self.text = self.node.text(routes, more=f"{block}{more}", name=f"name: {self.cluster}")

    async def start(self) -> None:
        """Start it."""
        await self.node.start(self.text)


class Supercluster:
    """Clusters by name."""

    def __init__(self, members: list[Member]) -> None:
        self.members = members

    def __getitem__(self, at: int) -> Member:
        return self.members[at]

    def of(self, cluster: str) -> list[Member]:
        """The servers of one cluster."""
        return [member for member in self.members if member.cluster == cluster]

    async def connected(self, *accounts: str) -> None:
        """Wait until each server has its way to each other cluster, and was told what these accounts want there."""
        names = {member.cluster for member in self.members}
        async with asyncio.timeout(DEADLINE):
            for member in self.members:
                while True:
                    try:
                        shown = await member.node.shown("/gatewayz?accs=1")
                    except OSError:
                        await asyncio.sleep(0.05)
                        continue
                    told = shown["outbound_gateways"]
                    if set(told) == names - {member.cluster} and all(
                        _has_told(one, account) for account in accounts or ("$G",) for one in told.values()
                    ):
                        break
                    await asyncio.sleep(0.05)


def _has_told(gateway: dict[str, object], account: str) -> bool:
    accounts = gateway.get("accounts")
    return isinstance(accounts, list) and any(
        one["name"] == account and one["interest_mode"] == "Interest-Only" for one in accounts
    )


@asynccontextmanager
async def supercluster(
    kinds: str,
    directory: Path,
    gateway: str = "",
    more: str = "",
    *,
    one_sided: bool = False,
    all_listed: bool = False,
    replaced: dict[str, list[str]] | None = None,
) -> AsyncIterator[Supercluster]:
    """Clusters that know each other.

    Args:
        kinds: the servers of each cluster, `o` for ours and `n` for nats-server, with `-` between clusters.
        directory: for files.
        gateway: more keys of the `gateway` block.
        more: more of the configuration.
        one_sided: only the first cluster is known to the others.
        all_listed: each server lists all others of its cluster, and all of each other cluster.
        replaced: words of `more`, each with what stands there for each server.
    """
    members: list[Member] = []
    for cluster, letters in zip("ABCDEF", kinds.split("-"), strict=False):
        members += [Member(Node(kind, len(members) + at, directory), cluster) for at, kind in enumerate(letters)]
    whole = Supercluster(members)
    clusters = list(dict.fromkeys(member.cluster for member in members))
    for member in members:
        seed = whole.of(member.cluster)[0]
        routes = [] if seed is member else [f"nats://127.0.0.1:{seed.node.route_port}"]
        if all_listed:
            routes = [f"nats://127.0.0.1:{one.node.route_port}" for one in whole.of(member.cluster)]
        known = [name for name in clusters if name != member.cluster and (not one_sided or name == clusters[0])]
        listed = {name: whole.of(name) if all_listed else whole.of(name)[:1] for name in known}
        remotes = {name: [f"nats://127.0.0.1:{one.gateway_port}" for one in found] for name, found in listed.items()}
        text = more
        for word, values in (replaced or {}).items():
            text = text.replace(word, values[members.index(member)])
        member.compose(routes, remotes, gateway, text)
    try:
        for member in members:
            await member.start()
        yield whole
    finally:
        for member in members:
            await member.node.stop()
