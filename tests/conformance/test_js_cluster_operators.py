"""What operators ask of a cluster (who leads, who is a peer), also wrongly, asked of one of nats-server as well."""

from __future__ import annotations

import json
import re
import time
from itertools import chain
from pathlib import Path
from typing import Any, Final

import nats.errors
import pytest
from nats.aio.client import Client

from conformance.test_js_cluster import DEADLINE_S, call, cluster, connected, create, shape

pytest.importorskip("slipstream_raft")

ACCOUNTS: Final = """
accounts {
  $SYS { users: [{ user: sys, password: sys }] }
  A { jetstream: enabled, users: [{ user: a, password: a }] }
}
no_auth_user: a
"""
LEADER, FOLLOWER = "<leader>", "<follower>"
"""In bodies: names of servers, of the stream that is asked about."""
STEP_DOWNS: Final = [
    b"{",
    b"[]",
    b"5",
    b'"n1"',
    b"null",
    b'{"placement": null}',
    b'{"placement": []}',
    b'{"placement": {"preferred": 5}}',
    b'{"placement": {"tags": "az:1"}}',
    b'{"placement": {"preferred": "nx"}}',
    b'{"placement": {"preferred": "<leader>"}}',
    b'{"placement": {"preferred": "<leader>", "tags": ["ssd"]}}',
    b'{"placement": {"preferred": "<follower>", "tags": ["az:9"]}}',
    b'{"placement": {"preferred": "<follower>", "cluster": "OTHER"}}',
    b'{"placement": {"preferred": "nx", "cluster": "OTHER"}}',
    b'{"placement": {"cluster": "OTHER"}}',
    b'{"placement": {"tags": ["az:9"]}}',
    b'{"placement": {"tags": ["az:1", "az:2"]}}',
    b'{"placement": {"tags": ["!ssd"]}}',
    b'{"placement": {"tags": [""]}}',
    b'{"placement": {"preferred": "", "nope": 1}}',
    b'{"nope": 1}',
]
PEER_REMOVALS: Final = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"{}",
    b'{"peer": ""}',
    b'{"peer": 5}',
    b'{"peer": "nx"}',
    b'{"peer": "nx", "nope": 1}',
    b'{"nope": 1}',
]
SERVER_REMOVALS: Final = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"{}",
    b'{"peer": ""}',
    b'{"peer": 5}',
    b'{"peer": "nx"}',
    b'{"peer_id": "nx"}',
    b'{"peer_id": ""}',
    b'{"peer": "nx", "peer_id": "ny"}',
    b'{"nope": 1}',
]
PATIENCE_S: Final = 0.5
"""Whoever asks while nobody leads is not heard, and asks again."""
LED: Final = ("STREAM.INFO.S3", "CONSUMER.INFO.S3.c", "STREAM.INFO.S1")
SCRIPT: Final = [
    *(("STREAM.LEADER.STEPDOWN.S3", body) for body in STEP_DOWNS),
    *(("CONSUMER.LEADER.STEPDOWN.S3.c", body) for body in STEP_DOWNS),
    *((f"STREAM.LEADER.STEPDOWN.{name}", body) for name in ("S1", "NO") for body in (b"", b"{", b"[]")),
    *((f"CONSUMER.LEADER.STEPDOWN.{name}", body) for name in ("S3.no", "NO.c", "S1.c") for body in (b"", b"{")),
    *(("STREAM.PEER.REMOVE.S3", body) for body in PEER_REMOVALS),
    *((f"STREAM.PEER.REMOVE.{name}", body) for name in ("S1", "NO") for body in PEER_REMOVALS[::3]),
    ("STREAM.PEER.REMOVE.S1", b'{"peer": "<leader>"}'),
    ("STREAM.PEER.REMOVE.S1", b'{"peer": "<follower>"}'),
]
SYSTEM_SCRIPT: Final = [
    *(("META.LEADER.STEPDOWN", body) for body in STEP_DOWNS),
    *(("SERVER.REMOVE", body) for body in SERVER_REMOVALS),
]


async def asked(client: Client, subject: str, body: bytes) -> Any:
    """The answer, whichever server it names; nobody answers while nobody leads."""
    for _ in range(20):
        try:
            answer = await client.request(f"$JS.API.{subject}", body, timeout=PATIENCE_S)
        except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
            continue
        return shape(json.loads(re.sub(rb'\\"n[012]\\"', b"<server>", answer.data)))
    return "no answer"


async def led(client: Client) -> dict[str, str]:
    """Who leads, once all are led."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        facts = {subject: await leader_by(client, subject) for subject in LED}
        if all(facts.values()):
            return facts
        assert time.monotonic() < deadline


async def leader_by(client: Client, subject: str) -> str:
    """Who leads, as its information says; nobody if there is none."""
    try:
        answer = await client.request(f"$JS.API.{subject}", b"", timeout=PATIENCE_S)
    except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
        return ""
    return str(json.loads(answer.data).get("cluster", {}).get("leader") or "")


async def named(client: Client, system: Client, subject: str, body: bytes) -> bytes:
    """The body with names of servers."""
    if b"<" not in body:
        return body
    if subject.startswith("META"):
        leader = ""
        while not leader:
            found = json.loads((await system.request("$SYS.REQ.SERVER.PING.JSZ", b"{}", timeout=2)).data)
            leader = found["data"]["meta_cluster"].get("leader", "")
    else:
        asks = "CONSUMER.INFO.S3.c" if subject.startswith("CONSUMER") else f"STREAM.INFO.{subject[-2:]}"
        leader = (await led(client))[asks]
    follower = next(name for name in ("n0", "n1", "n2") if name != leader)
    return body.replace(LEADER.encode(), leader.encode()).replace(FOLLOWER.encode(), follower.encode())


def scripts(every: int) -> tuple[list[tuple[str, bytes]], list[tuple[str, bytes]]]:
    """What clients ask, and what those of the system account do.

    Who leads the meta group is known late to nats-server's others, so that only the long form, alone, asks by its name.
    """
    return SCRIPT[::every], [row for row in SYSTEM_SCRIPT[::every] if every == 1 or b"<" not in row[1]]


async def answers(kind: str, directory: Path, every: int) -> list[Any]:
    """What one cluster says to all of it, or to every so many-th."""
    async with cluster(kind, directory, ACCOUNTS) as processes:
        client = await connected(processes[0])
        system = await connected(processes[0], user="sys", password="sys")
        for name, replicas in (("S3", 3), ("S1", 1)):
            assert "error" not in await create(client, name, replicas)
        config = {"durable_name": "c", "ack_policy": "explicit"}
        assert "error" not in await call(client, "CONSUMER.CREATE.S3.c", stream_name="S3", config=config)
        found = []
        for who, script in zip((client, system), scripts(every), strict=True):
            for subject, body in script:
                await led(client)
                found.append(await asked(who, subject, await named(client, system, subject, body)))
        await client.close()
        await system.close()
    return found


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
async def test_operators_are_answered_as_by_a_cluster_of_nats_server(tmp_path: Path, every: int) -> None:
    ours = await answers("ours", tmp_path / "ours", every)
    real = await answers("real", tmp_path / "real", every)
    both = zip(chain(*scripts(every)), ours, real, strict=True)
    assert [(question, one, other) for question, one, other in both if one != other] == []
