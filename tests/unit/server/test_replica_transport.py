"""Servers of a cluster with replicas: each reaches each, over links of their own, and again after one was gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from slipstream.config.record import replace
from slipstream.replication.ids import link_number, node_id
from slipstream.server.jetstream.replica_transport import ReplicaTransport
from slipstream.server.server import Server
from support.clusters import until
from support.config_loading import loaded
from support.ports import free_port

GROUPS = (901, 902, 907)


class Member:
    """A server that takes part, and what it hears."""

    def __init__(self, name: str, port: int, routes: list[int], directory: Path) -> None:
        self.name = name
        self.id = link_number(name)
        text = (
            f'listen: "127.0.0.1:-1", server_name: {name}\n'
            f'cluster {{ name: C, listen: "127.0.0.1:{port}", '
            f"routes: [{', '.join(f'nats://127.0.0.1:{route}' for route in routes)}] }}"
        )
        options = loaded(text).options
        jetstream = replace(options.jetstream, enabled=True, store_dir=str(directory / name))
        self.server = Server(replace(options, jetstream=jetstream), log=lambda _level, _line: None)
        self.heard: list[tuple[int, Sequence[tuple[int, bytes]]]] = []
        self.peers: set[int] = set()

    async def start(self) -> None:
        await self.server.start()
        assert self.server.routes is not None
        links = self.server.routes.mesh.replicas
        assert links is not None
        self.transport = ReplicaTransport(
            links,
            self._hear,
            lambda name: self.peers.add(link_number(name)),
            lambda name, _member: self.peers.discard(link_number(name)),
        )

    def _hear(self, sender: int, batch: Sequence[tuple[int, bytes]]) -> None:
        """Groups of the test; the servers have some of their own."""
        own = [(group, message) for group, message in batch if group in GROUPS]
        if own:
            self.heard.append((sender, own))


async def test_each_reaches_each_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipstream.server.server.unsupported", lambda _options: [])  # until streams have replicas
    ports = [free_port() for _ in range(3)]
    members = [Member(f"n{number}", port, ports, tmp_path) for number, port in enumerate(ports)]
    for member in members:
        await member.start()
    ids = {member.id for member in members}
    try:
        for member in members:
            await until(lambda member=member: member.peers == ids - {member.id}, "all are reached")  # type: ignore[misc]
        first, second, third = members
        assert first.transport.send(second.id, [(901, b"a"), (902, b"b" * 300_000)])
        assert third.transport.send(second.id, [(901, b"c")])
        await until(lambda: sum(len(batch) for _, batch in second.heard) == 3)
        assert dict(second.heard)[third.id] == [(901, b"c")]
        member = node_id(second.name, b"1")
        first.transport.knows(second.name, node_id(second.name))
        first.transport.knows(second.name, member)  # it was wiped, and is another member now
        assert first.transport.send(member, [(901, b"d")]) and first.transport.name_of(member) == second.name
        assert not first.transport.send(node_id(second.name), [(901, b"x")])
        await third.server.stop()
        await until(lambda: first.peers == {second.id} and second.peers == {first.id}, "one is gone")
        assert not first.transport.send(third.id, [(901, b"x")])
        again = members[2] = Member(third.name, ports[2], ports, tmp_path)
        await again.start()
        await until(lambda: first.peers == ids - {first.id}, "it is back")
        await until(lambda: first.transport.send(again.id, [(907, b"again")]))
        await until(lambda: again.heard == [(first.id, [(907, b"again")])])
    finally:
        await asyncio.gather(*(member.server.stop() for member in members))
