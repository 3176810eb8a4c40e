"""Messages leave a stream because somebody asks: purges, deletions, erasures, roll-ups.

Whatever removes a message, its consumers are told when the removal is committed: of single messages which, of many that
they have to look at the store again. Limits and expiry remove through the same store and tell through `gone`
(`limit_keeper`, `expirer`).

Invariant: before anything goes on request, the upstream has written down what is known only from the messages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.admission.appends import Appends
from slipstream.jetstream.stream.commit.committer import Committer
from slipstream.jetstream.stream.copies.upstream import Upstream
from slipstream.jetstream.stream.retention.interest import ConsumerInterest
from slipstream.jetstream.stream.retention.truncation import TruncateSlices
from slipstream.jetstream.stream.slices import PurgeSlices, Slices
from slipstream.kernels.subjects.subject import is_literal

__all__ = ["Purged", "Removals", "RemovalsOwner", "refuse_if_closed"]

Purged = Callable[[int, StorageFault | None], None]
"""How many messages a purge removed, and why it ended early if it did."""


class RemovalsOwner(Protocol):
    """The stream, as far as removals need it. Both members may be replaced."""

    @property
    def interest(self) -> ConsumerInterest:
        """Its consumers."""
        ...

    @property
    def upstream(self) -> Upstream:
        """What fills it from other streams."""
        ...


class Removals:
    """What goes from one stream on request."""

    __slots__ = ("_appends", "_committer", "_owner", "_slices", "_store", "is_untouched")

    def __init__(
        self,
        store: Store,
        owner: RemovalsOwner,
        appends: Appends,
        committer: Committer,
        slices: Slices,
        *,
        is_untouched: bool,
    ) -> None:
        """Remove from `store`; long work takes turns in `slices`."""
        self._store = store
        self._owner = owner
        self._appends = appends
        self._committer = committer
        self._slices = slices
        self.is_untouched = is_untouched  # nothing ever decided its first sequence: shown as 0, not 1

    def purge(self, subject: bytes = b"", *, below_seq: int = 0, keep: int = 0) -> int:
        """Remove messages; how many went. Without a subject, `below_seq` may lie beyond the end and moves it."""
        store = self._store
        self._owner.upstream.on_removing()
        if not subject and below_seq > store.last_seq + 1:
            count = store.trim_to(below_seq)
            store.begin_afresh()
            self._appends.take_over(self._appends.intake.last_id)
        else:
            count = store.purge(subject, up_to_seq=below_seq, keep=keep)
        if not subject and not keep:
            self.is_untouched = False
        self.many_gone(subject)
        return count

    def begin_purge(self, subject: bytes, *, below_seq: int, keep: int, done: Purged) -> None:
        """As `purge`, but a slice a turn; `done` gets how many went, and why not more if that failed.

        Raises:
            StorageFault: nothing can be removed now.
        """
        store = self._store
        everything = not subject and not keep
        if everything and not 0 < below_seq <= store.last_seq:
            done(self.purge(subject, below_seq=below_seq), None)
            return
        self._owner.upstream.on_removing()
        if everything:
            self.is_untouched = False
        count = sys.maxsize
        if keep:
            count = store.assigned.count((subject,) if subject else ()) - keep
        last = min(below_seq - 1, store.last_seq) if below_seq else store.last_seq
        work = PurgeSlices(store, subject, up_to_seq=last, count=count, on_slice=self._committer.wake)

        def removed(fault: StorageFault | None) -> None:
            if fault is None:
                store.begin_afresh()
            self.many_gone(subject)
            done(work.removed, fault)

        self._slices.run(work, removed)

    def begin_truncate(self, from_seq: int, up_to_seq: int, done: Purged) -> None:
        """Remove what is between these sequences, newest first; `done` as for `begin_purge`.

        Raises:
            StorageFault: nothing can be removed now.
        """
        store = self._store
        self._owner.upstream.on_removing()
        work = TruncateSlices(store, from_seq, up_to_seq, self._committer.wake)

        def removed(fault: StorageFault | None) -> None:
            if fault is None:
                store.begin_afresh()
            self.many_gone()
            done(work.removed, fault)

        self._slices.run(work, removed)

    def delete(self, seq: int, *, erase: bool) -> bool:
        """Remove one message, overwriting its bytes if `erase`. False: there is none."""
        self._owner.upstream.on_removing()
        removed = self._store.erase(seq) if erase else self._store.delete(seq)
        if removed:
            self.gone(seq)
        return removed

    def roll_up(self, subject: bytes, keep: int, below_seq: int = 0) -> None:
        """A roll-up replaces what came before it: `subject` is a filter, even if it came as a message's subject."""
        store = self._store
        if below_seq:
            self.purge(subject, below_seq=below_seq)
            return
        if not subject:
            stored = store.assigned.messages
        elif is_literal(subject):
            stored = store.assigned.subject_state(subject).count
        else:
            stored = store.assigned.count((subject,))
        if stored <= keep:
            return
        if subject or not keep:
            self.purge(subject, keep=keep)
        else:
            self.purge(below_seq=store.last_seq)  # the roll-up itself is the last

    def gone(self, *seqs: int) -> None:
        """Messages were removed from the store one by one: have that committed, and tell of it then."""
        self._committer.removed.seqs += seqs
        self._committer.wake()

    def many_gone(self, subject: bytes = b"") -> None:
        """The same for many messages, all of them matching `subject` (`b""`: any)."""
        self._committer.removed.purged.append(subject)
        self._committer.wake()


def refuse_if_closed(config: StreamConfig, *, purge: bool) -> ApiError | None:
    """Why messages may not be removed from a stream with this configuration on request."""
    if config.sealed:
        return TableError(table.STREAM_SEALED)
    if purge and config.deny_purge:
        return TableError(table.STREAM_PURGE_FAILED, err="stream purge not permitted")
    if not purge and config.deny_delete:
        return TableError(table.STREAM_MSG_DELETE_FAILED, err="message delete not permitted")
    return None
