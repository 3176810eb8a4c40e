"""One timer for the steps that follow each other on a socket: a handshake's, then the pings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from slipstream.server.turns import Turns

__all__ = ["StepTimer"]


class StepTimer:
    """What is done unless the present step ends before."""

    __slots__ = ("_handle", "_turns")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._handle: asyncio.TimerHandle | None = None

    def start(self, delay_ns: int, callback: Callable[[], object]) -> None:
        """A step begins; the one before it is over."""
        self.cancel()
        self._handle = self._turns.call_later(delay_ns, callback)

    def cancel(self) -> None:
        """The present step ended in time."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
