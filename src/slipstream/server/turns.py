"""Turns of the event loop: the input of clients is handled, work that they made together is done, answers are sent.

What is written during a turn leaves at its end, in one write for each connection. A turn that belongs to one client
ends with its read, so that it gets its answer without another round of the loop.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterable
from typing import Protocol

from slipstream.kernels.wire.outbox import FlushQueue, Outbox
from slipstream.protocol.texts import CloseReason
from slipstream.server.limits import LONE_READ_BYTES_MAX
from slipstream.server.memory import OUTBOX_MEMORY_SHARE, memory_bytes
from slipstream.units import SECOND_NS

__all__ = ["Turns"]

_COUNTS_A_BUDGET = 16  # times that what waits is counted while as much is written as may wait in all
_FRAMES_SHOWN = 4  # of where an unexpected exception came from: enough to find it, and still one line


class _Log(Protocol):
    def __call__(self, level: str, text: str) -> None: ...


class Turns:
    """When things happen in a server.

    An exception that nobody expected is the trouble of one callback: it is logged, and the rest of the turn's work is
    done.
    """

    def __init__(self, log: _Log, outboxes: Callable[[], Iterable[Outbox]]) -> None:
        """Nothing has happened yet; there is no loop before `start`.

        Args:
            log: where it is told what went wrong.
            outboxes: those of all connections.
        """
        self.log = log
        self._outboxes = outboxes
        self._loop: asyncio.AbstractEventLoop | None = None
        self.queue = FlushQueue(self._schedule_flush, _flush_now)
        self.outbox_bytes_max = int(memory_bytes() * OUTBOX_MEMORY_SHARE)  # of all connections together
        self._counted_at = 0  # bytes ever written when what waits was counted last
        self._flush_follows = False  # whoever runs now will flush at its end
        self.reading = False  # a connection handles what it read
        self.reads = 0  # times that messages of clients were taken in
        self.ends: list[Callable[[], None]] = []  # work for the end of the turn
        self._end_follows = False  # the loop will run it
        self.unsent = False  # the read under way wrote something, and no flush is scheduled for it yet
        self._last_reader = 0  # connection whose input made work for the end of a turn last

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Turns are those of this loop from now on."""
        self._loop = loop

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Whose turns these are."""
        assert self._loop is not None
        return self._loop

    def report(self, what: str, error: Exception) -> None:
        """Log an exception that nobody expected, with where it came from."""
        frames = traceback.extract_tb(error.__traceback__)[-_FRAMES_SHOWN:]
        where = ", ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames)
        self.log("ERR", f"{what} failed unexpectedly: {type(error).__name__}: {error} [{where}]")

    def call_later(self, delay_ns: int, callback: Callable[[], object]) -> asyncio.TimerHandle:
        """Run something after a while."""
        return self.loop.call_later(delay_ns / SECOND_NS, callback)

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Run something at the end of this turn."""
        assert self._loop is not None
        self._loop.call_soon(callback)

    def run_and_flush(self, work: Callable[[], None]) -> None:
        """Do some work on the loop and send what it wrote at once, instead of one turn later."""
        self._flush_follows = True
        try:
            work()
        finally:
            self._flush_follows = False
            self.flush()

    def at_end_of_turn(self, work: Callable[[], None]) -> None:
        """Do some work when the input of this turn was handled, and send what it wrote."""
        if not self.reading:
            self._schedule_end()
        self.ends.append(work)

    def end_read(self, cid: int, nbytes: int) -> None:
        """A read made work for the end of the turn, or wrote something that has to be sent; `cid` 0: of replicas.

        The turn ends here if this client was the last to make work and waits for answers: mostly it is the only one.
        Work of several clients is done together (ADR 34). What was written leaves with the answers that the work gives,
        so that a client that got something can be sure that nothing of its read is left to do.
        """
        unsent, self.unsent = self.unsent, False
        if not self.ends:
            if unsent:
                self.call_soon(self.flush)
            return
        alone = cid in (self._last_reader, 0)
        self._last_reader = cid or self._last_reader
        if alone and nbytes <= LONE_READ_BYTES_MAX:
            self._run_ends()
        else:
            self._schedule_end()

    def _schedule_end(self) -> None:
        """Once a turn: work that goes on with every end would otherwise have a slice for each read of the turn."""
        if not self._end_follows:
            assert self._loop is not None
            self._end_follows = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._end_follows = False
        self._run_ends()

    def _run_ends(self) -> None:
        ends, self.ends = self.ends, []
        for work in ends:
            try:
                self.run_and_flush(work)
            except Exception as error:
                self.report("Work of a turn", error)

    def _schedule_flush(self) -> None:
        assert self._loop is not None
        if self.reading:
            self.unsent = True
        elif not self._flush_follows:
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what was written so far, end those who did not keep up. Happens at the end of every turn."""
        queue = self.queue
        for outbox in queue.take_dirty():
            edge = outbox.owner.edge
            try:
                if edge is not None:
                    edge.flush()
            except Exception as error:
                self._drop(outbox, error)
        for outbox in queue.take_overflowed():
            try:
                outbox.owner.overflowed(outbox.limit)
            except Exception as error:
                self._drop(outbox, error)

        if queue.written - self._counted_at > self.outbox_bytes_max // _COUNTS_A_BUDGET:
            self._counted_at = queue.written
            self._end_slowest()

    def _end_slowest(self) -> None:
        """If more waits for all clients than may, those with most of it go, until there is room again."""
        waiting = [outbox for outbox in self._outboxes() if outbox.pending]
        total = sum(outbox.pending for outbox in waiting)
        if total <= self.outbox_bytes_max:
            return
        waiting.sort(key=lambda outbox: outbox.pending)
        while waiting and total > self.outbox_bytes_max // 4 * 3:
            slowest = waiting.pop()
            total -= slowest.pending
            try:
                slowest.owner.overflowed(self.outbox_bytes_max)
            except Exception as error:
                self._drop(slowest, error)

    def _drop(self, outbox: Outbox, error: Exception) -> None:
        """A connection that cannot be written to: it ends, the others get theirs."""
        self.report("Sending to a client", error)
        try:
            outbox.owner.close(CloseReason.WRITE_ERROR)
        except Exception as again:
            self.report("Closing a connection", again)


def _flush_now(outbox: Outbox) -> None:
    """So much waits for one connection that it is sent before the turn ends."""
    outbox.owner.edge.flush()
