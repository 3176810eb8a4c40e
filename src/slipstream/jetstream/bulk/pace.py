"""How fast bulk work goes: all that the machine can do, or a share of it while other clients are heard.

A chunk takes a processor for a moment, here and where it is read. With all of them at work, a publish would wait for
one at each of its steps: in the loop, in the thread that syncs, on its way back. So publishes, and whatever else
clients send, go first: beside them a few small chunks are read in each span of time. Readers that look at files
themselves take small steps and pause after each, as they are told, which costs the loop nothing. A lone reader does not
notice, and many processors give many chunks.

Not counted as other clients: reads of the loop that bring bulk calls, and a few others in a while, such as the
questions that come before a bulk read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from slipstream.jetstream.bulk.limits import BULK_HEARD_NS, BULK_HEARD_READS, BULK_SPAN_NS
from slipstream.jetstream.ports import Ports
from slipstream.limits import BULK_PAUSE_NS, BULK_PAUSE_NS_MAX

__all__ = ["Pace"]

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class Pace:
    """The pace of one account's bulk work."""

    def __init__(self, ports: Ports) -> None:
        """Nobody was heard yet."""
        self._ports = ports
        self._bulk_read = -1  # number of the last read that brought a bulk call
        self._bulk_reads = 0
        self._window_ns = 0  # when the present window of `BULK_HEARD_NS` began
        self._others = 0  # reads without bulk calls, up to then
        self._others_before = 0  # and up to when the window before it began
        self._span_ns = 0  # when the present span of time began, and how many chunks were begun in it
        self._span_chunks = 0
        self.beside_others = False
        """Whether other clients were heard lately, as `look` found out."""

    def counted(self, handler: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
        """A handler of bulk calls, whose calls are known to be that."""

        def count(request: Request) -> Answer:
            self.bulk_call()
            return handler(request)

        return count

    def bulk_call(self) -> None:
        """What was read just now is part of bulk work."""
        if self._ports.reads != self._bulk_read:
            self._bulk_read = self._ports.reads
            self._bulk_reads += 1

    def pause_ns(self, readers: int) -> int:
        """How long each of so many readers of files is to pause after a step; 0 if nobody else was heard lately."""
        if not self.beside_others:
            return 0
        return min(BULK_PAUSE_NS * max(readers // self._at_once, 1), BULK_PAUSE_NS_MAX)

    @property
    def _at_once(self) -> int:
        return max(self._ports.cores // 2, 1)

    def look(self) -> None:
        """Find out whether others were heard."""
        now_ns, others = self._ports.now_ns(), self._ports.reads - self._bulk_reads
        window_ns = now_ns - self._window_ns
        # The clock may jump: a time in the future is none.
        if not 0 <= window_ns < BULK_HEARD_NS:
            self._others_before = self._others if 0 <= window_ns < 2 * BULK_HEARD_NS else others
            self._others, self._window_ns = others, now_ns
        self.beside_others = others - self._others_before >= BULK_HEARD_READS

    def may_begin(self) -> bool:
        """Whether one more chunk may be begun now; it counts if so. Else ask again after `BULK_SPAN_NS`."""
        self.look()
        now_ns = self._ports.now_ns()
        if not 0 <= now_ns - self._span_ns < BULK_SPAN_NS:
            self._span_ns, self._span_chunks = now_ns, 0
        if self.beside_others and self._span_chunks >= self._at_once:
            return False
        self._span_chunks += 1
        return True
