"""Clusters for tests: servers of either kind from one configuration text, `o` for ours and `n` for nats-server."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import nats

from slipstream.config.reload import diff
from slipstream.server.server import Server
from support.config_loading import loaded
from support.ports import free_port

DEADLINE = 20.0
HAS_NATS_SERVER = shutil.which("nats-server") is not None


class Node:
    """One server of a cluster."""

    def __init__(self, kind: str, number: int, directory: Path) -> None:
        self.kind = kind
        self.name = f"s{number}"
        self.client_port, self.route_port, self.http_port = free_port(), free_port(), free_port()
        self.url = f"nats://127.0.0.1:{self.client_port}"
        self.lines: list[str] = []  # of our log
        self._file = directory / f"{self.name}-{self.route_port}.conf"
        self._log = self._file.with_suffix(".log")
        self.server: Server | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        """Whether it was started and not stopped."""
        return self.server is not None or self._process is not None

    def text(self, routes: list[str], cluster: str = "", more: str = "", name: str = "name: C") -> str:
        """A configuration: where it listens, and what the test adds."""
        return (
            f'listen: "127.0.0.1:{self.client_port}"\nserver_name: {self.name}\nhttp: "127.0.0.1:{self.http_port}"\n'
            f'cluster {{ {name}, listen: "127.0.0.1:{self.route_port}", routes: {json.dumps(routes)}\n{cluster} }}\n'
            f"{more}\n"
        )

    async def start(self, text: str) -> None:
        """Start it with a configuration."""
        if self.kind == "o":
            options = loaded(text).options
            self.server = Server(options, log=lambda level, line: self.lines.append(f"[{level}] {line}"))  # type: ignore[arg-type]
            await self.server.start()
            return
        self._file.write_text(text)
        with self._log.open("ab") as log:
            command = ["nats-server", "-c", str(self._file)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def reload(self, text: str) -> None:
        """Give it another configuration while it runs."""
        if self.server is not None:
            options = loaded(text).options
            plan = diff(self.server.options, options)
            if plan.refusals:
                raise plan.refusals[0]
            self.server.reload(options)
            return
        assert self._process is not None
        self._file.write_text(text)
        self._process.send_signal(signal.SIGHUP)

    def leave(self) -> None:
        """Let it go as a lame duck."""
        if self.server is not None:
            self.server.enter_lame_duck_mode()
        else:
            assert self._process is not None
            self._process.send_signal(signal.SIGUSR2)

    async def stop(self) -> None:
        """End it; a nats-server without a last word."""
        if self.server is not None:
            server, self.server = self.server, None
            await server.stop()
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            await asyncio.to_thread(process.wait)

    def log_text(self) -> str:
        """What it logged so far."""
        return "\n".join(self.lines) if self.kind == "o" else self._log.read_text()

    async def shown(self, path: str) -> Any:
        """A monitoring endpoint."""
        return await asyncio.to_thread(_get, f"http://127.0.0.1:{self.http_port}{path}")


def _get(url: str) -> Any:
    with urlopen(url, timeout=DEADLINE) as answer:
        return json.load(answer)


@asynccontextmanager
async def cluster(
    kinds: str, directory: Path, cluster_text: str = "", more: str = "", *, host: str = "127.0.0.1"
) -> AsyncIterator[list[Node]]:
    """Some servers, the first of which the others dial."""
    nodes = [Node(kind, number, directory) for number, kind in enumerate(kinds)]
    try:
        for number, node in enumerate(nodes):
            routes = [f"nats://{host}:{nodes[0].route_port}"] if number else []
            await node.start(node.text(routes, cluster_text, more))
        yield nodes
    finally:
        for node in nodes:
            await node.stop()


async def connected(url: str, **options: Any) -> nats.NATS:
    """A client, as soon as the server is there."""

    async def silent(_error: Exception) -> None: ...

    options = {"allow_reconnect": False, "connect_timeout": 2, "error_cb": silent, **options}
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                return await nats.connect(url, **options)
            except (OSError, nats.errors.NoServersError):
                await asyncio.sleep(0.05)


async def until(condition: Callable[[], bool], what: str = "") -> None:
    """Wait until something is so."""
    try:
        async with asyncio.timeout(DEADLINE):
            while not condition():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"it never came to be: {what}") from None


async def heard_by_all(clients: list[nats.NATS], subject: str = "hello") -> None:
    """Wait until each server has interest of each other one."""
    seen: list[set[bytes]] = [set() for _ in clients]
    subscriptions = []
    for number, client in enumerate(clients):

        async def note(message: nats.aio.msg.Msg, number: int = number) -> None:
            seen[number].add(message.data)

        subscriptions.append(await client.subscribe(subject, cb=note))
        await client.flush()
    async with asyncio.timeout(DEADLINE):
        while any(len(names) < len(clients) for names in seen):
            for number, client in enumerate(clients):
                await client.publish(subject, b"%d" % number)
                await client.flush()
            await asyncio.sleep(0.05)
    for subscription in subscriptions:
        await subscription.unsubscribe()
