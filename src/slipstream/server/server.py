"""A whole server in one event loop: listeners, timers and files around a hub.

    async with Server(port=-1) as server:
        ...connect any NATS client to server.url...

Start order: identity, log, hub, monitoring, client port; `Server is ready` is the last line. Stop order is the reverse, and
nothing is left behind. Several servers may run in one process.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slipstream.clock import SystemClock
from slipstream.config.options import Options
from slipstream.errors import SlipstreamError
from slipstream.kernels.outbox import FlushQueue
from slipstream.limits import AUTH_AFTER_TLS_NS, AUTH_TIMEOUT_NS, PASSWORD_CHECKS_MAX, READ_BUFFER_BYTES, SECOND_NS
from slipstream.protocol.texts import CloseReason
from slipstream.routing.hub import Hub, ServerIdentity
from slipstream.server.identity import new_identity
from slipstream.server.listener import ClientProtocol, bind
from slipstream.server.logs import Log, NullLog
from slipstream.version import SERVER_VERSION

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from slipstream.protocol.connection import ClientConnection

__all__ = ["Server", "StartError"]

_ABORT = (CloseReason.SLOW_CONSUMER_PENDING, CloseReason.SLOW_CONSUMER_WRITE_DEADLINE)


class StartError(SlipstreamError):
    """The server cannot start; the text is the fatal log line."""


class Server:
    """One NATS server.

    Args:
        options: everything at once, as a configuration file gives it.
        log: where log lines go; nowhere by default.
        **overrides: single options by name, e.g. `port=-1`, `server_name="test"`.
    """

    def __init__(self, options: Options | None = None, *, log: Log | None = None, **overrides: Any) -> None:
        if overrides.get("port") == 0:
            overrides["port"] = -1
        self.options = replace(options or Options(), **overrides)
        self.log: Log = log or NullLog()
        self.clock = SystemClock()
        self.identity: ServerIdentity = new_identity(self.options.server_name, self.clock.now_ns())
        self.read_buffer = bytearray(READ_BUFFER_BYTES)
        self.queue = FlushQueue(self._schedule_flush)
        self.hub = Hub(self.options, self.identity, self.clock, random.Random(), self, self.queue)
        self.running = False
        self._listener: asyncio.Server | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._password_checks = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None

    # --- life cycle -------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        """The client port, once started."""
        return self.hub.port

    @property
    def url(self) -> str:
        """Where clients connect."""
        host = self.options.host
        if host in ("", "0.0.0.0", "::"):
            host = "127.0.0.1"
        return f"nats://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def start(self) -> None:
        """Open everything; returns when clients can connect.

        Raises:
            StartError: a port or file cannot be had.
        """
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._announce()
        options = self.options
        try:
            listening = bind(options.host, options.port)
        except OSError as error:
            where = f"{options.host}:{max(options.port, 0)}"
            raise StartError(f"Error listening on port: {where}, {str(error)!r}") from error
        self.hub.port = listening.getsockname()[1]
        self._listener = await self._loop.create_server(lambda: ClientProtocol(self), sock=listening)
        self.log("INF", f"Listening for client connections on {_host_port(options.host, self.hub.port)}")
        self.running = True
        self.log("INF", "Server is ready")

    async def stop(self) -> None:
        """Close everything; returns when nothing is left."""
        if not self.running:
            return
        self.running = False
        self.log("INF", "Initiating Shutdown...")
        if self._listener is not None:
            self._listener.close()
        self.hub.close_all(CloseReason.SERVER_SHUTDOWN)
        self._flush()
        # One turn lets transports send their last words and report that they are gone.
        await asyncio.sleep(0)
        if self._listener is not None:
            self._listener = None
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None
        self.log("INF", "Server Exiting..")
        if self._stopped is not None:
            self._stopped.set()

    async def wait_stopped(self) -> None:
        """Wait until somebody stops the server."""
        assert self._stopped is not None
        await self._stopped.wait()

    def _announce(self) -> None:
        self.log("INF", "Starting nats-server")
        self.log("INF", f"  Version:  {SERVER_VERSION}")
        self.log("INF", "  Git:      [not set]")
        self.log("INF", f"  Name:     {self.identity.name}")
        self.log("INF", f"  ID:       {self.identity.id}")
        if self.options.config_file:
            self.log("INF", f"Using configuration file: {self.options.config_file} ({self.options.config_digest})")

    # --- what the hub asks (Edge) -----------------------------------------------------------------------------------

    def close(self, connection: ClientConnection, reason: CloseReason) -> None:
        """Close the socket of a connection that ended."""
        edge = connection.edge
        if isinstance(edge, ClientProtocol):
            if reason in _ABORT:
                edge.abort()
            else:
                edge.finish()

    def run_blocking(self, job: Callable[[], bool], done: Callable[[bool], None]) -> bool:
        """Check a password in a thread; few at a time, because each costs a core for a tenth of a second."""
        if self._password_checks >= PASSWORD_CHECKS_MAX or self._loop is None:
            return False
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor

            self._executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="slipstream-auth")
        self._password_checks += 1
        future = self._loop.run_in_executor(self._executor, job)

        def finished(result: asyncio.Future[bool]) -> None:
            self._password_checks -= 1
            if not result.cancelled():
                done(result.exception() is None and result.result())

        future.add_done_callback(finished)
        return True

    # --- time and flushing ------------------------------------------------------------------------------------------

    @property
    def auth_timeout_ns(self) -> int:
        """How long a client may take to say who it is."""
        configured = self.options.authorization.timeout_ns
        if self.options.tls is not None and configured == AUTH_TIMEOUT_NS:
            return self.options.tls.timeout_ns + AUTH_AFTER_TLS_NS
        return configured

    def call_later(self, delay_ns: int, callback: Callable[[], object]) -> asyncio.TimerHandle:
        """Run something after a while."""
        assert self._loop is not None
        return self._loop.call_later(delay_ns / SECOND_NS, callback)

    def _schedule_flush(self) -> None:
        assert self._loop is not None
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """End of a turn: send what was written during it, end those who did not keep up."""
        for outbox in self.queue.take_dirty():
            edge = outbox.owner.edge
            if edge is not None:
                edge.flush()
        for outbox in self.queue.take_overflowed():
            connection: ClientConnection = outbox.owner
            self.hub.log("INF", connection, f"Slow Consumer Detected: MaxPending of {outbox.limit} Exceeded")
            connection.close(CloseReason.SLOW_CONSUMER_PENDING)


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
