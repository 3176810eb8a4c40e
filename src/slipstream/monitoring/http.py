"""The monitoring port: sockets on one side, `Exchange` on the other. See docs/adr/0003-monitoring-http.md.

Everything is bounded: connections, the size of a request, the time to send one, the time to read an answer, the time
between two requests. A client that does not read is not read from either: little more than one answer waits for it.
Answers are made by the worker, in steps and within a share of the time.

`h11` and the endpoints are imported when the server is ready, in a thread, or with the first connection if that comes
before: nobody waits for them.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol, cast

from slipstream.limits import LISTEN_BACKLOG, TLS_TIMEOUT_NS
from slipstream.monitoring.limits import (
    MONITOR_CONNECTIONS_MAX,
    MONITOR_IDLE_TIMEOUT_NS,
    MONITOR_READ_TIMEOUT_NS,
    MONITOR_WRITE_TIMEOUT_NS,
)
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    import socket
    import ssl

    from slipstream.monitoring.endpoints.table import Endpoints
    from slipstream.monitoring.exchange import Exchange, HttpRequest
    from slipstream.monitoring.facts import Facts
    from slipstream.monitoring.reply import Reply
    from slipstream.monitoring.worker import Job, Worker

__all__ = ["MonitoringListener", "SocketDoor", "http_date"]

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class SocketDoor(Protocol):
    """Lets the dashboard's page in as a client of the server."""

    def take(self, transport: asyncio.Transport, request: bytes) -> None:
        """Go on with a connection on which this request for a WebSocket came."""


class MonitoringListener:
    """One monitoring port, plain or with TLS. `door` is there if the dashboard is."""

    def __init__(self, facts: Facts, worker: Worker, door: SocketDoor | None = None) -> None:
        self.facts = facts
        self.worker = worker
        self.door = door
        self.port = 0  # once started
        self.connections: set[_HttpProtocol] = set()
        self._endpoints: Endpoints | None = None
        self._listener: asyncio.Server | None = None

    async def start(self, listening: socket.socket, ssl_context: ssl.SSLContext | None = None) -> None:
        """Answer requests on a listening socket, which is the listener's from now on.

        The TLS context is the listener's too. Whoever monitors need not show a certificate, even where clients must.
        """
        if ssl_context is not None:
            from ssl import CERT_NONE

            ssl_context.verify_mode = CERT_NONE
        self.port = listening.getsockname()[1]
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: _HttpProtocol(self),
            sock=listening,
            backlog=LISTEN_BACKLOG,
            ssl=ssl_context,
            ssl_handshake_timeout=None if ssl_context is None else TLS_TIMEOUT_NS / SECOND_NS,
        )

    async def stop(self) -> None:
        """Close the port and every connection."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in list(self.connections):
            connection.abort()
        # One turn lets the transports report that they are gone.
        await asyncio.sleep(0)

    def new_exchange(self) -> Exchange:
        """HTTP of a new connection."""
        from slipstream.monitoring.exchange import Exchange

        return Exchange(http_date)

    @property
    def endpoints(self) -> Endpoints:
        """What answers."""
        if self._endpoints is None:
            from slipstream.monitoring.endpoints.table import Endpoints

            self._endpoints = Endpoints(self.facts)
        return self._endpoints


class _HttpProtocol(asyncio.Protocol):
    """One connection."""

    def __init__(self, listener: MonitoringListener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._exchange: Exchange = cast("Exchange", None)
        self._timer: asyncio.TimerHandle | None = None
        self._blocked = False  # the transport holds an answer it could not send
        self._working = False  # an answer is being made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast(asyncio.Transport, transport)
        if len(self._listener.connections) >= MONITOR_CONNECTIONS_MAX:
            self._transport.abort()
            return
        self._listener.connections.add(self)
        self._exchange = self._listener.new_exchange()
        self._wait(MONITOR_READ_TIMEOUT_NS)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._stop_waiting()
        self._listener.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        """Bytes came: answer what is complete."""
        if self._exchange is None:
            return
        if self._exchange.is_idle:
            self._wait(MONITOR_READ_TIMEOUT_NS)
        self._exchange.receive(data)
        self._answer()

    def eof_received(self) -> bool:
        """The client sends no more; what is under way is still sent."""
        if self._exchange is not None and not self._transport.is_closing():
            self._exchange.receive(b"")
            self._answer()
        return False

    def pause_writing(self) -> None:
        """The client reads slower than it asks."""
        self._blocked = True
        self._transport.pause_reading()
        self._wait(MONITOR_WRITE_TIMEOUT_NS)

    def resume_writing(self) -> None:
        """The answer is sent: go on."""
        self._blocked = False
        if self._transport.is_closing():
            return
        self._transport.resume_reading()
        self._wait(MONITOR_READ_TIMEOUT_NS)
        self._answer()

    def abort(self) -> None:
        """Close at once."""
        self._stop_waiting()
        self._transport.abort()

    def _answer(self) -> None:
        """Take the requests that are complete, one after the other."""
        exchange, transport = self._exchange, self._transport
        while not (self._blocked or self._working or transport.is_closing()):
            request = exchange.next_request()
            if isinstance(request, bytes):
                transport.write(request)
            elif request is not None and self._hands_over(request):
                return
            elif request is not None:
                self._working = True
                if not self._listener.worker.submit(self._make_answer(request)):
                    self._send(_busy())
            if exchange.is_closing and not self._working:
                # A client that does not read would keep the socket for ever.
                self._wait(MONITOR_WRITE_TIMEOUT_NS)
                transport.close()
            elif request is None:
                break
        if exchange.is_idle and not (self._blocked or self._working or transport.is_closing()):
            self._wait(MONITOR_IDLE_TIMEOUT_NS)

    def _hands_over(self, request: HttpRequest) -> bool:
        """A request of the dashboard for a WebSocket goes to the door, and the connection with it."""
        door = self._listener.door
        if door is None or not request.upgrade or not self._listener.endpoints.is_socket(request.path):
            return False
        self._stop_waiting()
        self._listener.connections.discard(self)
        door.take(self._transport, request.upgrade)
        return True

    def _make_answer(self, request: HttpRequest) -> Job:
        """A job for the worker. Whatever becomes of it, the client gets an answer."""
        self._stop_waiting()
        try:
            reply = yield from self._listener.endpoints.reply(request.path, request.query, request.known)
        except Exception:
            self._send(_failed())
            raise
        self._send(reply)

    def _send(self, reply: Reply) -> None:
        """Send an answer and go on with the next request."""
        self._working = False
        if self._transport.is_closing():
            return
        self._transport.write(self._exchange.answer(reply))
        self._wait(MONITOR_READ_TIMEOUT_NS)
        self._answer()

    def _wait(self, timeout_ns: int) -> None:
        """Give the client so long for its next step."""
        self._stop_waiting()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(timeout_ns / SECOND_NS, self._transport.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _busy() -> Reply:
    from slipstream.monitoring.reply import Reply

    return Reply(503, "text/plain; charset=utf-8", b"503 Service Unavailable\n")


def _failed() -> Reply:
    from slipstream.monitoring.reply import Reply

    return Reply(500, "text/plain; charset=utf-8", b"500 Internal Server Error\n")


def http_date() -> str:
    """Now, as HTTP writes it, whatever the locale is."""
    now = time.gmtime()
    clock = f"{now.tm_hour:02}:{now.tm_min:02}:{now.tm_sec:02}"
    return f"{_WEEKDAYS[now.tm_wday]}, {now.tm_mday:02} {_MONTHS[now.tm_mon - 1]} {now.tm_year} {clock} GMT"
