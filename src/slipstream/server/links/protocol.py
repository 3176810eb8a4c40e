"""The socket of a link to another server, accepted or dialled: bytes in, bytes out, pings, write deadline, TLS.

What is said over it is decided by the link (`links`); this is the part that routes and leaf links share. Reading,
flushing and back-pressure are as on the client port, see `listener`. TLS may begin at any time, as either side of the
handshake; until it is done nothing else is sent, and what the link writes meanwhile waits in its outbox.

    open ──► [begin_tls ──► on_secured] ──► start_pings ──► lost
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from slipstream.config.record import Record
from slipstream.limits import FIRST_PING_MAX_NS
from slipstream.protocol import texts
from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason
from slipstream.server.errors import LinkUnreadable
from slipstream.server.limits import EARLY_FLUSH_BYTES
from slipstream.server.links.coding import LinkCoding
from slipstream.server.links.tls import LinkTls
from slipstream.server.sockets.back_pressure import BackPressure
from slipstream.server.sockets.read_pace import ReadPace
from slipstream.server.sockets.step_timer import StepTimer
from slipstream.server.sockets.tls_layer import TlsLayer
from slipstream.units import MIB, SECOND_NS

if TYPE_CHECKING:
    from slipstream.links.end import LinkEnd
    from slipstream.server.links.websocket import LinkWebsocket
    from slipstream.server.server import Server
    from slipstream.server.sockets.tls import TlsContext
    from slipstream.server.sockets.tls_layer import TlsFacts

__all__ = ["AcceptedLayers", "LinkProtocol", "LinkTiming", "TlsFirst"]


_DECODED_A_TURN = MIB  # of what came compressed; some milliseconds of work


class LinkTiming(Record):
    """How long things may take on a link."""

    ping_interval_ns: int
    ping_max: int  # PINGs without an answer before the peer counts as gone
    write_deadline_ns: int
    closes_late: bool = False  # a write past its deadline ends the link even when the peer has read something


class TlsFirst(Record):
    """TLS from the first byte on: what `LinkProtocol.begin_tls` is given when the socket is open."""

    context: TlsContext
    on_secured: Callable[[LinkProtocol, TlsFacts], object]
    server_hostname: str | None
    timeout_ns: int


class AcceptedLayers(NamedTuple):
    """What was agreed on with a peer that was let in elsewhere, on the WebSocket port."""

    tls: TlsLayer | None  # open
    coding: LinkCoding
    facts: TlsFacts | None  # of its handshake


class LinkProtocol(asyncio.BufferedProtocol):
    """One socket to another server.

    Args:
        server: whose it is.
        timing: how long things may take; asked each time, since a reload may change it.
        on_open: makes the link when the socket is there.
        on_lost: is told when the socket is gone, after the link was closed.
        tls_first: TLS comes before anything else.
        on_ready: goes on when link and socket know each other, before anything is read.
        accepted: what was agreed on with the peer before this had the socket.
    """

    def __init__(
        self,
        server: Server,
        timing: Callable[[], LinkTiming],
        on_open: Callable[[LinkProtocol], LinkEnd],
        on_lost: Callable[[LinkEnd], None] | None = None,
        tls_first: TlsFirst | None = None,
        on_ready: Callable[[LinkProtocol], None] | None = None,
        accepted: AcceptedLayers | None = None,
    ) -> None:
        self._server = server
        self._turns = server.turns
        self._shared = server.read_buffer
        self._timing = timing
        self._on_open = on_open
        self._on_lost = on_lost
        self._tls_first = tls_first
        self._on_ready = on_ready
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.end: LinkEnd = cast("LinkEnd", None)
        self._pressure = BackPressure(self._turns, self)
        self._ended = False  # finished or lost
        self.steps = StepTimer(self._turns)  # of the handshake first, PING later
        self._tls = None if accepted is None or accepted.tls is None else LinkTls(self, accepted.tls)
        self._coding: LinkCoding | None = None if accepted is None else accepted.coding
        self._decoded_bytes = 0  # in this turn
        self._on_first_bytes: Callable[[bytes], None] | None = None
        self._held_back = False  # nothing is read: an answer about the peer is awaited, or others have their turn
        self._pace = ReadPace()
        self._pace.begin()

    # --- asyncio ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=0)
        self.end = self._on_open(self)
        self.end.edge = self
        self.end.outbox.early_at = EARLY_FLUSH_BYTES
        first = self._tls_first
        if self.end.state is State.CLOSED:
            self.finish()
        elif first is not None:
            self.begin_tls(
                first.context,
                partial(first.on_secured, self),
                server_hostname=first.server_hostname,
                timeout_ns=first.timeout_ns,
            )
        elif self._on_ready is not None:
            self._on_ready(self)

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        """Where to read to: encrypted bytes go to the buffer that all share, since OpenSSL copies them at once."""
        if self._tls is not None or self._coding is not None or self._on_first_bytes is not None:
            return self._shared
        return self._pace.cut(self.end.parser.lend(self._shared))

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came."""
        if self._on_first_bytes is not None:
            take, self._on_first_bytes = self._on_first_bytes, None
            take(bytes(memoryview(self._shared)[:nbytes]))
        elif self._tls is not None:
            self._tls.receive(memoryview(self._shared)[:nbytes])
        elif self._coding is not None:
            self._on_coded(memoryview(self._shared)[:nbytes])
        else:
            self._parse(nbytes)

    def eof_received(self) -> bool:
        """The peer is done; so are we."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._ended = True
        self._cancel_timers()
        end = self.end
        if end is None:
            return
        if self.is_shaking_hands:
            end.log("ERR", "TLS handshake error: EOF")
            end.close(CloseReason.TLS_HANDSHAKE_ERROR)
        reason = CloseReason.CLIENT_CLOSED
        if isinstance(exc, OSError) and not isinstance(exc, ConnectionError):
            reason = CloseReason.READ_ERROR
        end.close(reason)
        end.outbox.close()
        end.edge = None
        if self._on_lost is not None:
            self._on_lost(end)

    def pause_writing(self) -> None:
        """The transport keeps bytes: the peer reads slower than we write."""
        self._pressure.pause()

    def resume_writing(self) -> None:
        """Everything handed over is sent."""
        self._pressure.resume()
        self._put_control()
        self.flush()

    # --- back-pressure ----------------------------------------------------------------------------------------------

    @property
    def slow_peer(self) -> LinkEnd:
        """Who reads."""
        return self.end

    @property
    def write_deadline_ns(self) -> int:
        """How long a write may take."""
        return self._timing().write_deadline_ns

    @property
    def closes_late(self) -> bool:
        """Whether a write past its deadline ends the link even when the peer has read something."""
        return self._timing().closes_late

    def log_pressure(self, text: str) -> None:
        """A log line about it."""
        self.end.log("INF", text)

    def was_late(self) -> None:
        """A write took too long, and the peer is given more time: nobody counts that for links."""

    # --- reading ----------------------------------------------------------------------------------------------------

    def _parse(self, nbytes: int, content: bytes | None = None) -> None:
        end, turns = self.end, self._turns
        end.last_read_ns = time.time_ns()
        parser = end.parser
        before, written = parser.msgs, turns.queue.written
        turns.reading = True
        try:
            if content is None:
                parser.filled(self._shared, nbytes)
            else:
                parser.feed(content)
        finally:
            turns.reading = False
            if turns.ends or turns.unsent:
                turns.end_read(end.cid if end.of_clients else 0, nbytes)
        if parser.msgs != before:
            turns.reads += end.of_clients
            end.last_activity_ns = end.last_read_ns
        took_ns = time.time_ns() - end.last_read_ns
        was_long = self._pace.was_long(nbytes, turns.queue.written - written, took_ns)
        if (parser.unparsed.paused or was_long) and not self._held_back:
            self._held_back = True
            self.transport.pause_reading()
            if was_long:
                turns.call_soon(self.resume_reading)

    def resume_reading(self) -> None:
        """The answer about the peer is there, or the others had their turn."""
        if self._held_back and not self.end.parser.unparsed.paused:
            self._held_back = False
            if self._coding is not None:
                self._decoded_bytes = 0
                self._decode()
            if not self._held_back and not self.transport.is_closing():
                self.transport.resume_reading()

    def await_first_bytes(self, delay_ns: int, came: Callable[[bytes], None], silent: Callable[[], None]) -> None:
        """Find out whether the peer speaks first: give its first bytes to somebody, or tell that there were none."""

        def over() -> None:
            self._on_first_bytes = None
            silent()

        self._on_first_bytes = came
        self.steps.start(delay_ns, over)

    def read_on(self) -> None:
        """This has the socket of somebody else now: read what that had decrypted already."""
        if self._tls is not None:
            self.take_plain()

    # --- layers -----------------------------------------------------------------------------------------------------

    def compress(self, mode: str) -> None:
        """Send and read frames of S2 from here on, or change the level; what waits leaves as it is."""
        if self._coding is None or not self._coding.is_compressed:
            chunks = self.end.outbox.take()
            if chunks:
                self._write(chunks)
        if self._coding is None:
            self._coding = LinkCoding()
        self._coding.compress(mode)

    def ask_for_websocket(self, websocket: LinkWebsocket) -> None:
        """Send the request of a WebSocket; frames are spoken from here on."""
        self._coding = LinkCoding(websocket)
        self._put_control()

    def peer_is_known(self) -> None:
        """The handshake of the link is over."""
        if self._coding is not None:
            self._coding.peer_is_known()

    def _on_coded(self, data: memoryview) -> None:
        assert self._coding is not None
        self._coding.receive(data)
        self._decoded_bytes = 0
        if not self._held_back:
            self._decode()

    def _decode(self) -> None:
        """Read what is in the frames that came, in turns: little may become much."""
        coding = self._coding
        assert coding is not None
        try:
            while not self._ended and not self._held_back:
                content = coding.next_content()
                if content is None:
                    break
                self._decoded_bytes += len(content)
                self._parse(len(content), content)
                if self._decoded_bytes >= _DECODED_A_TURN and not self._held_back:
                    self._held_back = True
                    self.transport.pause_reading()
                    self._turns.call_soon(self.resume_reading)
            self._put_control()
        except LinkUnreadable as error:
            if str(error):
                self.end.log("ERR", str(error))
            self.end.close(error.reason)

    def _put_control(self) -> None:
        """Send what the layers themselves have to say."""
        if self._coding is not None and not self._pressure.blocked and not self._ended:
            data = self._coding.control()
            if data:
                self._put([data])

    # --- TLS --------------------------------------------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        """Whether nothing is read any more."""
        return self._ended

    @property
    def is_shaking_hands(self) -> bool:
        """Whether only the handshake may use the wire."""
        return self._tls is not None and not self._tls.is_open and not self._ended

    def begin_tls(
        self,
        context: TlsContext,
        on_secured: Callable[[TlsFacts], object],
        *,
        server_hostname: str | None = None,
        timeout_ns: int = 2 * SECOND_NS,
        early: bytes = b"",
    ) -> None:
        """Speak TLS from here on.

        Args:
            context: of the listener, or for the peer.
            on_secured: what comes after the handshake.
            server_hostname: the name that the peer's certificate has to show, when this side dialled; None: it is the
                server of the handshake.
            timeout_ns: for the handshake.
            early: bytes that came already.
        """
        self._tls = LinkTls(self, TlsLayer(context, server_hostname), on_secured)
        self._tls.begin(speaks_first=server_hostname is not None, timeout_ns=timeout_ns, early=early)

    def take_plain(self) -> None:
        """Read what is decrypted."""
        assert self._tls is not None
        layer = self._tls.layer
        while not self._ended:
            if self._coding is not None:
                count = layer.read_into(self._shared)
                if not count:
                    return
                self._on_coded(memoryview(self._shared)[:count])
                continue
            count = layer.read_into(self.end.parser.lend(self._shared))
            if not count:
                return
            self._parse(count)

    # --- writing ----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send what waits, unless the transport is busy or a handshake is under way."""
        if self._pressure.blocked or self.transport is None or self.is_shaking_hands:
            return
        chunks = self.end.outbox.take()
        if chunks:
            self._write(chunks)

    def _write(self, chunks: list[bytes | memoryview]) -> None:
        if self._coding is not None:
            chunks = self._coding.wrap(chunks)
        self._put(chunks)

    def _put(self, chunks: list[bytes | memoryview]) -> None:
        if self._tls is not None:
            self._tls.write(chunks)
        elif len(chunks) == 1:
            self.transport.write(chunks[0])
        elif chunks:
            self.transport.writelines(chunks)

    def finish(self) -> None:
        """Send the last words and close. In the middle of a handshake there are none."""
        self._cancel_timers()
        outbox = self.end.outbox
        chunks = [] if self.is_shaking_hands else outbox.take()
        self._ended = True
        outbox.close()
        if not self._pressure.blocked:
            self._farewell(chunks)
        self._pressure.closing()
        self.transport.close()

    def _farewell(self, chunks: list[bytes | memoryview]) -> None:
        """The last words, in the protocols around them, too."""
        if chunks:
            self._write(chunks)
        if self._coding is not None and not (self._tls is not None and not self._tls.is_open):
            self._coding.farewell(self.end.close_reason or CloseReason.CLIENT_CLOSED)
            data = self._coding.control()
            if data:
                self._put([data])
        if self._tls is not None:
            self._tls.say_goodbye()

    def abort(self) -> None:
        """Close at once; what waits is dropped."""
        self._ended = True
        self._cancel_timers()
        self.end.outbox.close()
        self.transport.abort()

    # --- timers -----------------------------------------------------------------------------------------------------

    def start_pings(self) -> None:
        """The handshake is over: ask from now on whether the peer lives, first soon, for the round trip time."""
        interval = min(self._timing().ping_interval_ns, FIRST_PING_MAX_NS)
        interval += int(interval * self._server.hub.rng.random() * 0.2)
        self.steps.start(interval, self._on_ping_timer)

    def _on_ping_timer(self) -> None:
        end, timing = self.end, self._timing()
        if end.state is State.CLOSED:
            return
        if end.keepalive.unanswered + 1 > timing.ping_max:
            end.log("DBG", "Stale Connection - Closing")
            end.close(CloseReason.STALE_CONNECTION, texts.STALE_CONNECTION)
            return
        end.keepalive.ask()
        self.steps.start(timing.ping_interval_ns, self._on_ping_timer)

    def _cancel_timers(self) -> None:
        self.steps.cancel()
        self._pressure.cancel()
