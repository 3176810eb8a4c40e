"""Whether the other server still lives: PING and PONG of one link, and the round trip time between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstream.kernels.wire.outbox import Outbox

__all__ = ["Keepalive"]

_PING = b"PING\r\n"
_PONG = b"PONG\r\n"


class Keepalive:
    """PINGs of one link. When to ask, and when to give up, is decided by whoever has the timer.

    Args:
        outbox: of the link.
        now_ns: the clock.
    """

    __slots__ = ("_asked_ns", "_now_ns", "_outbox", "rtt_ns", "unanswered")

    def __init__(self, outbox: Outbox, now_ns: Callable[[], int]) -> None:
        self._outbox = outbox
        self._now_ns = now_ns
        self._asked_ns = 0
        self.unanswered = 0  # PINGs since the last answer
        self.rtt_ns = 0  # 0 before the first answer

    def ask(self) -> None:
        """Ask whether the peer lives."""
        self.unanswered += 1
        self._asked_ns = self._now_ns()
        self._outbox.write(_PING)

    def answer(self) -> None:
        """The peer asks whether this server lives."""
        self._outbox.write(_PONG)

    def answered(self) -> None:
        """The peer lives."""
        self.unanswered = 0
        if self._asked_ns:
            self.rtt_ns = max(self._now_ns() - self._asked_ns, 1)
