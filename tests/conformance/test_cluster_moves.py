"""Calls that move streams, asked of a cluster of ours and of one of nats-server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest

from support.clusters import HAS_NATS_SERVER, Node, connected

pytest.importorskip("slipstream_raft")
pytestmark = pytest.mark.skipif(not HAS_NATS_SERVER, reason="nats-server is not installed")

ACCOUNTS = """
accounts {
  A { users: [{user: a, password: p}], jetstream: enabled }
  B { users: [{user: b, password: p}] }
  SYS { users: [{user: s, password: p}] }
}
system_account: SYS
"""
MOVE, CANCEL = "ACCOUNT.STREAM.MOVE", "ACCOUNT.STREAM.CANCEL_MOVE"
# Who asks, what, with which body.
SCRIPT: list[tuple[str, str, bytes]] = [
    ("s", f"{CANCEL}.A.S", b""),
    ("a", f"{CANCEL}.A.S", b""),
    ("b", f"{CANCEL}.A.S", b""),
    ("a", "STREAM.CANCEL_MOVE.S", b""),
    ("a", "STREAM.CANCEL_MOVE.S", b"any"),
    ("a", "STREAM.CANCEL_MOVE.NO", b""),
    ("s", f"{CANCEL}.A.NO", b""),
    ("s", f"{CANCEL}.X.S", b""),
    ("s", f"{CANCEL}.B.S", b""),
    ("s", f"{MOVE}.A.NO", b"{}"),
    ("s", f"{MOVE}.X.S", b"{}"),
    ("s", f"{MOVE}.A.S", b"{"),
    ("s", f"{MOVE}.A.S", b'{"server":"nx"}'),
    ("s", f"{MOVE}.A.S", b'{"server":"s2"}'),
    ("s", f"{MOVE}.A.S", b'{"server":"s1","tags":["az:9"]}'),
    ("s", f"{MOVE}.A.S", b'{"server":"s1","tags":["az:0"]}'),
    ("b", f"{MOVE}.A.S", b'{"server":"s1"}'),
    ("s", f"{MOVE}.A.S", b'{"server":"s1","tags":["az:2"]}'),
    ("s", f"{MOVE}.A.S", b'{"server":"s1"}'),
]


async def ask(client: nats.NATS, subject: str, body: bytes) -> dict[str, Any]:
    try:
        answer = await client.request(f"$JS.API.{subject}", body, timeout=2)
    except nats.errors.TimeoutError:
        return {}
    found: dict[str, Any] = json.loads(answer.data)
    return found


def keepers(info: dict[str, Any]) -> set[str]:
    cluster = info.get("cluster", {})
    return {cluster.get("leader", ""), *(one["name"] for one in cluster.get("replicas", ()))}


async def answers(kind: str, directory: Path) -> list[Any]:
    """What a cluster says to the script, and where the stream is in the end."""
    directory.mkdir()
    nodes = [Node(kind, number, directory) for number in range(3)]
    routes = [f"nats://127.0.0.1:{node.route_port}" for node in nodes]
    try:
        for number, node in enumerate(nodes):
            more = f'server_tags: ["az:{number}"]\njetstream {{ store_dir: "{directory}/{node.name}" }}\n{ACCOUNTS}'
            await node.start(node.text(routes, "", more))
        clients = {name: await connected(nodes[0].url, user=name, password="p") for name in "abs"}
        config = {"name": "S", "subjects": ["x"], "num_replicas": 2, "placement": {"tags": ["!az:2"]}}
        create = json.dumps(config).encode()
        async with asyncio.timeout(30):
            while keepers(await ask(clients["a"], "STREAM.CREATE.S", create)) != {"s0", "s1"}:
                await asyncio.sleep(0.1)
        del config["placement"]
        await ask(clients["a"], "STREAM.UPDATE.S", json.dumps(config).encode())
        said = [_plain(await ask(clients[who], subject, body)) for who, subject, body in SCRIPT]
        async with asyncio.timeout(30):
            while keepers(await ask(clients["a"], "STREAM.INFO.S", b"")) != {"s0", "s2"}:
                await asyncio.sleep(0.1)
        for client in clients.values():
            await client.close()
        return said
    finally:
        for node in nodes:
            await node.stop()


def _plain(answer: dict[str, Any]) -> Any:
    """Without what differs from run to run."""
    if "config" in answer:
        return answer["type"], answer["config"]["num_replicas"], answer["config"].get("placement")
    return answer


async def test_moves_are_answered_alike(tmp_path: Path) -> None:
    ours, theirs = await answers("o", tmp_path / "ours"), await answers("n", tmp_path / "theirs")
    for asked, own, other in zip(SCRIPT, ours, theirs, strict=True):
        assert own == other, asked
