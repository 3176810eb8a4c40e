"""What testcontainers has for NATS, without containers: tests that use it change one import.

    from slipstream.testing import NatsContainer        # was: from testcontainers.nats import NatsContainer

    with NatsContainer(jetstream=True) as nats:
        client = await connect(nats.nats_uri())

The server is a thread of the test's process, on free ports of the loopback interface. Its streams go with it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from slipstream.config.record import replace
from slipstream.server.process.configure import Exit, configure
from slipstream.testing.thread import ServerThread

__all__ = ["NatsContainer"]

_HOST = "127.0.0.1"


class NatsContainer:
    """A server with the methods of testcontainers' class of this name.

    Args:
        image: of the container that there would be; this server stands for any of them.
        client_port: where the container would listen for clients: `get_exposed_port` finds the real port by it.
        management_port: the same for monitoring over HTTP.
        jetstream: with JetStream.
    """

    def __init__(
        self,
        image: str = "nats:latest",
        client_port: int = 4222,
        management_port: int = 8222,
        *,
        jetstream: bool = False,
    ) -> None:
        self.image = image
        self.client_port = client_port
        self.management_port = management_port
        self._command: list[str] = ["-js"] if jetstream else []
        self._server: ServerThread | None = None

    def __enter__(self) -> NatsContainer:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def with_command(self, command: str | Sequence[str]) -> NatsContainer:
        """Flags of nats-server, instead of those there were: `-js`, `--user app --pass secret`, `-c FILE`."""
        self._command = shlex.split(command) if isinstance(command, str) else list(command)
        return self

    def start(self) -> NatsContainer:
        """Start; returns when clients can connect.

        Raises:
            ValueError: the flags cannot be used; the text says why.
        """
        if self._server is not None:
            raise ValueError("the server is running already")
        configured = configure(self._command)
        if isinstance(configured, Exit):
            raise ValueError((configured.stderr or configured.stdout).strip())
        own: dict[str, Any] = {"host": _HOST, "port": -1, "http_host": _HOST, "http_port": -1, "https_port": 0}
        options = configured.options
        jetstream = options.jetstream
        if jetstream.enabled and not jetstream.store_dir:
            # The store lives as long as the server: a sync would save nothing for anybody.
            options = replace(options, jetstream=replace(jetstream, sync_always=False))
            own["jetstream"] = True
        server = ServerThread(options, **own)
        server.start()
        self._server = server
        return self

    def stop(self) -> None:
        """Stop and wait until everything is closed. May be called twice."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def get_container_host_ip(self) -> str:
        """Where the server is."""
        return _HOST

    def get_exposed_port(self, port: int) -> int:
        """The port that stands for one of the container's."""
        server = self._running().server
        if port == self.client_port:
            return server.port
        if port == self.management_port:
            assert server.monitoring is not None
            port_of_url = urlsplit(server.monitoring.url).port
            assert port_of_url is not None
            return port_of_url
        raise ValueError(f"port {port} is neither {self.client_port} nor {self.management_port}")

    def nats_uri(self) -> str:
        """Where clients connect."""
        return f"nats://{_HOST}:{self.get_exposed_port(self.client_port)}"

    def nats_host_and_port(self) -> tuple[str, int]:
        """The same as a pair."""
        return _HOST, self.get_exposed_port(self.client_port)

    def nats_management_uri(self) -> str:
        """Where monitoring is; with the scheme that testcontainers gives it."""
        return f"nats://{_HOST}:{self.get_exposed_port(self.management_port)}"

    def _running(self) -> ServerThread:
        if self._server is None:
            raise ValueError("the server is not running")
        return self._server
