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
from typing import TYPE_CHECKING, cast

from slipstream.config.durations import format_duration
from slipstream.config.record import Record
from slipstream.jetstream.backup.errors import BadBackup
from slipstream.limits import FIRST_PING_MAX_NS
from slipstream.protocol import texts
from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason
from slipstream.server.limits import EARLY_FLUSH_BYTES
from slipstream.server.link_compression import LinkCompression
from slipstream.server.read_pace import ReadPace
from slipstream.server.tls_layer import TlsFailed, TlsLayer
from slipstream.units import MIB, SECOND_NS

if TYPE_CHECKING:
    from slipstream.links.end import LinkEnd
    from slipstream.server.server import Server
    from slipstream.server.tls import TlsContext
    from slipstream.server.tls_layer import TlsFacts

__all__ = ["LinkProtocol", "LinkTiming", "TlsFirst"]


_UNPACKED_A_TURN = MIB  # of what came compressed; some milliseconds of work


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


class LinkProtocol(asyncio.BufferedProtocol):
    """One socket to another server.

    Args:
        server: whose it is.
        timing: how long things may take.
        on_open: makes the link when the socket is there.
        on_lost: is told when the socket is gone, after the link was closed.
        tls_first: TLS comes before anything else.
        on_ready: goes on when link and socket know each other, before anything is read.
    """

    def __init__(
        self,
        server: Server,
        timing: LinkTiming,
        on_open: Callable[[LinkProtocol], LinkEnd],
        on_lost: Callable[[LinkEnd], None] | None = None,
        tls_first: TlsFirst | None = None,
        on_ready: Callable[[LinkProtocol], None] | None = None,
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
        self._blocked = False  # the transport holds bytes it could not send
        self._late = False  # a write took longer than its deadline, and the peer was given more time
        self._ended = False  # finished or lost
        self._deadline: asyncio.TimerHandle | None = None  # of a write under way
        self._timer: asyncio.TimerHandle | None = None  # of the present step of the handshake first, PING later
        self._tls: TlsLayer | None = None
        self._compression: LinkCompression | None = None
        self._unpacked_bytes = 0  # in this turn
        self._on_secured: Callable[[TlsFacts], object] | None = None
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
        if self._tls is not None or self._compression is not None:
            return self._shared
        return self._pace.cut(self.end.parser.lend(self._shared))

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came."""
        if self._tls is not None:
            self._on_encrypted(memoryview(self._shared)[:nbytes])
        elif self._compression is not None:
            self._on_packed(memoryview(self._shared)[:nbytes])
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
        self._blocked = True
        outbox = self.end.outbox
        outbox.in_flight = self.transport.get_write_buffer_size()
        outbox.early_at = outbox.limit
        if self._deadline is None:
            self._await_write()

    def resume_writing(self) -> None:
        """Everything handed over is sent."""
        self._blocked = False
        if self._late:
            self._late = False
            self.end.log("INF", "Slow Consumer Recovered")
        outbox = self.end.outbox
        outbox.in_flight = 0
        outbox.early_at = EARLY_FLUSH_BYTES
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self.flush()

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
                turns.end_read(end.cid, nbytes)
        if parser.msgs != before:
            turns.reads += 1
            end.last_activity_ns = end.last_read_ns
        took_ns = time.time_ns() - end.last_read_ns
        was_long = self._pace.was_long(nbytes, turns.queue.written - written, took_ns)
        if (parser.paused or was_long) and not self._held_back:
            self._held_back = True
            self.transport.pause_reading()
            if was_long:
                turns.call_soon(self.resume_reading)

    def resume_reading(self) -> None:
        """The answer about the peer is there, or the others had their turn."""
        if self._held_back and not self.end.parser.paused:
            self._held_back = False
            if self._compression is not None:
                self._unpacked_bytes = 0
                self._unpack()
            if not self._held_back and not self.transport.is_closing():
                self.transport.resume_reading()

    # --- compression ------------------------------------------------------------------------------------------------

    def compress(self, mode: str) -> None:
        """Send and read frames of S2 from here on, or change the level; what waits leaves as it is."""
        if self._compression is not None:
            self._compression.mode = mode
            return
        chunks = self.end.outbox.take()
        if chunks:
            self._write(chunks)
        self._compression = LinkCompression(mode)

    def _on_packed(self, data: memoryview) -> None:
        assert self._compression is not None
        self._compression.receive(data)
        self._unpacked_bytes = 0
        if not self._held_back:
            self._unpack()

    def _unpack(self) -> None:
        """Read what is in the frames that came, in turns: little may become much."""
        compression = self._compression
        assert compression is not None
        try:
            while not self._ended and not self._held_back:
                content = compression.next_content()
                if content is None:
                    return
                self._unpacked_bytes += len(content)
                self._parse(len(content), content)
                if self._unpacked_bytes >= _UNPACKED_A_TURN and not self._held_back:
                    self._held_back = True
                    self.transport.pause_reading()
                    self._turns.call_soon(self.resume_reading)
        except BadBackup as error:
            self.end.log("ERR", f"read error: compressed bytes make no sense ({error})")
            self.end.close(CloseReason.READ_ERROR)

    # --- TLS --------------------------------------------------------------------------------------------------------

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
        self.end.log("DBG", f"Starting TLS {'server' if server_hostname is None else 'client'} handshake")
        self._tls = TlsLayer(context, server_hostname)
        self._on_secured = on_secured
        self.set_step_timer(timeout_ns, self._on_handshake_timeout)
        if server_hostname is not None:
            self._shake_hands()
        if early:
            self._on_encrypted(memoryview(early))

    def _on_encrypted(self, data: memoryview) -> None:
        tls = self._tls
        assert tls is not None
        if self._ended:
            return
        try:
            tls.receive(data)
            if not tls.is_open and not self._shake_hands():
                return
            while not self._ended:
                if self._compression is not None:
                    count = tls.read_into(self._shared)
                    if not count:
                        return
                    self._on_packed(memoryview(self._shared)[:count])
                    continue
                count = tls.read_into(self.end.parser.lend(self._shared))
                if not count:
                    return
                self._parse(count)
        except EOFError:
            self.transport.close()
        except TlsFailed as error:
            if tls.is_open:
                self.end.log("ERR", f"read error: {error.text}")
                self.end.close(CloseReason.READ_ERROR)
            else:
                self._on_handshake_failed(error)

    def _shake_hands(self) -> bool:
        tls = self._tls
        assert tls is not None
        try:
            done = tls.shake_hands()
        except TlsFailed as error:
            self._on_handshake_failed(error)
            return False
        self.transport.write(tls.data_to_send())
        if not done:
            return False
        self.cancel_step_timer()
        facts = tls.facts()
        self.end.log("DBG", "TLS handshake complete")
        self.end.log("DBG", f"TLS version {facts.version}, cipher suite {facts.cipher_suite}")
        assert self._on_secured is not None
        self._on_secured(facts)
        self.flush()
        return True

    def _on_handshake_failed(self, error: TlsFailed) -> None:
        assert self._tls is not None
        # An alert tells the peer what is wrong.
        self.transport.write(self._tls.data_to_send())
        self.end.log("ERR", f"TLS handshake error: {error.text}")
        self.end.close(CloseReason.TLS_HANDSHAKE_ERROR)

    def _on_handshake_timeout(self) -> None:
        self.end.log("ERR", "TLS handshake error: timeout")
        self.end.close(CloseReason.TLS_HANDSHAKE_ERROR)

    # --- writing ----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send what waits, unless the transport is busy or a handshake is under way."""
        if self._blocked or self.transport is None or self.is_shaking_hands:
            return
        chunks = self.end.outbox.take()
        if chunks:
            self._write(chunks)

    def _write(self, chunks: list[bytes | memoryview]) -> None:
        if self._compression is not None:
            chunks = [self._compression.pack(chunks)]
        if self._tls is not None:
            self.transport.write(self._tls.encrypt(chunks))
        elif len(chunks) == 1:
            self.transport.write(chunks[0])
        else:
            self.transport.writelines(chunks)

    def finish(self) -> None:
        """Send the last words and close. In the middle of a handshake there are none."""
        self._cancel_timers()
        outbox = self.end.outbox
        chunks = [] if self.is_shaking_hands else outbox.take()
        self._ended = True
        outbox.close()
        if chunks and not self._blocked:
            self._write(chunks)
        if self._tls is not None and not self._blocked:
            goodbye = self._tls.close()
            if goodbye:
                self.transport.write(goodbye)
        if self._blocked:
            # A peer that does not read would keep the socket for ever.
            self._deadline = self._turns.call_later(SECOND_NS, self.transport.abort)
        self.transport.close()

    def abort(self) -> None:
        """Close at once; what waits is dropped."""
        self._ended = True
        self._cancel_timers()
        self.end.outbox.close()
        self.transport.abort()

    # --- timers -----------------------------------------------------------------------------------------------------

    def set_step_timer(self, delay_ns: int, callback: Callable[[], object]) -> None:
        """Do something unless the present step of the handshake ends before; replaces the timer of the step before."""
        self.cancel_step_timer()
        self._timer = self._turns.call_later(delay_ns, callback)

    def cancel_step_timer(self) -> None:
        """The present step ended in time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def start_pings(self) -> None:
        """The handshake is over: ask from now on whether the peer lives, first soon, for the round trip time."""
        interval = min(self._timing.ping_interval_ns, FIRST_PING_MAX_NS)
        interval += int(interval * self._server.hub.rng.random() * 0.2)
        self.set_step_timer(interval, self._on_ping_timer)

    def _on_ping_timer(self) -> None:
        end, timing = self.end, self._timing
        self._timer = None
        if end.state is State.CLOSED:
            return
        if end.keepalive.unanswered + 1 > timing.ping_max:
            end.log("DBG", "Stale Connection - Closing")
            end.close(CloseReason.STALE_CONNECTION, texts.STALE_CONNECTION)
            return
        end.keepalive.ask()
        self._timer = self._turns.call_later(timing.ping_interval_ns, self._on_ping_timer)

    def _await_write(self) -> None:
        self._deadline = self._turns.call_later(self._timing.write_deadline_ns, self._on_write_deadline)

    def _on_write_deadline(self) -> None:
        """A write took too long: the link ends if the peer has read nothing meanwhile, or as it is configured."""
        self._deadline = None
        end = self.end
        if not self._blocked or end.state is State.CLOSED:
            return
        outbox, unsent = end.outbox, self.transport.get_write_buffer_size()
        waited, state = format_duration(self._timing.write_deadline_ns), "State" if self._late else "Detected"
        size = outbox.pending
        text = f"Slow Consumer {state}: WriteDeadline of {waited} exceeded with 1 chunks of {size} total bytes."
        end.log("INF", text)
        if self._timing.closes_late or unsent >= outbox.in_flight:
            end.close(CloseReason.SLOW_CONSUMER_WRITE_DEADLINE)
            return
        outbox.in_flight = unsent
        self._late = True
        self._await_write()

    def _cancel_timers(self) -> None:
        self.cancel_step_timer()
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
