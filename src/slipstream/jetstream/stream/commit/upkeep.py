"""Background work of a store, a piece at a time: often while there is some, rarely when nothing happens.

    armed ──time──► a piece in its thread ──► armed again, or at once while somebody waits for an erasure
                 └─ nothing to do ──► armed for longer

A store that failed is repaired here. Upkeep may commit on its own, and puts another writer in the place of the one that
the intake knows: so the intake is closed before and after a piece.
"""

from __future__ import annotations

from collections.abc import Callable

from slipstream.jetstream.guard import call, guarded
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import Job
from slipstream.jetstream.stream.commit.erasures import Erasures
from slipstream.jetstream.stream.commit.point import CommitListener
from slipstream.jetstream.stream.limits import STREAM_UPKEEP_IDLE_NS, STREAM_UPKEEP_INTERVAL_NS
from slipstream.kernels.fastpath.intake import Intake

__all__ = ["Upkeep"]


class Upkeep:
    """The upkeep of one stream's store."""

    __slots__ = (
        "_busy",
        "_erasures",
        "_faulted",
        "_intake",
        "_listener",
        "_ports",
        "_run",
        "_runs",
        "_stopped",
        "_store",
        "_timer",
        "_wake",
        "_wanted",
        "_when_quiet",
    )

    def __init__(
        self,
        store: Store,
        ports: Ports,
        listener: CommitListener,
        intake: Intake,
        erasures: Erasures,
        wake: Callable[[], None],
    ) -> None:
        """`wake` sees to a commit."""
        self._store = store
        self._ports = ports
        self._listener = listener
        self._intake = intake
        self._erasures = erasures
        self._wake = wake
        self._timer: Cancel | None = None
        self._stopped = False
        self._faulted = False  # a commit failed and the store has not repaired itself yet
        self._runs = False  # a piece is in its thread
        self._busy = False  # there was a commit since upkeep last had its turn
        self._wanted = True  # something happened since upkeep last found nothing to do
        self._when_quiet: Callable[[], None] | None = None
        self._run = guarded(self._begin, self._broke)

    def start(self) -> None:
        """Have a turn after a while, and again."""
        if self._stopped:
            return
        if self._timer is not None:
            self._timer()
        delay_ns = STREAM_UPKEEP_INTERVAL_NS if self._wanted else STREAM_UPKEEP_IDLE_NS
        self._timer = self._ports.call_later(delay_ns, self._run)

    def soon(self) -> None:
        """The store has got background work that it did not have."""
        if not self._wanted:
            self._wanted = True
            self.start()

    def at_once(self) -> None:
        """Have a turn at the end of this one."""
        self._ports.call_soon(self._run)

    def committed(self) -> None:
        """A commit has succeeded."""
        self._busy = True
        if not self._wanted:
            self.soon()

    def failed(self) -> None:
        """A commit has not: there is something to repair."""
        self._faulted = self._wanted = True

    def stop(self) -> None:
        """No more turns; a piece in its thread ends."""
        self._stopped = True
        if self._timer is not None:
            self._timer()
            self._timer = None

    def when_quiet(self, callback: Callable[[], None]) -> None:
        """Call when no thread works on the store any more; only after `stop`."""
        assert self._stopped
        if self._runs:
            self._when_quiet = callback
        else:
            callback()

    def _begin(self) -> None:
        if self._stopped or self._runs:
            return
        busy, self._busy = self._busy, False
        if busy and not self._store.upkeep_due and not self._erasures.waiting:
            self.start()  # most streams of many are like that; once it is quiet there is another turn
            return
        self._intake.close()
        job = self._store.begin_upkeep()
        if job is None:
            # A piece that failed is tried again at the next turn, which must come soon while anything depends on it.
            self._wanted = self._store.fault is not None or bool(self._erasures.waiting)
            self.start()
            self._wake()  # upkeep may have left something to log
        elif job.ended:
            self._finish(job)
        else:
            self._runs = True
            self._ports.run_blocking(job.run, guarded(lambda: self._finish(job), self._broke))

    def _finish(self, job: Job) -> None:
        self._runs = False
        self._wanted = True
        self._intake.close()
        self._store.finish_upkeep(job)
        call(self._ports, "What follows from upkeep", self._listener.on_upkeep)
        if self._stopped:
            self._tell_quiet()
            return
        if self._faulted and self._store.fault is None:
            self._faulted = False
            self._erasures.count_anew()
            call(self._ports, "What follows from a repair", self._listener.on_repaired)
        self._erasures.look()
        if self._erasures.waiting:
            # Somebody waits for a copy to be overwritten by the next commit, or removed by the next piece.
            self._wake()
            self.at_once()
        else:
            self.start()

    def _broke(self, error: Exception) -> None:
        """A piece ended with an exception that nobody expected: it is tried again later."""
        self._ports.report("Upkeep", error)
        self._runs = False
        self._wanted = True
        self._tell_quiet()
        self.start()

    def _tell_quiet(self) -> None:
        callback, self._when_quiet = self._when_quiet, None
        if callback is not None:
            callback()
