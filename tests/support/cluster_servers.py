"""Servers of a JetStream cluster in one process, over real sockets and files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from slipstream.config.record import replace
from slipstream.replication.coordinator import Coordinator
from slipstream.replication.meta.entries import Node
from slipstream.server.jetstream.cluster_node import ClusterNode
from slipstream.server.server import Server
from support.clusters import until
from support.config_loading import loaded
from support.ports import free_port


class Member:
    """A server that can be stopped and started again."""

    def __init__(self, name: str, port: int, routes: list[int], directory: Path, extra: str = "") -> None:
        self._text = (
            f'listen: "127.0.0.1:-1", server_name: {name}, server_tags: ["is:{name}"]\n{extra}\n'
            f'cluster {{ name: C, listen: "127.0.0.1:{port}", '
            f"routes: [{', '.join(f'nats://localhost:{route}' for route in routes)}] }}"
        )
        self._place = (name, port, routes, directory)
        self._directory = directory / name
        self.name = name
        self.lines: list[str] = []
        self.server: Server | None = None

    def with_text(self, extra: str) -> Member:
        """The same server, with something else in its configuration. Start it when this one has stopped."""
        return Member(*self._place, extra)

    async def start(self) -> None:
        options = loaded(self._text).options
        jetstream = replace(options.jetstream, enabled=True, store_dir=str(self._directory))
        self.server = Server(replace(options, jetstream=jetstream), log=self._log)  # type: ignore[arg-type]
        await self.server.start()

    def _log(self, level: str, line: str) -> None:
        self.lines.append(f"[{level}] {line}")

    async def stop(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            await server.stop()

    @property
    def cluster(self) -> ClusterNode:
        assert self.server is not None and self.server.jetstream is not None
        assert self.server.jetstream.cluster is not None
        return self.server.jetstream.cluster.node

    @property
    def coordinator(self) -> Coordinator:
        assert self.server is not None and self.server.jetstream is not None
        assert self.server.jetstream.cluster is not None
        return self.server.jetstream.cluster.coordinator

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"nats://127.0.0.1:{self.server.hub.port}"

    @property
    def is_leader(self) -> bool:
        return self.server is not None and self.cluster.meta is not None and self.cluster.meta.is_leader

    @property
    def entries(self) -> dict[int, Node]:
        """Nodes of small numbers, which no server has."""
        meta = self.cluster.meta
        return {} if meta is None else {key: node for key, node in meta.state.nodes.items() if key < 100}


class Trio:
    """Three servers."""

    def __init__(self, directory: Path, extra: str = "") -> None:
        self.ports = ports = [free_port() for _ in range(3)]
        self.members = [Member(f"n{number}", port, ports, directory, extra) for number, port in enumerate(ports)]

    @property
    def running(self) -> list[Member]:
        return [member for member in self.members if member.server is not None]

    def named(self, name: str) -> Member:
        return next(member for member in self.members if member.name == name)

    async def start(self) -> None:
        for member in self.members:
            await member.start()

    async def stop(self) -> None:
        for member in self.members:
            await member.stop()

    async def leader(self) -> Member:
        """Who leads the meta group, with all servers known to it."""
        await until(lambda: self._leader() is not None, "somebody leads")
        found = self._leader()
        assert found is not None
        return found

    def _leader(self) -> Member | None:
        for member in self.running:
            if member.is_leader and len(member.coordinator.state.nodes) >= 3:
                others = [other.cluster.meta for other in self.running]
                if all(meta is not None and meta.leader == member.cluster.node.id for meta in others):
                    return member
        return None


@asynccontextmanager
async def trio(directory: Path, extra: str = "") -> AsyncIterator[Trio]:
    """Three servers that have found each other."""
    servers = Trio(directory, extra)
    try:
        await servers.start()
        await servers.leader()
        yield servers
    finally:
        await servers.stop()
