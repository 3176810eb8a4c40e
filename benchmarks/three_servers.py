"""Three servers of one machine that know each other, and streams on them.

The server that the comparison starts is not used: three of the same program are started here, each with its file.
"""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic_ns

from benchmarks.scenario import MessagesMissing
from benchmarks.servers import Server
from slipstream.client.options import ClientError
from slipstream.client.wire import WireClient

__all__ = ["ASK_NS", "asked", "led_cluster", "make_stream", "three_servers"]

ASK_NS = 500_000_000
_FORMED_S = 60.0


def _free_ports(count: int) -> list[int]:
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def three_servers(binary: Path, *, always: bool) -> Iterator[dict[str, Server]]:
    """By their names; `always`: nothing is acknowledged before it is synced, which is what ours does anyway."""
    ports = _free_ports(3)
    routes = ", ".join(f"nats://127.0.0.1:{port}" for port in ports)
    sync = "sync_interval: always" if always else ""
    with tempfile.TemporaryDirectory(prefix="replicated-") as home, ExitStack() as started:
        servers: dict[str, Server] = {}
        for number, port in enumerate(ports):
            name, place = f"n{number}", Path(home) / f"n{number}"
            place.mkdir()
            (place / "server.conf").write_text(
                f"server_name: {name}\njetstream {{ store_dir: data\n{sync} }}\n"
                f"cluster {{ name: bench, listen: 127.0.0.1:{port}, routes: [{routes}] }}\n"
            )
            servers[name] = started.enter_context(Server(binary, place, ("-c", "server.conf")))
        yield servers


@contextmanager
def led_cluster(binary: Path, stream: str, *, always: bool) -> Iterator[tuple[Server, list[Server]]]:
    """Three servers and a stream with a copy on each; the one that leads it, and the others."""
    with three_servers(binary, always=always) as servers:
        with WireClient(next(iter(servers.values())).url) as client:
            leader = servers.pop(make_stream(client, stream))
        yield leader, list(servers.values())


def make_stream(client: WireClient, name: str, *, copies: int = 3) -> str:
    """Make a stream, as soon as the servers have found each other; who leads it."""
    config = {"name": name, "subjects": [f"{name}.*"], "storage": "file", "num_replicas": copies}
    deadline = monotonic_ns() + _FORMED_S * 1e9
    while True:
        answer = asked(client, f"$JS.API.STREAM.CREATE.{name}", config)
        if answer.get("cluster", {}).get("leader"):
            return str(answer["cluster"]["leader"])
        if monotonic_ns() > deadline:
            raise MessagesMissing(f"no stream with {copies} copies: {answer}")


def asked(client: WireClient, subject: str, body: object) -> Mapping[str, dict[str, object]]:
    """The answer to a request; empty if there is none soon."""
    try:
        found: dict[str, dict[str, object]] = json.loads(
            client.request(subject, json.dumps(body).encode(), timeout_ns=4 * ASK_NS).payload
        )
    except (ClientError, OSError):
        return {}
    return found
