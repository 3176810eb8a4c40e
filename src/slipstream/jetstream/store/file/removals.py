"""What leaves a stream that is kept in files: deletions, purges, trims, and erasures, which overwrite.

A removal is noted for the writers' view at once and joins the log with the next commit: single sequences as tombs,
everything below one as a trim. Readers see it when that commit is done. An erasure is logged as an intent with it; the
record is overwritten by the commit behind, when no reader is shown it any more.

Invariant: an erasure counts in `erasing` until no file holds the message, copies that a compaction made included.
"""

from __future__ import annotations

from slipstream.jetstream.store.file.compaction import CompactionJob
from slipstream.jetstream.store.file.jobs import Overwrite
from slipstream.jetstream.store.file.recovery import index_path
from slipstream.jetstream.store.file.segment import EraseIntent, pack_erase, pack_seq
from slipstream.jetstream.store.file.writes import FileStoreWrites
from slipstream.jetstream.store.indexed import LENGTH_MASK
from slipstream.jetstream.store.limits import STORE_SEGMENT_BYTES_MIN
from slipstream.jetstream.store.pieces import last_packed, purge_piece
from slipstream.kernels.log.record import ERASE, RECORD_HEAD, TOMBS, TRIM, StoredMessage, erased_record

__all__ = ["FileStoreRemovals"]

_TOMBS_PER_RECORD = 8192
_LENGTH_EXPIRES = 0x40000000


