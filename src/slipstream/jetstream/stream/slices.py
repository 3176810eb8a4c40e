"""Work of one stream that is too long for one turn of the loop: done a slice a turn, in the order it was asked for.

The first slice of the first work runs at once, so that short work is done when the call returns. Everything else waits
for the turns to come, in which other streams and clients are served. What was removed leaves the index when it is
committed, all of one commit in one go; so the work does not run ahead of the commits (`pace`).

What this is not: the work itself. A slice says whether it was the last.
"""

from __future__ import annotations

from collections.abc import Callable

from slipstream.errors import StorageFault
from slipstream.jetstream.guard import each
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.contract import StoreWrites
from slipstream.jetstream.stream.limits import PURGE_SLICE_MSGS

__all__ = ["PurgeSlices", "SliceDone", "Slices"]

Slice = Callable[[], bool]
"""Does a piece; True when all is done. Raises `StorageFault` when it cannot go on."""

SliceDone = Callable[[StorageFault | None], None]
"""Called when all is done, or with why it never will be."""


class Slices:
    """Long work in progress."""

    def __init__(self, ports: Ports, pace: Callable[[Callable[[], None]], None] | None = None) -> None:
        """Take turns through `ports`; `pace` sees to the turn behind a slice, at the end of this one without it."""
        self._ports = ports
        self._pace = pace or ports.call_soon
        self._waiting: list[tuple[Slice, SliceDone]] = []  # a few at most; each stream has one

    @property
    def busy(self) -> bool:
        """Whether something is not done yet."""
        return bool(self._waiting)

    def run(self, work: Slice, done: SliceDone) -> None:
        """Do `work`, behind what is in progress.

        Raises:
            StorageFault: by its first slice, if that is run at once.
        """
        if not self._waiting and work():
            done(None)
            return
        self._waiting.append((work, done))
        if len(self._waiting) == 1:
            self._ports.call_soon(self._turn)

    def after(self, callback: Callable[[], None]) -> None:
        """Call when everything asked for so far is done; at once if it is."""
        self.run(lambda: True, lambda _: callback())

    def stop(self) -> None:
        """The stream goes: whoever waits is told."""
        waiting, self._waiting = self._waiting, []
        ends = [done for _, done in waiting]
        each(self._ports, "The end of long work", ends, StorageFault("the stream was stopped"))

    def _turn(self) -> None:
        if not self._waiting:
            return
        work, done = self._waiting[0]
        fault: StorageFault | None = None
        try:
            is_last = work()
        except StorageFault as error:
            is_last, fault = True, error
        except Exception as error:
            self._ports.report("A piece of long work", error)
            is_last, fault = True, StorageFault(f"{type(error).__name__}: {error}")
        if is_last:
            del self._waiting[0]
        if self._waiting:
            self._pace(self._turn)
        if is_last:
            done(fault)


class PurgeSlices:
    """A purge: of what matches a subject (of all if it is empty), up to a sequence, perhaps only so many."""

    def __init__(
        self, store: StoreWrites, subject: bytes, *, up_to_seq: int, count: int, on_slice: Callable[[], None]
    ) -> None:
        """Remove at most `count` of the oldest; `on_slice` is called after each slice."""
        self._store = store
        self._subject = subject
        self._up_to_seq = up_to_seq
        self._left = count
        self._from_seq = 0
        self._on_slice = on_slice
        self.removed = 0

    def __call__(self) -> bool:
        """Do one slice."""
        if self._left <= 0:
            return True
        count, self._from_seq = self._store.purge_some(
            self._subject,
            from_seq=self._from_seq,
            up_to_seq=self._up_to_seq,
            limit=min(self._left, PURGE_SLICE_MSGS),
        )
        self.removed += count
        self._left -= count
        self._on_slice()
        return self._left <= 0 or self._from_seq == 0
