"""The client port: sockets on one side, connections on the other.

Bytes read land in one buffer that all connections share (a read and its parse happen in one go, so nobody else needs
it meanwhile); what was written during a turn of the loop is sent at its end, one write a connection.

Back-pressure has three steps. A transport that cannot take more keeps its data, and the outbox collects what follows.
A publish that meets an outbox near its limit stops its producer for a moment. An outbox over its limit, or a write
that makes no end within the deadline, ends the connection as a slow consumer.

Nobody takes a turn for himself alone: a read is the longer the less output it makes. One that made much is followed by
shorter ones, with a turn of the others in between. So is a write: what is more than a mebibyte leaves in pieces.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, cast

from slipstream.limits import FIRST_PING_MAX_NS
from slipstream.protocol import texts
from slipstream.protocol.host import State
from slipstream.protocol.peer import Peer
from slipstream.protocol.texts import CloseReason
from slipstream.server.limits import EARLY_FLUSH_BYTES, PRODUCER_STALL_NS, TURN_SENT_BYTES
from slipstream.server.sockets.back_pressure import BackPressure
from slipstream.server.sockets.read_pace import ReadPace
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    import socket

    from slipstream.protocol.connection import ClientConnection
    from slipstream.server.server import Server

__all__ = ["ClientProtocol", "address_of"]

_RTT_VALID_NS = 3600 * SECOND_NS  # a round trip time older than this is measured again


class ClientProtocol(asyncio.BufferedProtocol):
    """One client socket."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._turns = server.turns
        self._shared = server.read_buffer
        self._delivery = server.hub.delivery
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.connection: ClientConnection = cast("ClientConnection", None)
        self._pressure = BackPressure(self._turns, self)
        self._rest_follows = False  # what is left in the outbox has to wait for a turn of the others
        self._reading_paused = False
        self._pace = ReadPace()
        self._timer: asyncio.TimerHandle | None = None  # authentication first, PING later

    # --- asyncio ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there: greet it, unless that was done already."""
        self.transport = cast(asyncio.Transport, transport)
        if self.connection is not None:
            if self._attach():
                self.flush()
                self.start_timers()
        elif self.open(Peer(*address_of(self.transport))):
            self._turns.run_and_flush(self.connection.greet)  # it says nothing before it has INFO
            self.start_timers()

    def greet_on(self, accepted: socket.socket) -> None:
        """Make the connection and send INFO before the loop has the socket: the client has something to do meanwhile.

        Until then nothing else can be sent to it: that waits in its outbox.
        """
        hub = self._server.hub
        try:
            ip, port = accepted.getpeername()[:2]
        except OSError:  # it is gone, which the loop finds out as well
            ip, port = "", 0
        self.connection = connection = hub.open_connection(Peer(_plain_ip(ip), port))
        if connection.state is State.CLOSED:
            return
        line = hub.info_line(connection)
        try:
            sent = accepted.send(line)
        except OSError:
            sent = 0
        if sent < len(line):
            connection.outbox.write(line[sent:])

    def open(self, peer: Peer) -> bool:
        """Make the connection of a peer; False when the server wants none of it."""
        self.connection = self._server.hub.open_connection(peer)
        return self._attach()

    def _attach(self) -> bool:
        """Connection and socket know each other from here on; False when the server wants none of it."""
        connection = self.connection
        # Whatever is not sent at once is too much; the loop's own TLS (the dashboard's) counts from its limit on.
        secure = self.transport.get_extra_info("sslcontext") is not None
        self.transport.set_write_buffer_limits(high=int(secure))
        connection.edge = self
        connection.outbox.early_at = EARLY_FLUSH_BYTES
        if connection.state is State.CLOSED:
            # Closed before it had an edge.
            self.finish()
            return False
        return True

    def start_timers(self) -> None:
        """From here on a client that has to say who it is must not wait too long."""
        if self._server.hub.authenticator.auth_required:
            self._timer = self._turns.call_later(self._server.auth_timeout_ns, self._on_auth_timeout)
        else:
            self.await_connect()

    def on_connected(self) -> None:
        """The client was let in, perhaps after a while in which nothing was read."""
        self._pace.begin()
        if self.connection.connected:
            self.start_pings()
        elif self._timer is None:
            self.await_connect()
        if self._reading_paused:
            # The parser still counts as paused here; it goes on with what it kept before anything new is read.
            self._turns.call_soon(self.resume_reading)

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        """Where to read to."""
        return self._pace.cut(self.connection.parser.lend(self._shared))

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came: parse and act on all of them."""
        connection = self.connection
        connection.last_read_ns = time.time_ns()
        parser = connection.parser
        turns = self._turns
        before, written = parser.msgs, turns.queue.written
        turns.reading = True
        try:
            parser.filled(self._shared, nbytes)
        finally:
            turns.reading = False
            if turns.ends or turns.unsent:
                turns.end_read(connection.cid, nbytes)
        if parser.msgs != before:
            turns.reads += 1
            connection.last_activity_ns = connection.last_read_ns
            if self._delivery.stalled and self._delivery.take_stalled():
                self._stall()
        if parser.unparsed.paused and not self._reading_paused:
            self._hold_reading()
        took_ns = time.time_ns() - connection.last_read_ns
        if self._pace.was_long(nbytes, turns.queue.written - written, took_ns) and not self._reading_paused:
            self._hold_reading()
            turns.call_soon(self.resume_reading)

    def eof_received(self) -> bool:
        """The client is done; so are we."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._cancel_timers()
        if self.connection is not None:
            reason = CloseReason.CLIENT_CLOSED
            if isinstance(exc, OSError) and not isinstance(exc, ConnectionError):
                reason = CloseReason.READ_ERROR
            self.connection.close(reason)
            self.connection.outbox.close()
            # The record of a closed connection stays; its socket, buffers and timers do not.
            self.connection.edge = None

    def pause_writing(self) -> None:
        """The transport keeps bytes: the peer reads slower than we write."""
        self._pressure.pause()

    def resume_writing(self) -> None:
        """Everything handed over is sent."""
        self._pressure.resume()
        self.flush()

    # --- back-pressure ------------------------------------------------------------------------------------------

    @property
    def slow_peer(self) -> ClientConnection:
        """Who reads."""
        return self.connection

    @property
    def write_deadline_ns(self) -> int:
        """How long a write may take."""
        return self._server.hub.options.write_deadline_ns

    @property
    def closes_late(self) -> bool:
        """Whether a write past its deadline ends the connection even when the client has read something."""
        return self._server.hub.options.write_timeout != "retry"

    def log_pressure(self, text: str) -> None:
        """A log line about it."""
        self._server.hub.log("INF", self.connection, text)

    def was_late(self) -> None:
        """A write took too long, and the client is given more time."""
        self._server.hub.was_slow(self.connection)

    # --- writing ------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send what waits, unless the transport is still busy; of much the first part, and the rest a turn later."""
        if self._pressure.blocked or self._rest_follows or self.transport is None:
            return
        outbox = self.connection.outbox
        chunks = outbox.take(TURN_SENT_BYTES)
        if not chunks:
            return
        self.write(chunks)
        if outbox.waiting and not self._pressure.blocked:
            self._rest_follows = True
            outbox.early_at = outbox.limit
            self._turns.call_soon(self._send_rest)

    def _send_rest(self) -> None:
        self._rest_follows = False
        if not self._pressure.blocked:
            self.connection.outbox.early_at = EARLY_FLUSH_BYTES
            self.flush()

    def write(self, chunks: list[bytes | memoryview]) -> None:
        """Put bytes on the wire."""
        if len(chunks) == 1:
            self.transport.write(chunks[0])
        else:
            self.transport.writelines(chunks)

    def finish(self) -> None:
        """Send the last words and close."""
        self._cancel_timers()
        outbox = self.connection.outbox
        chunks = outbox.take()
        outbox.close()
        if chunks:
            self.write(chunks)
        self._pressure.closing()
        self.transport.close()

    def abort(self) -> None:
        """Close at once; what waits is dropped."""
        self._cancel_timers()
        self.connection.outbox.close()
        self.transport.abort()

    # --- reading ------------------------------------------------------------------------------------------------

    def _stall(self) -> None:
        """Let receivers catch up before this producer goes on."""
        hub = self._server.hub
        if hub.options.no_fast_producer_stall or self._reading_paused:
            return
        self.connection.stalls += 1
        hub.stalled_clients += 1
        self._reading_paused = True
        self.transport.pause_reading()
        self._turns.call_later(PRODUCER_STALL_NS, self.resume_reading)

    def _hold_reading(self) -> None:
        self._reading_paused = True
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on after a pause."""
        if self._reading_paused and not self.connection.parser.unparsed.paused:
            self._reading_paused = False
            if not self.transport.is_closing():
                self.transport.resume_reading()

    # --- timers -------------------------------------------------------------------------------------------------

    def await_connect(self) -> None:
        """A client that nobody asks who it is may be slow with CONNECT: no early PING, its first answer is CONNECT."""
        self._timer = self._turns.call_later(self._ping_interval_ns(), self._on_ping_timer)

    def start_pings(self) -> None:
        """The client sent CONNECT: ask from now on whether it lives, first soon, for the round trip time."""
        self.cancel_timer()
        interval = min(self._ping_interval_ns(), FIRST_PING_MAX_NS)
        interval += int(interval * self._server.hub.rng.random() * 0.2)
        self._timer = self._turns.call_later(interval, self._on_ping_timer)

    def _ping_interval_ns(self) -> int:
        return self._server.hub.options.ping_interval_ns

    def _on_auth_timeout(self) -> None:
        self._timer = None
        if self.connection.account is None:
            self._server.hub.log("ERR", self.connection, texts.AUTHENTICATION_TIMEOUT)
            self.connection.close(CloseReason.AUTHENTICATION_TIMEOUT, texts.AUTHENTICATION_TIMEOUT)

    def _on_ping_timer(self) -> None:
        connection = self.connection
        options = self._server.hub.options
        interval = self._ping_interval_ns()
        now_ns = time.time_ns()
        self._timer = None
        if connection.state is State.CLOSED:
            return
        # What CONNECT told of the round trip time is an estimate: only a PING measures it.
        if now_ns - connection.last_read_ns >= interval or now_ns - connection.ping_sent_ns > _RTT_VALID_NS:
            if connection.pings_out + 1 > options.ping_max:
                self._server.hub.log("DBG", connection, "Stale Client Connection - Closing")
                connection.close(CloseReason.STALE_CONNECTION, texts.STALE_CONNECTION)
                return
            connection.send_ping()
        self._timer = self._turns.call_later(interval, self._on_ping_timer)

    def cancel_timer(self) -> None:
        """Wait for nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cancel_timers(self) -> None:
        self.cancel_timer()
        self._pressure.cancel()


def address_of(transport: asyncio.Transport) -> tuple[str, int]:
    """Where the other end of a socket is."""
    name = transport.get_extra_info("peername")
    if not name:
        return "", 0
    return _plain_ip(name[0]), name[1]


def _plain_ip(ip: str) -> str:
    """A dual-stack socket shows IPv4 peers in IPv6 dress."""
    return ip.removeprefix("::ffff:")