class FileStoreRemovals(FileStoreWrites):
    """Removals, and how they are logged."""

    def begin_atomic(self) -> None:
        """See `Store.begin_atomic`. What was removed before is covered by the commits inside the unit."""
        if self._refusal is None and (self._trim or self._tombs or self._erasures):
            self._log_removals()
        super().begin_atomic()

    def delete(self, seq: int) -> bool:
        """See `Store.delete`."""
        self._writable()
        if seq <= 0 or not self.assigned.removals.remove(seq):
            return False
        self._tombs += pack_seq(seq)
        return True

    def erase(self, seq: int) -> bool:
        """See `Store.erase`."""
        self._writable()
        if seq <= 0 or not self.assigned.removals.remove(seq):
            return False
        message = self.get(seq)
        self._erasures.append((seq, message.ts_ns if isinstance(message, StoredMessage) else 0))
        return True

    def trim_to(self, first_seq: int) -> int:
        """See `Store.trim_to`."""
        self._writable()
        if self._log.unit is not None:
            first_seq = min(first_seq, self._index.last_seq + 1)  # the open unit stays what it is
        removed = self.assigned.removals.remove_below(first_seq)
        self._trim = max(self._trim, first_seq)
        return removed

    def purge(self, subject: bytes = b"", *, up_to_seq: int = 0, keep: int = 0) -> int:
        """See `Store.purge`."""
        self._writable()
        removals, last_seq = self.assigned.removals, self._index.last_seq
        if not subject and not keep:
            removed = self.trim_to(up_to_seq or last_seq + 1)
            if (
                not self.assigned.messages
                and self._writer.position > STORE_SEGMENT_BYTES_MIN
                and self._log.unit is None
            ):
                # Nothing alive: go on in a fresh segment, so that all the old ones can be removed.
                self._log.roll(self._config, self._writer.last_ts, self._options.now_ns())
                self._manifest_due = True
            return removed
        last = min(up_to_seq - 1 if up_to_seq else last_seq, last_seq)
        gone = removals.remove_many(removals.matching_seqs((subject,) if subject else (), last, keep))
        self._tombs += gone
        return len(gone) // 8

    def purge_some(self, subject: bytes, *, from_seq: int, up_to_seq: int, limit: int) -> tuple[int, int]:
        """See `Store.purge_some`."""
        self._writable()
        gone, following = purge_piece(self.assigned, subject, from_seq=from_seq, up_to_seq=up_to_seq, limit=limit)
        if subject:
            self._tombs += self.assigned.removals.remove_many(gone)
        elif gone:
            self.trim_to(last_packed(gone) + 1)
        return len(gone) // 8, following

    @property
    def erasing(self) -> int:
        """See `Store.erasing`."""
        in_flight = len(self._in_flight_erasures) + (len(self._job.overwrites) if self._job is not None else 0)
        waiting = len(self._erasures) + len(self._logged_erasures) + len(self._overwrites)
        return waiting + in_flight + self._late_copies

    @property
    def erased(self) -> tuple[int, int]:
        """See `Store.erased`."""
        return self._erasures_committed, 0 if self._late_copies else self._erasures_overwritten

    @property
    def _late_copies(self) -> int:
        """Erased messages that a compaction has copied, or may have, and files with them that are not removed yet."""
        return (
            len(self._copies) + len(self._erased_meanwhile) + (self._erased_beside_leftovers if self._leftovers else 0)
        )

    def _log_removals(self) -> None:
        """Put tombs, trims and intents to erase into the open frame."""
        writer, last_seq, ts = self._writer, self._index.last_seq, self._writer.last_ts
        if self._trim:
            writer.control(TRIM, self._trim, ts, b"", b"")
            self._logged_first, self._trim = max(self._logged_first, self._trim), 0
        if self._tombs:
            gone = bytes(self._tombs)
            self._tombs.clear()
            for at in range(0, len(gone), _TOMBS_PER_RECORD * 8):
                writer.control(TOMBS, last_seq, ts, b"", gone[at : at + _TOMBS_PER_RECORD * 8])
        for seq, _ in self._erasures:
            intent = self._intent(seq)
            if intent is not None:
                writer.control(ERASE, seq, ts, b"", pack_erase(intent))
        self._logged_erasures += self._erasures
        self._erasures = []
        self.assigned.removals.log()

    def _take_removals(self) -> list[Overwrite]:
        """The commit that begins writes what is logged; it overwrites what earlier ones have left."""
        self.assigned.removals.take()
        self._in_flight_first, self._logged_first = self._logged_first, 0
        self._in_flight_erasures, self._logged_erasures = self._logged_erasures, []
        overwrites: list[Overwrite] = []
        self._in_flight_overwritten = 0
        if not (self._overwrites or self._copies):
            return overwrites
        for seq, message_ts, where in self._overwrites + self._copies:
            overwrites += self._overwrite(seq, message_ts, self._intent(seq) or where)
        self._in_flight_overwritten = len(self._overwrites)
        self._overwrites, self._copies = [], []
        return overwrites

    def _settle_removals(self) -> None:
        """The commit in flight has logged them: readers see them now, and what was erased may be overwritten."""
        self.assigned.removals.settle()
        first_seq = self._in_flight_first
        if not (first_seq or self._in_flight_erasures or self._in_flight_overwritten):
            return
        if first_seq and self._lost_ranges:
            self._set_lost([(max(lo, first_seq), hi) for lo, hi in self._lost_ranges if hi >= first_seq])
        erased, self._in_flight_erasures = self._in_flight_erasures, []
        places = [(seq, ts, self._intent(seq)) for seq, ts in erased]
        self._overwrites += [(seq, ts, place) for seq, ts, place in places if place is not None]
        self._erasures_committed += len(erased)
        self._erasures_overwritten += self._in_flight_overwritten + sum(place is None for _, _, place in places)
        self._in_flight_overwritten = 0
        if isinstance(self._upkeep, CompactionJob):
            self._erased_meanwhile += erased  # it may have copied them

    def _intent(self, seq: int) -> EraseIntent | None:
        """Where the record of a removed message lies."""
        place = self._index.record_place(seq)
        if place is None:
            return None
        header = self._log.segment(place[0]).header
        return EraseIntent(header.no, header.generation, place[1], place[2])

    def _overwrite(self, seq: int, ts: int, intent: EraseIntent) -> list[Overwrite]:
        segment = self._log.find(intent.no, intent.generation)
        if segment is None:
            return []
        length = (intent.length & LENGTH_MASK) + (8 if intent.length & _LENGTH_EXPIRES else 0)
        noise = self._options.noise(length - RECORD_HEAD)
        record = erased_record(seq, ts, intent.length, segment.header.salt, noise)
        segment.erasures += 1
        # A superseded file that is not removed yet may hold another copy.
        self._erased_beside_leftovers = self._erased_beside_leftovers + 1 if self._leftovers else 0
        out = [Overwrite(segment.path, intent.offset, record)]
        if segment.indexed:
            # The index file names subjects as well. It is wiped here and made anew by upkeep.
            segment.indexed = False
            path = index_path(segment.path)
            out.append(Overwrite(path, 0, bytes(self._disk.size(path))))
        return out
