"""A stream keeps its limits by letting the oldest go: messages, bytes, messages a subject.

After one append at most a few messages go, at once. When limits become tighter, or recovery finds more than they allow,
the surplus goes a slice a turn. What is held (`holds`) stays until it is released, or until the stream has outgrown its
limits too far.

What this is not: discard-new limits, which refuse before anything is stored (`room_rules`), and age (`expirer`).
"""

from __future__ import annotations

from itertools import islice

from slipstream.errors import StorageFault
from slipstream.jetstream.config.enums import DiscardPolicy
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.commit.committer import Committer
from slipstream.jetstream.stream.limits import LIMIT_SLICE_MSGS, LIMIT_SLICE_SUBJECTS, PURGE_SLICE_MSGS
from slipstream.jetstream.stream.retention.holds import Holds
from slipstream.jetstream.stream.retention.removals import Removals
from slipstream.jetstream.stream.slices import Slices

__all__ = ["LimitKeeper"]


class LimitKeeper:
    """The limits of one stream."""

    __slots__ = ("_at_once", "_committer", "_config", "_holds", "_removals", "_slices", "_store", "busy")

    def __init__(
        self,
        config: StreamConfig,
        store: Store,
        holds: Holds,
        removals: Removals,
        committer: Committer,
        slices: Slices,
    ) -> None:
        """Keep the limits of `config` on `store`."""
        self._config = config
        self._store = store
        self._holds = holds
        self._removals = removals
        self._committer = committer
        self._slices = slices
        self.busy = False  # limits are being enforced in slices
        self._at_once = False  # ... and consumers were not told of every message that went

    def configure(self, config: StreamConfig) -> None:
        """Keep these limits from here on."""
        self._config = config

    def keep(self) -> None:
        """The stream's limits may have become tighter, or a crash may have come between a message and its price."""
        if self._config.discard is DiscardPolicy.OLD and not self.busy:
            self.busy = True
            try:
                self._slices.run(self._drop_some, self._dropped)
            except Exception:
                self.busy = False
                raise

    def keep_subjects(self) -> None:
        """The limit per subject has become tighter. Looks at every subject, so only an update does this."""
        limit = self._config.max_msgs_per_subject
        subjects = iter(self._store.subjects_matching(b">"))

        def some() -> bool:
            looked_at = 0
            for subject, count in islice(subjects, LIMIT_SLICE_SUBJECTS):
                looked_at += 1
                if count > limit:
                    if len(self._holds):
                        self.keep_subject(subject, limit)
                    else:
                        self._store.purge(subject, keep=limit)
            self._committer.wake()
            return looked_at < LIMIT_SLICE_SUBJECTS

        self._slices.run(some, lambda _: self._removals.many_gone())

    def keep_subject(self, subject: bytes, limit: int) -> None:
        """Drop the oldest under a subject that has more than `limit`."""
        store = self._store
        state = store.assigned.subject_state(subject)
        if state.count <= limit:
            return
        if len(self._holds):
            while state.count > limit and state.first_seq < self._holds.floor:
                store.delete(state.first_seq)
                self._removals.gone(state.first_seq)
                state = store.assigned.subject_state(subject)
        elif state.count == limit + 1:
            store.delete(state.first_seq)
            self._removals.gone(state.first_seq)
        else:
            self._removals.purge(subject, keep=limit)

    def drop_oldest(self) -> bool:
        """Drop the oldest until the stream's own limits hold; False: they still do not after a good many."""
        config, store = self._config, self._store
        assigned = store.assigned
        for _ in range(LIMIT_SLICE_MSGS):
            if not (0 < config.max_msgs < assigned.messages) and not (0 < config.max_bytes < assigned.size_bytes):
                return True
            if not assigned.messages:
                return True
            oldest = assigned.first_seq
            if oldest >= self._holds.floor:
                if not self._holds.give_way(config, store):
                    return True
                continue
            store.delete(oldest)
            self._removals.gone(oldest)
        return False

    def _drop_some(self) -> bool:
        config, store = self._config, self._store
        excess = min(store.assigned.messages - config.max_msgs, PURGE_SLICE_MSGS) if config.max_msgs > 0 else 0
        if excess > LIMIT_SLICE_MSGS:
            up_to_seq = min(store.last_seq, self._holds.floor - 1)
            store.purge_some(b"", from_seq=0, up_to_seq=up_to_seq, limit=excess)
            self._at_once = True
            self._committer.wake()
        return self.drop_oldest()

    def _dropped(self, _fault: StorageFault | None) -> None:
        self.busy = False
        if self._at_once:
            self._at_once = False
            self._removals.many_gone()
