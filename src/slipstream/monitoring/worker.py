"""Does the work of monitoring in small steps, so that messages never wait long for it.

Everything runs in the one event loop that also moves messages. A page of a hundred thousand connections, or a client
that asks for pages in a loop, would hold them up. So the work comes as jobs, generators that pause every few hundred
entries:

- between two steps of a job the loop gets its turn;
- jobs take turns with each other;
- all of them together have a time budget: a burst, and a share of the time in the long run. Over it, they wait.

A small request is answered at once, before `submit` returns. Invariant: at most `MONITOR_JOBS_MAX` jobs wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from slipstream.monitoring.limits import (
    MONITOR_BURST_NS,
    MONITOR_COMPLAINT_INTERVAL_NS,
    MONITOR_JOBS_MAX,
    MONITOR_SHARE_PERCENT,
)
from slipstream.units import MILLISECOND_NS

if TYPE_CHECKING:
    from slipstream.monitoring.facts import Monitored
    from slipstream.routing.deadlines import Cancellable

__all__ = ["Job", "Steps", "Worker", "finished", "in_steps"]

T = TypeVar("T")

# A computation that pauses now and then, for so many nanoseconds (0: a turn of the loop), and its result.
Steps = Generator[int, None, T]
Job = Steps[None]


def in_steps(result: T | Steps[T]) -> Steps[T]:
    """A result that may still have to be computed, as something that is computed in steps."""
    if isinstance(result, Generator):
        return (yield from result)
    return result


def finished(steps: Steps[T]) -> T:
    """The result of a computation, without its pauses."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class Worker:
    """Runs the jobs of one server."""

    def __init__(self, server: Monitored) -> None:
        self._server = server
        self._jobs: deque[Steps[Any]] = deque()
        self._credit_ns = MONITOR_BURST_NS  # time that may be used now; below zero it has to be waited for
        self._counted_ns = server.clock.monotonic_ns()  # when the credit was last added to
        self._timer: Cancellable | None = None
        self._is_running = False
        self._silent_until_ns = self._counted_ns  # no complaint in the log before

    def __len__(self) -> int:
        return len(self._jobs)

    def submit(self, job: Job) -> bool:
        """Do a job, now if possible; False when too many are waiting."""
        if len(self._jobs) >= MONITOR_JOBS_MAX:
            self._complain()
            return False
        self._jobs.append(job)
        if self._timer is None and not self._is_running:
            self._run()
        return True

    def stop(self) -> None:
        """Forget what is not done."""
        self._jobs.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _complain(self) -> None:
        """Say that requests are lost, once in a while."""
        now_ns = self._server.clock.monotonic_ns()
        if now_ns >= self._silent_until_ns:
            self._silent_until_ns = now_ns + MONITOR_COMPLAINT_INTERVAL_NS
            self._server.log("WRN", f"Monitoring has {len(self._jobs)} requests waiting, more are not answered")

    def _run(self) -> None:
        self._timer = None
        self._is_running = True
        try:
            while self._jobs and self._timer is None:
                wait_ns = self._wait_ns()
                if wait_ns:
                    self._continue_after(wait_ns)
                else:
                    pause_ns = self._step(self._jobs.popleft())
                    if pause_ns is not None:
                        self._continue_after(pause_ns)
        finally:
            self._is_running = False

    def _continue_after(self, delay_ns: int) -> None:
        call: Callable[[int, Callable[[], object]], Cancellable] = self._server.turns.call_later
        self._timer = call(delay_ns, self._run)

    def _step(self, job: Job) -> int | None:
        """One step of a job; how long to wait before the next, None if that was its last."""
        started_ns = self._server.clock.monotonic_ns()
        pause_ns: int | None = None
        try:
            pause_ns = next(job)
            self._jobs.append(job)
        except StopIteration:
            pass
        except Exception as error:
            # The root of a request: a bug in it must not end the server.
            self._server.log("ERR", f"Monitoring request failed: {type(error).__name__}: {error}")
        self._credit_ns -= self._server.clock.monotonic_ns() - started_ns
        return pause_ns

    def _wait_ns(self) -> int:
        """How long to wait until there is time to use."""
        now_ns = self._server.clock.monotonic_ns()
        earned_ns = (now_ns - self._counted_ns) * MONITOR_SHARE_PERCENT // 100
        self._credit_ns = min(self._credit_ns + earned_ns, MONITOR_BURST_NS)
        self._counted_ns = now_ns
        if self._credit_ns > 0:
            return 0
        return max(-self._credit_ns * 100 // MONITOR_SHARE_PERCENT, MILLISECOND_NS)
