"""Servers that found a cluster over real sockets and files, agree on something, and go on after all were gone."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("slipstream_raft")

from slipstream.config.record import replace
from slipstream.replication.meta.entries import Assignment, Node
from slipstream.server.cluster_node import ClusterNode
from slipstream.server.server import Server
from support.clusters import until
from support.config_loading import loaded
from support.ports import free_port


class Member:
    """A server, and what it is told."""

    def __init__(self, name: str, port: int, routes: list[int], directory: Path) -> None:
        self._text = (
            f'listen: "127.0.0.1:-1", server_name: {name}\n'
            f'cluster {{ name: C, listen: "127.0.0.1:{port}", '
            f"routes: [{', '.join(f'nats://localhost:{route}' for route in routes)}] }}"
        )
        self._directory = directory / name
        self.name = name
        self.lines: list[str] = []
        self.entries: dict[int, Node] = {}
        self.server: Server | None = None

    async def start(self) -> None:
        self.entries.clear()
        options = loaded(self._text).options
        jetstream = replace(options.jetstream, enabled=True, store_dir=str(self._directory))
        self.server = Server(
            replace(options, jetstream=jetstream), log=lambda level, line: self.lines.append(f"[{level}] {line}")
        )
        await self.server.start()
        assert self.server.jetstream is not None and self.server.routes is not None
        self.cluster: ClusterNode = self.server.jetstream.cluster_node(self)
        self.cluster.join(self.server.routes.mesh)

    async def stop(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            self.cluster.stop()
            await server.stop()

    @property
    def is_leader(self) -> bool:
        return self.server is not None and self.cluster.meta is not None and self.cluster.meta.is_leader

    def changed(self, old: Node | Assignment | None, new: Node | Assignment | None) -> None:
        del old
        assert isinstance(new, Node)
        self.entries[new.id] = new

    def leads(self) -> None: ...
    def steps_down(self) -> None: ...
    def stopped(self, error: Exception) -> None:
        raise error


async def test_a_cluster_is_founded_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipstream.server.server.unsupported", lambda _options: [])  # until streams have replicas
    ports = [free_port() for _ in range(3)]
    members = [Member(f"n{number}", port, ports, tmp_path) for number, port in enumerate(ports)]

    async def leader() -> Member:
        await until(lambda: any(member.is_leader for member in members), "somebody leads")
        return next(member for member in members if member.is_leader)

    async def agreed(node: Node) -> None:
        done: list[bool] = []
        while done != [True]:  # who led may be deposed meanwhile
            done.clear()
            found = (await leader()).cluster.meta
            assert found is not None
            found.propose([node], done.append)
            await until(lambda: bool(done), "it is decided")
        running = [member for member in members if member.server is not None]
        await until(lambda: all(member.entries.get(node.id) == node for member in running), "all are told")

    try:
        for member in members:
            await member.start()
        await agreed(Node(id=7, name="seven", cluster="C"))
        first = await leader()
        assert first.cluster.charter is not None and first.cluster.charter.members == ["n0", "n1", "n2"]
        await first.stop()
        await agreed(Node(id=8, name="eight", cluster="C"))
        await first.start()
        await until(lambda: first.entries.keys() == {7, 8}, "it catches up")
        for member in members:
            await member.stop()
        for member in members:
            await member.start()
        await agreed(Node(id=9, name="nine", cluster="C"))
        assert all(member.entries.keys() == {7, 8, 9} for member in members)
    finally:
        for member in members:
            await member.stop()
