"""Hubs and leafs of this server and of nats-server, as processes of a test or inside it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import nats

from slipstream.server.server import Server
from support.config_loading import loaded
from support.ports import free_port

DEADLINE = 20.0


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await asyncio.sleep(0.01)


async def until_shown(server: LeafServer, path: str, condition: Callable[[Any], object]) -> Any:
    """Ask monitoring until it shows what is waited for."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                shown = await server.shown(path)
                if condition(shown):
                    return shown
            except URLError:
                pass  # it is still starting
            await asyncio.sleep(0.02)


class LeafServer:
    """One server of a leaf world."""

    def __init__(self, kind: str, name: str, port: int, http: int, leaf_port: int) -> None:
        self.kind = kind  # `o` is ours, `n` nats-server
        self.name = name
        self.port = port
        self.http = http
        self.leaf_port = leaf_port
        self.ours: Server | None = None
        self.theirs: subprocess.Popen[bytes] | None = None
        self.log = Path()  # of nats-server
        self.lines: list[str] = []  # of ours

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def text(self) -> str:
        """The log so far."""
        if self.kind == "o":
            return "\n".join(self.lines)
        return self.log.read_text() if self.log.exists() else ""

    async def stop(self) -> None:
        if self.ours is not None:
            await self.ours.stop()
        if self.theirs is not None:
            self.theirs.terminate()
            await asyncio.to_thread(self.theirs.wait)

    async def shown(self, path: str) -> Any:
        """An answer of monitoring."""

        def ask() -> Any:
            with urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=DEADLINE) as answer:
                return json.load(answer)

        return await asyncio.to_thread(ask)


class LeafWorld:
    """Servers that end with the test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._servers: list[LeafServer] = []
        self._clients: list[nats.NATS] = []

    async def __aenter__(self) -> LeafWorld:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for client in self._clients:
            if not client.is_closed:
                await client.close()
        for server in reversed(self._servers):
            await server.stop()

    async def hub(
        self,
        kind: str,
        leafnodes: str = "",
        more: str = "",
        *,
        name: str = "hub",
        port: int = 0,
        compression: str = "off",
    ) -> LeafServer:
        """A server with a leaf node port."""
        port = port or free_port()
        block = f'leafnodes {{ listen: "127.0.0.1:{port}", compression: {compression}\n{leafnodes} }}\n{more}'
        return await self.server(kind, name, block, port)

    async def leaf(
        self,
        kind: str,
        hub: LeafServer,
        remote: str = "",
        more: str = "",
        url: str = "",
        *,
        compression: str = "off",
    ) -> LeafServer:
        """A server that is a leaf of another one."""
        url = url or f"nats-leaf://127.0.0.1:{hub.leaf_port}"
        name = f"leaf{len(self._servers)}"
        entry = f'{{ url: "{url}", compression: {compression}\n{remote} }}'
        block = f'leafnodes {{ reconnect: "50ms", remotes [ {entry} ] }}\n{more}'
        return await self.server(kind, name, block)

    async def server(self, kind: str, name: str, config: str, leaf_port: int = 0) -> LeafServer:
        """A server with this configuration."""
        server = LeafServer(kind, name, free_port(), free_port(), leaf_port)
        text = f'server_name: {name}\nlisten: "127.0.0.1:{server.port}"\nhttp: "127.0.0.1:{server.http}"\n{config}'
        if kind == "o":
            server.ours = Server(loaded(text).options, log=lambda level, line: server.lines.append(f"[{level}] {line}"))
            await server.ours.start()
        else:
            file = self._directory / f"{name}.conf"
            file.write_text(text)
            server.log = self._directory / f"{name}.log"
            command = ["nats-server", "-c", str(file), "-l", str(server.log), "-D"]
            server.theirs = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._servers.append(server)
        return server

    async def client(self, server: LeafServer, **options: Any) -> nats.NATS:
        """A client of a server, which may still be starting."""
        async with asyncio.timeout(DEADLINE):
            while True:
                try:
                    client = await nats.connect(
                        server.url, allow_reconnect=False, connect_timeout=2, error_cb=_silent, **options
                    )
                    self._clients.append(client)
                    return client
                except OSError:
                    await asyncio.sleep(0.05)


async def _silent(_error: Exception) -> None:
    return None
