"""Clusters of three processes, ours and nats-server's, asked the same; what ours keeps when its leader is killed."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.js.errors import Error as JetStreamError

from support.ports import free_port
from support.servers import server_binary

pytest.importorskip("slipstream_raft")

DEADLINE_S = 30.0


class Process:
    """One server."""

    def __init__(self, kind: str, number: int, routes: list[int], directory: Path, extra: str = "") -> None:
        self.name = f"n{number}"
        port = free_port()
        self.url = f"nats://127.0.0.1:{port}"
        self._kind = kind
        self._file = directory / f"{self.name}.conf"
        urls = ", ".join(f"nats://127.0.0.1:{route}" for route in routes)
        self._file.write_text(
            f'server_name: {self.name}, listen: "127.0.0.1:{port}", server_tags: ["az:{number}", "ssd"]\n'
            f'jetstream {{ store_dir: "{directory / self.name}", max_file: 1GB, max_mem: 64MB }}\n'
            f'cluster {{ name: C, listen: "127.0.0.1:{routes[number]}", routes: [{urls}] }}\n'
            f"{extra}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._file.with_suffix(".log").open("ab") as log:
            self._process = subprocess.Popen([server_binary(self._kind), "-c", self._file], stdout=log, stderr=log)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    @property
    def runs(self) -> bool:
        return self._process is not None


@asynccontextmanager
async def cluster(kind: str, directory: Path, extra: str = "") -> AsyncIterator[list[Process]]:
    """Three processes that have a meta leader."""
    directory.mkdir()
    routes = [free_port() for _ in range(3)]
    processes = [Process(kind, number, routes, directory, extra) for number in range(3)]
    try:
        for process in processes:
            process.start()
        client = await connected(processes[0])
        while "error" in await call(client, "INFO") or "error" in await create(client, "READY", 3):
            await asyncio.sleep(0.1)
        await call(client, "STREAM.DELETE.READY")
        await client.close()
        for process in processes:
            asked = await connected(process)
            while "error" in await call(asked, "STREAM.NAMES"):
                await asyncio.sleep(0.1)
            await asked.close()
        yield processes
    finally:
        for process in processes:
            process.kill()


async def _quiet(_error: Exception) -> None:
    """Servers come and go here."""


async def connected(process: Process, **options: Any) -> Client:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return await nats.connect(process.url, allow_reconnect=False, error_cb=_quiet, **options)
        except (nats.errors.Error, OSError):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)


async def call(client: Client, subject: str, /, **body: Any) -> dict[str, Any]:
    """Ask, and again while nobody hears it: servers that were just started may not know yet who listens where."""
    payload = json.dumps(body).encode() if body else b""
    for _ in range(8):
        try:
            answer = await client.request(f"$JS.API.{subject}", payload, timeout=2)
        except nats.errors.TimeoutError:
            continue
        found: dict[str, Any] = json.loads(answer.data)
        return found
    return {"error": {"code": 0, "err_code": 0, "description": "no answer"}}


async def create(client: Client, name: str, replicas: int, **more: Any) -> dict[str, Any]:
    body = {"name": name, "subjects": [f"{name}.>"], "num_replicas": replicas, **more}
    return await call(client, f"STREAM.CREATE.{name}", **body)


LIMITS = {"max_ack_pending": 5}
SCRIPT: list[tuple[str, dict[str, Any]]] = [
    ("STREAM.CREATE.S3", {"name": "S3", "subjects": ["S3.>"], "num_replicas": 3}),
    ("STREAM.CREATE.S3", {"name": "S3", "subjects": ["S3.>"], "num_replicas": 3}),
    ("STREAM.CREATE.S3", {"name": "S3", "subjects": ["S3.>"], "num_replicas": 1}),
    ("STREAM.CREATE.S1", {"name": "S1", "subjects": ["S1.>"]}),
    ("STREAM.CREATE.S2", {"name": "S2", "subjects": ["S2.>"], "num_replicas": 2}),
    ("STREAM.CREATE.S5", {"name": "S5", "subjects": ["S5.>"], "num_replicas": 5}),
    ("STREAM.CREATE.S6", {"name": "S6", "subjects": ["S6.>"], "num_replicas": 6}),
    ("STREAM.CREATE.O", {"name": "O", "subjects": ["S3.x"]}),
    ("STREAM.CREATE.T", {"name": "T", "subjects": ["T"], "placement": {"tags": ["az:1"]}}),
    ("STREAM.CREATE.U", {"name": "U", "subjects": ["U"], "placement": {"tags": ["az:9"]}}),
    ("STREAM.CREATE.U", {"name": "U", "subjects": ["U"], "num_replicas": 3, "placement": {"tags": ["az:1"]}}),
    ("STREAM.CREATE.U", {"name": "U", "subjects": ["U"], "placement": {"tags": ["!ssd"]}}),
    ("STREAM.CREATE.U", {"name": "U", "subjects": ["U"], "placement": {"cluster": "OTHER"}}),
    ("STREAM.CREATE.U", {"name": "U", "subjects": ["U"], "placement": {"preferred": "n1"}}),
    ("STREAM.CREATE.U", {"name": "U", "subjects": ["U"], "max_bytes": 2 << 30}),
    ("STREAM.NAMES", {}),
    ("STREAM.NAMES", {"subject": "S3.>"}),
    ("STREAM.LIST", {}),
    ("STREAM.INFO.S3", {}),
    ("STREAM.INFO.S1", {}),
    ("STREAM.INFO.NO", {}),
    ("STREAM.DELETE.NO", {}),
    ("STREAM.UPDATE.NO", {"name": "NO", "subjects": ["NO"]}),
    ("STREAM.PURGE.NO", {}),
    ("CONSUMER.INFO.NO.c", {}),
    ("CONSUMER.INFO.S3.c", {}),
    ("CONSUMER.CREATE.S3.c", {"stream_name": "S3", "config": {"durable_name": "c", "ack_policy": "explicit"}}),
    ("CONSUMER.NAMES.S3", {}),
    ("STREAM.UPDATE.S3", {"name": "S3", "subjects": ["S3.>"], "num_replicas": 3, "max_msgs": 5}),
    ("STREAM.UPDATE.S3", {"name": "S3", "subjects": ["S3.>"], "num_replicas": 3, "storage": "memory"}),
    ("STREAM.UPDATE.S1", {"name": "S1", "subjects": ["S3.q"]}),
    ("STREAM.LEADER.STEPDOWN.S1", {}),
    ("STREAM.LEADER.STEPDOWN.NO", {}),
    ("STREAM.LEADER.STEPDOWN.S3", {"placement": {"preferred": "nx"}}),
    ("CONSUMER.LEADER.STEPDOWN.S3.no", {}),
    ("STREAM.PURGE.S3", {}),
    ("STREAM.MSG.GET.S3", {"seq": 1}),
    ("INFO", {}),
    ("STREAM.CREATE.M3", {"name": "M3", "mirror": {"name": "S3"}, "num_replicas": 3}),
    ("STREAM.CREATE.M1", {"name": "M1", "mirror": {"name": "S1"}}),
    ("STREAM.CREATE.MX", {"name": "MX", "mirror": {"name": "S3"}, "subjects": ["mx"]}),
    ("STREAM.CREATE.MS", {"name": "MS", "sources": [{"name": "S3"}, {"name": "S1"}], "num_replicas": 3}),
    ("STREAM.CREATE.MS", {"name": "MS", "sources": [{"name": "S3"}, {"name": "S3"}], "num_replicas": 3}),
    ("STREAM.UPDATE.M3", {"name": "M3", "mirror": {"name": "S1"}, "num_replicas": 3}),
    ("STREAM.INFO.M3", {}),
    ("STREAM.INFO.S3", {}),
    ("STREAM.MSG.GET.S3", {}),
    ("STREAM.MSG.GET.NO", {"seq": 1}),
    ("STREAM.MSG.DELETE.S3", {"seq": 99}),
    ("STREAM.MSG.DELETE.S3", {"seq": 0}),
    ("STREAM.MSG.DELETE.NO", {"seq": 1}),
    ("STREAM.PURGE.S1", {"filter": "S1.x"}),
    ("STREAM.PURGE.S1", {"keep": 1}),
    ("STREAM.PURGE.S1", {"seq": 5, "keep": 1}),
    ("STREAM.UPDATE.S3", {"name": "S3", "subjects": ["S3.>"], "num_replicas": 3, "consumer_limits": LIMITS}),
    ("CONSUMER.CREATE.S3.d", {"stream_name": "S3", "config": {"durable_name": "d", "ack_policy": "none"}}),
    ("CONSUMER.CREATE.S3.d", {"stream_name": "S3", "config": {"durable_name": "e", "ack_policy": "none"}}),
    ("CONSUMER.CREATE.S3.f", {"stream_name": "S3", "config": {"durable_name": "f", "num_replicas": 5}}),
    ("CONSUMER.CREATE.S1.f", {"stream_name": "S1", "config": {"durable_name": "f", "num_replicas": 3}}),
    ("CONSUMER.CREATE.NO.f", {"stream_name": "NO", "config": {"durable_name": "f"}}),
    ("CONSUMER.CREATE.S3", {"stream_name": "S3", "config": {"durable_name": "f"}}),
    ("CONSUMER.DURABLE.CREATE.S3.g", {"stream_name": "S3", "config": {"durable_name": "g", "ack_policy": "all"}}),
    ("CONSUMER.NAMES.S3", {"offset": 2}),
    ("CONSUMER.NAMES.NO", {}),
    ("CONSUMER.LIST.S3", {}),
    ("CONSUMER.LIST.S1", {}),
    ("CONSUMER.LIST.NO", {}),
    ("CONSUMER.INFO.S3.d", {}),
    ("CONSUMER.PAUSE.S3.d", {"pause_until": "2030-01-01T00:00:00Z"}),
    ("CONSUMER.PAUSE.S3.d", {}),
    ("CONSUMER.PAUSE.S3.no", {}),
    ("CONSUMER.PAUSE.NO.d", {}),
    ("CONSUMER.UNPIN.S3.d", {"group": "g"}),
    ("CONSUMER.UNPIN.NO.d", {"group": "g"}),
    ("CONSUMER.RESET.S3.d", {}),
    ("CONSUMER.DELETE.S3.d", {}),
    ("CONSUMER.DELETE.S3.d", {}),
    ("CONSUMER.DELETE.NO.d", {}),
    ("CONSUMER.LEADER.STEPDOWN.NO.c", {}),
    ("STREAM.UPDATE.S3", {"name": "S3", "subjects": ["S3.>"], "num_replicas": 3, "retention": "workqueue"}),
    ("STREAM.UPDATE.S3", {"name": "S3", "subjects": ["S3.>"], "num_replicas": 3, "sources": [{"name": "S3"}]}),
    ("STREAM.SNAPSHOT.S3", {}),
    ("STREAM.SNAPSHOT.S3", {"deliver_subject": "a.*"}),
    ("STREAM.RESTORE.S3", {"config": {"name": "S3"}, "state": {}}),
    ("STREAM.RESTORE.Q", {"config": {"name": "S3"}, "state": {}}),
    ("STREAM.RESTORE.Q", {}),
    ("STREAM.RESTORE.Q", {"config": {"name": "Q", "num_replicas": 5}, "state": {}}),
    ("STREAM.PEER.REMOVE.NO", {"peer": "n1"}),
    ("STREAM.PEER.REMOVE.S3", {}),
    ("STREAM.PEER.REMOVE.S3", {"peer": "nx"}),
    ("STREAM.CREATE.BAD", {"name": "OTHER"}),
    ("STREAM.CREATE.BAD", {"name": "BAD", "nope": 1}),
    ("STREAM.DELETE.S3", {"a": 1}),
    ("STREAM.NAMES", {"offset": 3}),
    ("STREAM.NAMES", {"subject": "S1.x"}),
    ("STREAM.LIST", {"subject": "S3.>"}),
    ("STREAM.DELETE.M3", {}),
    ("STREAM.DELETE.M1", {}),
    ("STREAM.DELETE.MS", {}),
    ("STREAM.DELETE.S1", {}),
    ("STREAM.DELETE.S3", {}),
    ("STREAM.NAMES", {}),
]
# What differs from server to server, and from run to run.
_VARYING = {"created", "ts", "raft_group", "leader_since", "active", "current", "lag", "peer", "metadata", "api"}
_VARYING |= {"system_account", "traffic_account", "pause_remaining"}
_VARYING |= {"mirror", "sources"}  # as they are read, which takes a moment: how they are configured is compared


def shape(value: Any) -> Any:
    """An answer without what differs from run to run; who of the three leads does."""
    if isinstance(value, dict):
        kept = {key: shape(one) for key, one in value.items() if key not in _VARYING}
        if "replicas" in kept:
            kept["replicas"] = len(kept["replicas"])
        if "leader" in kept:
            kept["leader"] = "somebody"
        if kept.get("messages") == 0:  # purged while it was empty: 1 as on one server, 0 in a cluster of nats-server
            kept.pop("first_seq", None)
        if "alternates" in kept:  # in any order
            kept["alternates"] = sorted(one["name"] for one in kept["alternates"])
        return kept
    return [shape(one) for one in value] if isinstance(value, list) else value


async def test_a_cluster_answers_as_one_of_nats_server(tmp_path: Path) -> None:
    answers: dict[str, list[Any]] = {}
    for kind in ("ours", "real"):
        async with cluster(kind, tmp_path / kind) as processes:
            clients = [await connected(process) for process in processes]
            answers[kind] = [
                shape(await call(clients[number % 3], subject, **body)) for number, (subject, body) in enumerate(SCRIPT)
            ]
            for client in clients:
                await client.close()
    both = zip(SCRIPT, answers["ours"], answers["real"], strict=True)
    assert [(asked, ours, real) for asked, ours, real in both if ours != real] == []


async def test_nothing_acknowledged_is_lost_when_leaders_are_killed(tmp_path: Path) -> None:
    async with cluster("ours", tmp_path / "ours") as processes:
        client = await connected(processes[0])
        assert "error" not in await create(client, "S", 3)
        acked: dict[int, bytes] = {}
        number = 0
        for _ in range(3):
            found = await call(client, "STREAM.INFO.S")
            leader = next(process for process in processes if process.name == found["cluster"]["leader"])
            begun = len(acked)
            while len(acked) < begun + 200:
                if len(acked) == begun + 100 and leader.runs:
                    leader.kill()
                    await client.close()
                    client = await connected(next(process for process in processes if process.runs))
                number += 1
                try:
                    ack = await client.jetstream().publish("S.x", b"%d" % number, timeout=1)
                except (TimeoutError, nats.errors.Error, JetStreamError):
                    await asyncio.sleep(0.02)  # nobody leads: clients try again after a moment
                    continue
                assert ack.seq not in acked
                acked[ack.seq] = b"%d" % number
            leader.start()
        for process in processes:
            asked = await connected(process)
            for seq, payload in list(acked.items())[::37]:
                message = await asked.jetstream().get_msg("S", seq)
                assert message.data == payload
            state = (await call(asked, "STREAM.INFO.S"))["state"]
            assert state["messages"] >= len(acked)
            await asked.close()
        await client.close()
