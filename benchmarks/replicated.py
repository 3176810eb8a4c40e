"""Streams with three copies on three servers of one machine: publishing, and what a dead leader costs.

The server that the comparison starts is not used: three of the same program are started here, each with its file. Ours
acknowledges what a majority has synced; nats-server is measured as it comes, and with `sync always`.
"""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic_ns

from benchmarks.jetstream import publish_acked
from benchmarks.scenario import Bar, Claim, MessagesMissing, Row, Scale, Scenario
from benchmarks.servers import Server
from slipstream.client.options import ClientError, ClientTimeout
from slipstream.client.wire import WireClient

__all__ = ["SCENARIOS"]

_STREAM = "BENCH"
_SIZE = 128
_FORMED_S = 60.0
_ASK_NS = 500_000_000
_EVER_NS = 30_000_000_000


def _free_ports(count: int) -> list[int]:
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def _cluster(binary: Path, *, always: bool) -> Iterator[tuple[Server, list[Server]]]:
    """Three servers and a stream with a copy on each; the one that leads it, and the others."""
    ports = _free_ports(3)
    routes = ", ".join(f"nats://127.0.0.1:{port}" for port in ports)
    sync = "sync_interval: always" if always else ""
    with ExitStack() as started, tempfile.TemporaryDirectory(prefix="replicated-") as home:
        servers: dict[str, Server] = {}
        for number, port in enumerate(ports):
            name, place = f"n{number}", Path(home) / f"n{number}"
            place.mkdir()
            (place / "server.conf").write_text(
                f"server_name: {name}\njetstream {{ store_dir: data\n{sync} }}\n"
                f"cluster {{ name: bench, listen: 127.0.0.1:{port}, routes: [{routes}] }}\n"
            )
            servers[name] = started.enter_context(Server(binary, place, ("-c", "server.conf")))
        leader = servers.pop(_made(next(iter(servers.values()))))
        yield leader, list(servers.values())


def _made(server: Server) -> str:
    """Make the stream, as soon as the servers have found each other; who leads it."""
    config = {"name": _STREAM, "subjects": [f"{_STREAM}.*"], "storage": "file", "num_replicas": 3}
    deadline = monotonic_ns() + _FORMED_S * 1e9
    with WireClient(server.url) as client:
        while True:
            answer = _asked(client, f"$JS.API.STREAM.CREATE.{_STREAM}", config)
            if answer.get("cluster", {}).get("leader"):
                return str(answer["cluster"]["leader"])
            if monotonic_ns() > deadline:
                raise MessagesMissing(f"no stream with three copies: {answer}")


def _asked(client: WireClient, subject: str, body: object) -> dict[str, dict[str, object]]:
    """The answer to a request; empty if there is none soon."""
    try:
        found: dict[str, dict[str, object]] = json.loads(
            client.request(subject, json.dumps(body).encode(), timeout_ns=4 * _ASK_NS).payload
        )
    except (ClientError, OSError):
        return {}
    return found


def _run_async(server: Server, scale: Scale, *, always: bool) -> Sequence[float]:
    with _cluster(server.binary, always=always) as (leader, _):
        publish_acked(leader.url, messages=scale.of(10_000), size=_SIZE)
        return (publish_acked(leader.url, messages=scale.of(60_000), size=_SIZE).rate / 1e3,)


def _run_sync(server: Server, scale: Scale) -> Sequence[float]:
    """One publisher that waits for each ack, theirs synced as ours is."""
    with _cluster(server.binary, always=True) as (leader, _), WireClient(leader.url) as client:
        found = []
        for _ in range(scale.of(3_000)):
            began = monotonic_ns()
            client.request(f"{_STREAM}.s", b"x" * _SIZE)
            found.append(monotonic_ns() - began)
        found.sort()
        return found[len(found) // 2] / 1e3, found[len(found) * 99 // 100] / 1e3


def _run_death(server: Server, scale: Scale) -> Sequence[float]:
    """The leader is killed: the time until another one acknowledges."""
    del scale
    with _cluster(server.binary, always=False) as (leader, others), WireClient(others[0].url) as client:
        client.request(f"{_STREAM}.s", b"before")
        leader.stop()
        began = monotonic_ns()
        while monotonic_ns() - began < _EVER_NS:
            try:
                client.request(f"{_STREAM}.s", b"after", timeout_ns=_ASK_NS // 5)
            except (ClientTimeout, ClientError):
                continue
            return ((monotonic_ns() - began) / 1e9,)
        raise MessagesMissing("nobody follows the leader that died")


SCENARIOS = (
    Scenario(
        "replicated-default",
        (Row("three copies, ours on two disks, theirs as it comes", "k msg/s", Bar(Claim.RATIO_AT_LEAST, 1.0)),),
        lambda server, scale: _run_async(server, scale, always=False),
    ),
    Scenario(
        "replicated-always",
        (Row("three copies, both on two disks", "k msg/s", Bar(Claim.RATIO_AT_LEAST, 2.0)),),
        lambda server, scale: _run_async(server, scale, always=True),
    ),
    Scenario(
        "replicated-sync",
        (
            Row("three copies, both synced, 1 publisher waits for each ack, p50", "µs", Bar(Claim.RATIO_AT_MOST, 1.0)),
            Row("three copies, both synced, 1 publisher waits for each ack, p99", "µs", Bar(Claim.RATIO_AT_MOST, 1.0)),
        ),
        _run_sync,
    ),
    Scenario(
        "replicated-death",
        (Row("the leader is killed: until another one acknowledges", "s", Bar(Claim.RATIO_AT_MOST, 0.4)),),
        _run_death,
    ),
)
