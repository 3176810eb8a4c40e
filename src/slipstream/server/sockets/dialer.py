"""Connecting to other servers: one attempt after another, with pauses between them, until one is reached."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Protocol

from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.server.server import Server
    from slipstream.server.sockets.http_tunnel import HttpTunnel

__all__ = ["DialTarget", "Dialer"]


class DialTarget(Protocol):
    """A server that is to be reached: where, how often, and what logs say of it."""

    @property
    def is_wanted(self) -> bool:
        """Whether it is still to be reached."""
        ...

    @property
    def timeout_ns(self) -> int:
        """How long one attempt may take."""
        ...

    def next_address(self) -> tuple[str, int]:
        """Where the next attempt goes."""
        ...

    @property
    def tunnel(self) -> HttpTunnel | None:
        """The proxy that it goes through, if any."""
        ...

    @property
    def is_announced(self) -> bool:
        """Whether attempts whose failure would be an error in the log are told there before, too."""
        ...

    def trying(self) -> str:
        """What is logged before an attempt."""
        ...

    def failed(self, attempts: int) -> str:
        """What is logged before the error of an attempt."""
        ...

    def pause_ns(self, attempts: int) -> int | None:
        """How long to wait after so many attempts; None gives up."""
        ...

    def protocol(self) -> asyncio.BaseProtocol:
        """What gets the socket."""
        ...


class Dialer:
    """The calls of one kind of links that are under way."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._calls: set[asyncio.Task[None]] = set()
        self._closed = False

    def dial(self, call: DialTarget, *, delay_ns: int = 0, again: bool = False) -> None:
        """Connect.

        Args:
            call: what is to be reached.
            delay_ns: before the first attempt.
            again: there was a connection before; it decides which failures are errors in the log.
        """
        if self._closed:
            return
        task = self._server.turns.loop.create_task(self._reach(call, delay_ns, again=again))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _reach(self, call: DialTarget, delay_ns: int, *, again: bool) -> None:
        server = self._server
        if delay_ns:
            await asyncio.sleep(delay_ns / SECOND_NS)
        attempts = 0
        while not self._closed and call.is_wanted:
            host, port = call.next_address()
            is_told = call.is_announced and self._level(attempts + 1, again=again) == "ERR"
            server.log("INF" if is_told else "DBG", call.trying())
            try:
                reached = await asyncio.wait_for(self._reached(call, host, port), call.timeout_ns / SECOND_NS)
                await self._begin(call, reached)
                return
            except (OSError, TimeoutError) as error:
                attempts += 1
                text = f"{call.failed(attempts)}: {str(error) or 'i/o timeout'}"
                server.log(self._level(attempts, again=again), text)
            pause_ns = call.pause_ns(attempts)
            if pause_ns is None:
                return
            await asyncio.sleep(pause_ns / SECOND_NS)

    async def _reached(self, call: DialTarget, host: str, port: int) -> socket.socket:
        loop = self._server.turns.loop
        if call.tunnel is not None:
            return await call.tunnel.open(loop, host, port)
        failure = OSError(f"{host} has no address")
        for family, kind, proto, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            reached = socket.socket(family, kind, proto)
            try:
                reached.setblocking(False)
                await loop.sock_connect(reached, address)
                reached.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return reached
            except OSError as error:
                reached.close()
                failure = error
            except BaseException:
                reached.close()
                raise
        raise failure

    async def _begin(self, call: DialTarget, reached: socket.socket) -> None:
        """Hand the socket over. There is no time limit here: a loop that is given up in the middle of it closes the
        socket and does not tell the protocol, which has begun."""
        try:
            await self._server.turns.loop.create_connection(call.protocol, sock=reached)
        except OSError:
            reached.close()
            raise

    def _level(self, attempts: int, *, again: bool) -> str:
        options = self._server.options
        every = options.reconnect_error_reports if again else options.connect_error_reports
        return "ERR" if attempts == 1 or attempts % max(every, 1) == 0 else "DBG"

    def stop(self) -> None:
        """Dial no more."""
        self._closed = True
        for task in self._calls:
            task.cancel()
