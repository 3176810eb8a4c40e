"""A JetStream cluster of three processes of ours, for tests that look at it from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.ports import free_port
from support.server_process import ServerProcess
from support.servers import server_binary


@contextmanager
def three_servers(
    directory: Path, first: str = "", *, each: str = "", jetstream: str = ""
) -> Iterator[dict[str, ServerProcess]]:
    """Servers n0, n1 and n2 by their names; the first or each has some configuration more, or some in `jetstream`."""
    ports = [free_port() for _ in range(3)]
    routes = ", ".join(f"nats://127.0.0.1:{port}" for port in ports)
    servers: dict[str, ServerProcess] = {}
    with ExitStack() as running:
        for number, port in enumerate(ports):
            name = f"n{number}"
            config = f"""
                server_name: {name}
                jetstream {{ store_dir: "{directory}/{name}", {jetstream} }}
                cluster {{ name: C, listen: "127.0.0.1:{port}", routes: [{routes}] }}
                {first if number == 0 else ""}
                {each}
            """
            files = directory / f"files{number}"
            files.mkdir()
            servers[name] = server = ServerProcess(server_binary("ours"), files, config=config)
            running.callback(server.end)
            server.launch()
        for server in servers.values():
            server.ready()
        yield servers
