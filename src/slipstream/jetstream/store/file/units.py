"""Atomic units of a file store: messages that survive a crash as a whole or not at all.

A unit is written into the log like everything else; what marks it is in its frames, and its messages are in an index of
their own until it ends (`log`). Appending to it is `appends`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slipstream.jetstream.store.file.facts import LogFacts
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.pending_files import PendingFiles
from slipstream.jetstream.store.file.removals import LogRemovals
from slipstream.jetstream.store.state import StoreState
from slipstream.kernels.index.subjectindex import MessageIndex

__all__ = ["Units"]


class Units:
    """Where a unit begins and ends."""

    __slots__ = ("_facts", "_files", "_log", "_random64", "_removals", "_state")

    def __init__(
        self,
        state: StoreState,
        log: SegmentedLog,
        facts: LogFacts,
        removals: LogRemovals,
        files: PendingFiles,
        random64: Callable[[], int],
    ) -> None:
        """No unit is open."""
        self._state = state
        self._log = log
        self._facts = facts
        self._removals = removals
        self._files = files
        self._random64 = random64

    def begin(self) -> None:
        """See `Store.begin_atomic`. What was removed before is covered by the commits inside the unit."""
        if self._state.refusal is not None:
            raise self._state.refusal
        if self._removals.is_waiting:
            self._removals.log_waiting()
        self._log.begin_unit(MessageIndex(self._random64()))

    def end(self, notes: Mapping[bytes, bytes] | None = None) -> None:
        """See `Store.end_atomic`."""
        if self._state.refusal is not None:
            raise self._state.refusal
        if self._log.unit is None:
            raise ValueError("no unit is open")
        self._facts.log_notes(notes or {})
        self._log.end_unit()

    def abort(self) -> None:
        """See `Store.abort_atomic`."""
        if self._log.unit is None or self._state.fault is not None:
            return  # after a fault the log is read anew, without the unit
        self._files.abandon(segment.path for segment in self._log.abandon_unit())
