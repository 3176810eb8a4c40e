"""When a peer reads slower than it is written to: what waits is counted, and a write has an end.

    free ──pause──► blocked ──resume──► free
                       └──deadline──► closed, or given more time once it has read something

For sockets of clients and of other servers alike. While blocked nothing is flushed early: the outbox collects, up to
its limit.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from slipstream.config.durations import format_duration
from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason
from slipstream.server.limits import EARLY_FLUSH_BYTES
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.kernels.wire.outbox import Outbox
    from slipstream.server.turns import Turns

__all__ = ["BackPressure"]


class SlowPeer(Protocol):
    """The machine behind the socket: a client's connection, or a link's end."""

    @property
    def outbox(self) -> Outbox: ...
    @property
    def state(self) -> State: ...
    def close(self, reason: CloseReason) -> None: ...


class PressedSocket(Protocol):
    """The socket that is written to."""

    @property
    def transport(self) -> asyncio.Transport: ...

    @property
    def slow_peer(self) -> SlowPeer: ...

    @property
    def write_deadline_ns(self) -> int:
        """How long a write may take."""
        ...

    @property
    def closes_late(self) -> bool:
        """Whether a write past its deadline ends the connection even when the peer has read something."""
        ...

    def log_pressure(self, text: str) -> None:
        """A log line about it."""
        ...

    def was_late(self) -> None:
        """A write took too long, and the peer is given more time."""
        ...


class BackPressure:
    """Whether a socket takes bytes."""

    __slots__ = ("_deadline", "_late", "_socket", "_turns", "blocked")

    def __init__(self, turns: Turns, socket: PressedSocket) -> None:
        self._turns = turns
        self._socket = socket
        self.blocked = False  # the transport holds bytes it could not send
        self._late = False  # a write took longer than its deadline, and the peer was given more time
        self._deadline: asyncio.TimerHandle | None = None  # of a write under way

    def pause(self) -> None:
        """The transport keeps bytes."""
        self.blocked = True
        outbox = self._socket.slow_peer.outbox
        outbox.in_flight = self._socket.transport.get_write_buffer_size()
        outbox.early_at = outbox.limit
        if self._deadline is None:
            self._await_write()

    def resume(self) -> None:
        """Everything handed over is sent."""
        self.blocked = False
        if self._late:
            self._late = False
            self._socket.log_pressure("Slow Consumer Recovered")
        outbox = self._socket.slow_peer.outbox
        outbox.in_flight = 0
        outbox.early_at = EARLY_FLUSH_BYTES
        self.cancel()

    def closing(self) -> None:
        """The last words are handed over: a peer that does not read would keep the socket for ever."""
        if self.blocked:
            self._deadline = self._turns.call_later(SECOND_NS, self._socket.transport.abort)

    def cancel(self) -> None:
        """Wait for nothing."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _await_write(self) -> None:
        self._deadline = self._turns.call_later(self._socket.write_deadline_ns, self._on_deadline)

    def _on_deadline(self) -> None:
        """A write took too long: the connection ends if the peer has read nothing meanwhile, or as it is configured."""
        self._deadline = None
        socket = self._socket
        peer = socket.slow_peer
        if not self.blocked or peer.state is State.CLOSED:
            return
        outbox, unsent = peer.outbox, socket.transport.get_write_buffer_size()
        waited, state = format_duration(socket.write_deadline_ns), "State" if self._late else "Detected"
        size = outbox.pending
        text = f"Slow Consumer {state}: WriteDeadline of {waited} exceeded with 1 chunks of {size} total bytes."
        socket.log_pressure(text)
        if socket.closes_late or unsent >= outbox.in_flight:
            peer.close(CloseReason.SLOW_CONSUMER_WRITE_DEADLINE)
            return
        socket.was_late()
        outbox.in_flight = unsent
        self._late = True
        self._await_write()
