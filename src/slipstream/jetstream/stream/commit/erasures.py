"""Who waits until nothing is left of what was erased.

An erasure is overwritten by the commit behind its own, or later (a compaction was copying the message). So what waits
for one is looked at again after every commit and every piece of upkeep.
"""

from __future__ import annotations

from collections.abc import Callable

from slipstream.errors import ApiError
from slipstream.jetstream.guard import each
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.commit.point import AfterCommit

__all__ = ["Erasures"]


class Erasures:
    """Erasures of one stream that are committed and not complete."""

    __slots__ = ("_go_on", "_ports", "_store", "waiting")

    def __init__(self, store: Store, ports: Ports, go_on: Callable[[], None]) -> None:
        """`go_on` sees to another commit, and to upkeep."""
        self._store = store
        self._ports = ports
        self._go_on = go_on
        self.waiting: list[tuple[int, AfterCommit]] = []  # how many erasures have to be complete, for whom

    def committed(self, callback: AfterCommit, error: ApiError | None) -> None:
        """The commit of an erasure has ended: call when that is complete, too."""
        committed, complete = self._store.erased
        if error is not None or complete >= committed:
            callback(error)
            return
        self.waiting.append((committed, callback))
        self._go_on()

    def look(self) -> None:
        """Tell those whose erasures are complete."""
        complete = self._store.erased[1]
        released = [callback for mark, callback in self.waiting if mark <= complete]
        self.waiting = [(mark, callback) for mark, callback in self.waiting if mark > complete]
        each(self._ports, "What waited for an erasure", released, None)

    def count_anew(self) -> None:
        """The store was repaired, and counts from the erasures that it found unfinished in its log."""
        committed = self._store.erased[0]
        self.waiting = [(committed, callback) for _, callback in self.waiting]

    def stop(self) -> list[AfterCommit]:
        """Those who still waited."""
        waiting, self.waiting = self.waiting, []
        return [callback for _, callback in waiting]
