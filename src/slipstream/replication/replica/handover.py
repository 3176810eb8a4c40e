"""Who works on the files of one replica: one after the other, and a thread never beside anybody.

    somebody works ──`leave`──► it stops ──`left`──► votes are saved, if they are being ──► the next one begins

Invariant: the next one begins when nothing works on the files and no votes are on their way to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from slipstream.jetstream.guard import guarded
from slipstream.jetstream.ports import Ports

__all__ = ["Handover"]

W = TypeVar("W")


class Handover:
    """The order of those who work on a replica's files.

    Args:
        ports: threads.
        fail: told what nobody expected.
    """

    __slots__ = ("_fail", "_next", "_ports", "_saves_votes", "_waits_for_votes")

    def __init__(self, ports: Ports, fail: Callable[[Exception], None]) -> None:
        self._ports = ports
        self._fail = fail
        self._next: Callable[[], None] | None = None  # what follows when nothing works on the files
        self._saves_votes = False
        self._waits_for_votes = False  # all else is quiet

    @property
    def is_under_way(self) -> bool:
        """Whether the files are being left, or a thread has them alone."""
        return self._next is not None

    def leave(self, then: Callable[[], None]) -> bool:
        """Say what comes next; what was to come does not. Whether the caller has to stop who works now, and say `left`:
        else that is under way."""
        is_under_way, self._next = self.is_under_way, then
        return not is_under_way

    def left(self) -> None:
        """Nothing works on the files any more but, perhaps, a thread that saves votes."""
        if self._saves_votes:
            self._waits_for_votes = True
            return
        then, self._next = self._next, None
        assert then is not None
        then()

    def run_alone(self, work: Callable[[], W], then: Callable[[W], None]) -> None:
        """Nothing else works on the files: have a thread do this, and go on with what it found."""
        found: list[W | Exception] = []

        def run() -> None:
            try:
                found.append(work())
            except Exception as error:
                found.append(error)

        def done() -> None:
            if isinstance(found[0], Exception):
                self._fail(found[0])
            else:
                then(found[0])

        assert self._next is None
        self._next = guarded(done, self._fail)
        self._ports.run_blocking(run, guarded(self.left, self._fail))

    def save_votes(self, save: Callable[[], None], saved: Callable[[Exception | None], None]) -> None:
        """Have a thread save votes, beside whoever works on the log; nobody else begins before that is done."""
        failed: list[Exception] = []

        def run() -> None:
            try:
                save()
            except Exception as error:
                failed.append(error)

        def done() -> None:
            self._saves_votes = False
            if self._waits_for_votes:
                self._waits_for_votes = False
                self.left()
            saved(failed[0] if failed else None)

        self._saves_votes = True
        self._ports.run_blocking(run, guarded(done, self._fail))
