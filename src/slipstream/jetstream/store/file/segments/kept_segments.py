"""Segments that stay although nothing in them lives: for the ids of removed messages in the duplicate window."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.limits import STORE_REMOVED_KEPT_SEGMENTS
from slipstream.jetstream.store.state import StoreState

__all__ = ["KeptSegments"]


class KeptSegments:
    """Which segments are kept, asked whenever one could be given back."""

    __slots__ = ("_log", "_since_ns", "_state")

    def __init__(self, state: StoreState, log: SegmentedLog, now_ns: Callable[[], int]) -> None:
        """Keep none."""
        self._state = state
        self._log = log
        self._since_ns = now_ns

    def keep_removed(self, since_ns: Callable[[], int]) -> None:
        """See `Store.keep_removed`: so many closed segments at most, and none when the disk is full."""
        self._since_ns = since_ns

    def ids(self) -> set[int]:
        """Segments whose removed messages somebody may still ask about."""
        kept: set[int] = set()
        if self._state.refusal is None:
            since_ns, segments = self._since_ns(), self._log.segments
            # Nothing in a segment is younger than the one that follows it.
            for segment, following in zip(segments[-2::-1], segments[:0:-1], strict=True):
                if len(kept) == STORE_REMOVED_KEPT_SEGMENTS or following.header.created_ns <= since_ns:
                    break
                kept.add(segment.id)
        return kept
