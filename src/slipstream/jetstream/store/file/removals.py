"""What leaves a stream that is kept in files: deletions, purges and trims; erasures also overwrite (`erasures`).

A removal is noted for the writers' view at once and joins the log with the next commit: single sequences as tombstones,
everything below one as a trim. Readers see it when that commit is done.
"""

from __future__ import annotations

from slipstream.jetstream.store.damage import Damage
from slipstream.jetstream.store.file.erasures import LogErasures
from slipstream.jetstream.store.file.jobs import LoggedRemovals, Overwrite
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.segments.segment import pack_seq
from slipstream.jetstream.store.indexed import EXPIRY_BYTES
from slipstream.jetstream.store.limits import STORE_POINT_READ_BYTES, STORE_SEGMENT_BYTES_MIN
from slipstream.jetstream.store.pieces import last_packed, purge_piece
from slipstream.jetstream.store.state import StoreState
from slipstream.kernels.log.record import ERASE, TOMBS, TRIM, read_message

__all__ = ["LogRemovals"]

_TOMBS_PER_RECORD = 8192


class LogRemovals:
    """Removals of one store, and how they are logged."""

    __slots__ = (
        "_damage",
        "_erasures",
        "_is_sealed",
        "_log",
        "_logged_first",
        "_state",
        "_tombs",
        "_trim",
        "_trimmed_first",
        "durable_first",
        "emptied",
    )

    def __init__(
        self, state: StoreState, damage: Damage, log: SegmentedLog, erasures: LogErasures, *, is_sealed: bool
    ) -> None:
        """Nothing was removed. `is_sealed`: what leaves with its segment cannot be read any more."""
        self._state = state
        self._damage = damage
        self._log = log
        self._erasures = erasures
        self._is_sealed = is_sealed
        self.emptied = False
        """Whether all that there was is removed, and the segment that held it is still written: upkeep closes it."""
        # What joins the next commit beside the frames in the writer:
        self._tombs = bytearray()
        self._trim = 0
        self._logged_first = 0  # trim that is logged and that no commit has taken
        self._trimmed_first = 0  # highest trim in the log, synced or not
        self.durable_first = 0
        """Every sequence below is known to be gone even if its segment is removed."""

    @property
    def is_waiting(self) -> bool:
        """Whether something was removed that is not in the log yet."""
        return bool(self._trim or self._tombs or self._erasures.requested)

    def delete(self, seq: int) -> bool:
        """See `Store.delete`."""
        self._state.check_writable()
        if seq <= 0 or not self._state.assigned.removals.remove(seq):
            return False
        self._tombs += pack_seq(seq)
        return True

    def erase(self, seq: int) -> bool:
        """See `Store.erase`."""
        self._state.check_writable()
        if seq <= 0 or not self._state.assigned.removals.remove(seq):
            return False
        self._erasures.request(seq, self._time_of(seq))
        return True

    def trim_to(self, first_seq: int) -> int:
        """See `Store.trim_to`."""
        self._state.check_writable()
        if self._log.unit is not None:
            first_seq = min(first_seq, self._state.index.last_seq + 1)  # the open unit stays what it is
        removed = self._state.assigned.removals.remove_below(first_seq)
        self._trim = max(self._trim, first_seq)
        return removed

    def purge(self, subject: bytes = b"", *, up_to_seq: int = 0, keep: int = 0) -> int:
        """See `Store.purge`."""
        self._state.check_writable()
        assigned, last_seq = self._state.assigned, self._state.index.last_seq
        if not subject and not keep:
            removed = self.trim_to(up_to_seq or last_seq + 1)
            self.begin_afresh()
            return removed
        removals = assigned.removals
        last = min(up_to_seq - 1 if up_to_seq else last_seq, last_seq)
        gone = removals.remove_many(removals.matching_seqs((subject,) if subject else (), last, keep))
        self._tombs += gone
        return len(gone) // 8

    def purge_some(self, subject: bytes, *, from_seq: int, up_to_seq: int, limit: int) -> tuple[int, int]:
        """See `Store.purge_some`."""
        self._state.check_writable()
        assigned = self._state.assigned
        gone, following = purge_piece(assigned, subject, from_seq=from_seq, up_to_seq=up_to_seq, limit=limit)
        if subject:
            self._tombs += assigned.removals.remove_many(gone)
        elif gone:
            self.trim_to(last_packed(gone) + 1)
        return len(gone) // 8, following

    def begin_afresh(self) -> None:
        """See `Store.begin_afresh`."""
        if self.close_emptied() and self._is_sealed:
            self._trim = max(self._trim, self._state.index.last_seq + 1)  # so that other replicas do the same

    def close_emptied(self) -> bool:
        """If nothing is alive, go on in a fresh segment, so that all the old ones can be removed; whether it did.

        Of sealed ones also the smallest is closed: its key goes with it.
        """
        log = self._log
        if log.unapplied.last_seq:
            return False  # some more may come to be: later
        self.emptied = False
        if self._state.assigned.messages or log.unit is not None:
            return False
        has_held = log.active.header.first_seq <= self._state.index.last_seq
        is_small = log.writer.position <= STORE_SEGMENT_BYTES_MIN
        if is_small and self._state.refusal is not None:
            self.emptied = has_held and self._is_sealed  # a fresh one takes space, and a full disk has none: later
            return False
        closes = not is_small or (has_held and self._is_sealed)
        if closes:
            log.roll()
        return closes

    # --- with the commits -------------------------------------------------------------------------------------------

    def log_waiting(self) -> None:
        """Put tombstones, trims and intents to erase into the open frame."""
        writer, last_seq = self._log.writer, self._state.index.last_seq
        if self._trim:
            writer.control(TRIM, self._trim, writer.last_ts, b"", b"")
            self._logged_first, self._trim = max(self._logged_first, self._trim), 0
        if self._tombs:
            gone = bytes(self._tombs)
            self._tombs.clear()
            for at in range(0, len(gone), _TOMBS_PER_RECORD * 8):
                writer.control(TOMBS, last_seq, writer.last_ts, b"", gone[at : at + _TOMBS_PER_RECORD * 8])
        self._erasures.log_requested()
        self._state.assigned.removals.log()

    def take(self) -> tuple[LoggedRemovals | None, list[Overwrite]]:
        """For the commit that begins: what is logged, None if nothing is, and what it overwrites."""
        erasures = self._erasures
        noted = self._state.assigned.removals.take()
        first_seq, self._logged_first = self._logged_first, 0
        erased = erasures.take_logged() if erasures.logged else []
        removed = LoggedRemovals(noted, first_seq, erased) if noted or first_seq or erased else None
        return removed, erasures.take_overwrites() if erasures.placed or erasures.copies else []

    def overwritten(self) -> None:
        """That is on disk."""
        self._erasures.overwritten()

    def settle(self, taken: LoggedRemovals | None, *, synced: bool) -> None:
        """A commit is done, the oldest that has begun: readers see what it logged."""
        if taken is not None:
            if taken.noted:
                self._state.assigned.removals.settle()
            if taken.first_seq:
                self._damage.forget_below(taken.first_seq)
                self._trimmed_first = max(self._trimmed_first, taken.first_seq)
        if synced:
            self.durable_first = self._trimmed_first
        if taken is not None and taken.erased:
            self._erasures.settle(taken.erased)

    def replay(self, controls: list[tuple[int, int, int, bytes, bytes]]) -> None:
        """Remove what another replica has decided: it is committed, and its records are in the log."""
        index, erased = self._state.index, []
        for kind, seq, _ts_ns, _key, payload in controls:
            if kind == TOMBS:
                index.delete_many(payload)
            elif kind == TRIM:
                index.trim_to(seq)
                self._damage.forget_below(seq)
                self._trimmed_first = max(self._trimmed_first, seq)
                self.emptied = self._is_sealed and not index.messages
            elif kind == ERASE:
                ts_ns = self._time_of(seq)
                if index.delete(seq):
                    erased.append((seq, ts_ns))
        if erased:
            self._erasures.replay(erased)

    def fail(self) -> None:
        """The commit failed: nothing that was logged was removed."""
        self._logged_first = 0
        self._erasures.fail()

    def adopt(self) -> None:
        """The log was read back: what waited did not happen."""
        self._tombs.clear()
        self._trim = 0
        self.durable_first = self._trimmed_first = 0

    def _time_of(self, seq: int) -> int:
        """Time of a message, 0 if its record cannot be read."""
        place = self._state.index.locate(seq)
        if place is None:
            return 0
        segment, offset, length = place
        least = length + EXPIRY_BYTES
        data, base, salt = self._log.slice(segment, offset, least, max(least, STORE_POINT_READ_BYTES))
        message = read_message(data, offset - base, salt, seq)
        return message.ts_ns if message is not None else 0
